"""Reusable memory of stripes: page-aligned, warm, bounded in bytes.

The first touch of fresh anonymous memory costs five to ten times a copy, so buffers are kept and handed out again,
the last one returned first. Used on one event loop; the memory itself is read and written by worker threads.
"""

import asyncio
import mmap
from collections import defaultdict, deque
from typing import Final

PAGE_BYTES: Final = 4096
_SMALLEST: Final = 256 << 10


class Stripe:
    """Memory of one stripe: data rows from the start, then parity rows. `view` is page-aligned.

    Owned by whoever took it until it is given back; views into it die with that.
    """

    __slots__ = ("_memory", "size", "view")

    def __init__(self, size: int) -> None:
        assert size % PAGE_BYTES == 0
        self._memory = mmap.mmap(-1, size)
        self.view = memoryview(self._memory)
        self.size = size

    def rows(self, row_bytes: int, count: int, *, start: int = 0) -> list[memoryview]:
        """`count` rows of `row_bytes` bytes, side by side from `start` on, each page-aligned."""
        stop = start + row_bytes * count
        assert start % PAGE_BYTES == row_bytes % PAGE_BYTES == 0
        assert stop <= self.size
        return [self.view[at : at + row_bytes] for at in range(start, stop, row_bytes)]

    def clear(self, start: int, stop: int) -> None:
        """Write zeros over [start, stop): what pads the last row must not carry another content's bytes."""
        assert 0 <= start <= stop <= self.size
        self.view[start:stop] = bytes(stop - start)


def size_class(bytes_needed: int) -> int:
    """Bytes of the buffer that serves a need: 2^n or 3 * 2^n, at least 256 KiB, so that few sizes are kept."""
    assert bytes_needed > 0
    power = 1 << max(bytes_needed - 1, _SMALLEST - 1).bit_length()
    return power // 4 * 3 if bytes_needed <= power // 4 * 3 and power > _SMALLEST else power


class StripePool:
    """Bounds the bytes of stripe buffers, taken and idle together, by `bytes_max`.

    `bytes_taken`, `bytes_idle`, `bytes_peak` (taken and idle), `buffers_made` and `waiters` are for metrics and tests.
    """

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.bytes_taken = 0
        self.bytes_idle = 0
        self.bytes_peak = 0
        self.buffers_made = 0
        self._idle: defaultdict[int, list[Stripe]] = defaultdict(list)
        self._waiting: deque[tuple[int, asyncio.Future[Stripe]]] = deque()

    @property
    def waiters(self) -> int:
        """How many takers wait."""
        return sum(not future.done() for _, future in self._waiting)

    async def take(self, bytes_needed: int) -> Stripe:
        """A buffer of at least `bytes_needed` bytes with arbitrary content, which the caller gives back.

        Waits, first come first served, while the pool is used up; cancelling the wait takes nothing. A need that the
        pool can never serve is a wrong setting and is asserted.
        """
        size = size_class(bytes_needed)
        assert size <= self.bytes_max, "the stripe pool is smaller than one stripe"
        if not self.waiters and self._fits(size):
            return self._hand_out(size)
        turn: asyncio.Future[Stripe] = asyncio.get_running_loop().create_future()
        self._waiting.append((size, turn))
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.give_back(turn.result())
            else:
                self._serve()  # a smaller need behind the cancelled one may fit now
            raise

    def give_back(self, stripe: Stripe) -> None:
        """Return a buffer; nobody may touch it through an old view any more."""
        self.bytes_taken -= stripe.size
        self.bytes_idle += stripe.size
        assert self.bytes_taken >= 0
        self._idle[stripe.size].append(stripe)
        self._serve()

    def _serve(self) -> None:
        while self._waiting:
            size, turn = self._waiting[0]
            if turn.done():  # cancelled meanwhile
                self._waiting.popleft()
            elif self._fits(size):
                self._waiting.popleft()
                turn.set_result(self._hand_out(size))
            else:
                return

    def _fits(self, size: int) -> bool:
        return self.bytes_taken + size <= self.bytes_max

    def _hand_out(self, size: int) -> Stripe:
        if self._idle[size]:
            stripe = self._idle[size].pop()
            self.bytes_idle -= size
        else:
            self._make_room(size)
            stripe = Stripe(size)
            self.buffers_made += 1
        self.bytes_taken += size
        self.bytes_peak = max(self.bytes_peak, self.bytes_taken + self.bytes_idle)
        assert self.bytes_taken + self.bytes_idle <= self.bytes_max
        return stripe

    def _make_room(self, size: int) -> None:
        """Drop idle buffers of other sizes, largest first, until a new one of `size` fits."""
        for other in sorted(self._idle, reverse=True):
            while self._idle[other] and self.bytes_taken + self.bytes_idle + size > self.bytes_max:
                self._idle[other].pop()
                self.bytes_idle -= other
