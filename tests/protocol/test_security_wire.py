"""The rows of the security table about heads, frames and slow clients; ids begin with the row's id."""

import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live import LiveStore, descendants
from tests.protocol.hostile import (
    CONTENT,
    State,
    ask,
    assert_untold,
    besieged,
    check,
)
from tests.protocol.raw import Request, Wire, build
from tests.protocol.serving import until

pytestmark = [pytest.mark.protocol, pytest.mark.xdist_group("security"), pytest.mark.timeout(120)]
B = b"new content"
SLOW = {"HEADER_SECONDS": "3", "BODY_SILENCE_SECONDS": "3", "IDLE_SECONDS": "5"}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveStore]:
    folder = tmp_path_factory.mktemp("wire")
    with besieged(folder, **{f"ISOTHERM_LIMITS__{name}": value for name, value in SLOW.items()}) as live:
        yield live


@pytest.fixture(scope="module")
def state(store: LiveStore) -> State:
    return State(store)


# -------------------------------------------------------------------------------------------------- heads and frames

H = b"host: a\r\n"
HEADS: list[tuple[str, bytes]] = [
    *[(f"S69-host {host!r}", b"GET /sec/key HTTP/1.1\r\nhost: " + host + b"\r\n\r\n") for host in
      (b"h/admin?", b"a b", b"a@b", b"a,b", b"", b"[::1", b"a:b", b"a:999999", b"a#b", b"\xe9", b"a\x00b", b"a\\b", b"http://a")],
    ("S69-two hosts", b"GET / HTTP/1.1\r\nhost: a\r\nHost: a\r\n\r\n"),
    ("S69-none", b"GET / HTTP/1.1\r\nx: a\r\n\r\n"),
    ("S69-none in 1.0", b"GET / HTTP/1.0\r\n\r\n"),
    *[(f"S69-target {target!r}", b"GET " + target + b" HTTP/1.1\r\n" + H + b"\r\n") for target in
      (b"http://a/", b"*", b"a:443", b"sec/key", b"", b"/a b", b"/a#b", b"/\xc3\xa9", b"/a\x00", b"/a\tb")],
    *[(f"S70-{lines!r}", b"PUT /sec/key HTTP/1.1\r\n" + H + lines + b"\r\n\r\n0\r\n\r\n") for lines in
      (b"content-length: 5\r\ntransfer-encoding: chunked", b"transfer-encoding: chunked\r\ncontent-length: 5", b"content-length: 5\r\ncontent-length: 5",
       b"content-length: 5, 5", b"content-length: +4", b"content-length: -1", b"content-length: 0x4", b"content-length: 4 4", b"content-length:",
       b"content-length: 9223372036854775808", b"content-length: 99999999999999999999999", b"transfer-encoding: xchunked",
       b"transfer-encoding: chunked, identity", b"transfer-encoding: identity, chunked", b"transfer-encoding: chunked, chunked",
       b"transfer-encoding: chunked\r\ntransfer-encoding: chunked", b"transfer-encoding: \x0bchunked", b"transfer-encoding : chunked",
       b"content-length : 5", b"x: a\r\n folded", b" x: a", b"x", b": a", b"x\x00: a", b"x: a\x00b", b"x: a\rb", b"x: a\nb")],
    ("S70-chunked in 1.0", b"PUT /sec/key HTTP/1.0\r\n" + H + b"transfer-encoding: chunked\r\n\r\n0\r\n\r\n"),
    ("S70-bare line feeds", b"GET /sec/key HTTP/1.1\nhost: a\n\n"),
    ("S70-version", b"GET / HTTP/1.2\r\n" + H + b"\r\n"),
    ("S70-HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    ("S71-header of 1 MB", b"GET / HTTP/1.1\r\n" + H + b"x: " + b"y" * 1_000_000 + b"\r\n\r\n"),
    ("S71-20000 headers", b"GET / HTTP/1.1\r\n" + H + b"".join(b"x%d: y\r\n" % n for n in range(20_000)) + b"\r\n"),
    ("S71-101 headers", b"GET / HTTP/1.1\r\n" + H + b"".join(b"x%d: y\r\n" % n for n in range(100)) + b"\r\n"),
    ("S71-URL of 1 MB", b"GET /" + b"y" * 1_000_000 + b" HTTP/1.1\r\n" + H + b"\r\n"),
    ("S71-no end", b"GET /" + b"y" * 100_000),
]  # fmt: skip


@pytest.mark.parametrize(("name", "raw"), HEADS, ids=[row[0] for row in HEADS])
def test_head(store: LiveStore, state: State, name: str, raw: bytes) -> None:
    following = build(Request(path="/sec/smuggled", body=B), f"127.0.0.1:{store.port}")
    wire = Wire(store)
    answer = wire.send(raw + following)
    assert answer.status in {400, 411, 414, 417, 431, 501, 505}, answer
    assert answer.headers["connection"] == "close"
    assert wire.receive().status == 0, "the second request was served"
    wire.close()
    state.hold()


FRAMES = [
    b"b\n" + B + b"\n0\n\n", b"b\r\n" + B + b"X\r\n0\r\n\r\n", b"+b\r\n" + B + b"\r\n0\r\n\r\n", b"0xb\r\n" + B + b"\r\n0\r\n\r\n",
    b" b\r\n" + B + b"\r\n0\r\n\r\n", b"b \r\n" + B + b"\r\n0\r\n\r\n", b"b;a\nb\r\n" + B + b"\r\n0\r\n\r\n", b"-1\r\n", b"f" * 20 + b"\r\n",
    b"\r\n", b"b\r\n" + B + b"\r\n0\r\nbad trailer\r\n\r\n", b"b;" + b"x" * 5000 + b"\r\n" + B + b"\r\n0\r\n\r\n", b"b\r\n" + B + b"0\r\n\r\n",
]  # fmt: skip


@pytest.mark.parametrize("frame", FRAMES, ids=[f"S70-frame-{number}" for number in range(len(FRAMES))])
def test_frame(store: LiveStore, state: State, frame: bytes) -> None:
    headers = {"transfer-encoding": "chunked"}
    request = Request(path="/sec/key", payload="UNSIGNED-PAYLOAD", headers=headers, wire_body=frame, with_length=False)
    wire = Wire(store)
    following = build(Request(path="/sec/smuggled", body=B), wire.host)
    answer = wire.send(build(request, wire.host) + following)
    check(answer, [(400, "IncompleteBody"), (0, "")])
    assert wire.receive().status == 0, "the second request was served"
    wire.close()
    state.hold()


def test_s71_a_head_that_drips(store: LiveStore) -> None:
    """Byte by byte, with its line breaks cut anywhere, a head means the same."""
    wire = Wire(store)
    wire.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    raw = build(Request("GET", "/sec/key", headers={"x-amz-meta-a": "v" * 500}), wire.host)
    for at in range(len(raw) - 1):
        wire.socket.send(raw[at : at + 1])
    answer = wire.send(raw[-1:])
    assert (answer.status, answer.body) == (200, CONTENT)
    wire.close()


def descriptors(store: LiveStore) -> int:
    return sum(len(list(Path(f"/proc/{pid}/fd").iterdir())) for pid in descendants(store.pid))


def test_s72_slow_and_vanishing_clients(store: LiveStore, state: State) -> None:
    store.client().put_object(Bucket="sec", Key="large", Body=bytes(4 << 20))
    for _ in range(20):
        assert ask(store, Request("GET", "/sec/large")).status == 200
    host = f"127.0.0.1:{store.port}"
    before = descriptors(store)
    body_of_100 = build(
        Request(path="/sec/key", payload="UNSIGNED-PAYLOAD", headers={"content-length": "100"}, wire_body=b"x"), host
    )
    large = build(
        Request(
            path="/sec/key", payload="UNSIGNED-PAYLOAD", headers={"content-length": "1000000"}, wire_body=b"x" * 500
        ),
        host,
    )
    beginnings = [
        b"",
        b"GET / HT",
        b"GET / HTTP/1.1\r\nhost: a\r\n",
        body_of_100,
        large,
        build(Request("GET", "/sec/key"), host),
    ]
    open_ones = []
    for beginning in beginnings * 15:
        connection = socket.create_connection(("127.0.0.1", store.port), timeout=25)
        connection.sendall(beginning)
        open_ones.append(connection)
    for _ in range(100):  # vanish in the middle of an answer
        cut = socket.create_connection(("127.0.0.1", store.port), timeout=25)
        cut.sendall(build(Request("GET", "/sec/large"), host))
        cut.recv(1000)
        cut.close()
    deadline = time.monotonic() + 20
    for connection in open_ones:
        connection.settimeout(max(0.1, deadline - time.monotonic()))
        while connection.recv(65536):
            pass
        connection.close()
    until(lambda: descriptors(store) <= before * 1.05 + 4, 20)
    assert ask(store, Request("DELETE", "/sec/large")).status == 204
    state.hold()


def test_s84_nothing_secret_was_told(store: LiveStore) -> None:
    assert_untold(store)
