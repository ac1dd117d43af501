"""The same plane served as a raw ASGI application: for what the fast lane does not take, and for when it is off.

Reads `raw_path`, `query_string` and `headers` of the scope and nothing else of the request: the decoded `path` maps
different keys to one.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

from gateway.http import guard
from gateway.http.application import REVIVE
from gateway.http.call import UNKNOWN_LENGTH, Answer, BodyCut, BodyStream, BodyTooLong, Call, Plane
from gateway.http.exchange import INTERNAL_ERROR, must_close
from gateway.http.guard import Head, Refusal
from gateway.http.letterhead import BODILESS, HeaderUnsafe, Letterhead, length_of
from gateway.http.limits import Limits
from gateway.http.observer import Observer, SilentObserver, Transfer

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

UVICORN_OPTIONS: Final = {"server_header": False, "date_header": False, "access_log": False, "ws": "none"}
"""Options of `uvicorn.Config` that both ways of answering rely on: the plane's answers carry their own head."""

log = logging.getLogger("isotherm.http")


class AsgiBody:
    """`RawBody` over `receive`, which is called only when the handler asks: that is what sends `100 Continue`."""

    def __init__(self, receive: Receive, head: Head, revive: Callable[[], None] | None) -> None:
        self._receive = receive
        self._revive = revive
        self._length = head.content_length
        self._ended = not head.content_length and not head.is_chunked
        self._rest = memoryview(b"")
        self.received = 0
        self.awaits_continue = head.awaits_continue

    @property
    def unread(self) -> int | None:
        """Bytes the handler has not taken; None when only the wire knows."""
        if self._ended:
            return len(self._rest)
        return None if self._length is None else self._length - self.received + len(self._rest)

    async def fill(self, view: memoryview) -> int:
        """See `RawBody`."""
        await self._ask()
        filled = 0
        while filled < len(view):
            if not self._rest:
                if self._ended:
                    break
                await self._receive_more()
            size = min(len(self._rest), len(view) - filled)
            view[filled : filled + size] = self._rest[:size]
            self._rest = self._rest[size:]
            filled += size
        return filled

    async def read_all(self, limit: int) -> bytes:
        """See `RawBody`."""
        if self._length is not None and self._length > limit:
            raise BodyTooLong
        await self._ask()
        whole = bytearray(self._rest)
        while not self._ended:
            await self._receive_more()
            whole += self._rest
            if len(whole) > limit:
                raise BodyTooLong
        self._rest = memoryview(b"")
        return bytes(whole)

    async def _ask(self) -> None:
        """An empty body must be asked for too when the client waits for `100 Continue`."""
        if self.awaits_continue:
            self.awaits_continue = False
            if self._ended:
                await self._receive()

    async def _receive_more(self) -> None:
        message = await self._receive()
        if message["type"] != "http.request":
            if self._revive is not None:
                self._revive()
            raise BodyCut
        self._rest = memoryview(message.get("body", b""))
        self.received += len(self._rest)
        self._ended = not message.get("more_body", False)
        if self._ended and self._length is not None and self.received != self._length:
            raise BodyCut


