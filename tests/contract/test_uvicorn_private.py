"""Every private name of uvicorn and httptools that the protocol class uses, and what each is relied on to do."""

import asyncio
import logging
from typing import Any

import httptools
import pytest
from uvicorn import Config
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from gateway.http import private
from gateway.http.letterhead import Letterhead
from gateway.http.limits import Limits
from gateway.http.protocol import protocol_class
from tests.protocol.http_server import SmallPlane


class Transport:
    """Remembers what was done to it."""

    def __init__(self) -> None:
        self.written = b""
        self.reading: list[bool] = []
        self.closed = False

    def get_extra_info(self, name: str) -> None:
        return None

    def write(self, data: bytes) -> None:
        self.written += data

    def pause_reading(self) -> None:
        self.reading.append(False)

    def resume_reading(self) -> None:
        self.reading.append(True)

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True


async def application(scope: Any, receive: Any, send: Any) -> None:
    message = await receive()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"1")]})
    await send({"type": "http.response.body", "body": message["body"][:1] or b"-"})


def connected() -> tuple[HttpToolsProtocol, Transport, ServerState]:
    config = Config(application, lifespan="off", log_config=None)
    config.load()
    state = ServerState()
    protocol = HttpToolsProtocol(config, state, {"a": 1}, asyncio.get_running_loop())
    transport = Transport()
    protocol.connection_made(transport)  # type: ignore[arg-type]  # the part of a transport that uvicorn uses
    return protocol, transport, state


def feed(protocol: HttpToolsProtocol, head: bytes) -> None:
    protocol.parser.feed_data(head)


def test_every_name_exists() -> None:
    assert private.private_api_differences() == []
    assert private.private_api_intact()


def test_connection_state() -> None:
    async def main() -> None:
        protocol, transport, state = connected()
        assert protocol in state.connections
        assert protocol.tasks is state.tasks
        assert protocol.transport is transport  # type: ignore[comparison-overlap]  # see connected
        assert protocol.loop is asyncio.get_running_loop()
        assert protocol.cycle is None
        assert protocol.limit_concurrency is None
        assert protocol.timeout_keep_alive_task is None
        assert protocol.client is None
        assert protocol.scheme == "http"
        assert not protocol.pipeline
        assert protocol.eof_received() is None
        protocol.pause_writing()
        assert protocol.flow.write_paused
        protocol.connection_lost(None)
        assert protocol not in state.connections
        assert not protocol.flow.write_paused
        assert protocol.parser is None

    asyncio.run(main())


def test_callbacks_come_while_a_head_is_fed_and_the_body_may_come_later() -> None:
    async def main() -> None:
        protocol, transport, state = connected()
        feed(protocol, b"PUT /b/k%2F?x=1 HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\n")
        assert protocol.url == b"/b/k%2F?x=1"
        assert protocol.headers == [(b"host", b"h"), (b"content-length", b"4")]
        assert protocol.scope["headers"] is protocol.headers
        assert protocol.scope["raw_path"] == b"/b/k%2F"
        assert protocol.scope["query_string"] == b"x=1"
        assert protocol.scope["state"] == {"a": 1}
        cycle = protocol.cycle
        assert isinstance(cycle, RequestResponseCycle)
        assert cycle.keep_alive
        assert len(state.tasks) == 1, "the task is created and has not run"
        assert cycle.transport is transport  # type: ignore[comparison-overlap]  # see connected
        protocol.parser = httptools.HttpRequestParser(protocol)
        HttpToolsProtocol.on_body(protocol, b"body")
        HttpToolsProtocol.on_message_complete(protocol)
        assert not cycle.more_body
        await asyncio.gather(*state.tasks)
        assert cycle.response_complete
        assert transport.written.endswith(b"\r\n\r\nb")
        assert state.total_requests == 1
        assert protocol.timeout_keep_alive_task is not None
        protocol._unset_keepalive_if_required()
        assert protocol.timeout_keep_alive_task is None

    asyncio.run(main())


def test_the_cycle_ends_through_its_own_transport_and_says_so_to_the_protocol() -> None:
    async def main() -> None:
        protocol, transport, state = connected()
        feed(protocol, b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
        own = Transport()
        protocol.cycle.transport = own  # type: ignore[assignment]  # what the protocol class does
        assert not protocol.cycle.keep_alive
        await asyncio.gather(*state.tasks)
        assert own.written.endswith(b"connection: close\r\n\r\n-")
        assert own.closed
        assert not transport.closed

    asyncio.run(main())


def test_receive_resumes_reading_through_the_flow_and_disconnected_drops_the_answer() -> None:
    async def main() -> None:
        protocol, transport, state = connected()
        resumed: list[str] = []

        class Flow(FlowControl):
            def resume_reading(self) -> None:
                resumed.append("wanted")
                super().resume_reading()

        protocol.flow = Flow(transport)  # type: ignore[arg-type]  # see connected
        feed(protocol, b"PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\n")
        await asyncio.sleep(0)
        assert resumed == ["wanted"]
        protocol.cycle.disconnected = True
        protocol.cycle.message_event.set()
        await asyncio.gather(*state.tasks)  # the application fails over http.disconnect; uvicorn would answer 500
        assert transport.written == b""

    asyncio.run(main())


def test_shutdown_lets_a_request_finish() -> None:
    async def main() -> None:
        protocol, transport, state = connected()
        protocol.shutdown()
        assert transport.closed
        protocol, transport, state = connected()
        feed(protocol, b"PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\n")
        protocol.shutdown()
        assert not transport.closed
        assert not protocol.cycle.keep_alive
        for task in state.tasks:
            task.cancel()
        await asyncio.gather(*state.tasks, return_exceptions=True)

    asyncio.run(main())


def test_upgrade_hook_decides() -> None:
    class NoUpgrade(HttpToolsProtocol):
        def _should_upgrade(self) -> bool:
            return False

    assert HttpToolsProtocol._should_upgrade is not NoUpgrade._should_upgrade


def test_another_version_turns_the_lane_off(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setitem(private.TESTED_VERSIONS, "uvicorn", "0.0.1")
    paper = Letterhead(lambda: 0.0, lambda: "id", "host")
    with caplog.at_level(logging.WARNING, "isotherm.http"):
        assert protocol_class(SmallPlane(), Limits(), letterhead=paper) is HttpToolsProtocol
    assert len(caplog.records) == 1
    assert "uvicorn is 0.54.0, tested with 0.0.1" in caplog.text


def test_a_missing_name_turns_the_lane_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(HttpToolsProtocol, "on_response_complete")
    assert any("on_response_complete" in text for text in private.private_api_differences())
