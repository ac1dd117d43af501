"""One request in the fast lane, from its complete head to the last byte of its answer."""

import asyncio
import logging
from typing import Any, Protocol

from gateway.http.bodies import AnyBody
from gateway.http.call import Answer, BodyStream, Call, Plane
from gateway.http.driver import Drive
from gateway.http.letterhead import BODILESS, HeaderUnsafe, Letterhead, length_of
from gateway.http.limits import Limits
from gateway.http.observer import Observer, Transfer
from gateway.http.sender import ClientGone, StreamSender, WriteFlow

log = logging.getLogger("isotherm.http")

INTERNAL_ERROR = Answer(
    500, [(b"content-type", b"text/plain")], b"Internal error.", close=True, error_code="InternalError"
)


class Line(Protocol):
    """What an exchange needs of its connection."""

    plane: Plane
    observer: Observer
    letterhead: Letterhead
    limits: Limits
    transport: asyncio.Transport
    loop: asyncio.AbstractEventLoop
    drives: set[Any]
    is_lost: bool

    @property
    def write_flow(self) -> WriteFlow: ...

    def will_close(self) -> bool:
        """Whether the connection ends after this answer, whatever the answer says."""

    def sending(self) -> None:
        """The answer makes progress; the client's silence counts from now."""

    def exchange_over(self, *, is_closing: bool) -> None:
        """The answer is written; the next request may start."""


class BodyState(Protocol):
    """How far a request's body has been read, on either way."""

    awaits_continue: bool

    @property
    def unread(self) -> int | None: ...


def must_close(answer: Answer, body: BodyState, limits: Limits) -> bool:
    """Whether an answer has to close the connection: it asks for it, or too much of the request is unread.

    An unread body whose client still waits for `100 Continue` was never sent, so the connection stays usable.
    """
    if answer.close:
        return True
    return not body.awaits_continue and (body.unread is None or body.unread > limits.drain_bytes)


class Exchange:
    """Runs `plane.answer` and sends what it returns. Ends with exactly one `exchange_over` or an aborted transport."""

    __slots__ = (
        "_answer",
        "_began",
        "_drive",
        "_first",
        "_is_closing",
        "_line",
        "_sender",
        "body",
        "call",
        "is_sending",
    )

    def __init__(self, line: Line, call: Call, body: AnyBody) -> None:
        self._line = line
        self.call = call
        self.body = body
        self._drive: Drive[Any] | None = None
        self._sender: StreamSender | None = None
        self._answer: Answer = INTERNAL_ERROR
        self._began = self._first = 0.0
        self._is_closing = False
        self.is_sending = False

    def start(self) -> None:
        """Answer at once if nothing has to be waited for."""
        line = self._line
        self._began = line.letterhead.ticks()
        line.observer.started(self.call)
        drive = Drive(line.plane.answer(self.call), line.loop, self._answered)
        drive.start()
        if not drive.done():
            self._drive = drive
            line.drives.add(drive)

    def lost(self) -> None:
        """The connection is gone. The handler goes on (its commit may be under way); nothing more is sent."""
        self.body.cut()
        if self._sender is not None:
            self._sender.stop()

    def _leave(self) -> None:
        drive, self._drive = self._drive, None
        if drive is not None:
            self._line.drives.discard(drive)

    def _answered(self, answer: Answer | None, failure: BaseException | None) -> None:
        self._leave()
        if answer is None:
            if isinstance(failure, asyncio.CancelledError):
                self._end(0, is_cut=True)
                return
            log.error("the plane raised instead of answering", exc_info=failure)
            answer = INTERNAL_ERROR
        self._answer = answer
        line = self._line
        stream = None if answer.body is None or isinstance(answer.body, bytes) else answer.body
        if line.is_lost or line.transport.is_closing():
            if stream is not None:
                stream.close()
            self._end(0, is_cut=True)
            return
        self._is_closing = line.will_close() or must_close(answer, self.body, line.limits)
        try:
            head = line.letterhead.head(answer, self.call.request_id, is_closing=self._is_closing)
        except HeaderUnsafe:
            log.error("refused to send an unsafe header of %s", self.call.operation or self.call.method)
            if stream is not None:
                stream.close()
                stream = None
            answer = self._answer = INTERNAL_ERROR
            self._is_closing = True
            head = line.letterhead.head(answer, self.call.request_id, is_closing=True)
        self._send(head, answer, stream)

    def _send(self, head: bytes, answer: Answer, stream: BodyStream | None) -> None:
        line = self._line
        self._first = line.letterhead.ticks()
        if self.call.method == "HEAD" or answer.status in BODILESS or not answer.body:
            if stream is not None:
                stream.close()
            line.transport.write(head)
            self._end(0)
        elif isinstance(answer.body, bytes):
            line.transport.write(head + answer.body)
            self._end(len(answer.body))
        else:
            assert stream is not None
            self.is_sending = True
            line.sending()
            self._sender = StreamSender(line.transport, line.loop, line.write_flow, line.limits, progress=line.sending)
            self._drive = Drive(self._sender.run(head, stream, length_of(answer)), line.loop, self._streamed)
            line.drives.add(self._drive)
            self._drive.start()

    def _streamed(self, _: None, failure: BaseException | None) -> None:
        self._leave()
        self.is_sending = False
        assert self._sender is not None
        if failure is not None and not isinstance(failure, ClientGone | asyncio.CancelledError):
            log.error("an answer was cut: its content could not be read on", exc_info=failure)
        self._end(self._sender.sent, is_cut=failure is not None)

    def _end(self, bytes_out: int, *, is_cut: bool = False) -> None:
        line = self._line
        now = line.letterhead.ticks()
        first = self._first or now
        transfer = Transfer(first - self._began, now - self._began, self.body.received, bytes_out, is_cut)
        line.observer.finished(self.call, self._answer, transfer)
        if is_cut:
            # Never let a cut answer look whole: the connection ends before Content-Length is reached.
            line.transport.abort()
        line.exchange_over(is_closing=self._is_closing or is_cut)
