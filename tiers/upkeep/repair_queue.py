"""The repair queue as work: which blob is next, which are set aside for a while, how much redundancy is left.

Lowest margin first. A blob whose repair failed rests, longer each time; the others go on.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from metadata.contract import Reader
from metadata.tables import REPAIR
from metadata.types import Blob, BlobState
from tiers.datapath.layouts import layout_of
from tiers.upkeep.removal import is_pack

PAGE_ROWS: Final = 1000
BLOBS_ASKED: Final = 500
PLAN_BLOBS_MAX: Final = 256
"""Blobs chosen at once; what became more urgent meanwhile waits for so many at most."""

BACKOFF_SECONDS_MIN: Final = 30.0
BACKOFF_SECONDS_MAX: Final = 3600.0


class Due(NamedTuple):
    """One blob of the queue. `blob` is None when its row is gone."""

    blob_id: bytes
    indexes: tuple[int, ...]
    blob: Blob | None

    @property
    def is_over(self) -> bool:
        """Whether there is nothing left to repair: the blob is dead or gone."""
        return self.blob is None or self.blob.state == BlobState.DEAD


class RepairQueue:
    """Reads the queue anew whenever a plan is worked off. `clock` gives seconds.

    `margins` counts the queued blobs that live by how many more fragments or copies each may lose, -1 for those that
    have lost too many already; it is as of the last plan.
    """

    def __init__(self, reader: Reader, clock: Callable[[], float]) -> None:
        self._reader, self._clock = reader, clock
        self._planned: list[bytes] = []
        self._resting: dict[bytes, tuple[int, float]] = {}
        self._lost: set[bytes] = set()
        self.margins: Mapping[int, int] = {}

    async def next(self) -> Due | None:
        """The next blob to work on, as it is now; None when nothing is due."""
        is_fresh = False
        while True:
            if not self._planned:
                if is_fresh:
                    return None
                await self._plan()
                is_fresh = True
                continue
            due = await self._look(self._planned.pop())
            if due is not None:
                return due

    def rest(self, blob_id: bytes, *, is_lost: bool = False) -> None:
        """Set a blob aside for a while; `is_lost`: fewer good fragments than needed are left."""
        failures = self._resting.get(blob_id, (0, 0.0))[0]
        seconds = min(BACKOFF_SECONDS_MIN * 2.0 ** min(failures, 16), BACKOFF_SECONDS_MAX)
        self._resting[blob_id] = (failures + 1, self._clock() + seconds)
        (self._lost.add if is_lost else self._lost.discard)(blob_id)

    def end(self, blob_id: bytes) -> None:
        """Forget what was remembered of a blob."""
        self._resting.pop(blob_id, None)
        self._lost.discard(blob_id)

    async def _look(self, blob_id: bytes) -> Due | None:
        rows = await self._reader.scan(REPAIR, (blob_id, -1), PAGE_ROWS)
        indexes = tuple(row.fragment_index for row in rows if row.blob_id == blob_id)
        blobs = await self._reader.get_blobs([blob_id])
        return Due(blob_id, indexes, blobs[0] if blobs else None) if indexes else None

    async def _plan(self) -> None:
        """Choose the most endangered blobs that are due. Memory: a count for each blob of the queue."""
        counts: Counter[bytes] = Counter()
        after: tuple[bytes, int] | None = None
        while page := await self._reader.scan(REPAIR, after, PAGE_ROWS):
            counts.update(row.blob_id for row in page)
            after = page[-1].blob_id, page[-1].fragment_index
        for blob_id in self._resting.keys() - counts.keys():
            self.end(blob_id)
        ranks, margins = await self._ranks(counts)
        self.margins = margins
        chosen = heapq.nsmallest(PLAN_BLOBS_MAX, ((rank, blob_id) for blob_id, rank in ranks.items()))
        self._planned = [blob_id for _, blob_id in reversed(chosen)]

    async def _ranks(self, counts: Mapping[bytes, int]) -> tuple[dict[bytes, int], Counter[int]]:
        """What is due by its margin, and the margins of all that live."""
        ids, now = list(counts), self._clock()
        ranks: dict[bytes, int] = {}
        margins: Counter[int] = Counter()
        for start in range(0, len(ids), BLOBS_ASKED):
            asked = ids[start : start + BLOBS_ASKED]
            rows: dict[bytes, Blob] = {blob.blob_id: blob for blob in await self._reader.get_blobs(asked)}
            for blob_id in asked:
                blob = rows.get(blob_id)
                rank = -1
                if blob is not None and blob.state != BlobState.DEAD:
                    rank = -1 if blob_id in self._lost else max(-1, margin_of(blob, counts[blob_id]))
                    margins[rank] += 1
                    if blob.state in (BlobState.OPEN, BlobState.PENDING):
                        continue  # its own writer ends it; the copies of a pack that are good serve until then
                if self._resting.get(blob_id, (0, now))[1] <= now:
                    ranks[blob_id] = rank
        return ranks, margins


def margin_of(blob: Blob, lost: int) -> int:
    """How many more fragments or copies a blob may lose when it has lost so many; negative when it lost too many."""
    spare = blob.placement.count(" ") if is_pack(blob) else layout_of(blob.layout).parity_fragments
    return spare - lost
