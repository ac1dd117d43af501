"""aws-chunked bodies: whatever their chunks and however they arrive, the content is exact; changed in one place, it is
refused or still the same content."""

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.s3.errors import S3Code
from tests.unit.s3.receiving import MODES, chunked_put, outcome_of

_CHUNK = st.one_of(
    st.binary(min_size=1, max_size=40),
    st.sampled_from([b"\r\n", b"0\r\n\r\n", b"5;chunk-signature=", b"x-amz-checksum-crc32:AAAAAA==\r\n", b"a" * 9000]),
)
_BODIES = st.lists(_CHUNK, max_size=5)
_VIEWS = st.lists(st.integers(1, 5000), min_size=1, max_size=4)


@given(st.sampled_from(MODES), _BODIES, _VIEWS, st.sampled_from([b"\r\n", b"\n\r\n"]))
@settings(max_examples=300, deadline=None)
def test_content_is_exact(mode: str, chunks: list[bytes], view_sizes: list[int], line_end: bytes) -> None:
    call = chunked_put(mode, chunks, line_end=line_end)
    assert outcome_of(call, view_sizes) == b"".join(chunks)


@st.composite
def changes(draw: st.DrawFn, size: int) -> tuple[int, int, bytes]:
    """A slice of an encoded body and what stands in its place."""
    start = draw(st.integers(0, size))
    stop = min(size, start + draw(st.sampled_from([0, 1, 1, 1, 2, 90, size])))
    return (
        start,
        stop,
        draw(st.one_of(st.binary(max_size=3), st.sampled_from([b"0\r\n", b"\r\n", b"\r\n\r\n", b"1\r\nx\r\n"]))),
    )


@given(st.sampled_from(MODES), _BODIES, _VIEWS, st.data())
@settings(max_examples=500, deadline=None)
def test_one_change_is_refused_or_harmless(
    mode: str, chunks: list[bytes], view_sizes: list[int], data: st.DataObject
) -> None:
    def spoil(encoded: bytes) -> bytes:
        start, stop, instead = data.draw(changes(len(encoded)))
        return encoded[:start] + instead + encoded[stop:]

    outcome = outcome_of(chunked_put(mode, chunks, change=spoil), view_sizes)
    assert outcome == b"".join(chunks) or (isinstance(outcome, S3Code) and outcome.status in {400, 403})


def _differ(chunks: list[bytes]) -> bool:
    return b"".join(chunks) != b"".join(reversed(chunks))


@given(st.sampled_from(MODES), st.lists(_CHUNK, min_size=2, max_size=5, unique=True).filter(_differ), st.data())
@settings(max_examples=150, deadline=None)
def test_exchanged_chunks_are_refused(mode: str, chunks: list[bytes], data: st.DataObject) -> None:
    """The data of one order under the lengths, signatures and trailer of another."""
    other = data.draw(st.permutations(chunks).filter(lambda order: b"".join(order) != b"".join(chunks)))
    spoiled = chunked_put(mode, chunks, change=lambda body: _with_content(body, chunks, b"".join(other)))
    assert isinstance(outcome_of(spoiled), S3Code)


def _with_content(encoded: bytes, chunks: list[bytes], content: bytes) -> bytes:
    """`encoded` with its data replaced by `content` of the same length, its framing untouched."""
    out, at = [], 0
    for chunk in chunks:
        start = encoded.index(b"\r\n", at) + 2
        out += [encoded[at:start], content[: len(chunk)]]
        at, content = start + len(chunk), content[len(chunk) :]
        out.append(encoded[at : at + 2])
        at += 2
    return b"".join([*out, encoded[at:]])
