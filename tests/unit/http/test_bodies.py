"""Bodies in the lane: what was received is what is read, whatever the pieces."""

import asyncio
import sys

from hypothesis import given
from hypothesis import strategies as st

from gateway.http.bodies import SHORT_PART_BYTES, LaneBody, Sink
from gateway.http.framing import ChunkedFraming
from gateway.http.limits import Limits


class Still:
    """A connection on which everything has arrived."""

    limits = Limits()

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop

    def send_continue(self) -> None: ...
    def want_body(self) -> None: ...
    def rest_body(self, *, is_full: bool) -> None: ...
    def heard(self, byte_count: int) -> None: ...
    def divert(self, sink: Sink) -> None: ...
    def restore(self) -> None: ...
    def eof_received(self) -> bool | None: ...
    def connection_lost(self, exc: Exception | None) -> None: ...
    def pause_writing(self) -> None: ...
    def resume_writing(self) -> None: ...


def received(loop: asyncio.AbstractEventLoop, pieces: list[bytes]) -> LaneBody:
    body = LaneBody(Still(loop), ChunkedFraming(), None, awaits_continue=False)
    for piece in pieces:
        body.feed(memoryview(piece))
    return body


PIECES = st.lists(st.integers(1, 3 * SHORT_PART_BYTES), max_size=12)


@given(PIECES, st.lists(st.integers(1, 5000), min_size=1, max_size=20))
def test_reads_what_came(sizes: list[int], views: list[int]) -> None:
    content = bytes(number % 251 for number in range(sum(sizes)))
    starts = [sum(sizes[:number]) for number in range(len(sizes))]
    pieces = [content[start : start + size] for start, size in zip(starts, sizes, strict=True)]

    async def read() -> bytes:
        body = received(asyncio.get_running_loop(), pieces[:-1])
        got = b""
        for number, size in enumerate(views):
            if number == 1 and pieces:  # a piece that comes between two reads
                body.feed(memoryview(pieces[-1]))
            view = memoryview(bytearray(min(size, body.received - len(got))))
            await body.fill(view)
            got += bytes(view)
        if len(views) == 1 and pieces:
            body.feed(memoryview(pieces[-1]))
        body.complete()
        return got + await body.read_all(1 << 20)

    assert asyncio.run(read()) == content


def test_many_short_pieces_cost_their_bytes() -> None:
    async def hold() -> int:
        body = received(asyncio.get_running_loop(), [b"x"] * 100_000)
        return sum(sys.getsizeof(part) for part in body._parts)

    assert asyncio.run(hold()) < 200_000
