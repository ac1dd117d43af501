import asyncio
import base64
import hashlib
import threading

import pytest

from gateway.auth.authenticator import Authenticated, Mechanism
from gateway.auth.payload import UNSIGNED, parse_payload
from gateway.http.call import BodyCut, Call
from gateway.s3 import body as bodies
from gateway.s3.body import ChunkedBody, open_body, read_document, stored_content_encoding
from gateway.s3.chunked import ChunkDecoder
from gateway.s3.errors import S3Code, S3Error
from tests.unit.auth.signing import ALICE, make_authenticator, signed, with_header
from tests.unit.s3.calls import HeldBody, make_call
from tests.unit.s3.receiving import (
    SIGNED,
    UNSIGNED_TRAILER,
    chunked_put,
    crc32_text,
    outcome_of,
    take,
)

CONTENT = b"the content"


def as_alice(word: str = "UNSIGNED-PAYLOAD") -> Authenticated:
    return Authenticated(ALICE, Mechanism.HEADER_V4, parse_payload(word.encode()))


def md5_text(content: bytes) -> str:
    return base64.b64encode(hashlib.md5(content).digest()).decode()


def put(headers: dict[str, str] | None = None, content: bytes = CONTENT, mechanism: str = "header") -> Call:
    return signed("PUT", "/bucket/key", headers, content, mechanism=mechanism)


def test_plain_body() -> None:
    content, body = asyncio.run(take(put()))
    assert content == CONTENT
    assert (body.length, body.algorithm) == (len(CONTENT), "CRC64NVME")
    assert body.digests == {"CRC64NVME", "SHA256"}
    assert body.checksum is not None
    assert body.checksum[:2] == ("CRC64NVME", "FULL_OBJECT")


def test_declared_checksum_is_the_one_stored() -> None:
    headers = {"x-amz-checksum-crc32": crc32_text(CONTENT), "content-md5": md5_text(CONTENT)}
    _, body = asyncio.run(take(put(headers)))
    assert body.digests == {"CRC32", "MD5", "SHA256"}
    assert body.checksum == ("CRC32", "FULL_OBJECT", crc32_text(CONTENT))
    _, body = asyncio.run(take(chunked_put(UNSIGNED_TRAILER, [CONTENT])))
    assert body.checksum == ("CRC32", "FULL_OBJECT", crc32_text(CONTENT))


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"x-amz-checksum-crc32": crc32_text(b"other")}, S3Code.BadDigest),
        ({"content-md5": md5_text(b"other")}, S3Code.BadDigest),
        ({"content-md5": ""}, S3Code.InvalidDigest),
        ({"x-amz-checksum-xxhash3": "AA=="}, S3Code.BadDigest),
        ({"x-amz-decoded-content-length": "3"}, S3Code.InvalidRequest),
        ({"x-amz-trailer": "x-amz-checksum-crc32"}, S3Code.InvalidRequest),
    ],
)
def test_what_is_declared_must_hold(headers: dict[str, str], code: S3Code) -> None:
    assert outcome_of(put(headers)) is code


def test_payload_hash() -> None:
    call = put()
    call.body = HeldBody(CONTENT[:-1] + b"T")
    assert outcome_of(call) is S3Code.XAmzContentSHA256Mismatch


def test_short_body() -> None:
    call = put()
    call.body = HeldBody(CONTENT[:-1])
    assert outcome_of(call) is S3Code.IncompleteBody


class CutBody:
    """A body whose client goes away."""

    async def fill(self, view: memoryview) -> int:
        raise BodyCut

    async def read_all(self, limit: int) -> bytes:
        raise BodyCut


@pytest.mark.parametrize("call", [put(), chunked_put(SIGNED, [CONTENT])], ids=["plain", "chunked"])
def test_cut_body(call: Call) -> None:
    call.body = CutBody()
    assert outcome_of(call) is S3Code.IncompleteBody

    async def read_all() -> None:
        await open_body(call, await make_authenticator().authenticate(call)).read_all(100)

    with pytest.raises(S3Error) as raised:
        asyncio.run(read_all())
    assert raised.value.code is S3Code.IncompleteBody


