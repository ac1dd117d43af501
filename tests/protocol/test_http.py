"""The protocol class on a real socket: both ways of answering, order, framing, refusals."""

import hashlib
import os
import socket
from collections.abc import Iterator

import pytest

from tests.protocol.http_server import Reply, TestServer, Wire, chunked, request

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


# ------------------------------------------------------------------------------------------ both ways alike

CORPUS: dict[str, bytes] = {
    "get": request("/echo/a"),
    "raw path and query": request("/echo//%2F/../%ff/a+b;c='~\"<>?x=%2F&&y=?&z"),
    "query only": request("/echo?"),
    "repeated and odd headers": request("/echo", X_A="  1 ", x_a="2", X_Amz_Meta_B="\xe9", EMPTY=""),
    "head": request("/echo", "HEAD"),
    "delete": request("/echo", "DELETE"),
    "http 1.0": b"GET /echo HTTP/1.0\r\nHost: h\r\n\r\n",
    "http 1.0 keep-alive": b"GET /echo HTTP/1.0\r\nHost: h\r\nConnection: keep-alive\r\n\r\n",
    "close": request("/echo", Connection="close"),
    "upgrade": request("/echo", Connection="Upgrade", Upgrade="websocket"),
    "h2c": request("/echo", Connection="Upgrade, HTTP2-Settings", Upgrade="h2c", HTTP2_Settings="AA"),
    "small put": request("/take", "PUT", b"small"),
    "empty put": request("/take", "PUT", Content_Length="0"),
    "put without length": request("/take", "PUT"),
    "border put": request("/take", "PUT", LARGE[: 128 * 1024]),
    "above the border": request("/take", "PUT", LARGE[: 128 * 1024 + 1]),
    "large fill": request("/fill", "PUT", LARGE),
    "too long": request("/take", "PUT", LARGE),
    "chunked": request("/take", "PUT", Transfer_Encoding="chunked") + chunked(b"abc", b"d" * 1000),
    "chunked fill": request("/fill", "PUT", Transfer_Encoding="chunked") + chunked(LARGE[:900_000], LARGE[:70_000]),
    "chunked too long": request("/take", "PUT", Transfer_Encoding="chunked") + chunked(LARGE),
    "refused, body unread": request("/refuse", "PUT", b"x" * 500_000),
    "refused, long body unread": request("/refuse", "PUT", LARGE),
    "peeked": request("/peek", "PUT", b"x" * 500_000),
    "stream": request("/stream?1000000,1000000"),
    "empty stream": request("/stream?0,1"),
    "head of a stream": request("/stream?1000000,1000000", "HEAD"),
    "unsafe header": request("/unsafe"),
    "no content": request("/status?204"),
    "not modified": request("/status?304"),
    "two hosts": b"GET /echo HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    "length and coding": request("/take", "PUT", b"0\r\n\r\n", Transfer_Encoding="chunked"),
}


@pytest.fixture(scope="module")
def both() -> Iterator[tuple[TestServer, TestServer]]:
    with TestServer(is_lane_open=True) as lane, TestServer(is_lane_open=False) as asgi:
        yield lane, asgi


def answered(raw: bytes, server: TestServer) -> tuple[Reply, bool]:
    """The answer, and whether a second request is served on the same connection."""
    with Wire(server) as connection:
        connection.send(raw)
        reply = connection.reply(is_head=raw.startswith(b"HEAD"))
        connection.send(request("/echo/second"))
        try:
            return reply, b"/echo/second" in connection.reply().body
        except EOFError:
            return reply, False


@pytest.mark.parametrize("name", CORPUS)
def test_lane_and_application_answer_alike(both: tuple[TestServer, TestServer], name: str) -> None:
    (lane, lane_kept), (asgi, asgi_kept) = (answered(CORPUS[name], server) for server in both)
    assert lane.fixed == asgi.fixed
    assert lane_kept == asgi_kept == (CLOSE not in lane.head)


