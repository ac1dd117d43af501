"""The lifecycle engine: fires what the due-time index says, and keeps the index up to the rules of buckets.

It reads only entries that are due, never a namespace. Whether an act is right is decided by its own commit
(`tiers.namespace.due_mutations`); here is decided when, how much at a time, and that nothing fires on a clock that the
database does not share. Moves are not made here: a `Mover` is handed those that are due.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

from metadata.types import Due, DueKind, Version
from tiers.namespace.due_mutations import Act, Fired, Result
from tiers.namespace.due_times import DueTimes
from tiers.worker import Step

logger = logging.getLogger(__name__)

PAGE_ENTRIES: Final = 200
"""Entries that one step fires, each a commit of its own, in few batches."""

BACKLOG_MAX: Final = 10_000
"""Waiting moves are counted up to here."""

AHEAD_MS_MAX: Final = 3_600_000
"""A clock so far ahead of the database's fires nothing: what it deletes would not come back."""

TICKS_A_DAY: Final = 20
"""Looks at the index in a lifecycle day at the least; matters to days that are shortened for tests."""

REST_SECONDS_MIN: Final = 0.05


class MoveOrder(NamedTuple):
    """A move that a rule wants now, of a version as it was when it was judged."""

    version: Version
    rule_id: str
    due_ms: int
    storage_class: str


class Mover(Protocol):
    """Who moves versions. The commit of a move judges the version again and follows its entries in the index."""

    async def take(self, order: MoveOrder) -> bool:
        """Take a move over for good; false when there is no room. Taking it again is harmless."""


class Lease(Protocol):
    """See `tiers.upkeep.leases.HeldLease`."""

    async def hold(self) -> bool: ...


class Times(NamedTuple):
    """The engine's clocks and lengths: `clock` and `rest_seconds` in seconds, `database_ms` is the database's time."""

    clock: Callable[[], float]
    database_ms: Callable[[], Awaitable[int]]
    day_ms: int
    rest_seconds: float = 60.0


@dataclass(slots=True)
class LifecycleCounts:
    """What the engine did, for metrics. `lag_seconds` is how long the oldest entry has been due."""

    fired: Counter[tuple[str, str]] = field(default_factory=Counter)
    lag_seconds: float = 0.0
    outdated: int = 0
    moves_waiting: int = 0


class LifecycleEngine:
    """A worker whose cursor is the index itself: what was done is not in it any more."""

    name = "lifecycle"

    def __init__(self, due_times: DueTimes, lease: Lease, times: Times, *, mover: Mover | None = None) -> None:
        self.counts = LifecycleCounts()
        self._due_times, self._lease, self._times = due_times, lease, times
        self._mover = mover
        self._is_enrolled = False
        self._after: dict[DueKind, Due | None] = dict.fromkeys((DueKind.END, DueKind.MOVE))
        """Where the pass over each kind is; an entry that stays must not hold up those behind it."""

    async def step(self) -> Step:
        """One page of a walk over a bucket whose rules changed, and one page of what is due.

        Errors: those of reading and of commits; what failed is still in the index.
        """
        if not await self._lease.hold():
            self._start_over()
            return Step(0, is_idle=True)
        if not self._is_enrolled:
            self._is_enrolled = await self._due_times.enrol(self._times.day_ms)
            if not self._is_enrolled:
                return Step(0, is_idle=False)
        outdated = await self._due_times.outdated()
        walked = await self._due_times.follow_rules(outdated[0]) if outdated else 0
        now_ms = int(self._times.clock() * 1000)
        await self._observe(now_ms, len(outdated))
        if not await self._is_time_true(now_ms):
            self._start_over()
            return Step(walked, is_idle=not outdated)
        held = frozenset(entry.bucket_id for entry in outdated)
        ended, is_over = await self._fire_page(DueKind.END, now_ms, held)
        moved, is_moved = (0, True) if self._mover is None else await self._fire_page(DueKind.MOVE, now_ms, held)
        return Step(walked + ended + moved, is_idle=is_over and is_moved and not outdated)

    async def wait_for_work(self) -> None:
        """Rest until the next look."""
        await asyncio.sleep(self.rest_seconds)

    @property
    def rest_seconds(self) -> float:
        """Between two looks at the index."""
        shortest = self._times.day_ms / 1000 / TICKS_A_DAY
        return min(self._times.rest_seconds, max(REST_SECONDS_MIN, shortest))

    def _start_over(self) -> None:
        self._after = dict.fromkeys(self._after)

    async def _is_time_true(self, now_ms: int) -> bool:
        """Whether the database agrees that it is as late as this clock says."""
        ahead_ms = now_ms - await self._times.database_ms()
        if ahead_ms <= AHEAD_MS_MAX:
            return True
        self.counts.fired[Act.NONE, "clock_ahead"] += 1
        logger.warning("no lifecycle rule fires: the clock is %d s ahead of the database's", ahead_ms // 1000)
        return False

    async def _observe(self, now_ms: int, outdated: int) -> None:
        counts, due_times = self.counts, self._due_times
        oldest = await due_times.page(DueKind.END, now_ms, None, 1)
        counts.lag_seconds = (now_ms - oldest[0].due_ms) / 1000 if oldest else 0.0
        counts.outdated = outdated
        counts.moves_waiting = await due_times.count(DueKind.MOVE, now_ms, BACKLOG_MAX)

    async def _fire_page(self, kind: DueKind, now_ms: int, held: frozenset[int]) -> tuple[int, bool]:
        """Fire a page of what is due, but for outdated buckets; entries done, and whether it was the last page."""
        page = await self._due_times.page(kind, now_ms, self._after[kind], PAGE_ENTRIES)
        is_last = len(page) < PAGE_ENTRIES
        self._after[kind] = None if is_last else page[-1]
        entries = [entry for entry in page if entry.bucket_id not in held]
        answers = await self._due_times.fire(entries, self._retry_ms()) if entries else []
        await self._count(answers)
        return len(entries), is_last

    def _retry_ms(self) -> int:
        """When a move that was handed over is asked after again: a quarter of an hour of a whole day."""
        return max(1000, self._times.day_ms // 96)

    async def _count(self, answers: Sequence[Fired | Exception]) -> None:
        """Count what became of a page, and hand its moves over. Errors: the first that an entry failed with."""
        failures = [answer for answer in answers if isinstance(answer, Exception)]
        for answer in answers:
            if isinstance(answer, Fired):
                result = await self._hand_over(answer) if answer.result is Result.HANDED else answer.result.value
                self.counts.fired[answer.act, result] += 1
        self.counts.fired[Act.NONE, "failed"] += len(failures)
        if failures:
            raise failures[0]

    async def _hand_over(self, fired: Fired) -> str:
        assert self._mover is not None
        assert fired.version is not None
        assert fired.descent is not None
        order = MoveOrder(fired.version, *fired.descent)
        return Result.HANDED.value if await self._mover.take(order) else "deferred"
