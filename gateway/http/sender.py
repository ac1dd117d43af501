"""Sends a body that is longer than one buffer: pull a verified run, send it, wait when the socket is full."""

import asyncio
import os
import socket
from collections.abc import Callable
from typing import Protocol

from gateway.http.call import BodyStream
from gateway.http.limits import Limits


class ClientGone(Exception):
    """The client closed the connection before the answer's end."""


class LengthBroken(Exception):
    """A stream gave more or fewer bytes than the head had announced."""


class WriteFlow(Protocol):
    """uvicorn's flow control, as far as writing goes."""

    async def drain(self) -> None: ...


class StreamSender:
    """Sends head and stream over one connection. The stream is closed whatever happens.

    Over plain TCP it writes to a duplicate of the descriptor (uvloop refuses `add_writer` on its own), so that a run
    goes from the stream's buffer to the kernel without a copy; over TLS through the transport.
    """

    def __init__(
        self,
        transport: asyncio.Transport,
        loop: asyncio.AbstractEventLoop,
        flow: WriteFlow,
        limits: Limits,
        *,
        progress: Callable[[], None],
    ) -> None:
        self._transport = transport
        self._loop = loop
        self._flow = flow
        self._turn_bytes = limits.send_turn_bytes
        self._progress = progress
        self._is_gone = False
        self._waiter: asyncio.Future[None] | None = None
        self._turn = 0
        self.sent = 0

    def stop(self) -> None:
        """The connection is lost; `run` ends with ClientGone at its next step."""
        self._is_gone = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def run(self, head: bytes, stream: BodyStream, length: int) -> None:
        """Send it all. Errors: ClientGone, LengthBroken, and what the stream raises; the answer is cut then."""
        try:
            if self._transport.get_extra_info("sslcontext") is not None:
                await self._run_through_transport(head, stream, length)
                return
            raw = self._transport.get_extra_info("socket")
            if raw is None or raw.fileno() < 0:
                raise ClientGone
            with socket.socket(fileno=os.dup(raw.fileno())) as direct:
                direct.settimeout(0)
                await self._run_direct(direct, head, stream, length)
        except OSError as error:
            raise ClientGone from error
        finally:
            stream.close()

    async def _run_direct(self, direct: socket.socket, head: bytes, stream: BodyStream, length: int) -> None:
        while self._transport.get_write_buffer_size():  # earlier answers are still on their way
            await self._writable(direct)
            await asyncio.sleep(0)
        await self._send(direct, head)
        while (run := await self._next(stream, length)) is not None:
            await self._send(direct, run)
            self.sent += len(run)

    async def _run_through_transport(self, head: bytes, stream: BodyStream, length: int) -> None:
        self._transport.write(head)
        while (run := await self._next(stream, length)) is not None:
            self._transport.write(bytes(run))  # a copy: TLS may keep it longer than the stream does
            self.sent += len(run)
            self._progress()
            await self._flow.drain()
            await self._yield_after(len(run))

    async def _next(self, stream: BodyStream, length: int) -> memoryview | bytes | None:
        run = await stream.next()
        if self._is_gone or self._transport.is_closing():
            raise ClientGone
        if self.sent + len(run or b"") > length or (run is None and self.sent != length):
            raise LengthBroken
        return run

    async def _send(self, direct: socket.socket, run: memoryview | bytes) -> None:
        with memoryview(run) as view:
            at = 0
            while at < len(view):
                try:
                    with view[at:] as rest:
                        count = direct.send(rest)
                except BlockingIOError:
                    await self._writable(direct)
                    self._turn = 0
                    continue
                at += count
                self._progress()
                await self._yield_after(count)

    async def _yield_after(self, byte_count: int) -> None:
        self._turn += byte_count
        if self._turn >= self._turn_bytes:
            self._turn = 0
            await asyncio.sleep(0)

    async def _writable(self, direct: socket.socket) -> None:
        if not self._is_gone:
            self._waiter = waiter = self._loop.create_future()
            self._loop.add_writer(direct.fileno(), _settle, waiter)
            try:
                await waiter
            finally:
                self._loop.remove_writer(direct.fileno())
                self._waiter = None
        if self._is_gone:
            raise ClientGone


def _settle(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
