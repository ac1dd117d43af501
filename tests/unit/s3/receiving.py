"""Bodies taken all the way: authenticated, opened, read, hashed, verified, as a PUT does it."""

import asyncio
import base64
import zlib
from collections.abc import Callable, Mapping, Sequence

from gateway.http.call import Call
from gateway.s3.body import S3Body, open_body
from gateway.s3.errors import S3Code, S3Error
from tests.unit.auth.plain import encode_chunks, seed_of, sign_header
from tests.unit.auth.signing import make_authenticator
from tests.unit.s3.calls import HeldBody
from tiers.datapath.digests import DigestSet

SIGNED = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"
SIGNED_TRAILER = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER"
UNSIGNED_TRAILER = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
MODES = (SIGNED, SIGNED_TRAILER, UNSIGNED_TRAILER)

Change = Callable[[bytes], bytes]


def crc32_text(content: bytes) -> str:
    return base64.b64encode(zlib.crc32(content).to_bytes(4, "big")).decode()


def chunked_put(
    mode: str,
    chunks: Sequence[bytes],
    *,
    headers: Mapping[str, str] | None = None,
    trailer: Mapping[str, str] | None = None,
    change: Change = bytes,
    line_end: bytes = b"\r\n",
) -> Call:
    """A PUT of `chunks`; its trailer is their CRC32 unless given. `change` spoils the encoded body."""
    content = b"".join(chunks)
    lines = {"x-amz-content-sha256": mode, "x-amz-decoded-content-length": str(len(content))}
    if mode == SIGNED:
        trailer = None
    else:
        lines["x-amz-trailer"] = "x-amz-checksum-crc32"
        trailer = {"x-amz-checksum-crc32": crc32_text(content)} if trailer is None else trailer
    call = sign_header("PUT", "/bucket/key", lines | dict(headers or {}))
    seed = "" if mode == UNSIGNED_TRAILER else seed_of(call)
    body = change(encode_chunks(chunks, seed=seed, trailer=trailer, line_end=line_end))
    call.body = HeldBody(body)
    call.content_length = len(body)
    return call


async def take(call: Call, view_sizes: Sequence[int] = (1 << 16,), **options: bool) -> tuple[bytes, S3Body]:
    """The verified content of a call, read into views of the given sizes, the last one repeated."""
    body = open_body(call, await make_authenticator().authenticate(call), **options)
    received = bytearray()
    sizes = list(view_sizes)
    while True:
        size = sizes.pop(0) if len(sizes) > 1 else sizes[0]
        view = memoryview(bytearray(size))
        count = await body.fill(view)
        received += view[:count]
        if count < size or len(received) == body.length:
            break
    digests = DigestSet(body.digests)
    digests.update(memoryview(received))
    body.verify(digests.results())
    return bytes(received), body


def outcome_of(call: Call, view_sizes: Sequence[int] = (1 << 16,), **options: bool) -> bytes | S3Code:
    """The content of a call, or the code it is refused with."""
    try:
        return asyncio.run(take(call, view_sizes, **options))[0]
    except S3Error as error:
        return error.code
