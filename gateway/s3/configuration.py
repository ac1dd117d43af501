"""What a bucket's documents say, compiled: each when it is first asked for, all of them once a revision and process."""

from collections.abc import Callable, Mapping
from typing import Generic, TypeVar, overload

from gateway.auth.acl import bucket_acl, unpack_ownership
from gateway.auth.decision import BucketRules
from gateway.auth.policy.stored import unpack_policy
from gateway.auth.public_access import NO_BLOCK, unpack_block
from gateway.s3 import tags
from gateway.s3.cors import unpack as unpack_cors
from gateway.s3.encryption import compile_default
from gateway.s3.log_targets import unpack_target
from metadata.types import DocumentKind
from tiers.lifecycle.documents import unpack_lifecycle
from tiers.namespace.locks import unpack_default
from tiers.namespace.quotas import unpack_allowance
from tiers.namespace.revised import Revised

Value = TypeVar("Value")


class Compiled(Generic[Value]):
    """An attribute of `Configuration`: the document of one kind as its module reads it, None while it is unset.

    What a module cannot read, having stored it, is a bug: its exception is answered 500 and nothing goes on.
    """

    def __init__(self, kind: DocumentKind, compile_document: Callable[[bytes], Value]) -> None:
        self.kind = kind
        self._compile = compile_document
        self._name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, configuration: None, owner: type) -> "Compiled[Value]": ...
    @overload
    def __get__(self, configuration: "Configuration", owner: type) -> Value | None: ...

    def __get__(self, configuration: "Configuration | None", owner: type) -> "Value | Compiled[Value] | None":
        if configuration is None:
            return self
        document = configuration.documents.get(self.kind)
        value = None if document is None else self._compile(document)
        # Found before this descriptor from now on: a second look costs what a plain attribute costs.
        configuration.__dict__[self._name] = value
        return value


class Configuration:
    """The configuration of a bucket at one revision; immutable, shared by all requests of a process.

    `documents` are all of them as stored, those by id under their prefix. A kind that no module compiles yet is its
    bytes.
    """

    # THE table: the attribute, the kind of its document, and the function that reads it.
    # fmt: off
    tagging = Compiled(DocumentKind.TAGGING, tags.unpack)
    policy = Compiled(DocumentKind.POLICY, unpack_policy)
    public_access_block = Compiled(DocumentKind.PUBLIC_ACCESS_BLOCK, unpack_block)
    ownership = Compiled(DocumentKind.OWNERSHIP, unpack_ownership)
    acl = Compiled(DocumentKind.ACL, bytes)
    cors = Compiled(DocumentKind.CORS, unpack_cors)
    encryption = Compiled(DocumentKind.ENCRYPTION, compile_default)
    lifecycle = Compiled(DocumentKind.LIFECYCLE, unpack_lifecycle)
    object_lock = Compiled(DocumentKind.OBJECT_LOCK, unpack_default)
    notification = Compiled(DocumentKind.NOTIFICATION, bytes)
    logging = Compiled(DocumentKind.LOGGING, unpack_target)
    website = Compiled(DocumentKind.WEBSITE, bytes)
    replication = Compiled(DocumentKind.REPLICATION, bytes)
    request_payment = Compiled(DocumentKind.REQUEST_PAYMENT, bytes)
    accelerate = Compiled(DocumentKind.ACCELERATE, bytes)
    quota = Compiled(DocumentKind.QUOTA, unpack_allowance)
    # fmt: on

    def __init__(self, documents: Mapping[str, bytes]) -> None:
        self.documents = documents
        self._access: BucketRules | None = None

    def access(self, owner_id: str) -> BucketRules:
        """What the documents of a bucket of that owner say about access."""
        if self._access is None:
            stored = self.policy
            self._access = BucketRules(
                None if stored is None else stored.policy,
                stored is not None and stored.binds_owner,
                bucket_acl(self.documents.get(DocumentKind.ACL), owner_id, self.ownership),
                self.public_access_block or NO_BLOCK,
                self.ownership,
            )
        return self._access


Configurations = Revised[Configuration]
"""The configurations that a process keeps; bounded by the bytes of their documents."""
