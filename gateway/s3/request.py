"""One S3 request on its way through the endpoint, and the form of a row of the operations table.

Documents decode themselves from the request (headers, query, body); handlers take the document and use of the request
only who asks, what he may, and the namespace.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, Protocol, Self

from gateway.auth.authenticator import Authenticated, Authenticator
from gateway.auth.decision import OF_OBJECT_OWNER, is_allowed_without_bucket, is_undisputed
from gateway.auth.policy.document import COMPILED_BYTES
from gateway.http.call import Answer, Call
from gateway.s3.access import Access
from gateway.s3.addressing import Addressing, parse_copy_source
from gateway.s3.body import S3Body, open_body, read_document
from gateway.s3.configuration import Configuration, Configurations
from gateway.s3.content_keys import ContentKeys
from gateway.s3.errors import S3Code, S3Error
from gateway.s3.log_targets import LogTarget
from gateway.s3.permissions import READ_AHEAD
from gateway.s3.select.process import Selection
from gateway.s3.server_log import ServerLog, Visit
from gateway.s3.throttle import PacedBody, Passage, Throttle
from gateway.s3.xml import DOCUMENT_BYTES_MAX
from metadata.types import Bucket, DocumentKind, Version
from tiers.namespace.buckets import documents_bytes
from tiers.namespace.events import Origin
from tiers.namespace.namespace import Namespace
from tiers.namespace.quotas import NO_RATE
from tiers.namespace.types import DeleteTarget

_INTEGER_MAX: Final = 2**31 - 1
"""Larger numbers are outside the integer range of S3 and refused, not cut."""


class Target(Enum):
    """What the path of a request names."""

    SERVICE = 0
    BUCKET = 1
    OBJECT = 2
    CONTROL = 3  # a bucket, by its ARN in the control API


class BucketUse(Enum):
    """Who authorises an operation, and with which bucket row."""

    NONE = 0  # there is no bucket, or not yet: the handler authorises
    NAMED = 1  # the endpoint gets the row of the bucket named and authorises before it decodes
    RECALLED = 3  # the same for a write that compares the owner in its commit
    FOUND = 2  # the handler authorises with the row that comes with the version: one statement instead of two


class Result(Protocol):
    """What a handler returns: a document that knows its status, headers and XML."""

    def answer(self) -> Answer: ...


class Document(Protocol):
    """What a handler takes: everything one operation reads of its request, as checked values."""

    @classmethod
    async def decode(cls, request: "Request") -> Self:
        """Read and check. Errors: S3Error; nothing has changed then."""


def marks(*names: str) -> frozenset[str]:
    """Names that mark an operation."""
    return frozenset(names)


Handler = Callable[[Any, "Request"], Awaitable[Result]]
"""`Any` stands for the row's own document type; a test holds the two equal."""


@dataclass(frozen=True, slots=True)
class Nothing:
    """The document of an operation that reads nothing but bucket and key."""

    @classmethod
    async def decode(cls, request: "Request") -> Self:
        return cls()


async def not_implemented(_document: Nothing | None, request: "Request") -> Result:
    """Refuse an operation by its name."""
    message = f"The operation {request.operation.name} is not implemented."
    raise S3Error(S3Code.NotImplemented, message, Operation=request.operation.name)


@dataclass(frozen=True, slots=True)
class Operation:
    """One S3 operation: how it is recognised, what it needs, who serves it.

    `query` and `headers` are its markers, `arguments` reserved names that it reads as plain arguments. `version_action`
    is the permission when `versionId` is present, `source_action` the one needed on a copy's source. The body of a form
    (`is_form`) says who sent it, which key it means, and what the headers of other operations say.
    """

    name: str
    method: str
    target: Target
    action: str
    query: frozenset[str] = frozenset()
    headers: frozenset[str] = frozenset()
    arguments: frozenset[str] = frozenset()
    version_action: str = ""
    source_action: str = ""
    document: type[Document] = Nothing
    handler: Handler = not_implemented
    bucket_use: BucketUse = BucketUse.NAMED
    needs_checksum: bool = False
    is_lane: bool = False
    is_form: bool = False


