"""The file of a form upload as a body: what lies between the fields and the next delimiter, streamed and bounded."""

from typing import Final

from gateway.http.call import BodyTooLong, RawBody
from gateway.s3.errors import S3Code, S3Error
from gateway.s3.form_parts import TAIL_BYTES_MAX, judge_tail, malformed

_SEARCHED_BYTES: Final = 256 * 1024
"""Looked through at a time: bounds the copy that the search takes."""


class FormFile:
    """Implements `gateway.http.call.RawBody`: the content ends where the delimiter stands, not where the body does.

    `rest` is what was received behind the fields. With the last byte of the file, the end of the form is read and
    judged too, and the size against `sizes` (both ends included), so that nothing is published before.
    """

    def __init__(self, body: RawBody, delimiter: bytes, rest: bytes, sizes: tuple[int, int]) -> None:
        self._body = body
        self._delimiter = delimiter
        self._mark = b"\r\n" + delimiter
        self._ahead = rest
        """Received and not given out: it may be the beginning of the delimiter, or hold it."""
        self._sizes = sizes
        self._received = 0
        self._ended = False

    async def fill(self, view: memoryview) -> int:
        """See `RawBody`.

        Errors: MalformedPOSTRequest when the form does not end well, EntityTooLarge, EntityTooSmall, those of the body.
        """
        if self._ended or not view:
            return 0
        count = await self._receive(view)
        found = self._find(view[:count])
        if found < 0:
            if count < len(view):
                raise malformed("The form ends before the delimiter behind its file.")
            self._count(count)
            return count
        tail = bytes(view[found:count]) + self._ahead
        self._ended = True
        self._count(found)
        await self._read_tail(tail[len(self._mark) :])
        if self._received < self._sizes[0]:
            size, least = str(self._received), str(self._sizes[0])
            raise S3Error(S3Code.EntityTooSmall, ProposedSize=size, MinSizeAllowed=least)
        return found

    async def _receive(self, view: memoryview) -> int:
        """Fill `view`, and `_ahead` so far that a delimiter which begins in the view can be told; bytes in the view."""
        count = min(len(view), len(self._ahead))
        view[:count] = self._ahead[:count]
        self._ahead = self._ahead[count:]
        if count < len(view):
            count += await self._body.fill(view[count:])
        missing = len(self._mark) - 1 - len(self._ahead)
        if count == len(view) and missing > 0:
            more = bytearray(missing)
            got = await self._body.fill(memoryview(more))
            self._ahead += more[:got]
        return count

    def _find(self, view: memoryview) -> int:
        """Where in the view the delimiter begins, -1 when it does not begin there."""
        overlap = len(self._mark) - 1
        for start in range(0, len(view), _SEARCHED_BYTES):
            piece = bytes(view[start : start + _SEARCHED_BYTES + overlap])
            if start + len(piece) == len(view):
                piece += self._ahead[:overlap]
            found = piece.find(self._mark)
            if found >= 0:
                return start + found if start + found < len(view) else -1
        return -1

    def _count(self, count: int) -> None:
        self._received += count
        if self._received > self._sizes[1]:
            size, most = str(self._received), str(self._sizes[1])
            raise S3Error(S3Code.EntityTooLarge, ProposedSize=size, MaxSizeAllowed=most)

    async def _read_tail(self, tail: bytes) -> None:
        """Read and judge what follows the delimiter. Errors: MalformedPOSTRequest, InvalidArgument."""
        more = bytearray(max(0, TAIL_BYTES_MAX + 1 - len(tail)))
        got = await self._body.fill(memoryview(more)) if more else 0
        tail += more[:got]
        if len(tail) > TAIL_BYTES_MAX:
            raise malformed("Too much follows the file of the form.")
        judge_tail(tail, self._delimiter)

    async def read_all(self, limit: int) -> bytes:
        """See `RawBody`. Errors: those of `fill`."""
        content = bytearray(limit + 1)
        count = await self.fill(memoryview(content))
        if count > limit:
            raise BodyTooLong
        return bytes(content[:count])
