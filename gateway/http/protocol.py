"""The protocol class: uvicorn's, with the header guard, deadlines and the fast lane in front of the application.

This file finds where a request begins and ends and which of the two ways it takes. Bytes behind a request that is still
being answered are held back unparsed, so answers can never change places. The parser sees heads only, each whole and
already scanned; bodies are framed here. Knows nothing of S3.
"""

import logging

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from gateway.http import guard
from gateway.http.application import REVIVE, AnswerEnd
from gateway.http.bodies import NO_BODY, AnyBody, LaneBody
from gateway.http.call import Call, Plane
from gateway.http.connection import Connection
from gateway.http.deadlines import NEVER, BodyPace, Sweep
from gateway.http.exchange import Exchange
from gateway.http.framing import ChunkedFraming, FramingBroken, LengthFraming
from gateway.http.guard import Head, Refusal
from gateway.http.letterhead import Letterhead
from gateway.http.limits import Limits
from gateway.http.observer import Observer, SilentObserver
from gateway.http.private import private_api_intact
from gateway.http.vigil import Vigil

log = logging.getLogger("isotherm.http")

_methods = {name.encode(): name for name in ("GET", "HEAD", "PUT", "POST", "DELETE", "OPTIONS", "PATCH")}


class IsothermProtocol(Connection):
    """One connection. Made by `protocol_class`, which sets the class attributes."""

    _version_minor = 1
    _head_seen = 0
    _started: Exchange | None = None
    _refusal: Refusal | None = None

    # ---------------------------------------------------------------------------------------------- bytes in

    def data_received(self, data: bytes) -> None:
        """Bytes from the client: of the body under way, of the next head, or held back until it is their turn."""
        self.vigil.heard(self, self.loop)
        if self._is_lingering:
            self._linger_left -= len(data)
            if self._linger_left < 0:
                self.transport.abort()
        elif self._framing is not None:
            self._receive_body(data, 0)
        elif self._exchange is not None or self._is_application:
            self._pending += data
            self.flow.pause_reading()
        else:
            self._pending = self._pending + data if self._pending else data
            self._advance()

    def _advance(self) -> None:
        """Start the requests that are complete, one after the other, as long as none has to be waited for."""
        if self._is_advancing or self.is_lost:
            return
        self._is_advancing = True
        try:
            while self._pending and self._is_free() and self._take_head():
                pass
        finally:
            self._is_advancing = False
        if self.flow.read_paused and self._is_free():
            self._read_on()

    def _is_free(self) -> bool:
        is_busy = self._exchange is not None or self._is_application or self._framing is not None
        return not (is_busy or self._is_lingering or self.flow.write_paused or self.transport.is_closing())

    def _take_head(self) -> bool:
        """Start the request whose head is complete; False when it is not, or was refused."""
        data = self._pending
        if data.startswith(b"\r\n"):  # an empty line before a request is ignored (RFC 9112, 2.2)
            data = self._pending = data[2:]
            self._head_seen = 0
        stop = data.find(guard.HEAD_END, max(0, self._head_seen - 3)) + 4
        if stop < 4:
            self._await_head(data)
            return False
        block = data if stop == len(data) else data[:stop]
        verdict = guard.scan(block, self.limits)
        if isinstance(verdict, Refusal):
            self.refuse(verdict)
            return False
        self._version_minor = verdict
        self._head_seen = 0
        self._pending = b""
        self.due = NEVER
        self._parse(block)
        if self._refusal is not None:
            self.refuse(self._refusal)
            return False
        self._start(data, stop)
        return True

    def _await_head(self, data: bytes) -> None:
        refusal = guard.scan_partial(data, self.limits, self._head_seen)
        self._head_seen = len(data)
        if refusal is not None:
            self.refuse(refusal)
        elif self._is_eof:
            self.transport.close()
        elif not self._is_head_started:
            self._is_head_started = True
            self.due = self.loop.time() + self.limits.header_seconds

    def _parse(self, block: bytes) -> None:
        try:
            self.parser.feed_data(block)  # calls on_headers_complete
        except httptools.HttpParserUpgrade:
            self.parser = httptools.HttpRequestParser(self)  # upgrades are ignored
        except httptools.HttpParserInvalidMethodError:
            self._refusal = Refusal(501, "Unknown method.")
        except httptools.HttpParserCallbackError:
            log.exception("a request head could not be handled")
            self._refusal = Refusal(500, "Internal error.")
        except httptools.HttpParserError:
            self._refusal = self._refusal or Refusal(400, "Malformed request head.")

    def _start(self, data: bytes, stop: int) -> None:
        """Let the parsed request run, with what has already come of its body at `data[stop:]`."""
        exchange, self._started = self._started, None
        self._exchange = exchange
        if self._framing is not None:
            self.parser = httptools.HttpRequestParser(self)  # the old one waits for a body that it will never see
            if stop < len(data):
                self._receive_body(data, stop)
        else:
            if stop < len(data):
                self._pending = data[stop:]
            if self._is_application:
                HttpToolsProtocol.on_message_complete(self)
        if exchange is not None:
            exchange.start()

    def _receive_body(self, data: bytes, at: int) -> None:
        framing = self._framing
        assert framing is not None
        self._pace.heard(len(data) - at, self.loop.time())
        try:
            at = framing.feed(data, at, self._deliver)
        except FramingBroken:
            self._cut_body()
            return
        if framing.done:
            self._pending = data[at:]
            self._body_over()
            if self._pending and not self._is_free():
                self.flow.pause_reading()

    def _deliver(self, part: memoryview) -> None:
        if not part:
            return
        if self._exchange is not None:
            self._exchange.body.feed(part)
        elif self._is_application:
            HttpToolsProtocol.on_body(self, bytes(part))
            if self.flow.read_paused:
                self._pace.rest(self.loop.time())
                self.due = NEVER

    # ---------------------------------------------------------------------------------------- the parser's callbacks

    def on_message_begin(self) -> None:
        """A head begins; the scope is made only for requests that the application gets."""
        self.url = b""
        self.headers = []
        self._refusal = None

    def on_header(self, name: bytes, value: bytes) -> None:
        """One line of the head."""
        self.headers.append((name.lower(), value.strip(b" \t")))

    def on_headers_complete(self) -> None:
        """The head is parsed: refuse it, take it, or hand it to the application."""
        head = guard.judge(self.headers, version_minor=self._version_minor)
        if isinstance(head, Refusal):
            self._refusal = head
            return
        if head.is_chunked or head.content_length:
            self._framing = ChunkedFraming() if head.content_length is None else LengthFraming(head.content_length)
            self._pace = BodyPace(self.limits)
        self._awaits_continue = head.awaits_continue
        if not head.is_kept_alive:
            self._must_close = True
        if self.is_lane_open and (self.limit_concurrency is None or not self._is_crowded()):
            exchange = self._make_exchange(head)
            if self.plane.takes(exchange.call):
                self._started = exchange
                return
        self._hand_to_application()

    def on_body(self, body: bytes) -> None:
        """Never called: the parser sees heads only."""

    def on_message_complete(self) -> None:
        """Means nothing: the end of a request is found by its framing."""

    def _should_upgrade(self) -> bool:
        return False

    def _is_crowded(self) -> bool:
        """Over the concurrency limit; uvicorn answers 503 then."""
        limit = self.limit_concurrency
        return limit is not None and (len(self.connections) >= limit or len(self.tasks) >= limit)

    def _make_exchange(self, head: Head) -> Exchange:
        path, _, query = self.url.partition(b"?")
        method = self.parser.get_method()
        body: AnyBody = NO_BODY
        if self._framing is not None or head.awaits_continue:
            body = LaneBody(self, self._framing, head.content_length, awaits_continue=head.awaits_continue)
        call = Call(
            _methods.get(method) or method.decode("ascii"),
            path,
            query,
            self.headers,
            body,
            self.letterhead.new_request_id(),
            self._peer,
            self.scheme or "http",
            head.content_length,
            head.is_chunked,
            head.fields,
        )
        return Exchange(self, call, body)

    # ---------------------------------------------------------------------------------------- the application's way

    def _hand_to_application(self) -> None:
        url, headers = self.url, self.headers
        HttpToolsProtocol.on_message_begin(self)  # makes the scope, and empties what was parsed
        self.url = url
        self.headers.extend(headers)
        HttpToolsProtocol.on_headers_complete(self)
        self._is_application = True
        self.scope["state"][REVIVE] = self.revive
        self.cycle.transport = AnswerEnd(self)  # type: ignore[assignment]  # the three methods that a cycle calls
        if self._must_close:
            self.cycle.keep_alive = False

    def on_response_complete(self) -> None:
        """The application's answer is written."""
        self._is_application = False
        self.server_state.total_requests += 1
        self._request_over(is_closing=not self.cycle.keep_alive)


def protocol_class(
    plane: Plane,
    limits: Limits,
    observer: Observer | None = None,
    *,
    letterhead: Letterhead,
    is_lane_open: bool = True,
) -> type[HttpToolsProtocol]:
    """What to give uvicorn as `http=`; one a worker. With `is_lane_open` False every request takes ASGI.

    When uvicorn, httptools or uvloop are not the tested ones, this is uvicorn's own class: everything goes through ASGI
    (where `AsgiApp` repeats the header guard), and a warning is logged once.
    """
    if not private_api_intact():
        return HttpToolsProtocol
    attributes = {
        "plane": plane,
        "limits": limits,
        "observer": observer or SilentObserver(),
        "letterhead": letterhead,
        "sweep": Sweep(limits.sweep_seconds),
        "vigil": Vigil(limits.vigil_seconds),
        "is_lane_open": is_lane_open,
    }
    return type("BoundProtocol", (IsothermProtocol,), attributes)
