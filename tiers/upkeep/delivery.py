"""Delivery of events: what waits in the outbox is sent to its targets, in order, until each target has taken it.

Events of one bucket for one target are a *lane*: they go out one after the other, and the first that fails holds its
lane back until its next try, no other. A row leaves the outbox after its target took it, so that a crash in between
sends it again: at least once. Refuses to know how anything is sent: `post` does that.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol

from metadata.contract import Reader
from metadata.tables import EVENT
from metadata.types import Event
from tiers.commit.contract import Committer
from tiers.namespace.events import Happening, Settled, SettleEvents, unpack_happening
from tiers.worker import Step

PAGE_ROWS: Final = 200
LANES_MAX: Final = 16
"""Lanes that are sent side by side."""

LANE_SECONDS: Final = 5.0
"""After so long a lane lets the step end; the others must not wait for a slow target."""

BACKOFF_SECONDS_MAX: Final = 60.0
"""Tries of an event that fails come after 1, 2, 4 ... and then so many seconds."""

BACKOFF_DOUBLINGS_MAX: Final = 6

Lane = tuple[int, str]


class Undelivered(Exception):
    """A target did not take an event; the text is for the operator's log."""


Post = Callable[[str, int, Happening], Awaitable[None]]
"""Sends one event to the target of a name; the number is the event's sequence. Errors: Undelivered."""


class Lease(Protocol):
    """See `tiers.upkeep.leases.HeldLease`."""

    async def hold(self) -> bool: ...


class DeliveryTimes(NamedTuple):
    """Seconds between two looks at the outbox, and until an event that nobody takes is given up."""

    rest: float = 0.5
    retention: float = 7 * 86400.0


@dataclass(slots=True)
class DeliveryCounts:
    """What a delivery did, for metrics: events taken, tries that failed, events given up."""

    delivered: int = 0
    failed: int = 0
    expired: int = 0


@dataclass(slots=True)
class _Row:
    """A row on its way through a step. `left` are the targets that have not taken it."""

    event: Event
    happening: Happening
    left: dict[str, None] = field(init=False)
    is_tried: bool = False
    is_failed: bool = False

    def __post_init__(self) -> None:
        self.left = dict.fromkeys(self.happening.targets)


class Delivery:
    """A worker whose cursor is the outbox itself. What it keeps in memory only spares it looks at lanes held back."""

    name = "delivery"

    def __init__(
        self,
        reader: Reader,
        committer: Committer,
        post: Post,
        lease: Lease,
        *,
        clock: Callable[[], float],
        rng: random.Random,
        times: DeliveryTimes,
    ) -> None:
        self.counts = DeliveryCounts()
        self._reader, self._committer = reader, committer
        self._post, self._lease = post, lease
        self._clock, self._rng, self._times = clock, rng, times
        self._after: tuple[Any, ...] | None = None
        self._held_back: dict[Lane, int] = {}
        """Lanes and when they are due again, in milliseconds; every row up to `_after` is theirs."""

    async def step(self) -> Step:
        """Send what is due of one page of the outbox. Errors: those of reading and of a commit."""
        if not await self._lease.hold():
            self._start_over()
            return Step(0, is_idle=True)
        now_ms = int(self._clock() * 1000)
        if self._held_back and min(self._held_back.values()) <= now_ms:
            self._start_over()
        page = await self._reader.scan(EVENT, self._after, PAGE_ROWS)
        rows = [_Row(event, unpack_happening(event.payload)) for event in page]
        await self._send(rows, now_ms)
        settled = [self._settle(row, now_ms) for row in rows if row.is_tried]
        if settled:
            await self._committer.submit(SettleEvents(settled))
        if page:
            self._after = EVENT.key_of(page[-1])
        return Step(len(settled), is_idle=len(page) < PAGE_ROWS)

    async def wait_for_work(self) -> None:
        """Rest between looks."""
        await asyncio.sleep(self._times.rest)

    def _start_over(self) -> None:
        self._after = None
        self._held_back = {}

    async def _send(self, rows: Sequence[_Row], now_ms: int) -> None:
        room = asyncio.Semaphore(LANES_MAX)

        async def run(lane: Lane, waiting: Sequence[_Row]) -> None:
            async with room:
                await self._send_lane(lane, waiting, now_ms)

        async with asyncio.TaskGroup() as sending:
            for lane, waiting in _lanes_of(rows).items():
                if lane not in self._held_back:
                    sending.create_task(run(lane, waiting))

    async def _send_lane(self, lane: Lane, waiting: Sequence[_Row], now_ms: int) -> None:
        """Send a lane's rows in order, until one fails, is not due yet, or the lane has had its time."""
        until = self._clock() + LANE_SECONDS
        for row in waiting:
            if row.event.not_before_ms > now_ms:
                self._held_back[lane] = row.event.not_before_ms
                return
            if self._clock() > until:
                self._held_back[lane] = now_ms
                return
            if not await self._try(lane[1], row, now_ms):
                self._held_back[lane] = now_ms + self._backoff_ms(row.event.attempts + 1)
                return

    async def _try(self, target: str, row: _Row, now_ms: int) -> bool:
        row.is_tried = True
        if row.happening.happened_ms + self._times.retention * 1000 < now_ms:
            self.counts.expired += 1
            del row.left[target]
            return True
        try:
            await self._post(target, row.event.sequence, row.happening)
        except Undelivered:
            self.counts.failed += 1
            row.is_failed = True
            return False
        self.counts.delivered += 1
        del row.left[target]
        return True

    def _settle(self, row: _Row, now_ms: int) -> Settled:
        event = row.event
        if not row.is_failed:
            return Settled(event, tuple(row.left), event.attempts, event.not_before_ms)
        lanes = [(event.bucket_id, target) for target in row.left]
        not_before_ms = max(self._held_back.get(lane, now_ms) for lane in lanes)
        return Settled(event, tuple(row.left), event.attempts + 1, not_before_ms)

    def _backoff_ms(self, attempts: int) -> int:
        """Doubles with every failure in a row up to the maximum, then between half and all of it."""
        seconds = min(2.0 ** min(attempts - 1, BACKOFF_DOUBLINGS_MAX), BACKOFF_SECONDS_MAX)
        return int(seconds * 500 * (1 + self._rng.random()))


def _lanes_of(rows: Sequence[_Row]) -> Mapping[Lane, Sequence[_Row]]:
    """The rows of each lane, in order."""
    lanes: dict[Lane, list[_Row]] = {}
    for row in rows:
        for target in row.left:
            lanes.setdefault((row.event.bucket_id, target), []).append(row)
    return lanes
