"""Memory that reads land in: one small buffer a stream, and a bounded number of large ones for reading ahead."""

from typing import Final

from tiers.datapath.stripes import PAGE_BYTES, Stripe

UNIT_BYTES: Final = 256 << 10
"""What a stream hands out at most: fits the second-level cache and the socket's send buffer."""

AHEAD_BYTES: Final = 1 << 20
"""One read of a cold row; large enough for a device's full rate."""

_IDLE_UNITS_MAX: Final = 64


class ReadBuffers:
    """Keeps buffers warm. Used on one event loop.

    Every stream may have one unit, so units are bounded by the streams there are; buffers for reading ahead are never
    needed to go on, so they are refused once `ahead_bytes_max` are taken. `units_taken` and `ahead_taken` count them.
    """

    def __init__(self, ahead_bytes_max: int) -> None:
        self._ahead_max = ahead_bytes_max // AHEAD_BYTES
        self._units: list[Stripe] = []
        self._aheads: list[Stripe] = []
        self.units_taken = 0
        self.ahead_taken = 0

    def take(self, length: int) -> Stripe:
        """A buffer of at least `length` bytes with arbitrary content; one larger than a unit is not kept warm."""
        self.units_taken += 1
        if length > UNIT_BYTES:
            return Stripe(-(-length // PAGE_BYTES) * PAGE_BYTES + AHEAD_BYTES)
        return self._units.pop() if self._units else Stripe(UNIT_BYTES)

    def find_ahead(self) -> Stripe | None:
        """A buffer of `AHEAD_BYTES`, None when they are all in use."""
        if self.ahead_taken >= self._ahead_max:
            return None
        self.ahead_taken += 1
        return self._aheads.pop() if self._aheads else Stripe(AHEAD_BYTES)

    def give_back(self, buffer: Stripe) -> None:
        """Return a buffer of either kind."""
        if buffer.size == AHEAD_BYTES:
            self.ahead_taken -= 1
            self._aheads.append(buffer)
            return
        self.units_taken -= 1
        if buffer.size == UNIT_BYTES and len(self._units) < _IDLE_UNITS_MAX:
            self._units.append(buffer)
