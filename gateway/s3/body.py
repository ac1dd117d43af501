"""Request bodies as the namespace reads them: framing undone, what is declared verified before anything is published.

What a body declares (payload hash, chunk signatures, lengths, Content-MD5, checksums) is checked here; the digests
themselves are computed by whoever reads the body.
"""

import asyncio
import hmac
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final, TypeVar, TypeVarTuple

from gateway.auth.authenticator import Authenticated
from gateway.auth.payload import Payload, PayloadMode
from gateway.http.call import BodyCut, BodyTooLong, Call
from gateway.s3.checksums import (
    DEFAULT_ALGORITHM,
    FULL_OBJECT,
    Declared,
    decode_value,
    encode_value,
    is_of_nothing,
    parse_content_md5,
    parse_declared,
    require_checksum,
    verify_checksum,
    verify_content_md5,
)
from gateway.s3.chunked import ChunkDecoder
from gateway.s3.errors import S3Code, S3Error
from tiers.datapath.body import MD5
from tiers.datapath.digests import DigestSet

SCRATCH_BYTES: Final = 256 * 1024
INLINE_HASH_BYTES_MAX: Final = 64 * 1024
"""More than this is hashed in a thread: about 100 us."""

PUT_BYTES_MAX: Final = 5 << 30

T = TypeVar("T")
Args = TypeVarTuple("Args")

_SHA256: Final = "SHA256"
_DECODED_LENGTH: Final = b"x-amz-decoded-content-length"
_LENGTH_DIGITS_MAX: Final = 18

_CHECKSUMS_OF_OBJECT: Final = frozenset({"CompleteMultipartUpload"})
"""Operations whose checksum headers speak of the object, not of the document that is sent."""


class S3Body:
    """The content of one request: `tiers.datapath.body.Body` over what HTTP delivers.

    `algorithm` is the checksum to be stored, known before the body is read: the one declared, else CRC64NVME.
    `checksum` is its algorithm, type and value in base64 once `verify` has passed.
    """

    def __init__(
        self, call: Call, payload: Payload, declared: Declared | None, length: int | None, *, is_lenient: bool
    ) -> None:
        self.length = length
        self.algorithm = DEFAULT_ALGORITHM if declared is None else declared.algorithm
        self.checksum: tuple[str, str, str] | None = None
        self._content_md5 = parse_content_md5(call.fields.get(b"content-md5"))
        self._declared = declared
        self._payload = payload
        self._raw = call.body
        self._received = 0
        self._is_lenient = is_lenient
        wanted = {self.algorithm}
        if self._content_md5 is not None:
            wanted.add(MD5)
        if payload.mode is PayloadMode.HASHED:
            wanted.add(_SHA256)
        self.digests: frozenset[str] = frozenset(wanted)

    async def fill(self, view: memoryview) -> int:
        """See `Body`. Errors: S3Error IncompleteBody, EntityTooLarge beyond 5 GiB, and those of the framing."""
        try:
            filled = await self._fill(view)
        except BodyCut:
            raise S3Error(S3Code.IncompleteBody) from None
        self._received += filled
        if self._received > PUT_BYTES_MAX:
            raise _too_large(self._received, PUT_BYTES_MAX)
        return filled

    async def _fill(self, view: memoryview) -> int:
        return await self._raw.fill(view)

    async def read_all(self, limit: int) -> bytes:
        """See `Body`. Errors: those of `fill`; EntityTooLarge beyond `limit`."""
        try:
            content = await self._raw.read_all(limit)
        except BodyCut:
            raise S3Error(S3Code.IncompleteBody) from None
        except BodyTooLong:
            raise _too_large(self.length, limit) from None
        self._received += len(content)
        return content

    def verify(self, digests: Mapping[str, bytes]) -> None:
        """See `Body`.

        Errors: IncompleteBody, XAmzContentSHA256Mismatch, BadDigest; nothing may be published then.
        """
        if self.length is not None and self._received != self.length:
            raise S3Error(S3Code.IncompleteBody)
        if self._payload.mode is PayloadMode.HASHED:
            _verify_payload(self._payload, digests[_SHA256])
        if self._content_md5 is not None:
            verify_content_md5(self._content_md5, digests)
        if self._declared is not None:
            self._verify_declared(self._declared, digests)
        self.checksum = (self.algorithm, FULL_OBJECT, encode_value(digests[self.algorithm]))

    def _verify_declared(self, declared: Declared, digests: Mapping[str, bytes]) -> None:
        value = declared.value
        if value is None:
            value = decode_value(declared.algorithm, self._trailer_value(declared))
        is_ignored = self._is_lenient and declared.in_query and self._received > 0
        if not (is_ignored and is_of_nothing(declared.algorithm, value)):
            verify_checksum(declared, value, digests)

    def _trailer_value(self, declared: Declared) -> bytes:
        raise AssertionError(f"{declared.algorithm} declared in the trailer of a body without one")