def test_length_is_required() -> None:
    call = put()
    call.content_length = None
    assert outcome_of(call) is S3Code.MissingContentLength
    call.is_chunked = True
    assert outcome_of(call) == CONTENT


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (None, S3Code.MissingContentLength),
        ("-1", S3Code.InvalidArgument),
        ("", S3Code.InvalidArgument),
        ("1e1", S3Code.InvalidArgument),
        ("٣", S3Code.InvalidArgument),
        (str(2**63), S3Code.InvalidArgument),
        (str(6 << 30), S3Code.EntityTooLarge),
        ("0", S3Code.IncompleteBody),
        ("10", S3Code.IncompleteBody),
        ("12", S3Code.IncompleteBody),
        ("300", S3Code.IncompleteBody),
    ],
)
def test_decoded_length(text: str | None, code: S3Code) -> None:
    call = chunked_put(SIGNED, [CONTENT])
    with_header(call, b"x-amz-decoded-content-length", (text or "").encode())
    if text is None:
        del call.fields[b"x-amz-decoded-content-length"]
    with pytest.raises(S3Error) as raised:
        asyncio.run(_read(call))
    assert raised.value.code is code


async def _read(call: Call) -> None:
    """As `take`, but with the request taken for authenticated: its headers were changed on purpose."""
    original = chunked_put(SIGNED, [CONTENT])
    body = open_body(call, await make_authenticator().authenticate(original))
    await body.read_all(1 << 20)
    body.verify(dict.fromkeys(body.digests, b""))


def test_too_large() -> None:
    call = put()
    call.content_length = (5 << 30) + 1
    with pytest.raises(S3Error) as raised:
        open_body(call, as_alice())
    assert raised.value.code is S3Code.EntityTooLarge
    assert raised.value.elements == {"ProposedSize": str((5 << 30) + 1), "MaxSizeAllowed": str(5 << 30)}


def test_chunked_body_read_at_once() -> None:
    async def read(chunks: list[bytes], limit: int) -> bytes:
        call = chunked_put(SIGNED, chunks)
        body = open_body(call, await make_authenticator().authenticate(call))
        content = await body.read_all(limit)
        assert isinstance(body, ChunkedBody)
        return content

    assert asyncio.run(read([CONTENT, CONTENT], 100)) == CONTENT * 2
    assert asyncio.run(read([], 100)) == b""
    with pytest.raises(S3Error) as raised:
        asyncio.run(read([CONTENT, CONTENT], 21))
    assert raised.value.code is S3Code.EntityTooLarge


def test_unread_chunked_body_never_verifies() -> None:
    """Without a read, an empty body's last chunk has not been seen: nothing says that nothing was to come."""
    call = chunked_put(SIGNED, [])

    async def verify() -> None:
        open_body(call, await make_authenticator().authenticate(call)).verify({"CRC64NVME": bytes(8)})

    with pytest.raises(S3Error) as raised:
        asyncio.run(verify())
    assert raised.value.code is S3Code.IncompleteBody


def test_large_signed_spans_are_hashed_off_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: set[str] = set()
    decode = ChunkDecoder.decode

    def watched(self: ChunkDecoder, source: memoryview, target: memoryview) -> tuple[int, int]:
        if len(source) > bodies.INLINE_HASH_BYTES_MAX:
            threads.add(threading.current_thread().name)
        return decode(self, source, target)

    monkeypatch.setattr(ChunkDecoder, "decode", watched)
    content = bytes(1 << 20)
    assert outcome_of(chunked_put(SIGNED, [content[:200_000], content[200_000:]]), [1 << 20]) == content
    assert threads
    assert threading.main_thread().name not in threads


def test_a_cancelled_reader_waits_for_its_thread() -> None:
    """The thread writes into the reader's memory: giving up before it ends would give that memory away too early."""
    started, may_end, ended = threading.Event(), threading.Event(), []

    def work() -> None:
        started.set()
        may_end.wait(5)
        ended.append(True)

    async def cancel() -> None:
        task = asyncio.ensure_future(bodies._in_thread(work))
        await asyncio.to_thread(started.wait, 5)
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.sleep(0)
        assert not task.done()
        may_end.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert ended

    asyncio.run(cancel())


