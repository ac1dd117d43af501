"""Connections that are slow, vanish, or are under way when the server stops; TLS; the observer."""

import hashlib
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.http import private
from gateway.http.limits import Limits
from tests.protocol.http_server import TestServer, Wire, request

pytestmark = pytest.mark.protocol

CLOSE = b"connection: close\r\n"
LARGE = os.urandom(3_000_001)


@pytest.fixture(scope="module", params=["lane", "asgi"])
def server(request: pytest.FixtureRequest) -> Iterator[TestServer]:
    with TestServer(is_lane_open=request.param == "lane") as running:
        yield running


@pytest.fixture
def wire(server: TestServer) -> Iterator[Wire]:
    with Wire(server) as connection:
        yield connection


# ------------------------------------------------------------------------------------------ deadlines


@pytest.mark.parametrize("is_lane_open", [True, False])
def test_slow_and_silent_clients_are_closed(is_lane_open: bool) -> None:
    limits = Limits(
        header_seconds=0.3, idle_seconds=0.3, body_silence_seconds=0.3, sweep_seconds=0.02, linger_seconds=0.2
    )
    slow = [
        *(
            b"",
            b"GET /echo HTTP/1.1\r\nHost: h\r\nX: ",
            request("/echo"),
            request("/take", "PUT", Content_Length="10") + b"abc",
        ),
        *(
            request("/fill", "PUT", Content_Length="9000000") + b"a" * 1000,
            request("/refuse", "PUT", Content_Length="1000"),
        ),
        request("/take", "PUT", Transfer_Encoding="chunked") + b"5\r\nab",
    ]
    with TestServer(limits, is_lane_open=is_lane_open) as running:
        wires = [(raw, Wire(running)) for raw in slow * 40]
        for raw, connection in wires:
            connection.send(raw)
        began = time.monotonic()
        while time.monotonic() < began + 0.6:  # keeps dripping below the minimum rate
            time.sleep(0.1)
            for raw, connection in wires:
                if raw and not raw.startswith(b"GET /echo HTTP/1.1\r\nHost: a"):
                    connection.send(b"1")
        for _, connection in wires:
            with connection:
                while connection._receive():
                    pass
        running.settle()
        assert running.connection_count == 0
        assert running.plane.cuts == 3 * 40


def test_reader_that_takes_nothing_is_cut() -> None:
    with TestServer(Limits(send_silence_seconds=0.3, sweep_seconds=0.02)) as running:
        wires = [Wire(running), Wire(running)]
        for connection, target in zip(
            wires, ("/stream?900000000,900000000", "/asgi/stream?900000000,900000000"), strict=True
        ):
            connection.send(request(target))
        running.settle()
        assert running.connection_count == 0
        assert running.plane.streams_open == 0
        for connection in wires:
            connection.socket.close()


# ------------------------------------------------------------------------------------------ the end


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.parametrize("prefix", ["", "/asgi"])
def test_vanishing_clients_leave_nothing(prefix: str) -> None:
    with TestServer() as running:
        with Wire(running) as connection:
            connection.send(request(f"{prefix}/stream?5000000,5000000"))
            connection.reply()
        running.settle()
        before = descriptors()
        for _ in range(60):
            with Wire(running) as connection:
                connection.send(request(f"{prefix}/stream?50000000,50000000"))
                connection.read_until(b"\r\n\r\n")
            with Wire(running) as connection:
                connection.send(request(f"{prefix}/fill", "PUT", Content_Length="50000000") + b"a" * 300_000)
        running.settle()
        assert running.connection_count == 0
        assert not running.server.server_state.tasks
        assert running.plane.streams_open == 0
        assert running.record.under_way == 0
        until = time.monotonic() + 5
        while descriptors() != before and time.monotonic() < until:
            time.sleep(0.01)  # the loop closes a descriptor one turn after the connection
        assert descriptors() == before


