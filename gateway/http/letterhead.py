"""The head of every answer, formatted once for both ways an answer travels, and the last check of its headers."""

import re
import time
from collections.abc import Callable
from email.utils import formatdate
from http import HTTPStatus

from gateway.http.call import UNKNOWN_LENGTH, Answer

STATUS_LINES = {status.value: b"HTTP/1.1 %d %b\r\n" % (status, status.phrase.encode()) for status in HTTPStatus}
_lines = re.compile(rb"(?:[^\r\n\0]++\r\n)++").fullmatch

BODILESS = frozenset((204, 304))

Head = tuple[bytes, bytes]


class HeaderUnsafe(Exception):
    """An answer's header holds CR, LF or NUL: sent, it would end the header early. Our bug, never the client's."""


class Letterhead:
    """What every answer of this process carries.

    `clock` gives seconds since the epoch (Date), `ticks` monotonic seconds (durations), `host_id` is the constant
    `x-amz-id-2`. Names are lower-case because the ASGI way would make them so: both ways send the same bytes.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        new_request_id: Callable[[], str],
        host_id: str,
        *,
        ticks: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.new_request_id = new_request_id
        self.host_id = host_id
        self.ticks = ticks
        self._clock = clock
        self._second = -1
        self._openings: dict[int, bytes] = {}
        self._host_line = b"\r\nx-amz-id-2: %b\r\n" % host_id.encode("ascii")
        _ensure_lines(self._host_line[2:], 1)

    def head(self, answer: Answer, request_id: str, *, is_closing: bool) -> bytes:
        """Status line to empty line. Errors: HeaderUnsafe."""
        status = answer.status
        second = int(self._clock())
        if second != self._second:
            self._second = second
            self._openings = {}
        opening = self._openings.get(status)
        if opening is None:
            opening = self._openings[status] = self._open(status, second)
        lines = [opening, request_id.encode("ascii"), self._host_line]
        if answer.raw_headers:
            if _lines(answer.raw_headers) is None:
                raise HeaderUnsafe
            lines.append(answer.raw_headers)
        if answer.headers:
            own = b"".join([b"%b: %b\r\n" % pair for pair in answer.headers])
            _ensure_lines(own, len(answer.headers))
            lines.append(own)
        if status not in BODILESS and length_of(answer) != UNKNOWN_LENGTH:
            lines.append(b"content-length: %d\r\n" % length_of(answer))
        lines.append(b"connection: close\r\n\r\n" if is_closing else b"\r\n")
        return b"".join(lines)

    def refusal(self, status: int, reason: str) -> bytes:
        """A whole short answer that closes the connection, for requests that never became a call."""
        answer = Answer(status, [(b"content-type", b"text/plain")], reason.encode("ascii"))
        return self.head(answer, self.new_request_id(), is_closing=True) + reason.encode("ascii")

    @staticmethod
    def _open(status: int, second: int) -> bytes:
        line = STATUS_LINES.get(status) or b"HTTP/1.1 %d \r\n" % status
        date = formatdate(second, usegmt=True).encode("ascii")
        return line + b"date: %b\r\nserver: Isotherm\r\nx-amz-request-id: " % date


def length_of(answer: Answer) -> int:
    """What Content-Length says: of a body held in memory its own length, else what the answer announces."""
    return len(answer.body) if isinstance(answer.body, bytes) else answer.content_length


def _ensure_lines(lines: bytes, count: int) -> None:
    """Errors: HeaderUnsafe unless `lines` is exactly `count` lines: a value with a line break would make one more."""
    if _lines(lines) is None or lines.count(b"\n") != count:
        raise HeaderUnsafe
