import re
from operator import itemgetter

import pytest

from gateway.s3.chunked import ChunkDecoder
from gateway.s3.errors import S3Code, S3Error
from tests.unit.s3.receiving import (
    MODES,
    SIGNED,
    SIGNED_TRAILER,
    UNSIGNED_TRAILER,
    Change,
    chunked_put,
    crc32_text,
    outcome_of,
)

CHUNKS = [b"first chunk", b"second", b"third"]
CONTENT = b"".join(CHUNKS)


def replaced(old: bytes, new: bytes, count: int = 1) -> Change:
    def change(body: bytes) -> bytes:
        assert old in body
        return body.replace(old, new, count)

    return change


def wrong_signature(number: int) -> Change:
    """The signature of one chunk (from 0) spoilt in its last digit."""

    def change(body: bytes) -> bytes:
        at = -1
        for _ in range(number + 1):
            at = body.index(b"chunk-signature=", at + 1)
        last = at + len(b"chunk-signature=") + 63
        return body[:last] + (b"0" if body[last : last + 1] != b"0" else b"1") + body[last + 1 :]

    return change


@pytest.mark.parametrize("mode", [SIGNED, SIGNED_TRAILER])
@pytest.mark.parametrize("number", [0, 1, 2, 3])
def test_each_chunk_signature_counts(mode: str, number: int) -> None:
    """The empty last chunk (number 3) too: a body is as long as its signature chain says."""
    assert outcome_of(chunked_put(mode, CHUNKS)) == CONTENT
    assert outcome_of(chunked_put(mode, CHUNKS, change=wrong_signature(number))) is S3Code.SignatureDoesNotMatch


def test_trailer_signature_counts() -> None:
    call = chunked_put(SIGNED_TRAILER, CHUNKS, change=lambda body: body[:-5] + bytes([body[-5] ^ 1]) + body[-4:])
    assert outcome_of(call) is S3Code.SignatureDoesNotMatch
    body = replaced(b"x-amz-trailer-signature", b"x-amz-trailer-signatur2")
    assert outcome_of(chunked_put(SIGNED_TRAILER, CHUNKS, change=body)) is S3Code.MalformedTrailerError

    def unsigned(body: bytes) -> bytes:
        return body[: body.index(b"x-amz-trailer-signature")] + b"\r\n"

    assert outcome_of(chunked_put(SIGNED_TRAILER, CHUNKS, change=unsigned)) is S3Code.MalformedTrailerError


def test_unsigned_chunks_where_signed_ones_are_announced() -> None:
    """The word of the signature decides what the body must be."""

    def change(body: bytes) -> bytes:
        return re.sub(rb";chunk-signature=[0-9a-f]{64}", b"", body)

    assert outcome_of(chunked_put(SIGNED, CHUNKS, change=change)) is S3Code.InvalidRequest
    signed = replaced(b"b\r\n", b"b;chunk-signature=" + b"0" * 64 + b"\r\n")
    assert outcome_of(chunked_put(UNSIGNED_TRAILER, CHUNKS, change=signed)) is S3Code.InvalidRequest