@dataclass(frozen=True, slots=True)
class Services:
    """What the S3 plane works with, joined by the composition root.

    `token_key` signs continuation tokens and is the same in every process. `log_error` is called with the request id
    and the exception of every fault that no table translates, and of every storage fault answered 5xx.
    """

    addressing: Addressing
    authenticator: Authenticator
    namespace: Namespace
    region: str
    host_id: str
    clock: Callable[[], float]
    token_key: bytes
    log_error: Callable[[str, Exception], None]
    content_keys: ContentKeys
    new_bucket_defaults: str = "aws"
    presigned_checksum: str = "strict"
    seconds_per_day: float = 86400.0
    recreation: str = "region"
    configurations: Configurations = field(default_factory=Configurations)
    notification_targets: frozenset[str] = frozenset()
    throttle: Throttle | None = None
    selection: Selection = field(default_factory=Selection)
    server_log: ServerLog | None = None

    def __post_init__(self) -> None:
        assert self.new_bucket_defaults in {"aws", "open"}
        assert self.presigned_checksum in {"strict", "lenient"}
        assert self.seconds_per_day > 0
        assert self.recreation in {"region", "accepted", "refused"}
        assert len(self.token_key) >= 16

    async def configuration(self, bucket: Bucket) -> Configuration:
        """The configuration of a bucket at the revision of its row. No I/O and nothing built while it is kept."""
        kept = self.configurations.find(bucket)
        if kept is not None:
            return kept
        documents = await self.namespace.buckets.documents(bucket)
        configuration = Configuration(documents)
        compiled_bytes = COMPILED_BYTES * len(documents.get(DocumentKind.POLICY, b""))
        self.configurations.keep(bucket, configuration, documents_bytes(documents) + compiled_bytes)
        return configuration


