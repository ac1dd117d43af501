"""The aws-chunked decoder: a state machine over spans of bytes, without input or output of its own.

    body    = 1*chunk-or-last                          signed: each size line carries a signature
    chunk   = size-line data CRLF                      size-line = hex [";chunk-signature=" 64hex] CRLF
    last    = "0" size-line-rest [trailers] CRLF       trailer   = name ":" value (CRLF / LF CRLF)

The framing is exact: what is not in this grammar is refused. Decoded bytes leave before their chunk is verified, so
nobody may publish them until the decoder is finished.
Source: "Signature calculations for the Authorization header: transferring payload in multiple chunks" of the S3 API
reference; the second form of a trailer line is what minio-go sends.
"""

import re
from enum import Enum
from hashlib import sha256
from typing import Final

from gateway.auth.sigv4 import EMPTY_SHA256, ChunkSignatures
from gateway.s3.errors import S3Code, S3Error

SIZE_LINE_MAX: Final = 128
TRAILER_LINE_MAX: Final = 512

_SIZE_LINE: Final = re.compile(rb"([0-9A-Fa-f]{1,16})(?:;chunk-signature=([0-9a-f]{64}))?\r\n")
_TRAILER_LINE: Final = re.compile(rb"([A-Za-z0-9-]{1,128}):[ \t]*([!-~]{1,256})[ \t]*\r?\n")
_TRAILER_SIGNATURE: Final = b"x-amz-trailer-signature"
_EMPTY: Final = b"\r\n"


class _State(Enum):
    SIZE = 0
    DATA = 1
    DATA_END = 2  # the line end after a chunk's data
    LAST = 3  # the line end that ends a body without trailer
    TRAILER = 4
    TRAILER_END = 5  # some clients end a trailer line with LF CRLF
    FINISHED = 6


class ChunkDecoder:
    """Decodes one body.

    `length` is the decoded length announced; `signatures` is the chain when chunks are signed; `trailers` are the
    lower-case names announced, None when the mode has no trailer. `trailer` holds them once `is_finished`.
    """

    def __init__(
        self, length: int, *, signatures: ChunkSignatures | None = None, trailers: frozenset[bytes] | None = None
    ) -> None:
        self.trailer: dict[bytes, bytes] = {}
        self._length_left = length
        self._signatures = signatures
        self._trailers = trailers
        self._state = _State.SIZE
        self._line = b""
        self._chunk_left = 0
        self._chunk_signature = b""
        self._digest = sha256()
        self._is_trailer_signed = False

    @property
    def is_finished(self) -> bool:
        """Whether the whole body has been decoded and verified, its trailer included."""
        return self._state is _State.FINISHED

    def decode(self, source: memoryview, target: memoryview) -> tuple[int, int]:
        """Decode `source` into `target`; the bytes consumed and the bytes produced.

        Stops when the source is used up, when data is next and the target is full, or when the body is finished: what
        follows then is not consumed.
        Errors: SignatureDoesNotMatch, IncompleteBody for a length other than announced, MalformedTrailerError,
        InvalidRequest for any other framing.
        Cost: one copy; with signatures one SHA-256 of the data (40 us for 64 KiB), so large spans belong in a thread.
        """
        at, produced = 0, 0
        while self._state is not _State.FINISHED:
            if self._state is _State.DATA:
                size = min(self._chunk_left, len(source) - at, len(target) - produced)
                if not size:
                    break
                span = target[produced : produced + size]
                span[:] = source[at : at + size]
                at, produced = at + size, produced + size
                self._take(span)
            else:
                at = self._read_line(source, at)
                if not self._line.endswith(b"\n"):
                    break
                line, self._line = self._line, b""
                self._take_line(line)
        return at, produced

    def _take(self, span: memoryview) -> None:
        if self._signatures is not None:
            self._digest.update(span)
        self._chunk_left -= len(span)
        self._length_left -= len(span)
        if not self._chunk_left:
            self._state = _State.DATA_END

    def _read_line(self, source: memoryview, at: int) -> int:
        """Add bytes up to a line feed to `_line`; where the line or the source ends."""
        if self._state in {_State.DATA_END, _State.LAST, _State.TRAILER_END}:
            limit = len(_EMPTY)
        else:
            limit = TRAILER_LINE_MAX if self._state is _State.TRAILER else SIZE_LINE_MAX
        window = bytes(source[at : at + limit - len(self._line)])
        stop = window.find(b"\n") + 1 or len(window)
        self._line += window[:stop]
        if len(self._line) == limit and not self._line.endswith(b"\n"):
            raise self._malformed()
        return at + stop

    def _take_line(self, line: bytes) -> None:
        match self._state:
            case _State.SIZE:
                self._begin_chunk(line)
            case _State.DATA_END:
                self._end_line(line, _State.SIZE)
                self._end_chunk()
            case _State.LAST:
                self._end_line(line, _State.FINISHED)
            case _State.TRAILER_END:
                self._end_line(line, _State.TRAILER)
            case _:
                self._take_trailer(line)

    def _end_line(self, line: bytes, following: _State) -> None:
        if line != _EMPTY:
            raise self._malformed()
        self._state = following

    def _malformed(self) -> S3Error:
        if self._state in {_State.TRAILER, _State.TRAILER_END}:
            return S3Error(S3Code.MalformedTrailerError)
        return S3Error(S3Code.InvalidRequest, "The aws-chunked framing of the body is not well-formed.")

    def _begin_chunk(self, line: bytes) -> None:
        matched = _SIZE_LINE.fullmatch(line)
        if matched is None or (matched[2] is None) != (self._signatures is None):
            raise self._malformed()
        self._chunk_left = int(matched[1], 16)
        self._chunk_signature = matched[2] or b""
        if self._chunk_left > self._length_left or (not self._chunk_left and self._length_left):
            raise S3Error(S3Code.IncompleteBody, "The decoded body is not as long as x-amz-decoded-content-length.")
        if self._chunk_left:
            self._state = _State.DATA
            return
        self._end_chunk()
        self._state = _State.LAST if self._trailers is None else _State.TRAILER

    def _end_chunk(self) -> None:
        """Verify the chunk just read, the empty last one included."""
        if self._signatures is None:
            return
        digest = self._digest.hexdigest().encode()
        if not self._signatures.accept_chunk(self._chunk_signature, digest):
            raise S3Error(S3Code.SignatureDoesNotMatch)
        self._digest = sha256()

    def _take_trailer(self, line: bytes) -> None:
        if line == _EMPTY:
            self._end_trailer()
            return
        matched = _TRAILER_LINE.fullmatch(line)
        if matched is None or self._is_trailer_signed:
            raise self._malformed()
        name, value = matched[1].lower(), matched[2]
        if name == _TRAILER_SIGNATURE and self._signatures is not None:
            self._verify_trailer(value)
        elif self._trailers is not None and name in self._trailers and name not in self.trailer:
            self.trailer[name] = value
        else:
            raise self._malformed()
        if not line.endswith(_EMPTY):
            self._state = _State.TRAILER_END

    def _verify_trailer(self, signature: bytes) -> None:
        assert self._signatures is not None
        lines = b"".join([name + b":" + value + b"\n" for name, value in self.trailer.items()])
        digest = sha256(lines).hexdigest().encode() if lines else EMPTY_SHA256
        if not self._signatures.accept_trailer(signature, digest):
            raise S3Error(S3Code.SignatureDoesNotMatch)
        self._is_trailer_signed = True

    def _end_trailer(self) -> None:
        if self.trailer.keys() != self._trailers or (self._signatures is not None and not self._is_trailer_signed):
            raise self._malformed()
        self._state = _State.FINISHED