@pytest.mark.parametrize("mode", MODES)
def test_every_truncation_is_incomplete(mode: str) -> None:
    whole = len(chunked_put(mode, CHUNKS).body._left)  # type: ignore[attr-defined] # the held bytes
    for size in range(whole):
        call = chunked_put(mode, CHUNKS, change=itemgetter(slice(size)))
        assert outcome_of(call) is S3Code.IncompleteBody, size


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("size", [0, 1, 8191, 65536, 65537, 300_000])
def test_chunk_sizes(mode: str, size: int) -> None:
    content = bytes(range(256)) * (size // 256 + 1)
    assert outcome_of(chunked_put(mode, [content[:size]] if size else []), [100_000]) == content[:size]


# fmt: off
FRAMING: list[tuple[str, Change, S3Code]] = [
    ("size in words", replaced(b"b\r\nfirst", b"eleven\r\nfirst"), S3Code.InvalidRequest),
    ("signed size", replaced(b"b\r\nfirst", b"+b\r\nfirst"), S3Code.InvalidRequest),
    ("prefixed size", replaced(b"b\r\nfirst", b"0xb\r\nfirst"), S3Code.InvalidRequest),
    ("spaced size", replaced(b"b\r\nfirst", b" b\r\nfirst"), S3Code.InvalidRequest),
    ("extension", replaced(b"b\r\nfirst", b"b;x=y\r\nfirst"), S3Code.InvalidRequest),
    ("bare line feed", replaced(b"b\r\nfirst", b"b\nfirst"), S3Code.InvalidRequest),
    ("bare line feed after data", replaced(b"chunk\r\n", b"chunk\n"), S3Code.InvalidRequest),
    ("no end after data", replaced(b"chunk\r\n", b"chunk"), S3Code.InvalidRequest),
    ("endless size line", replaced(b"b\r\nfirst", b"0" * 5000 + b"b\r\nfirst"), S3Code.InvalidRequest),
    ("huge size", replaced(b"b\r\nfirst", b"f" * 16 + b"\r\nfirst"), S3Code.IncompleteBody),
    ("too long", replaced(b"0\r\nx-amz", b"1\r\nx\r\n0\r\nx-amz"), S3Code.IncompleteBody),
    ("too short", replaced(b"5\r\nthird\r\n", b""), S3Code.IncompleteBody),
    ("early end", replaced(b"6\r\nsecond\r\n", b"0\r\n\r\n"), S3Code.IncompleteBody),
    ("something follows", lambda body: body + b"x", S3Code.InvalidRequest),
    ("a body follows", lambda body: body + b"5\r\nthird\r\n0\r\n\r\n", S3Code.InvalidRequest),
    ("no trailer", lambda body: body[: body.index(b"x-amz-")] + b"\r\n", S3Code.MalformedTrailerError),
    ("undeclared trailer", replaced(b"crc32:", b"sha1:"), S3Code.MalformedTrailerError),
    ("one trailer more", replaced(b"==\r\n", b"==\r\nx-amz-meta-a:b\r\n"), S3Code.MalformedTrailerError),
    ("trailer twice", lambda body: body[:-2] + body[body.index(b"x-amz-") :], S3Code.MalformedTrailerError),
    ("empty trailer", lambda body: body[: body.index(b"crc32:") + 6] + b"\r\n\r\n", S3Code.MalformedTrailerError),
    ("trailer without colon", replaced(b"crc32:", b"crc32="), S3Code.MalformedTrailerError),
    ("folded trailer", replaced(b"==\r\n", b"==\r\n x\r\n"), S3Code.MalformedTrailerError),
    ("endless trailer", replaced(b"crc32:", b"crc32:" + b"A" * 5000), S3Code.MalformedTrailerError),
    ("trailer of nothing", replaced(b"crc32:", b"crc32:AAAAAA==\r\nx:"), S3Code.MalformedTrailerError),
    ("bad base64", replaced(b"==\r\n", b"\r\n"), S3Code.BadDigest),
]
# fmt: on


@pytest.mark.parametrize(("change", "code"), [case[1:] for case in FRAMING], ids=[case[0] for case in FRAMING])
def test_framing(change: Change, code: S3Code) -> None:
    assert outcome_of(chunked_put(UNSIGNED_TRAILER, CHUNKS)) == CONTENT
    assert outcome_of(chunked_put(UNSIGNED_TRAILER, CHUNKS, change=change)) is code


def test_wrong_checksum_in_the_trailer() -> None:
    trailer = {"x-amz-checksum-crc32": crc32_text(b"other")}
    for mode in (SIGNED_TRAILER, UNSIGNED_TRAILER):
        assert outcome_of(chunked_put(mode, CHUNKS, trailer=trailer)) is S3Code.BadDigest


def test_content_that_looks_like_framing() -> None:
    content = b"0\r\n\r\n5\r\nthird\r\nx-amz-checksum-crc32:AAAAAA==\r\n\r\n"
    assert outcome_of(chunked_put(UNSIGNED_TRAILER, [content, content]), [7]) == content * 2


def test_decoder_works_on_any_spans() -> None:
    """Byte by byte in, byte by byte out; then all at once into a target that is too small."""
    encoded = b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
    decoder, target, produced = ChunkDecoder(5), bytearray(5), 0
    for at in range(len(encoded)):
        consumed, count = decoder.decode(memoryview(encoded)[at : at + 1], memoryview(target)[produced:])
        assert consumed == 1
        produced += count
    assert (bytes(target), decoder.is_finished) == (b"abcde", True)
    decoder = ChunkDecoder(5)
    assert decoder.decode(memoryview(encoded), memoryview(target)[:2]) == (5, 2)
    assert not decoder.is_finished
    assert decoder.decode(memoryview(encoded)[5:], memoryview(target)) == (len(encoded) - 5, 3)
    assert decoder.decode(memoryview(b"more"), memoryview(target)) == (0, 0)


def test_nothing_is_copied_beyond_the_announced_length() -> None:
    target = bytearray(4)
    with pytest.raises(S3Error):
        ChunkDecoder(3).decode(memoryview(b"4\r\nabcd\r\n"), memoryview(target))
    assert target == bytes(4)
