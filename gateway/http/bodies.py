"""The body of a request in the fast lane: `RawBody` over the connection itself.

Short and chunked bodies come through the connection's framing and are joined once. A long body with a Content-Length
leaves it: a `Sink` receives from the socket straight into the view that `fill` was given, and reading rests while
nobody fills (back-pressure by the reader's own memory).
"""

import asyncio
from collections import deque
from typing import Final, Protocol

from gateway.http.call import BodyCut, BodyTooLong
from gateway.http.framing import Framing, LengthFraming
from gateway.http.limits import Limits

SHORT_PART_BYTES: Final = 1024
"""Shorter parts are joined as they come: one that waits alone costs some 300 bytes whatever its length."""


class BodyLine(Protocol):
    """What a body needs of its connection."""

    limits: Limits
    loop: asyncio.AbstractEventLoop

    def send_continue(self) -> None:
        """Send `100 Continue` when the client waits for it; once."""

    def want_body(self) -> None:
        """A reader waits: read on, and let the body's deadlines run."""

    def rest_body(self, *, is_full: bool) -> None:
        """Nobody waits; stop reading when the buffer `is_full`."""

    def heard(self, byte_count: int) -> None:
        """Body bytes came past the framing, straight into a reader's memory."""

    def divert(self, sink: "Sink") -> None:
        """Let `sink` receive what comes next."""

    def restore(self) -> None:
        """The announced length was received: the connection parses again."""

    def eof_received(self) -> bool | None: ...
    def connection_lost(self, exc: Exception | None) -> None: ...
    def pause_writing(self) -> None: ...
    def resume_writing(self) -> None: ...


