"""One S3 request on its way through the endpoint, and the form of a row of the operations table.

Documents decode themselves from the request (headers, query, body); handlers take the document and use of the request
only who asks, what he may, and the namespace.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, Protocol, Self

from gateway.auth.access import decide
from gateway.auth.authenticator import Authenticated, Authenticator
from gateway.http.call import Answer, Call
from gateway.s3.addressing import Addressing
from gateway.s3.body import S3Body, open_body, read_document
from gateway.s3.errors import S3Code, S3Error
from metadata.types import Bucket
from tiers.namespace.namespace import Namespace

_INTEGER_MAX: Final = 2**31 - 1
"""Larger numbers are outside the integer range of S3 and refused, not cut."""


class Target(Enum):
    """What the path of a request names."""

    SERVICE = 0
    BUCKET = 1
    OBJECT = 2


class BucketUse(Enum):
    """Who authorises an operation, and with which bucket row."""

    NONE = 0  # there is no bucket, or not yet: the handler authorises
    NAMED = 1  # the endpoint gets the row of the bucket named and authorises before it decodes
    RECALLED = 3  # the same with the row as seen last; the commit compares the owner, so a stale one writes nothing
    FOUND = 2  # the handler authorises with the row that comes with the version: one statement instead of two


class Result(Protocol):
    """What a handler returns: a document that knows its status, headers and XML."""

    def answer(self) -> Answer: ...


class Document(Protocol):
    """What a handler takes: everything one operation reads of its request, as checked values."""

    @classmethod
    async def decode(cls, request: "Request") -> Self:
        """Read and check. Errors: S3Error; nothing has changed then."""


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
    is the permission when `versionId` is present, `source_action` the one needed on a copy's source.
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
    new_bucket_defaults: str = "aws"
    presigned_checksum: str = "strict"

    def __post_init__(self) -> None:
        assert self.new_bucket_defaults in {"aws", "open"}
        assert self.presigned_checksum in {"strict", "lenient"}
        assert len(self.token_key) >= 16


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

    def authorise(self, bucket: Bucket | None) -> None:
        """Let the request go on, or raise AccessDenied; None where the operation concerns no existing bucket."""
        owner_id = None if bucket is None else bucket.owner_id
        if not decide(self.caller.principal, self._action(), owner_id):
            raise S3Error(S3Code.AccessDenied)
        if bucket is not None:
            self._expect_owner(bucket, b"x-amz-expected-bucket-owner")
            self.bucket = bucket
        self.is_authorised = True

    def authorise_source(self, bucket: Bucket) -> None:
        """The same for the source of a copy."""
        if not decide(self.caller.principal, self.operation.source_action, bucket.owner_id):
            raise S3Error(S3Code.AccessDenied)
        self._expect_owner(bucket, b"x-amz-source-expected-bucket-owner")

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
        return await read_document(self.call, self.caller, limit, needs_checksum=self.operation.needs_checksum)