class ChunkedBody(S3Body):
    """A body framed as aws-chunked. `length` is the decoded length."""

    def __init__(
        self, call: Call, authenticated: Authenticated, declared: Declared | None, length: int, *, is_lenient: bool
    ) -> None:
        super().__init__(call, authenticated.payload, declared, length, is_lenient=is_lenient)
        trailers: frozenset[bytes] | None = None
        if authenticated.payload.has_trailer:
            trailers = frozenset({declared.header} if declared is not None and declared.value is None else ())
        self._decoder = ChunkDecoder(length, signatures=authenticated.chunks, trailers=trailers)
        self._is_signed = authenticated.chunks is not None
        self._scratch_bytes = SCRATCH_BYTES if call.content_length is None else min(SCRATCH_BYTES, call.content_length)
        self._scratch = memoryview(b"")
        self._unread = memoryview(b"")

    async def _fill(self, view: memoryview) -> int:
        """Decode into `view`; with the last byte of the content, the end of the framing is read and verified too."""
        filled = 0
        while not self._decoder.is_finished:
            consumed, produced = await self._decode(view[filled:])
            filled += produced
            self._unread = self._unread[consumed:]
            if self._unread or self._decoder.is_finished:
                break
            if filled == len(view) and self._received + filled != self.length:
                return filled
            if not self._scratch:
                self._scratch = memoryview(bytearray(max(self._scratch_bytes, 1)))
            received = await self._raw.fill(self._scratch)
            if not received:
                raise S3Error(S3Code.IncompleteBody)
            self._unread = self._scratch[:received]
        if self._decoder.is_finished and self.length == self._received + filled:
            await self._refuse_rest()
        return filled

    async def _decode(self, view: memoryview) -> tuple[int, int]:
        if self._is_signed and min(len(view), len(self._unread)) > INLINE_HASH_BYTES_MAX:
            return await _in_thread(self._decoder.decode, self._unread, view)
        return self._decoder.decode(self._unread, view)

    async def _refuse_rest(self) -> None:
        if self._unread or await self._raw.fill(self._scratch[:1]):
            raise S3Error(S3Code.InvalidRequest, "Bytes follow the last chunk of the body.")

    async def read_all(self, limit: int) -> bytes:
        """See `Body`. Errors: those of `fill`; EntityTooLarge beyond `limit`."""
        assert self.length is not None
        if self.length > limit:
            raise _too_large(self.length, limit)
        content = bytearray(self.length)
        await self.fill(memoryview(content))
        return bytes(content)

    def verify(self, digests: Mapping[str, bytes]) -> None:
        """See `Body`. Errors: IncompleteBody while the end of the framing is missing, and those of `S3Body.verify`."""
        if not self._decoder.is_finished:
            raise S3Error(S3Code.IncompleteBody)
        super().verify(digests)

    def _trailer_value(self, declared: Declared) -> bytes:
        return self._decoder.trailer[declared.header]