class Sink(asyncio.BufferedProtocol):
    """Receives exactly the rest of one body, into the views it is given one after the other."""

    def __init__(self, line: BodyLine, framing: LengthFraming, body: "LaneBody") -> None:
        self._line = line
        self._framing = framing
        self._body = body
        self._view = memoryview(b"")
        self._at = 0

    def aim(self, view: memoryview) -> None:
        """Receive into `view`, which is no longer than what the body still has."""
        assert self._framing.left is not None
        assert 0 < len(view) <= self._framing.left
        self._view, self._at = view, 0

    def lower(self) -> int:
        """Forget the view; how many bytes it holds."""
        self._view = memoryview(b"")
        return self._at

    def get_buffer(self, sizehint: int) -> memoryview:
        """The free part of the view. Reading is paused whenever there is none."""
        assert self._view, "read while nobody fills"
        return self._view[self._at :]

    def buffer_updated(self, nbytes: int) -> None:
        """Count what came; wake the reader when its view is full."""
        self._at += nbytes
        self._framing.count(nbytes)
        self._line.heard(nbytes)
        if self._framing.done:
            self._line.restore()
        elif self._at == len(self._view):
            self._line.rest_body(is_full=True)
            self._body.wake()

    def eof_received(self) -> bool | None:
        """The client closed its side: the connection decides."""
        return self._line.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection decides."""
        self._line.connection_lost(exc)

    def pause_writing(self) -> None:
        """The connection decides."""
        self._line.pause_writing()

    def resume_writing(self) -> None:
        """The connection decides."""
        self._line.resume_writing()


class NoBody:
    """The body of a request without one, when the client waits for nothing."""

    awaits_continue = False
    unread: int | None = 0
    received = 0

    async def fill(self, view: memoryview) -> int:
        """Always the end."""
        return 0

    async def read_all(self, limit: int) -> bytes:
        """Always empty."""
        return b""

    def feed(self, part: memoryview) -> None:
        """Never: there is no body."""
        raise AssertionError("a request without a body received one")

    def cut(self) -> None:
        """Nothing to cut."""

    def complete(self) -> None:
        """It always is."""


NO_BODY = NoBody()


class LaneBody:
    """`RawBody` of one exchange in the lane. One reader at a time."""

    __slots__ = (
        *("_ended", "_framing", "_is_cut", "_is_direct", "_length", "_line", "_parts", "_sink", "_waiter"),
        *("_buffered", "_consumed", "awaits_continue", "received"),
    )

    def __init__(self, line: BodyLine, framing: Framing | None, length: int | None, *, awaits_continue: bool) -> None:
        self._line = line
        self._framing = framing
        self._length = length
        self._ended = framing is None
        self._is_cut = False
        self._is_direct = length is not None and length > line.limits.parsed_body_bytes
        self._parts: deque[memoryview | bytearray] = deque()
        self._buffered = 0
        self._consumed = 0
        self._sink: Sink | None = None
        self._waiter: asyncio.Future[None] | None = None
        self.received = 0
        self.awaits_continue = awaits_continue

    @property
    def unread(self) -> int | None:
        """Bytes the reader has not taken; None when only the wire knows."""
        if self._ended:
            return self._buffered
        return None if self._length is None else self._length - self._consumed

    # From the connection.

    def feed(self, part: memoryview) -> None:
        """Payload that came through the framing. Its memory must stay unchanged."""
        last = self._parts[-1] if self._parts else None
        if len(part) >= SHORT_PART_BYTES:
            self._parts.append(part)
        elif isinstance(last, bytearray):
            last += part
        else:
            self._parts.append(bytearray(part))
        self._buffered += len(part)
        self.received += len(part)
        if self._waiter is not None:
            self.wake()
        elif self._is_direct or self._buffered > self._line.limits.chunked_buffer_bytes:
            self._line.rest_body(is_full=True)

    def complete(self) -> None:
        """The whole body has been received."""
        self._ended = True
        self.wake()

    def cut(self) -> None:
        """No more will come."""
        self._is_cut = not self._ended
        self.wake()

    def wake(self) -> None:
        """Let the waiting reader look again."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # From the handler.

    async def fill(self, view: memoryview) -> int:
        """See `RawBody`."""
        self._ask()
        filled = self._take(view)
        while filled < len(view) and not (self._ended and not self._parts):
            if self._is_cut:
                raise BodyCut
            if self._is_direct:
                filled += await self._receive(view[filled:])
            else:
                await self._wait()
                filled += self._take(view[filled:])
        return filled

    async def read_all(self, limit: int) -> bytes:
        """See `RawBody`."""
        if self._length is not None and self._length > limit:
            raise BodyTooLong
        self._ask()
        if self._is_direct:
            assert self._length is not None
            whole = bytearray(self._length)
            await self.fill(memoryview(whole))
            return bytes(whole)
        while not self._ended:
            if self._is_cut:
                raise BodyCut
            if self._buffered > limit:
                raise BodyTooLong
            await self._wait()
        if self._buffered > limit:
            raise BodyTooLong
        joined = b"".join(self._parts)
        self._parts.clear()
        self._consumed += self._buffered
        self._buffered = 0
        return joined

    def _ask(self) -> None:
        if self.awaits_continue:
            self.awaits_continue = False
            self._line.send_continue()

    def _take(self, view: memoryview) -> int:
        """Move what has been received into `view`."""
        at = 0
        while self._parts and at < len(view):
            part = memoryview(self._parts[0])
            size = min(len(part), len(view) - at)
            view[at : at + size] = part[:size]
            at += size
            if size == len(part):
                self._parts.popleft()
            else:
                self._parts[0] = part[size:]
        self._buffered -= at
        self._consumed += at
        return at

    async def _wait(self) -> None:
        assert self._waiter is None, "one reader at a time"
        self._waiter = self._line.loop.create_future()
        self._line.want_body()
        try:
            await self._waiter
        finally:
            self._waiter = None
            self._line.rest_body(is_full=False)

    async def _receive(self, view: memoryview) -> int:
        """Receive straight into `view` until it is full or the body ends."""
        assert isinstance(self._framing, LengthFraming)
        if self._sink is None:
            self._sink = Sink(self._line, self._framing, self)
        self._sink.aim(view[: self._framing.left])
        self._line.divert(self._sink)
        try:
            await self._wait()
        except BaseException:
            # The reader gave up in the middle of its view: what lies there is lost, so the rest is of no use.
            self._is_cut = not self._ended
            self._line.rest_body(is_full=True)
            raise
        finally:
            count = self._sink.lower()
            self._consumed += count
            self.received += count
        if self._is_cut:
            raise BodyCut
        return count


AnyBody = LaneBody | NoBody