def test_stream_that_fails_is_cut_before_its_length(server: TestServer, wire: Wire) -> None:
    wire.send(request("/stream?5000000,600000"))
    reply = wire.reply()
    assert reply.status == 200
    assert len(reply.body) < 5_000_000
    server.settle()
    assert server.record.finished_calls[-1][2].is_cut
    assert server.plane.streams_open == 0


def test_graceful_stop_answers_what_is_under_way() -> None:
    """SIGTERM in the middle of a lane PUT: the rest is received, the answer comes, then the process ends."""
    program = "from tests.protocol.http_server import TestServer as T\ns = T()\nprint(s.port, flush=True)\ns._run()"
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        wires = []
        for prefix in ("", "/asgi"):
            connection = Wire.__new__(Wire)
            connection.socket, connection._rest = socket.create_connection(("127.0.0.1", port), timeout=10), b""
            connection.send(request(f"{prefix}/fill", "PUT", Content_Length=str(len(LARGE))), LARGE[:1_000_000])
            wires.append(connection)
        time.sleep(0.3)
        process.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        for connection in wires:
            connection.send(LARGE[1_000_000:])
            reply = connection.reply()
            assert reply.value(b"x-sha") == hashlib.sha256(LARGE).hexdigest().encode()
            assert CLOSE in reply.head
            connection.socket.close()
        assert process.wait(10) == -signal.SIGTERM


def test_concurrency_limit_answers_503() -> None:
    with TestServer(limit_concurrency=2) as running, Wire(running) as one:
        one.send(request("/blocked"))
        with Wire(running) as two:
            two.send(request("/echo"))
            assert two.reply().status == 503
        running.plane.gate.set()
        assert one.reply().body == b"released"


def test_observer_hears_of_every_exchange(server: TestServer, wire: Wire) -> None:
    server.record.finished_calls.clear()
    wire.send(request("/fill", "PUT", LARGE), request("/stream?2000000,2000000"))
    wire.reply()
    wire.reply()
    wire.socket.close()
    server.settle()
    (put, _, put_transfer), (get, status, get_transfer) = server.record.finished_calls
    assert (put, put_transfer.bytes_in, put_transfer.bytes_out) == ("/fill", len(LARGE), 0)
    assert (get, status, get_transfer.bytes_out, get_transfer.is_cut) == ("/stream", 200, 2_000_000, False)
    assert 0 <= get_transfer.ttfb_seconds <= get_transfer.total_seconds


def test_without_the_protocol_class_the_application_guards_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another uvicorn than the tested one: everything goes through ASGI."""
    monkeypatch.setitem(private.TESTED_VERSIONS, "uvicorn", "0.0.1")
    with TestServer() as running, Wire(running) as connection:
        connection.send(request("/take", "PUT", Expect="100-continue", Content_Length="0"))
        assert connection.reply().interim == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.send(request("/fill", "PUT", LARGE), request("/stream?3000000,3000000"))
        assert connection.reply().value(b"x-sha") == hashlib.sha256(LARGE).hexdigest().encode()
        assert len(connection.reply().body) == 3_000_000
        connection.send(b"GET /echo HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n")
        assert connection.reply().status == 400
        assert connection.is_closed()


def test_over_tls(tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-subj",
        "/CN=h",
        "-keyout",
        str(key),
        "-out",
        str(certificate),
    ]
    subprocess.run(command, check=True, capture_output=True)
    context = ssl.create_default_context(cafile=str(certificate))
    context.check_hostname = False
    with TestServer(ssl_keyfile=str(key), ssl_certfile=str(certificate)) as running, Wire(running) as connection:
        connection.socket = context.wrap_socket(connection.socket, server_hostname="h")
        for prefix in ("", "/asgi"):
            connection.send(request(f"{prefix}/fill", "PUT", LARGE), request(f"{prefix}/stream?3000000,3000000"))
            assert connection.reply().value(b"x-sha") == hashlib.sha256(LARGE).hexdigest().encode()
            assert connection.reply().body == (bytes(range(256)) * 11_719)[:3_000_000]