def open_body(call: Call, authenticated: Authenticated, *, is_lenient: bool = False) -> S3Body:
    """The content of a request that stores one (PutObject, UploadPart); nothing is read yet.

    `is_lenient` ignores a checksum of nothing that a presigner put into the query, when the body is not empty.
    Errors: MissingContentLength, InvalidArgument for a decoded length that is no number, EntityTooLarge beyond 5 GiB,
    InvalidDigest, and those of `checksums.parse_declared`.
    """
    payload = authenticated.payload
    declared = parse_declared(call, has_trailer=payload.has_trailer)
    if payload.is_chunked:
        length = _decoded_length(call)
        return ChunkedBody(call, authenticated, declared, length, is_lenient=is_lenient)
    if call.content_length is None and not call.is_chunked:
        raise S3Error(S3Code.MissingContentLength)
    if _DECODED_LENGTH in call.fields and _decoded_length(call) != call.content_length:
        # The client believes that the body is framed; stored as it is, the framing would become content.
        raise S3Error(S3Code.InvalidRequest, "x-amz-decoded-content-length needs a streaming payload.")
    if call.content_length is not None and call.content_length > PUT_BYTES_MAX:
        raise _too_large(call.content_length, PUT_BYTES_MAX)
    return S3Body(call, payload, declared, call.content_length, is_lenient=is_lenient)


def _decoded_length(call: Call) -> int:
    text = call.fields.get(_DECODED_LENGTH)
    if text is None:
        raise S3Error(S3Code.MissingContentLength)
    if not text.isdigit() or len(text) > _LENGTH_DIGITS_MAX:
        message = "x-amz-decoded-content-length must be a number of bytes."
        raise S3Error(S3Code.InvalidArgument, message, ArgumentName=_DECODED_LENGTH.decode())
    length = int(text)
    if length > PUT_BYTES_MAX:
        raise _too_large(length, PUT_BYTES_MAX)
    if call.content_length is not None and length > call.content_length:
        raise S3Error(S3Code.IncompleteBody)
    return length


def _too_large(size: int | None, limit: int) -> S3Error:
    elements = {"MaxSizeAllowed": str(limit)} | ({} if size is None else {"ProposedSize": str(size)})
    return S3Error(S3Code.EntityTooLarge, **elements)


def _verify_payload(payload: Payload, computed: bytes) -> None:
    text = computed.hex()
    if not hmac.compare_digest(text.encode(), payload.sha256):
        raise S3Error(
            S3Code.XAmzContentSHA256Mismatch,
            ClientComputedContentSHA256=payload.sha256.decode("ascii"),
            S3ComputedContentSHA256=text,
        )


async def read_document(call: Call, authenticated: Authenticated, limit: int, *, needs_checksum: bool = False) -> bytes:
    """The document of a request, whole and verified; empty when the request has no body.

    `needs_checksum`: the operation must carry Content-MD5 or a checksum.
    Errors: InvalidRequest without such, MalformedXML beyond `limit` bytes, IncompleteBody,
    XAmzContentSHA256Mismatch, InvalidDigest, BadDigest, and those of `checksums.parse_declared`.
    """
    is_of_object = call.operation in _CHECKSUMS_OF_OBJECT
    declared = None if is_of_object else parse_declared(call, has_trailer=False)
    if needs_checksum:
        require_checksum(call, declared)
    assert not authenticated.payload.is_chunked, "authentication lets only streaming operations be aws-chunked"
    length = call.content_length if call.content_length is not None or call.is_chunked else 0
    body = S3Body(call, authenticated.payload, declared, length, is_lenient=False)
    try:
        content = await body.read_all(limit)
    except S3Error as error:
        raise S3Error(S3Code.MalformedXML) if error.code is S3Code.EntityTooLarge else error from None
    body.verify(await _digest(content, body.digests))
    return content


async def _digest(content: bytes, names: frozenset[str]) -> dict[str, bytes]:
    digests = DigestSet(names)
    if len(content) > INLINE_HASH_BYTES_MAX:
        await _in_thread(digests.update, memoryview(content))
    else:
        digests.update(memoryview(content))
    return digests.results()


async def _in_thread(function: Callable[[*Args], T], *args: *Args) -> T:
    """Run `function` in a thread and wait for its end even when cancelled: it works on the caller's memory."""
    future = asyncio.get_running_loop().run_in_executor(None, function, *args)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        while not future.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait({future})
        if not future.cancelled():
            future.exception()  # the cancellation hides it; asyncio would log it as never retrieved
        raise


def stored_content_encoding(value: bytes) -> bytes:
    """A Content-Encoding without the `aws-chunked` of the transfer; the rest as spelled, empty when nothing is left."""
    tokens = value.split(b",")
    kept = [token for token in tokens if token.strip().lower() != b"aws-chunked"]
    return value if len(kept) == len(tokens) else b",".join(kept).strip()