@dataclass(slots=True)
class Request:
    """One request after address, operation and authentication.

    `fields` are the headers by lower-case name, together with the `x-amz-*` parameters that presigners move into the
    query: authentication puts them there. `bucket` is the row the request was authorised with. `is_authorised` becomes
    true only in `authorise`.
    """

    call: Call
    services: Services
    operation: Operation
    bucket_name: str
    key: str
    query: Mapping[str, str]
    fields: Mapping[bytes, bytes]
    caller: Authenticated
    bucket: Bucket | None = None
    is_authorised: bool = field(default=False)
    passage: Passage | None = None
    visit: Visit | None = None
    """What the server access log of the bucket is told, None where there is none."""
    _document: bytes | None = field(default=None)

    @property
    def namespace(self) -> Namespace:
        return self.services.namespace

    @property
    def owned_bucket(self) -> Bucket:
        """The row of the bucket named, for operations whose bucket use is NAMED."""
        assert self.bucket is not None
        return self.bucket

    @property
    def caller_id(self) -> str:
        """Principal id of who asks; empty when anonymous."""
        return self.caller.principal.principal_id

    @property
    def origin(self) -> Origin:
        """Who asks, for the events of the bucket."""
        call = self.call
        return Origin(self.caller_id, call.peer, call.request_id, is_form=self.operation.name == "PostObject")

    async def configuration(self) -> Configuration:
        """The configuration of the bucket that the request was authorised with."""
        assert self.bucket is not None
        return await self.services.configuration(self.bucket)

    async def authorise(self, bucket: Bucket | None, version: Version | None = None) -> None:
        """Let the request go on, or raise AccessDenied.

        `bucket` is None where the operation concerns no existing one; `version` is the one that the operation is about,
        where it is known and exists. A version that is absent is told only to whoever could list it.
        """
        if bucket is None:
            if not is_allowed_without_bucket(self.caller.principal, self.operation.action):
                raise S3Error(S3Code.AccessDenied)
        else:
            action, is_found = self._action(), self.operation.bucket_use is BucketUse.FOUND
            needs_look = not is_found and (action in OF_OBJECT_OWNER or b"if-match" in self.fields)
            access = await self._access(bucket, version, needs_look=needs_look, logged_as="")
            if access is not None:
                await access.judge(action, version, is_found=is_found)
            self._expect_owner(bucket, b"x-amz-expected-bucket-owner")
            self.bucket = bucket
        await self._enter(bucket)
        self.is_authorised = True

    async def _enter(self, bucket: Bucket | None) -> None:
        """Count the request, and bind its body, to the rates of key, user and bucket. Errors: SlowDown."""
        services = self.services
        throttle = services.throttle
        if throttle is None:
            return
        limits = None if bucket is None else (await services.configuration(bucket)).quota
        rate = NO_RATE if limits is None else limits.rate
        passage = throttle.admit(self.call, self.caller_id, 0 if bucket is None else bucket.bucket_id, rate)
        if passage is not None:
            self.passage = passage
            self.call.body = PacedBody(self.call.body, passage)

    async def authorise_source(self, bucket: Bucket, version: Version | None) -> None:
        """The same for the source of a copy."""
        access = await self._access(bucket, version, logged_as="_GET")
        if access is not None:
            access.judge_source(self.operation.source_action, version)
        self._expect_owner(bucket, b"x-amz-source-expected-bucket-owner")

    async def authorise_renamed(self, key: str, version: Version | None) -> None:
        """The same for the source of a rename, `version` being what is there."""
        access = await self._access(self.owned_bucket, version)
        if access is not None:
            access.judge_renamed(key, version)

    async def permit_reads(self, targets: Sequence[tuple[str, Version | None]]) -> list[bool]:
        """Of each key, given its current version, whether the caller may HEAD it. Cost: as for deletions."""
        access = await self._access(self.owned_bucket, None, needs_look=True)
        return [True] * len(targets) if access is None else await access.permit_reads(targets)

    async def may(self, action: str, version: Version | None = None) -> bool:
        """Whether the caller may also do `action` to the bucket, key or version that the request was authorised for."""
        access = await self._access(self.owned_bucket, version)
        return access is None or access.may(action, version)

    async def permit_deletions(self, targets: Sequence[DeleteTarget]) -> list[DeleteTarget | None]:
        """The targets of DeleteObjects that the caller may delete, None for the others.

        Governance is bypassed only where the caller may. Cost: none for the undisputed owner; a look at the version
        where its tags, or another's object, count.
        """
        needs_look = any(target.conditions.if_match is not None for target in targets)
        access = await self._access(self.owned_bucket, None, needs_look=needs_look)
        return list(targets) if access is None else await access.permit_deletions(targets)

    async def _access(
        self, bucket: Bucket, version: Version | None, *, needs_look: bool = False, logged_as: str | None = None
    ) -> Access | None:
        """What has to be asked; None when there is nothing to ask, as the caller owns everything concerned.

        `needs_look`: somebody else may own the object concerned, and `version` does not say who. `logged_as` is how the
        bucket's server access log calls this part of the request, None where it is not told of it.
        """
        services, principal = self.services, self.caller.principal
        configuration = await services.configuration(bucket)
        policy = (rules := configuration.access(bucket.owner_id)).policy
        if configuration.logging is not None and logged_as is not None:
            self._tell_log(bucket, configuration.logging, version, logged_as)
        object_owner_id = bucket.owner_id if version is None else version.owner_id
        if is_undisputed(principal, bucket.owner_id, rules, "" if needs_look and version is None else object_owner_id):
            return None
        if policy is not None and policy.asks_document and self.operation.name in READ_AHEAD and self._document is None:
            # Before it is authorised: the policy asks for what is in it.
            self._document = await self.read_document(DOCUMENT_BYTES_MAX)
        return Access(
            self.call,
            self.query,
            self.fields,
            self.caller,
            bucket,
            rules,
            self.key,
            self.namespace.objects,
            services.region,
            services.clock,
            self._document,
        )

    def _tell_log(self, bucket: Bucket, target: LogTarget, version: Version | None, suffix: str) -> None:
        """Have the bucket's server access log told of this request at its end."""
        log = self.services.server_log
        if log is None:
            return
        key, version_id = self.key, self.query.get("versionId", "")
        if suffix:
            source = parse_copy_source(self.fields[b"x-amz-copy-source"])
            key, version_id = source.key, source.version_id or ""
        size = None if version is None else version.size
        visit = Visit(log, bucket, target, self.call, self.caller, key, version_id, suffix, size)
        self.call.followers.append(visit.finished)
        if not suffix:
            self.visit = visit

    def _action(self) -> str:
        if self.operation.version_action and "versionId" in self.query:
            return self.operation.version_action
        return self.operation.action

    def _expect_owner(self, bucket: Bucket, name: bytes) -> None:
        expected = self.fields.get(name)
        if expected is not None and expected.decode("latin-1") != bucket.owner_id:
            raise S3Error(S3Code.AccessDenied)

    def text(self, name: bytes, default: str = "") -> str:
        """A header as text; bytes outside ASCII as Latin-1."""
        value = self.fields.get(name)
        return default if value is None else value.decode("latin-1")

    def number(self, name: str, default: int, *, least: int, most: int) -> int:
        """A number of the query, cut to `most`. Errors: InvalidArgument when it is no number or under `least`."""
        text = self.query.get(name)
        if not text:
            return default
        if not (text.isascii() and text.isdigit()) or len(text) > 10 or not least <= int(text) <= _INTEGER_MAX:
            message = f"Provided {name} not an integer or within integer range"
            raise S3Error(S3Code.InvalidArgument, message, ArgumentName=name, ArgumentValue=text)
        return min(int(text), most)

    def open_body(self) -> S3Body:
        """The request's content, decoded and verified on the way."""
        return open_body(self.call, self.caller, is_lenient=self.services.presigned_checksum == "lenient")

    async def read_document(self, limit: int) -> bytes:
        """The request's document, whole and verified."""
        if self._document is not None:
            return self._document
        return await read_document(self.call, self.caller, limit, needs_checksum=self.operation.needs_checksum)