def test_presigned_checksum_of_nothing() -> None:
    """The default is strict; lenient forgives only the checksum of nothing, and only for a body of something."""
    target = "/bucket/key?x-amz-checksum-crc32=AAAAAA%3D%3D&x-amz-sdk-checksum-algorithm=CRC32"

    def presigned(content: bytes) -> Call:
        call = signed("PUT", target, mechanism="query")
        call.body, call.content_length = HeldBody(content), len(content)
        return call

    assert outcome_of(presigned(CONTENT)) is S3Code.BadDigest
    assert outcome_of(presigned(CONTENT), is_lenient=True) == CONTENT
    assert outcome_of(presigned(b"")) == b""
    call = signed("PUT", target.replace("AAAAAA", "AAAAAQ"), mechanism="query")
    call.body, call.content_length = HeldBody(CONTENT), len(CONTENT)
    assert outcome_of(call, is_lenient=True) is S3Code.BadDigest


def document(headers: dict[str, str] | None = None, content: bytes | None = b"<a/>") -> Call:
    return make_call("PUT", "/bucket?tagging", headers, content)


def read(call: Call, word: str = "UNSIGNED-PAYLOAD", *, limit: int = 1 << 20, needs_checksum: bool = False) -> bytes:
    return asyncio.run(read_document(call, as_alice(word), limit, needs_checksum=needs_checksum))


def test_documents() -> None:
    assert read(document()) == b"<a/>"
    assert read(document(content=None)) == b""
    assert read(document({"content-md5": md5_text(b"<a/>")}), needs_checksum=True) == b"<a/>"
    assert read(document({"x-amz-checksum-crc32": crc32_text(b"<a/>")}), needs_checksum=True) == b"<a/>"
    assert read(document(), hashlib.sha256(b"<a/>").hexdigest()) == b"<a/>"
    large = b"x" * 200_000
    assert read(document({"content-md5": md5_text(large)}, large)) == large


@pytest.mark.parametrize(
    ("headers", "word", "code"),
    [
        ({}, "UNSIGNED-PAYLOAD", S3Code.InvalidRequest),
        ({"content-md5": md5_text(b"x")}, "UNSIGNED-PAYLOAD", S3Code.BadDigest),
        ({"content-md5": "x"}, "UNSIGNED-PAYLOAD", S3Code.InvalidDigest),
        ({"x-amz-checksum-crc32": crc32_text(b"x")}, "UNSIGNED-PAYLOAD", S3Code.BadDigest),
        ({"content-md5": md5_text(b"<a/>")}, "a" * 64, S3Code.XAmzContentSHA256Mismatch),
    ],
)
def test_document_refusals(headers: dict[str, str], word: str, code: S3Code) -> None:
    with pytest.raises(S3Error) as raised:
        read(document(headers), word, needs_checksum=True)
    assert raised.value.code is code


def test_document_that_is_too_long() -> None:
    with pytest.raises(S3Error) as raised:
        read(document(), limit=3)
    assert raised.value.code is S3Code.MalformedXML


def test_checksums_of_complete_speak_of_the_object() -> None:
    call = document({"x-amz-checksum-crc32": crc32_text(b"the object")})
    call.operation = "CompleteMultipartUpload"
    assert read(call) == b"<a/>"


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        (b"aws-chunked", b""),
        (b"gzip, aws-chunked", b"gzip"),
        (b"aws-chunked,gzip", b"gzip"),
        (b"aws-chunked, AWS-Chunked", b""),
        (b"deflate, gzip", b"deflate, gzip"),
        (b"deflate,gzip , aws-chunked", b"deflate,gzip"),
        (b"", b""),
        (b"aws-chunked-ish", b"aws-chunked-ish"),
    ],
)
def test_content_encoding(given: bytes, stored: bytes) -> None:
    assert stored_content_encoding(given) == stored


def test_unsigned_is_one_value() -> None:
    assert parse_payload(b"UNSIGNED-PAYLOAD") is UNSIGNED