class AsgiApp:
    """Serves `plane` under ASGI. `lifespan` gets the lifespan scope; without one it is only acknowledged."""

    def __init__(
        self,
        plane: Plane,
        limits: Limits,
        observer: Observer | None = None,
        *,
        letterhead: Letterhead,
        lifespan: Application | None = None,
    ) -> None:
        self._plane = plane
        self._limits = limits
        self._observer: Observer = observer or SilentObserver()
        self._letterhead = letterhead
        self._lifespan = lifespan or _acknowledge

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The ASGI entry."""
        if scope["type"] == "lifespan":
            await self._lifespan(scope, receive, send)
        elif scope["type"] == "http":
            await self._serve(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1000})

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        began = self._letterhead.ticks()
        headers = [(name.lower(), value.strip(b" \t")) for name, value in scope["headers"]]
        head = guard.judge(headers, version_minor=0 if scope["http_version"] == "1.0" else 1)
        peer = scope["client"][0] if scope.get("client") else ""
        if isinstance(head, Refusal):  # only without our protocol class in front
            self._observer.refused(head.status, head.reason, peer)
            refusal = Answer(head.status, [(b"content-type", b"text/plain")], head.reason.encode(), close=True)
            await _send_whole(
                send, self._letterhead.head(refusal, self._letterhead.new_request_id(), is_closing=True), refusal
            )
            return
        body = AsgiBody(receive, head, scope.get("state", {}).get(REVIVE))
        call = Call(
            scope["method"],
            scope["raw_path"],
            scope["query_string"],
            headers,
            body,
            self._letterhead.new_request_id(),
            peer,
            scope.get("scheme", "http"),
            head.content_length,
            head.is_chunked,
            head.fields,
        )
        self._observer.started(call)
        answer = await self._plane.answer(call)
        first = self._letterhead.ticks()
        answer, bytes_out, is_cut = await self._send_answer(answer, call, body, receive, send)
        transfer = Transfer(first - began, self._letterhead.ticks() - began, body.received, bytes_out, is_cut)
        self._observer.finished(call, answer, transfer)

    async def _send_answer(
        self, answer: Answer, call: Call, body: AsgiBody, receive: Receive, send: Send
    ) -> tuple[Answer, int, bool]:
        """Send it; what was sent in the end, its payload bytes, and whether it was cut."""
        stream = None if answer.body is None or isinstance(answer.body, bytes) else answer.body
        is_closing = must_close(answer, body, self._limits)
        try:
            head = self._letterhead.head(answer, call.request_id, is_closing=is_closing)
        except HeaderUnsafe:
            log.error("refused to send an unsafe header of %s", call.operation or call.method)
            answer = INTERNAL_ERROR
            head = self._letterhead.head(answer, call.request_id, is_closing=True)
        if stream is not None and (call.method == "HEAD" or answer.status in BODILESS or answer.body is not stream):
            stream.close()
            stream = None
        if stream is None:
            return answer, await _send_whole(send, head, answer, is_head=call.method == "HEAD"), False
        await send(_start(head, answer.status))
        sent, is_whole = await _send_stream(stream, length_of(answer), receive, send)
        return answer, sent, not is_whole


def _start(head: bytes, status: int) -> Message:
    """The head as an ASGI event: the same lines in the same order."""
    lines = head[:-4].split(b"\r\n")[1:]
    return {"type": "http.response.start", "status": status, "headers": [tuple(line.split(b": ", 1)) for line in lines]}


async def _send_whole(send: Send, head: bytes, answer: Answer, *, is_head: bool = False) -> int:
    payload = answer.body if isinstance(answer.body, bytes) and not is_head and answer.status not in BODILESS else b""
    await send(_start(head, answer.status))
    await send({"type": "http.response.body", "body": payload})
    return len(payload)


async def _send_stream(stream: BodyStream, length: int, receive: Receive, send: Send) -> tuple[int, bool]:
    """Payload bytes sent, and whether they are all; when the stream fails or the client goes away they are not.

    Without the final event uvicorn closes the connection, and the client knows.
    """
    sent, is_whole = 0, False
    watch = asyncio.ensure_future(_client_gone(receive))
    try:
        while (run := await stream.next()) is not None:
            if watch.done() or (sent + len(run) > length and length != UNKNOWN_LENGTH):
                return sent, False
            sent += len(run)
            await send({"type": "http.response.body", "body": bytes(run), "more_body": True})
        if length in {sent, UNKNOWN_LENGTH}:
            await send({"type": "http.response.body", "body": b""})
            is_whole = True
    except Exception:
        # An answer that has begun can only be cut: uvicorn closes the connection when the last event is missing.
        log.exception("an answer was cut: its content could not be read on")
    finally:
        stream.close()
        watch.cancel()
    return sent, is_whole


async def _client_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _acknowledge(scope: Scope, receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": message["type"] + ".complete"})
        if message["type"] == "lifespan.shutdown":
            return