def test_content_arrives_whole(wire: Wire) -> None:
    for target, body in (("/take", b"a"), ("/take", LARGE[:1_000_000]), ("/fill", LARGE), ("/fill", b"abc")):
        wire.send(request(target, "PUT", body))
        reply = wire.reply()
        assert reply.value(b"x-sha") == hashlib.sha256(body).hexdigest().encode()
    wire.send(request("/stream?3000000,3000000"))
    assert wire.reply().body == (bytes(range(256)) * 11_719)[:3_000_000]


def test_slow_pieces_are_one_request(wire: Wire) -> None:
    raw = (
        request("/take", "PUT", b"hello")
        + request("/take", "PUT", Transfer_Encoding="chunked")
        + chunked(b"wor", b"ld")
    )
    for at in range(len(raw)):
        wire.send(raw[at : at + 1])
    for word in (b"hello", b"world"):
        assert wire.reply().value(b"x-sha") == hashlib.sha256(word).hexdigest().encode()


# ------------------------------------------------------------------------------------------ order


@pytest.mark.parametrize("close_early", [False, True])
def test_pipelined_requests_stay_in_order(wire: Wire, close_early: bool) -> None:
    """Slow and fast, lane and application, with and without bodies: answers come in the order of the requests."""
    targets = [
        "/wait?1",
        "/echo?2",
        "/asgi/wait?3",
        "/echo?4",
        "/take?5",
        "/asgi/take?6",
        "/fill?7",
        "/asgi/echo?8",
    ] * 3
    puts = ("take", "fill")
    parts = [
        request(target, "PUT", LARGE[:200_000]) if any(put in target for put in puts) else request(target)
        for target in targets
    ]
    wire.send(*parts)
    if close_early:
        wire.socket.shutdown(socket.SHUT_WR)
    for target in targets:
        reply = wire.reply()
        assert reply.status == 200
        if "wait" in target:
            assert reply.body == b"waited " + target[-1:].encode()
        elif "echo" in target:
            assert b"b'%b'" % target[-1:].encode() in reply.body
        else:
            assert reply.value(b"x-got") == b"200000"
    assert not close_early or wire.is_closed()


def test_many_pipelined_requests_do_not_recurse(wire: Wire) -> None:
    wire.send(request("/status?200") * 3_000)
    for _ in range(3_000):
        assert wire.reply().status == 200


# ------------------------------------------------------------------------------------------ refusals


