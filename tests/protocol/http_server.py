"""A small plane behind the real protocol class: uvicorn in a thread on a loopback port, and a raw-socket client."""

import asyncio
import contextlib
import hashlib
import itertools
import re
import socket
import threading
import time
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import uvicorn
import uvloop

from gateway.http.asgi import UVICORN_OPTIONS, AsgiApp
from gateway.http.call import Answer, BodyCut, BodyTooLong, Call
from gateway.http.letterhead import Letterhead
from gateway.http.limits import Limits
from gateway.http.observer import Transfer
from gateway.http.protocol import protocol_class

RUN = memoryview(bytes(range(256)) * 1024)


class Runs:
    """A stream of `length` bytes that may fail after `good` of them."""

    def __init__(self, plane: "SmallPlane", length: int, good: int) -> None:
        self._plane, self._left, self._good = plane, length, good
        plane.streams_open += 1

    async def next(self) -> memoryview | None:
        if self._good <= 0 < self._left:
            raise OSError("no good copy")
        size = min(len(RUN), self._left)
        self._left -= size
        self._good -= size
        return RUN[:size] if size else None

    def close(self) -> None:
        self._plane.streams_open -= 1


class SmallPlane:
    """Answers by path. Paths under /asgi/ are left to the application."""

    def __init__(self) -> None:
        self.streams_open = 0
        self.cuts = 0
        self.gate = threading.Event()
        self.served: list[str] = []

    def takes(self, call: Call) -> bool:
        return not call.raw_path.startswith(b"/asgi/")

    async def answer(self, call: Call) -> Answer:
        self.served.append(call.raw_path.decode())
        name = call.raw_path.removeprefix(b"/asgi").split(b"/")[1].decode()
        try:
            answer: Answer = await getattr(self, name)(call)
        except BodyCut:
            self.cuts += 1
            return Answer(400, [(b"x-why", b"IncompleteBody")], b"cut")
        except BodyTooLong:
            return Answer(413, [], b"too long")
        return answer

    async def echo(self, call: Call) -> Answer:
        seen = (call.method, call.raw_path, call.query, call.headers, sorted(call.fields.items()), call.scheme)
        text = repr((*seen, call.content_length, call.is_chunked, call.peer)).encode()
        return Answer(200, [(b"content-type", b"text/plain")], text, raw_headers=b"x-stored: 1\r\n")

    async def take(self, call: Call) -> Answer:
        body = await call.body.read_all(1 << 20)
        return Answer(200, [(b"x-got", b"%d" % len(body)), (b"x-sha", hashlib.sha256(body).hexdigest().encode())])

    async def fill(self, call: Call) -> Answer:
        digest, size, view = hashlib.sha256(), 0, memoryview(bytearray(300_000))
        while (got := await call.body.fill(view)) or not size:
            digest.update(view[:got])
            size += got
            if got < len(view):
                break
        return Answer(200, [(b"x-got", b"%d" % size), (b"x-sha", digest.hexdigest().encode())])

    async def refuse(self, call: Call) -> Answer:
        return Answer(403, [], b"denied")

    async def peek(self, call: Call) -> Answer:
        await call.body.fill(memoryview(bytearray(10)))
        return Answer(412, [], b"enough")

    async def wait(self, call: Call) -> Answer:
        await asyncio.sleep(0.03)
        return Answer(200, [], b"waited " + call.query)

    async def blocked(self, call: Call) -> Answer:
        await asyncio.to_thread(self.gate.wait, 10)
        return Answer(200, [], b"released")

    async def stream(self, call: Call) -> Answer:
        length, good = (int(number) for number in call.query.split(b","))
        return Answer(200, [], Runs(self, length, good), length)

    async def unsafe(self, call: Call) -> Answer:
        return Answer(200, [(b"x", b"1\r\nset-cookie: a=1")], b"body")

    async def status(self, call: Call) -> Answer:
        return Answer(int(call.query), [(b"etag", b'"e"')], None, 0)

    async def broken(self, call: Call) -> Answer:
        raise ValueError("a plane never raises")


