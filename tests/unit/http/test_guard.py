"""The header guard against every way a head can lie (security.md S69 to S71)."""

import time

import httptools
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.http import guard
from gateway.http.guard import Head, Refusal
from gateway.http.limits import Limits

LIMITS = Limits()
HOST = b"host: a.example:9000\r\n"


def scanned(block: bytes) -> int:
    """Status of the raw scan; 0 when it passes."""
    verdict = guard.scan(block, LIMITS)
    return verdict.status if isinstance(verdict, Refusal) else 0


@pytest.mark.parametrize(
    ("status", "block"),
    [
        (0, b"GET / HTTP/1.1\r\n" + HOST + b"\r\n"),
        (0, b"GET /a//b/../%2F?x=%00&y HTTP/1.0\r\nX-Empty:\r\nA: \xc3\xa9\t\r\n\r\n"),
        (400, b"GET http://a/ HTTP/1.1\r\n" + HOST + b"\r\n"),
        (400, b"GET * HTTP/1.1\r\n" + HOST + b"\r\n"),
        (400, b"CONNECT a:443 HTTP/1.1\r\n" + HOST + b"\r\n"),
        (400, b"GET /a#b HTTP/1.1\r\n" + HOST + b"\r\n"),
        (400, b"GET /a b HTTP/1.1\r\n" + HOST + b"\r\n"),
        (400, b"GET  / HTTP/1.1\r\n" + HOST + b"\r\n"),
        (400, b"GET /\xc3\xa9 HTTP/1.1\r\n" + HOST + b"\r\n"),
        (400, b"GET /\x00 HTTP/1.1\r\n" + HOST + b"\r\n"),
        (400, b"get / HTTP/1.1\r\n" + HOST + b"\r\n"),
        (400, b"GET / HTTP/1.1\r\nhost : a\r\n\r\n"),
        (400, b"GET / HTTP/1.1\r\n host: a\r\n\r\n"),
        (400, b"GET / HTTP/1.1\r\nhost: a\r\nx: 1\r\n 2\r\n\r\n"),
        (400, b"GET / HTTP/1.1\r\nhost: a\nx: 1\r\n\r\n"),
        (400, b"GET / HTTP/1.1\r\nhost: a\rx: 1\r\n\r\n"),
        (400, b"GET / HTTP/1.1\r\nhost: a\x00\r\n\r\n"),
        (400, b"GET / HTTP/1.1\r\nhost: a\x7f\r\n\r\n"),
        (400, b"GET / HTTP/1.1\r\n: a\r\n\r\n"),
        (400, b"GET / HTTP/1.1\r\nno colon\r\n\r\n"),
        (400, b"GET / HTTP/1.1\r\na,b: 1\r\n\r\n"),
        (400, b"GET /\r\n\r\n"),
        (505, b"GET / HTTP/2.0\r\n" + HOST + b"\r\n"),
        (400, b"GET / HTTP/1.10\r\n" + HOST + b"\r\n"),
        (414, b"GET /" + b"a" * LIMITS.target_bytes + b" HTTP/1.1\r\n" + HOST + b"\r\n"),
        (0, b"GET /" + b"a" * (LIMITS.target_bytes - 1) + b" HTTP/1.1\r\n" + HOST + b"\r\n"),
        (431, b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 101 + b"\r\n"),
        (0, b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 100 + b"\r\n"),
        (431, b"GET / HTTP/1.1\r\na: " + b"b" * LIMITS.header_block_bytes + b"\r\n\r\n"),
        (431, b"GET / HTTP/1.1\r\nbad line " + b"b" * LIMITS.header_block_bytes + b"\r\n\r\n"),
    ],
)
def test_scan_of_a_whole_head(status: int, block: bytes) -> None:
    assert scanned(block) == status


def test_minor_version_is_told() -> None:
    assert guard.scan(b"GET / HTTP/1.0\r\n\r\n", LIMITS) == 0
    assert guard.scan(b"GET / HTTP/1.1\r\n\r\n", LIMITS) == 1


