"""How fast moves may read from and write to each tier: byte budgets that refill with time."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

BURST_SECONDS: Final = 1.0
"""A tier that was left alone gives so much of its rate at once."""


class ByteRates:
    """Budgets by tier, in bytes a second; a rate of 0 is any rate. `clock` gives seconds. Used on one event loop.

    `take` may overdraw once: what is taken is one read or write of bounded size, and the next one waits for it.
    """

    def __init__(
        self,
        rates: Mapping[str, int],
        default: int,
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        assert default >= 0
        assert all(rate >= 0 for rate in rates.values())
        self._rates, self._default = rates, default
        self._clock, self._sleep = clock, sleep
        self._left: dict[str, tuple[float, float]] = {}

    async def take(self, tier: str, byte_count: int) -> None:
        """Wait until the tier's budget is no longer overdrawn, then take."""
        rate = self._rates.get(tier, self._default)
        if not rate:
            return
        while True:
            now = self._clock()
            left, since = self._left.get(tier, (rate * BURST_SECONDS, now))
            left = min(left + (now - since) * rate, rate * BURST_SECONDS)
            if left > 0:
                self._left[tier] = (left - byte_count, now)
                return
            self._left[tier] = (left, now)
            await self._sleep(-left / rate + 0.001)
