"""Counts current versions by tier: a slow crawl over the object table, page by page, published at the end of a pass."""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final

from metadata.contract import Reader
from metadata.tables import OBJECT
from tiers.worker import Step

PAGE_ROWS: Final = 100
"""Whole rows, and one of 10,000 parts is a megabyte."""


class Accounting:
    """A worker without a cursor: its result is a gauge, and an interrupted pass starts over.

    `publish` gets the counts by tier of a whole pass; versions that moved meanwhile count where they were met.
    """

    name = "accounting"

    def __init__(self, reader: Reader, publish: Callable[[Mapping[str, int]], None], rest_seconds: float) -> None:
        self._reader = reader
        self._publish = publish
        self._rest_seconds = rest_seconds
        self._after: tuple[Any, ...] | None = None
        self._counts: Counter[str] = Counter()

    async def step(self) -> Step:
        """Count one page. Cost: one statement."""
        rows = await self._reader.scan(OBJECT, self._after, PAGE_ROWS)
        self._counts.update([row.tier for row in rows])
        if len(rows) == PAGE_ROWS:
            self._after = OBJECT.key_of(rows[-1])
            return Step(len(rows), is_idle=False)
        self._publish(dict(self._counts))
        self._after, self._counts = None, Counter()
        return Step(len(rows), is_idle=True)

    async def wait_for_work(self) -> None:
        """Rest between passes."""
        await asyncio.sleep(self._rest_seconds)
