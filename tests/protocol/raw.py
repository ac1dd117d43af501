"""A raw-socket S3 client that can send what no SDK would: its own SigV4, then any mutation of the bytes."""

import hashlib
import hmac
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from tests.live import ACCESS_KEY, REGION, SECRET_KEY, LiveStore

EMPTY = hashlib.sha256(b"").hexdigest()


@dataclass
class Request:
    """One request before it is signed. `path` and `query` are as they will stand on the request line."""

    method: str = "PUT"
    path: str = "/bad/key"
    query: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    access_key: str = ACCESS_KEY
    secret_key: str = SECRET_KEY
    region: str = REGION
    service: str = "s3"
    skew_minutes: int = 0
    payload: str | None = None
    unsigned: dict[str, str] = field(default_factory=dict)
    with_length: bool = True
    algorithm: str = "AWS4-HMAC-SHA256"
    signature: str | None = None
    wire_body: bytes | None = None

    def stamp(self) -> str:
        return (datetime.now(UTC) + timedelta(minutes=self.skew_minutes)).strftime("%Y%m%dT%H%M%SZ")


def signing_key(request: Request, day: str) -> bytes:
    key = b"AWS4" + request.secret_key.encode()
    for part in (day, request.region, request.service, "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    return key


def canonical_query(query: str) -> str:
    pairs = [pair.partition("=") for pair in query.split("&") if pair]
    return "&".join(sorted(f"{name}={value}" for name, _, value in pairs))


def build(request: Request, host: str) -> bytes:
    """The bytes of the signed request."""
    stamp = request.stamp()
    payload = request.payload if request.payload is not None else hashlib.sha256(request.body).hexdigest()
    signed = {"host": host, "x-amz-date": stamp, "x-amz-content-sha256": payload}
    signed |= {name.lower(): value for name, value in request.headers.items()}
    names = ";".join(sorted(signed))
    canonical = "\n".join(
        [
            request.method,
            request.path,
            canonical_query(request.query),
            *(f"{name}:{signed[name].strip()}" for name in sorted(signed)),
            "",
            names,
            payload,
        ]
    )
    scope = f"{stamp[:8]}/{request.region}/{request.service}/aws4_request"
    text = "\n".join(["AWS4-HMAC-SHA256", stamp, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    signature = request.signature or hmac.digest(signing_key(request, stamp[:8]), text.encode(), "sha256").hex()
    credential = f"Credential={request.access_key}/{scope}"
    signed["authorization"] = f"{request.algorithm} {credential}, SignedHeaders={names}, Signature={signature}"
    return assemble(request, {**signed, **request.unsigned})


def assemble(request: Request, headers: Mapping[str, str]) -> bytes:
    target = request.path + (f"?{request.query}" if request.query else "")
    body = request.wire_body if request.wire_body is not None else request.body
    lines = [f"{request.method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    if request.with_length and "content-length" not in {name.lower() for name in headers}:
        lines.append(f"content-length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


@dataclass
class Answer:
    """Status, headers (lower-case names) and body; status 0 when the server closed without an answer."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def code(self) -> str:
        found = re.search(rb"<Code>([^<]*)</Code>", self.body)
        return found[1].decode() if found else ""


class Wire:
    """One connection."""

    def __init__(self, store: LiveStore, timeout: float = 25) -> None:
        self.host = f"127.0.0.1:{store.port}"
        self.socket = socket.create_connection(("127.0.0.1", store.port), timeout=timeout)
        self._rest = b""

    def send(self, raw: bytes, *, half_close: bool = False) -> Answer:
        try:
            self.socket.sendall(raw)
            if half_close:
                self.socket.shutdown(socket.SHUT_WR)
        except (BrokenPipeError, ConnectionResetError):
            pass  # refused before the body was read: the answer is there to be read
        return self.receive(is_head=raw.startswith(b"HEAD"))

    def receive(self, *, is_head: bool = False) -> Answer:
        raw = self._rest
        while b"\r\n\r\n" not in raw:
            got = self._receive()
            if not got:
                return Answer(0, {}, raw)
            raw += got
        head, _, rest = raw.partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
        length = 0 if is_head else int(headers.get("content-length", 0))
        while len(rest) < length:
            got = self._receive()
            if not got:
                break
            rest += got
        self._rest = rest[length:]
        return Answer(int(lines[0].split()[1]), headers, rest[:length])

    def _receive(self) -> bytes:
        try:
            return self.socket.recv(65536)
        except ConnectionResetError:
            return b""

    def close(self) -> None:
        self.socket.close()

    def call(self, request: Request) -> Answer:
        return self.send(build(request, self.host))
