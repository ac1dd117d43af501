"""One keep-alive connection that speaks just enough HTTP, with presigned requests."""

import re
import socket

from benchmarks.presign import presign
from benchmarks.servers import ACCESS_KEY, SECRET_KEY, Server


class NotMeasured(Exception):
    """A server did not do what was asked: no figure is made of that."""


def must(condition: object, what: str) -> None:
    if not condition:
        raise NotMeasured(what)


def target(server: Server, method: str, path: str, query: dict[str, str] | None = None) -> str:
    return presign(method, server.host, path, ACCESS_KEY, SECRET_KEY, query)


class Connection:
    """A client socket with TCP_NODELAY; head and body leave in one segment where they fit."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.socket = socket.create_connection(("127.0.0.1", server.port), timeout=120)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = memoryview(bytearray(1 << 20))

    def send(self, method: str, request_target: str, size: int, piece: memoryview) -> None:
        """A request whose body is `size` bytes made by repeating `piece`."""
        head = (
            f"{method} {request_target} HTTP/1.1\r\nHost: {self.server.host}\r\nContent-Length: {size}\r\n\r\n".encode()
        )
        if size <= len(piece):
            self.socket.sendall(head + piece[:size])
            return
        self.socket.sendall(head)
        for at in range(0, size, len(piece)):
            self.socket.sendall(piece[: size - at])

    def receive(self, *, keep: bool) -> tuple[int, bytes, int]:
        """(status, body if kept, body size)."""
        raw = b""
        while b"\r\n\r\n" not in raw:
            got = self.socket.recv(1 << 16)
            must(got, "closed before the answer")
            raw += got
        head, _, rest = raw.partition(b"\r\n\r\n")
        status = int(head.split(None, 2)[1])
        if re.search(rb"(?i)\r\ntransfer-encoding: *chunked", head):
            body = self._dechunk(rest)
            return status, body if keep else b"", len(body)
        length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
        return self._rest(status, rest, int(length[1]) if length else 0, keep=keep)

    def _rest(self, status: int, rest: bytes, length: int, *, keep: bool) -> tuple[int, bytes, int]:
        pieces, size = [rest] if keep else [], len(rest)
        while size < length:
            got = self.socket.recv_into(self.buffer, min(length - size, len(self.buffer)))
            must(got, "body cut")
            if keep:
                pieces.append(bytes(self.buffer[:got]))
            size += got
        return status, b"".join(pieces), size

    def _dechunk(self, raw: bytes) -> bytes:
        body = b""
        while True:
            while b"\r\n" not in raw:
                raw += self.socket.recv(1 << 16)
            line, _, raw = raw.partition(b"\r\n")
            length = int(line.split(b";")[0], 16)
            while len(raw) < length + 2:
                raw += self.socket.recv(1 << 16)
            body, raw = body + raw[:length], raw[length + 2 :]
            if not length:
                return body

    def call(self, method: str, path: str, body: bytes = b"", query: dict[str, str] | None = None) -> tuple[int, bytes]:
        self.send(method, target(self.server, method, path, query), len(body), memoryview(body))
        status, got, _ = self.receive(keep=True)
        return status, got
