"""One request and one answer, independent of how they travel (protocol class or ASGI)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

Headers = Sequence[tuple[bytes, bytes]]


class RawBody(Protocol):
    """The body of a request as framed by HTTP (Content-Length or chunked already undone). Read once, in order."""

    async def fill(self, view: memoryview) -> int:
        """Receive into `view` until it is full or the body ends; bytes received, short only at the end.

        Sends `100 Continue` first when the client waits for it. Errors: BodyCut when the client goes away or falls
        under the minimum rate.
        """

    async def read_all(self, limit: int) -> bytes:
        """The whole body; does not suspend when it has already arrived. Errors: BodyTooLong beyond `limit`, BodyCut."""


class BodyCut(Exception):
    """The client closed the connection or stopped sending before the announced end of the body."""


class BodyTooLong(Exception):
    """A body that must be read whole is longer than its limit."""


@dataclass(slots=True)
class Call:
    """One request as received. Header names are lower-case; values are stripped, otherwise untouched.

    `raw_path` and `query` are the bytes of the request line, still percent-encoded; nothing else may be used to find
    bucket, key or signature. `content_length` is None when the request has none (chunked or no body).
    """

    method: str
    raw_path: bytes
    query: bytes
    headers: list[tuple[bytes, bytes]]
    body: RawBody
    request_id: str
    peer: str
    scheme: str = "http"
    content_length: int | None = None
    is_chunked: bool = False
    fields: dict[bytes, bytes] = field(default_factory=dict)
    """Headers by name, for look-ups; the guard has refused duplicates of the names where a duplicate matters."""

    operation: str = ""
    """Name of the S3 operation once resolved; for metrics and the access log."""

    access_key_id: str = ""
    bucket: str = ""
    followers: list[Callable[[Any, Any], None]] = field(default_factory=list)
    """Whoever follows this one request: called at its end with the answer and the `gateway.http.observer.Transfer`."""


class BodyStream(Protocol):
    """An answer's body that is longer than one buffer. `tiers.datapath.contract.ContentStream` satisfies it."""

    async def next(self) -> memoryview | bytes | None: ...
    def close(self) -> None: ...


UNKNOWN_LENGTH = -1
"""Content length of an answer whose body is made while it is sent. Only ASGI sends such, in chunked coding."""


@dataclass(slots=True)
class Answer:
    """One answer.

    `headers` excludes Date, Server, Content-Length, Connection, x-amz-request-id and x-amz-id-2, which the executor
    adds. `raw_headers` is header lines ready to send (each ending in CRLF), sent as they are.

    `content_length` is what the header says (a HEAD answer has a length and no body), or `UNKNOWN_LENGTH`.
    `body` None means none.
    `close` asks that the connection be closed after the answer.
    """

    status: int
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    body: bytes | BodyStream | None = None
    content_length: int = 0
    raw_headers: bytes = b""
    close: bool = False
    error_code: str = ""


class Plane(Protocol):
    """What serves requests. `answer` never raises: every error has become an Answer."""

    def takes(self, call: Call) -> bool:
        """Whether the protocol class may serve this request itself (the fast lane); otherwise ASGI does.

        Only a place to run: both run `answer`.
        """

    async def answer(self, call: Call) -> Answer: ...