@pytest.mark.parametrize(
    ("status", "received"),
    [
        (0, b"GET /a HTT"),
        (0, b"GET /a HTTP/1.1\r\nhost: a\r\n\r"),
        (400, b"GET /a HTTP/1.1\nhost: a\n\n"),
        (400, b"GET /a HTTP/1.1\r\nhost: a\rb"),
        (414, b"G" * (LIMITS.target_bytes + 100)),
        (431, b"GET /a HTTP/1.1\r\nx: " + b"a" * LIMITS.header_block_bytes),
    ],
)
def test_scan_of_a_head_that_has_not_ended(status: int, received: bytes) -> None:
    verdict = guard.scan_partial(received, LIMITS)
    assert (verdict.status if verdict else 0) == status


def judged(*headers: tuple[bytes, bytes], version_minor: int = 1) -> int | Head:
    """Status of the refusal, or what the head says."""
    verdict = guard.judge(headers, version_minor=version_minor)
    return verdict.status if isinstance(verdict, Refusal) else verdict


NAMED = (b"host", b"h")


@pytest.mark.parametrize(
    ("status", "headers"),
    [
        (400, []),
        (400, [NAMED, NAMED]),
        *(
            (400, [(b"host", value)])
            for value in (b"", b"h/admin?", b"a b", b"a,b", b"u@h", b"h:", b"h:1:2", b"[::1", b"h:123456")
        ),
        *((400, [NAMED, (b"content-length", value)]) for value in (b"+4", b"-1", b"4 ", b"0x4", b"4,4", b"", b"1e3")),
        *((400, [NAMED, (b"content-length", value)]) for value in (b"\xd9\xa4", str(2**63).encode(), b"9" * 20)),
        (400, [NAMED, (b"content-length", b"4"), (b"content-length", b"4")]),
        (400, [NAMED, (b"content-length", b"4"), (b"transfer-encoding", b"chunked")]),
        (400, [NAMED, (b"transfer-encoding", b"chunked"), (b"transfer-encoding", b"chunked")]),
        *(
            (400, [NAMED, (b"transfer-encoding", value)])
            for value in (b"xchunked", b"chunked;q=1", b"", b"chunked, chunked")
        ),
        *((501, [NAMED, (b"transfer-encoding", value)]) for value in (b"gzip", b"gzip, chunked", b"identity")),
        *(
            (400, [NAMED, (name, b"1"), (name, b"1")])
            for name in (b"authorization", b"range", b"content-md5", b"x-amz-date")
        ),
        (400, [NAMED, (b"x-amz-content-sha256", b"1"), (b"x-amz-content-sha256", b"2")]),
    ],
)
def test_refused_lines(status: int, headers: list[tuple[bytes, bytes]]) -> None:
    assert judged(*headers) == status


def test_chunked_needs_http_1_1() -> None:
    assert judged(NAMED, (b"transfer-encoding", b"chunked"), version_minor=0) == 400


def test_what_a_good_head_says() -> None:
    plain = judged(NAMED, (b"content-length", b"0042"), (b"x-amz-meta-a", b"1"), (b"x-amz-meta-a", b"2"))
    assert isinstance(plain, Head)
    assert (plain.content_length, plain.is_chunked, plain.is_kept_alive, plain.awaits_continue) == (
        42,
        False,
        True,
        False,
    )
    assert plain.fields[b"x-amz-meta-a"] == b"1,2"
    other = judged(
        (b"host", b"[::1]:9000"),
        (b"transfer-encoding", b"Chunked"),
        (b"connection", b"x, Close"),
        (b"expect", b"100-Continue"),
    )
    assert isinstance(other, Head)
    assert (other.content_length, other.is_chunked, other.is_kept_alive, other.awaits_continue) == (
        None,
        True,
        False,
        True,
    )
    for value in (b"200-ok", b""):
        ignored = judged(NAMED, (b"expect", value))
        assert isinstance(ignored, Head)
        assert not ignored.awaits_continue
    old = judged(NAMED, (b"expect", b"100-continue"), version_minor=0)
    assert isinstance(old, Head)
    assert (old.is_kept_alive, old.awaits_continue) == (False, False)
    largest = judged(NAMED, (b"content-length", str(2**63 - 1).encode()))
    assert isinstance(largest, Head)
    assert largest.content_length == 2**63 - 1


