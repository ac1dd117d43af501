"""Every head is formatted in one place and can never carry a line that nobody wrote (security.md S61)."""

import pytest

from gateway.http.call import Answer
from gateway.http.letterhead import HeaderUnsafe, Letterhead


def letterhead(now: list[float]) -> Letterhead:
    return Letterhead(lambda: now[0], lambda: "ID", "host")


def test_the_whole_head() -> None:
    now = [0.0]
    paper = letterhead(now)
    answer = Answer(200, [(b"etag", b'"e"')], b"12345", raw_headers=b"content-type: a/b\r\nx-amz-meta-a: \xc3\xa9\r\n")
    assert paper.head(answer, "R1", is_closing=False) == (
        b"HTTP/1.1 200 OK\r\ndate: Thu, 01 Jan 1970 00:00:00 GMT\r\nserver: Isotherm\r\nx-amz-request-id: R1\r\n"
        b'x-amz-id-2: host\r\ncontent-type: a/b\r\nx-amz-meta-a: \xc3\xa9\r\netag: "e"\r\ncontent-length: 5\r\n\r\n'
    )
    now[0] = 60.5
    assert b"00:01:00 GMT" in paper.head(answer, "R1", is_closing=False)
    assert paper.head(answer, "R1", is_closing=True).endswith(b"content-length: 5\r\nconnection: close\r\n\r\n")


@pytest.mark.parametrize(("status", "has_length"), [(200, True), (204, False), (304, False), (404, True)])
def test_length_line(status: int, has_length: bool) -> None:
    head = letterhead([0.0]).head(Answer(status, content_length=7), "R", is_closing=False)
    assert (b"content-length: 7\r\n" in head) is has_length


@pytest.mark.parametrize("poison", [b"a\r\nx: 1", b"a\nx: 1", b"a\rx: 1", b"a\0b", b"\r\n", b"a\r\n\r\nbody"])
def test_a_value_cannot_end_its_line(poison: bytes) -> None:
    paper = letterhead([0.0])
    for headers in ([(b"x", poison)], [(b"a", b"1"), (b"x", poison), (b"b", b"2")], [(poison, b"1")]):
        with pytest.raises(HeaderUnsafe):
            paper.head(Answer(200, headers), "R", is_closing=False)


@pytest.mark.parametrize(
    "raw", [b"a: 1", b"a: 1\n", b"\r\na: 1\r\n", b"a: 1\r\n\r\nb: 2\r\n", b"a: 1\rb\r\n", b"a: \0\r\n"]
)
def test_raw_lines_must_be_lines(raw: bytes) -> None:
    with pytest.raises(HeaderUnsafe):
        letterhead([0.0]).head(Answer(200, raw_headers=raw), "R", is_closing=False)
