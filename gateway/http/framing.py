"""Where a request's body ends: by its announced length, or by strictly read chunked framing.

Both kinds take the bytes behind a head piece by piece, hand on the payload without copying, and say how many bytes
were theirs, so that a pipelined request is never parsed before its turn.
"""

import re
from collections.abc import Callable

Deliver = Callable[[memoryview], None]

CHUNK_LINE_BYTES_MAX = 256
TRAILER_BYTES_MAX = 8 * 1024

_size_line = re.compile(rb"([0-9A-Fa-f]{1,15})(?:;[\t -~]*)?").fullmatch
_trailer_line = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+:[\t -~\x80-\xff]*").fullmatch


class FramingBroken(Exception):
    """The bytes on the wire are not the framing that was announced; the connection cannot be used further."""


class LengthFraming:
    """A body of exactly the announced bytes."""

    __slots__ = ("left", "touched")

    def __init__(self, length: int) -> None:
        assert length > 0
        self.left: int | None = length
        self.touched = False

    @property
    def done(self) -> bool:
        """Whether the last byte has been taken."""
        return self.left == 0

    def feed(self, data: bytes, at: int, deliver: Deliver) -> int:
        """Take what belongs to the body from `data[at:]`; the offset behind it."""
        assert self.left is not None
        stop = min(len(data), at + self.left)
        self.touched = True
        self.left -= stop - at
        deliver(memoryview(data)[at:stop])
        return stop

    def count(self, byte_count: int) -> None:
        """Bytes that came another way (straight into the reader's memory)."""
        assert self.left is not None
        assert 0 < byte_count <= self.left
        self.touched = True
        self.left -= byte_count


class ChunkedFraming:
    """Chunked transfer coding: every line ended by CRLF, sizes plain hexadecimal, extensions and trailers ignored."""

    __slots__ = ("_chunk_left", "_line", "_read", "_trailer_bytes", "done", "touched")

    left: int | None = None

    def __init__(self) -> None:
        self.done = False
        self.touched = False
        self._line = b""
        self._chunk_left = 0
        self._trailer_bytes = 0
        self._read: Callable[[bytes, int, Deliver], int] = self._read_size

    def feed(self, data: bytes, at: int, deliver: Deliver) -> int:
        """Take what belongs to the body from `data[at:]`; the offset behind it. Errors: FramingBroken."""
        self.touched = True
        while at < len(data) and not self.done:
            at = self._read(data, at, deliver)
        return at

    def _take_line(self, data: bytes, at: int, bytes_max: int) -> tuple[bytes | None, int]:
        """The next whole line without its CRLF, or None while it is incomplete."""
        end = data.find(b"\n", at)
        stop = len(data) if end < 0 else end + 1
        self._line += data[at:stop]
        if len(self._line) > bytes_max:
            raise FramingBroken("line too long")
        if end < 0:
            return None, stop
        line, self._line = self._line, b""
        if not line.endswith(b"\r\n"):
            raise FramingBroken("bare line feed")
        return line[:-2], stop

    def _read_size(self, data: bytes, at: int, deliver: Deliver) -> int:
        line, at = self._take_line(data, at, CHUNK_LINE_BYTES_MAX)
        if line is None:
            return at
        match = _size_line(line)
        if match is None:
            raise FramingBroken("not a size")
        self._chunk_left = int(match[1], 16)
        self._read = self._read_payload if self._chunk_left else self._read_trailer
        return at

    def _read_payload(self, data: bytes, at: int, deliver: Deliver) -> int:
        stop = min(len(data), at + self._chunk_left)
        self._chunk_left -= stop - at
        deliver(memoryview(data)[at:stop])
        if not self._chunk_left:
            self._read = self._read_payload_end
        return stop

    def _read_payload_end(self, data: bytes, at: int, deliver: Deliver) -> int:
        line, at = self._take_line(data, at, 2)
        if line is not None:
            self._read = self._read_size
        return at

    def _read_trailer(self, data: bytes, at: int, deliver: Deliver) -> int:
        start = at
        line, at = self._take_line(data, at, TRAILER_BYTES_MAX)
        self._trailer_bytes += at - start
        if self._trailer_bytes > TRAILER_BYTES_MAX:
            raise FramingBroken("trailer too long")
        if line == b"":
            self.done = True
        elif line is not None and _trailer_line(line) is None:
            raise FramingBroken("not a trailer")
        return at


Framing = LengthFraming | ChunkedFraming
