"""One connection's life under both ways of answering: deadlines, the body's flow, the end.

What comes in is `protocol`'s.
"""

import asyncio
import contextvars
import socket
from typing import Any, ClassVar

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from gateway.http.application import BodyFlow
from gateway.http.bodies import Sink
from gateway.http.call import Plane
from gateway.http.deadlines import NEVER, BodyPace, Sweep
from gateway.http.exchange import Exchange
from gateway.http.framing import Framing
from gateway.http.guard import Refusal
from gateway.http.letterhead import Letterhead
from gateway.http.limits import Limits
from gateway.http.observer import Observer
from gateway.http.sender import WriteFlow
from gateway.http.vigil import Vigil

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class Connection(HttpToolsProtocol):
    """State of one connection and everything but its parsing.

    A request under way is either the lane's (`_exchange`) or the application's (`_is_application`), one at a time.
    `_framing` is the part of its body that has not come yet, `_pending` what was received and not looked at.
    """

    plane: Plane
    observer: Observer
    letterhead: Letterhead
    limits: Limits
    sweep: ClassVar[Sweep]
    vigil: ClassVar[Vigil]
    is_lane_open: ClassVar[bool]

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - uvicorn's own signature, passed on
        super().__init__(*args, **kwargs)
        self.drives: set[Any] = self.tasks
        self.due = NEVER
        self.is_lost = False
        self._peer = ""
        self._context = contextvars.copy_context()
        self._pending = b""
        self._framing: Framing | None = None
        self._pace = BodyPace(self.limits)
        self._exchange: Exchange | None = None
        self._sink: Sink | None = None
        self._is_application = False
        self._is_head_started = False
        self._is_advancing = False
        self._awaits_continue = False
        self._must_close = False
        self._is_eof = False
        self._is_unfinished = False
        self._is_lingering = False
        self._linger_left = 0

    def _advance(self) -> None:
        """Start the requests that are complete in `_pending`."""
        raise NotImplementedError

    # ---------------------------------------------------------------------------------------------- beginning and end

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """A client has connected; it owes a request within `header_seconds`."""
        super().connection_made(transport)
        self.flow = BodyFlow(transport, self._application_wants_body)
        self._peer = self.client[0] if self.client else ""
        raw = transport.get_extra_info("socket")
        if raw is not None and raw.family != socket.AF_UNIX:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self.limits.send_buffer_bytes)
        self.due = self.loop.time() + self.limits.header_seconds
        self.sweep.add(self, self.loop)

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone: readers get BodyCut, senders stop, handlers end by themselves."""
        self.is_lost = True
        self.due = NEVER
        self._pending = b""
        self._framing = None
        self.sweep.discard(self)
        super().connection_lost(exc)
        if isinstance(self.flow, BodyFlow):
            self.flow.release()
        if self._exchange is not None:
            self._exchange.lost()

    def eof_received(self) -> bool | None:  # type: ignore[override]  # uvicorn never keeps a half-closed connection
        """The client sends no more. An answer under way is still owed to it (TLS cannot do that)."""
        is_idle = self._exchange is None and not self._is_application
        if self._is_lingering or (is_idle and not self._pending) or self.scheme == "https":
            return None
        self._is_eof = True
        if is_idle:
            self.loop.call_soon(self._advance, context=self._context)
        elif self._framing is not None:
            self._cut_body()
        elif self._is_application and not self._pending:
            self.cycle.keep_alive = False
        return True

    def shutdown(self) -> None:
        """Graceful stop: a request under way is answered first, lane or application."""
        self._must_close = True
        if self._is_application:
            self.cycle.keep_alive = False
        elif self._exchange is None and not self._is_lingering:
            self.transport.close()

    def hang_up(self) -> None:
        """End the connection after what was written. Idempotent.

        While the client still sends, its bytes are read and thrown away for a while: a socket closed over unread bytes
        resets, and the reset would eat the answer.
        """
        if self._is_lingering or self.transport.is_closing():
            return
        has_more = self._is_unfinished or self._framing is not None or bool(self._pending)
        if self._is_eof or self.scheme == "https" or not has_more:
            self.transport.close()
            return
        self._is_lingering = True
        self._restore_protocol()
        self._framing = None
        self._pending = b""
        self._linger_left = self.limits.drain_bytes
        self.due = self.loop.time() + self.limits.linger_seconds
        self.transport.write_eof()
        self._read_on()

    def refuse(self, refusal: Refusal) -> None:
        """Answer a request that never became one, and close."""
        self.observer.refused(refusal.status, refusal.reason, self._peer)
        self._must_close = True
        if not self.transport.is_closing():
            self.transport.write(self.letterhead.refusal(refusal.status, refusal.reason))
            self._is_unfinished = True
            self.hang_up()

    def overdue(self, now: float) -> None:
        """A deadline has passed (see `deadlines`)."""
        is_busy = self._exchange is not None or self._is_application
        if self._framing is not None and self._pace.is_waiting:
            if self._pace.is_late(now):
                self._cut_body()
        elif self._is_lingering or self._is_sending() or is_busy:
            # Nobody reads what is sent, or a cut request whose application gave no answer.
            self.transport.abort()
        elif self._pending:
            self.refuse(Refusal(408, "The request head took too long."))
        else:
            self.transport.close()

    # ---------------------------------------------------------------------------------------------- between requests

    def exchange_over(self, *, is_closing: bool) -> None:
        """See `exchange.Line`."""
        self._exchange = None
        self.server_state.total_requests += 1
        is_plain = self._framing is None and not (self._pending or self._is_eof or self.flow.read_paused)
        if is_closing or self._must_close or not is_plain:
            self._request_over(is_closing=is_closing)
        elif not self.is_lost:  # nearly every request ends here
            self._is_head_started = False
            self.due = self.loop.time() + self.limits.idle_seconds

    def _request_over(self, *, is_closing: bool) -> None:
        """An answer is written. Get rid of what is left of its request, then the next may start."""
        if self.is_lost:
            return
        framing = self._framing
        if framing is not None and self._awaits_continue and not framing.touched:
            framing = self._framing = None  # the client waited for 100 Continue and was refused: no body comes
        if is_closing or self.will_close():
            self.hang_up()
        elif framing is None:
            self._rest_between_requests()
        elif framing.left is None or framing.left > self.limits.drain_bytes:
            self.hang_up()
        else:
            self._restore_protocol()
            self._pace.wait(self.loop.time())
            self.due = self.loop.time()
            self._read_on()

    def _rest_between_requests(self) -> None:
        self.due = self.loop.time() + self.limits.idle_seconds
        self._is_head_started = False
        if not self._pending:
            self._read_on()
        elif not self._is_advancing:
            # Not at once: this may run inside the application's task or a handler's context. Reading rests until all
            # that is held back has been served, or pipelined requests could fill the memory.
            self.loop.call_soon(self._advance, context=self._context)

    def will_close(self) -> bool:
        """See `exchange.Line`."""
        return self._must_close or (self._is_eof and not self._pending)

    def _read_on(self) -> None:
        if self.flow.read_paused:
            self.flow.resume_reading()

    # ---------------------------------------------------------------------------------------------- the body's flow

    def send_continue(self) -> None:
        """See `bodies.BodyLine`."""
        if self._awaits_continue and not self.transport.is_closing():
            self._awaits_continue = False
            self.transport.write(CONTINUE)

    def want_body(self) -> None:
        """See `bodies.BodyLine`."""
        self.due = now = self.loop.time()
        self._pace.wait(now)
        self._read_on()

    def rest_body(self, *, is_full: bool) -> None:
        """See `bodies.BodyLine`."""
        self._pace.rest(self.loop.time())
        self.due = NEVER
        if is_full and not self.is_lost:
            self.flow.pause_reading()

    def heard(self, byte_count: int) -> None:
        """See `bodies.BodyLine`."""
        self._pace.heard(byte_count, self.loop.time())

    def divert(self, sink: Sink) -> None:
        """See `bodies.BodyLine`."""
        if self._sink is not sink:
            self._sink = sink
            self.transport.set_protocol(sink)

    def restore(self) -> None:
        """See `bodies.BodyLine`."""
        self._restore_protocol()
        self._body_over()

    def _restore_protocol(self) -> None:
        if self._sink is not None:
            self._sink = None
            self.transport.set_protocol(self)

    def _body_over(self) -> None:
        """The last byte of the request has been received."""
        self._framing = None
        self.due = NEVER
        if self._exchange is not None:
            self._exchange.body.complete()
        elif self._is_application:
            super().on_message_complete()
        else:
            self._rest_between_requests()

    def _cut_body(self) -> None:
        """No more of the body comes, or none to be trusted. Its reader is told; the answer goes out, then the end."""
        self._must_close = self._is_unfinished = True
        self._framing = None
        if self._exchange is not None:
            self._restore_protocol()
            self.due = NEVER
            self._exchange.body.cut()
        elif self._is_application:
            self.due = self.loop.time() + self.limits.body_silence_seconds
            self.cycle.keep_alive = False
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        else:
            self.transport.abort()

    def revive(self) -> None:
        """Let the application's answer out although its request was cut; uvicorn would drop it."""
        if not self.is_lost:
            self.cycle.disconnected = False

    def _application_wants_body(self) -> None:
        """The application waits in `receive` (uvicorn resumes reading then, and after its answer)."""
        if not self._is_application or self.cycle.response_complete:
            return
        if not self.cycle.response_started:
            self.send_continue()
        if self._framing is not None:
            self.due = now = self.loop.time()
            self._pace.wait(now)

    # ---------------------------------------------------------------------------------------------- the answer's flow

    @property
    def write_flow(self) -> WriteFlow:
        """See `exchange.Line`."""
        return self.flow

    def sending(self) -> None:
        """See `exchange.Line`."""
        self.due = self.loop.time() + self.limits.send_silence_seconds

    def _is_sending(self) -> bool:
        return self.flow.write_paused or (self._exchange is not None and self._exchange.is_sending)

    def pause_writing(self) -> None:
        """The client reads slower than it is answered: its silence counts from now, and no new request starts."""
        super().pause_writing()
        self.sending()

    def resume_writing(self) -> None:
        """The client has read."""
        super().resume_writing()
        if self._is_lingering or self.is_lost:
            return
        if self._exchange is None and not self._is_application and self._framing is None:
            self._rest_between_requests()
        elif not self._is_sending():
            self.due = NEVER