class Heard:
    """What httptools says of a head."""

    def __init__(self) -> None:
        self.url = b""
        self.headers: list[tuple[bytes, bytes]] = []

    def on_url(self, url: bytes) -> None:
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name, value.strip(b" \t")))


TARGET = st.text(alphabet=[chr(code) for code in range(0x21, 0x7F) if chr(code) != "#"], max_size=30)
NAME = st.text(alphabet="abcXYZ09!-_.~", min_size=1, max_size=12)
VALUE = st.text(alphabet=[chr(code) for code in (*range(0x20, 0x7F), 9, *range(0x80, 0x100))], max_size=20)


@given(TARGET, st.lists(st.tuples(NAME, VALUE), max_size=6))
def test_the_parser_reads_what_the_scan_saw(target: str, lines: list[tuple[str, str]]) -> None:
    """A head that passes means the same split at its delimiters as parsed: no second reading of one request."""
    raw_target = b"/" + target.encode()
    pairs = [(name.encode(), value.encode("latin-1")) for name, value in lines if name.lower() not in ("connection",)]
    block = b"GET " + raw_target + b" HTTP/1.1\r\n" + b"".join(b"%b: %b\r\n" % pair for pair in pairs) + b"\r\n"
    assert guard.scan(block, LIMITS) == 1
    heard = Heard()
    httptools.HttpRequestParser(heard).feed_data(block)
    assert heard.url == raw_target
    assert heard.headers == [(name, value.strip(b" \t")) for name, value in pairs]
    parsed = httptools.parse_url(raw_target)
    path, _, query = raw_target.partition(b"?")
    assert (parsed.path, parsed.query or b"") == (path, query)


@given(st.binary(max_size=200))
def test_scans_never_raise(noise: bytes) -> None:
    guard.scan_partial(b"GET /" + noise, LIMITS)
    guard.scan(b"GET / HTTP/1.1\r\n" + noise + b"\r\n\r\n", LIMITS)


def test_scan_is_linear() -> None:
    """The worst head costs about what the same number of harmless bytes costs (no backtracking)."""
    began = time.perf_counter()
    for filler in (b"a", b":", b"\r", b" ", b"a:", b"a:\r\n", b"\t"):
        scanned(b"GET / HTTP/1.1\r\n" + filler * (16_000 // len(filler)) + b"\r\n\r\n")
    assert time.perf_counter() - began < 5  # quadratic work on 16 KB would take minutes


def test_lists_may_come_as_several_lines() -> None:
    for name in guard.LISTS:
        head = judged(NAMED, (name, b"ETag"), (name, b"ObjectSize"))
        assert isinstance(head, Head)
        assert head.fields[name] == b"ETag,ObjectSize"
    assert judged(NAMED, (b"x-amz-acl", b"private"), (b"x-amz-acl", b"private")) == 400


@pytest.mark.parametrize(
    "raw", [b"GET / HTTP/1.1\nx", b"GET /\rX", b"GET / HTTP/1.1\r\na: b\rc", b"GET / HTTP/1.1\r\na: b\n"]
)
def test_a_head_that_drips_is_judged_as_one_that_comes_at_once(raw: bytes) -> None:
    verdicts = [guard.scan_partial(raw[:size], LIMITS, size - 1) for size in range(1, len(raw) + 1)]
    at_once = [guard.scan_partial(raw[:size], LIMITS) for size in range(1, len(raw) + 1)]
    first = next(number for number, verdict in enumerate(at_once) if verdict is not None)
    assert verdicts[: first + 1] == at_once[: first + 1]