class Record:
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.finished_calls: list[tuple[str, int, Transfer]] = []
        self.refusals: list[int] = []
        self.under_way = 0

    def started(self, call: Call) -> None:
        self.under_way += 1

    def finished(self, call: Call, answer: Answer, transfer: Transfer) -> None:
        self.under_way -= 1
        self.finished_calls.append((call.raw_path.decode(), answer.status, transfer))

    def refused(self, status: int, reason: str, peer: str) -> None:
        self.refusals.append(status)


class TestServer:
    """uvicorn with the protocol class, in a thread, while the context lasts."""

    __test__ = False

    def __init__(self, limits: Limits | None = None, *, is_lane_open: bool = True, **options: object) -> None:
        self.plane = SmallPlane()
        self.record = Record()
        limits = limits or Limits(sweep_seconds=0.02)
        ids = itertools.count(1)
        paper = Letterhead(time.time, lambda: f"{next(ids):016X}", "host")
        http = protocol_class(self.plane, limits, self.record, letterhead=paper, is_lane_open=is_lane_open)
        app = AsgiApp(self.plane, limits, self.record, letterhead=paper)
        config = uvicorn.Config(app, http=http, log_config=None, **UVICORN_OPTIONS, **options)  # type: ignore[arg-type]
        self.server = uvicorn.Server(config)
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=2048)
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(self.server.serve([self._listener]))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.plane.gate.set()
        self.server.should_exit = True
        self._thread.join(20)
        assert not self._thread.is_alive(), "the server did not stop"

    @property
    def connection_count(self) -> int:
        return len(self.server.server_state.connections)

    def settle(self) -> None:
        """Wait until no request is under way and no connection is open."""
        until = time.monotonic() + 10
        while (
            self.connection_count or self.record.under_way or self.server.server_state.tasks
        ) and time.monotonic() < until:
            time.sleep(0.005)


@dataclass
class Reply:
    """One answer as it stood on the wire; `interim` is what came before it with a status of 1xx."""

    status: int
    head: bytes
    body: bytes
    interim: bytes = b""

    @property
    def fixed(self) -> bytes:
        """Everything but date and request id."""
        return re.sub(rb"(date|x-amz-request-id): [^\r]*", rb"\1: -", self.interim + self.head + self.body)

    def value(self, name: bytes) -> bytes:
        found = re.search(rb"\r\n" + name + rb": ([^\r]*)", self.head)
        return found[1] if found else b""


class Wire:
    """A raw client connection."""

    def __init__(self, server: TestServer) -> None:
        self.socket = socket.create_connection(("127.0.0.1", server.port), timeout=10)
        self._rest = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.socket.close()

    def send(self, *parts: bytes) -> None:
        # Refused while we send: the answer is there to be read.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.socket.sendall(b"".join(parts))

    def read_until(self, mark: bytes) -> bytes:
        while mark not in self._rest:
            got = self._receive()
            if not got:
                raise EOFError(self._rest)
            self._rest += got
        found, _, self._rest = self._rest.partition(mark)
        return found + mark

    def reply(self, *, is_head: bool = False) -> Reply:
        interim = b""
        head = self.read_until(b"\r\n\r\n")
        while head.startswith(b"HTTP/1.1 1"):
            interim += head
            head = self.read_until(b"\r\n\r\n")
        found = re.search(rb"\r\ncontent-length: (\d+)", head)
        length = int(found[1]) if found and not is_head else 0
        while len(self._rest) < length:
            got = self._receive()
            if not got:
                break
            self._rest += got
        body, self._rest = self._rest[:length], self._rest[length:]
        return Reply(int(head[9:12]), head, body, interim)

    def is_closed(self) -> bool:
        """Whether the server has closed (waits for it); nothing may come before."""
        got = self._rest or self._receive()
        assert not got, got
        return True

    def _receive(self) -> bytes:
        try:
            return self.socket.recv(1 << 20)
        except ConnectionResetError:
            return b""


def request(target: str, method: str = "GET", body: bytes = b"", **headers: str) -> bytes:
    """A well-formed request; underscores in names stand for hyphens."""
    lines = [f"{method} {target} HTTP/1.1", "Host: a.example"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    if body:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode() + body


def chunked(*parts: bytes) -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"