@pytest.mark.parametrize(
    ("statuses", "raw"),
    [
        ({400}, b"GET / HTTP/1.1\r\n\r\n"),
        ({400}, b"GET / HTTP/1.1\r\nHost: h/admin?\r\n\r\n"),
        ({400}, b"GET http://h/ HTTP/1.1\r\nHost: h\r\n\r\n"),
        ({400}, b"GET / HTTP/1.1\r\nHost : h\r\n\r\n"),
        ({400}, b"GET / HTTP/1.1\r\nHost: h\r\nX: 1\r\n folded\r\n\r\n"),
        ({400}, b"GET / HTTP/1.1\nHost: h\n\n"),
        ({400}, b"PUT /take HTTP/1.1\r\nHost: h\r\nContent-Length: +4\r\n\r\nabcd"),
        ({400}, b"PUT /take HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\nContent-Length: 4\r\n\r\nabcd"),
        ({400}, b"PUT /take HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"),
        ({501}, b"PUT /take HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
        ({400}, request("/take", "PUT", Transfer_Encoding="chunked") + b"3\nabc\n0\n\n"),
        ({400}, request("/take", "PUT", Transfer_Encoding="chunked") + b"3\r\nabcd\r\n0\r\n\r\n"),
        ({400}, request("/fill", "PUT", Transfer_Encoding="chunked") + b"+3\r\nabc\r\n0\r\n\r\n"),
        ({431}, b"GET / HTTP/1.1\r\nHost: h\r\nX: " + b"a" * 1_000_000 + b"\r\n\r\n"),
        ({431}, b"GET / HTTP/1.1\r\nHost: h\r\n" + b"a: b\r\n" * 20_000 + b"\r\n"),
        ({414}, b"GET /" + b"a" * 1_000_000 + b" HTTP/1.1\r\nHost: h\r\n\r\n"),
        ({501}, b"BREW / HTTP/1.1\r\nHost: h\r\n\r\n"),
        ({505}, b"GET / HTTP/3.0\r\nHost: h\r\n\r\n"),
        ({400}, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\r\n\r\n"),
    ],
)
def test_smuggling_and_bombs(server: TestServer, wire: Wire, statuses: set[int], raw: bytes) -> None:
    """400-class answer, closed, and the request hidden behind is never served (S69, S70, S71)."""
    wire.send(raw, request("/echo/smuggled"))
    reply = wire.reply()
    assert reply.status in statuses
    assert CLOSE in reply.head
    assert wire.is_closed()
    assert "/echo/smuggled" not in server.plane.served


def test_a_refusal_is_not_eaten_by_a_reset(wire: Wire) -> None:
    """What the client still sends is read and thrown away: closing over unread bytes would reset the connection."""
    wire.send(b"PUT /take HTTP/1.1\r\nHost: a\r\nHost: b\r\nContent-Length: 500000\r\n\r\n")
    for _ in range(20):
        wire.socket.sendall(b"x" * 25_000)  # raises after a reset
    assert wire.reply().status == 400
    assert wire.socket.recv(1) == b""


def test_plane_that_raises_and_unsafe_headers_are_500(server: TestServer, wire: Wire) -> None:
    wire.send(request("/unsafe"))
    reply = wire.reply()
    assert reply.status == 500
    assert b"set-cookie" not in reply.head
    assert wire.is_closed()
    with Wire(server) as other:
        other.send(request("/broken"))
        assert other.reply().status == 500


# ----------------------------------------------------------------------------------------- Expect, unread bodies


@pytest.mark.parametrize("size", [0, 1, 3_000_001])
@pytest.mark.parametrize("target", ["/take", "/fill"])
def test_continue_comes_when_the_body_is_asked_for(wire: Wire, size: int, target: str) -> None:
    body = LARGE[: size if target == "/fill" else min(size, 1 << 20)]
    for _ in range(2):
        wire.send(request(target, "PUT", Expect="100-continue", Content_Length=str(len(body))))
        assert wire.read_until(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        wire.send(body)
        reply = wire.reply()
        assert reply.interim == b""
        assert reply.value(b"x-sha") == hashlib.sha256(body).hexdigest().encode()


def test_refusal_comes_instead_of_continue_and_the_connection_stays(wire: Wire) -> None:
    for _ in range(2):
        wire.send(request("/refuse", "PUT", Expect="100-continue", Content_Length="5000000"))
        reply = wire.reply()
        assert (reply.status, reply.interim) == (403, b"")
        assert CLOSE not in reply.head
        wire.send(request("/echo/next"))
        assert b"/echo/next" in wire.reply().body


def test_unread_body_is_never_the_next_request(server: TestServer, wire: Wire) -> None:
    hidden = request("/echo/hidden")
    wire.send(request("/refuse", "PUT", hidden * 2_000), request("/echo/next"))
    assert wire.reply().status == 403
    assert b"/echo/next" in wire.reply().body
    wire.send(request("/refuse", "PUT", hidden * 40_000), request("/echo/never"))
    reply = wire.reply()
    assert reply.status == 403
    assert CLOSE in reply.head
    assert wire.is_closed()
    assert not {"/echo/hidden", "/echo/never"} & set(server.plane.served)


def test_half_a_chunked_body_is_answered(server: TestServer) -> None:
    for raw in (
        request("/take", "PUT", Transfer_Encoding="chunked") + b"5\r\nhel",
        request("/fill", "PUT", Content_Length="900000") + b"x",
    ):
        with Wire(server) as connection:
            connection.send(raw)
            connection.socket.shutdown(socket.SHUT_WR)
            reply = connection.reply()
            assert (reply.status, reply.value(b"x-why")) == (400, b"IncompleteBody")
            assert connection.is_closed()
