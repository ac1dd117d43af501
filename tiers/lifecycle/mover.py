"""The mover: takes wishes for moves, and the worker that works them off.

A move is a row from the wish on. Its mover claims it together with the row of the blob it will write (pending, under a
lease), carries the bytes, and swaps the version's extents; then the old blob is reclaimed like any other after its
grace. Whatever dies in between leaves a pending blob, which the reaper declares dead, and a move for the next try.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from metadata.contract import Reader
from metadata.moves import Move, MoveState
from metadata.tables import MOVE, NONCURRENT, OBJECT
from metadata.types import Blob, Version, unpack_extents
from tiers.catalogue import AccessMode, Catalogue
from tiers.commit.contract import Committer
from tiers.errors import PlacementMoved, StorageError
from tiers.lifecycle.engine import MoveOrder
from tiers.lifecycle.move_bytes import Carriage
from tiers.lifecycle.move_mutations import (
    ClaimMoves,
    DropLost,
    GiveUpMoves,
    ReapMoves,
    RenewMoves,
    Schedules,
    SwapMoves,
)
from tiers.lifecycle.move_plan import Haul, Load, Placed, Reason, Result, Way, first_haul, way_of
from tiers.lifecycle.move_requests import CancelMove, ForgetMoves, MoveRefused, Refusal, RequestMove
from tiers.lifecycle.move_rows import NO_BLOB
from tiers.worker import Cursors, Step

logger = logging.getLogger(__name__)

QUEUE_MOVES_MAX: Final = 10_000
"""Moves that wait; whoever asks for more is refused and asks again later."""

ENDED_MOVES_MAX: Final = 10_000
"""Outcomes kept; beyond it the oldest are forgotten before their time."""

PLANNED_MAX: Final = 512
"""Waiting moves that are looked at for the next haul."""

TIDIED_MAX: Final = 1000
"""Ended or abandoned moves that one step sees to."""

HAULS_MAX: Final = 2
"""Hauls under way at once: beside a large content small ones go on."""

STEP_SECONDS: Final = 1.0
"""A step waits so long for a haul to end; the haul goes on beyond it."""

LEASE_MS: Final = 600_000
"""Longer than one piece of work between two looks at the lease may take, far shorter than reclaim's grace."""

REST_SECONDS: Final = 5.0
EVER_MS: Final = 2**62

PRIORITY_DEFAULT: Final = 100
PRIORITY_LAST: Final = 1000

_PAUSED: Final = "moves paused"


class MoveCounted(NamedTuple):
    """A move that ended, for metrics; `byte_count` is what was written in the target tier."""

    source: str
    target: str
    reason: str
    result: str
    byte_count: int


class MoveWish(NamedTuple):
    """What `Mover.move` is asked: which version, where to, as which class (None: its own), for whom, how urgently.

    `priority` 0 is the most urgent.
    """

    bucket_id: int
    key: bytes
    sequence: int
    to_tier: str
    storage_class: str | None
    reason: Reason
    priority: int = PRIORITY_DEFAULT


class Mover:
    """Takes, shows, cancels and pauses moves. Used on one event loop; `catalogue` may be replaced."""

    def __init__(self, reader: Reader, committer: Committer, catalogue: Catalogue, cursors: Cursors) -> None:
        self._reader, self._committer, self._cursors = reader, committer, cursors
        self.catalogue = catalogue
        self.woken = asyncio.Event()
        """Set when there may be something to do; the worker of this process clears it."""

    async def move(self, wish: MoveWish) -> Move:
        """Enter a move into the queue; the row as it is, the open one where the same was asked for before.

        Durable on return; done later. Cost: two reads and one commit. Errors: MoveRefused, those of a commit.
        """
        self.check(wish)
        if await self._reader.count_moves(MoveState.QUEUED) >= QUEUE_MOVES_MAX:
            raise MoveRefused(Refusal.QUEUE_FULL)
        bucket = await self._reader.bucket_of_id(wish.bucket_id)
        if bucket is None:
            raise MoveRefused(Refusal.NO_VERSION)
        move = await self._committer.submit(RequestMove(_draft(wish, bucket.name)))
        self.woken.set()
        return move

    async def take(self, order: MoveOrder) -> bool:
        """See `tiers.lifecycle.engine.Mover`. A version that is gone, or moves already, is taken over well enough."""
        tier = self.catalogue.tier_of(order.storage_class)
        bucket_id, key, sequence = order.version.bucket_id, order.version.key, order.version.sequence
        try:
            await self.move(MoveWish(bucket_id, key, sequence, tier, order.storage_class, Reason.LIFECYCLE))
        except MoveRefused as refused:
            return refused.reason is not Refusal.QUEUE_FULL
        return True

    def check(self, wish: MoveWish) -> None:
        """Refuse what no version could do. Errors: MoveRefused."""
        tiers = {tier.name: tier for tier in self.catalogue.tiers()}
        tier = tiers.get(wish.to_tier)
        if tier is None:
            raise MoveRefused(Refusal.NO_TIER)
        if wish.storage_class is not None and wish.storage_class not in {*tier.storage_classes, tier.name}:
            raise MoveRefused(Refusal.CLASS_ELSEWHERE)
        if tier.access_mode is AccessMode.RESTORE and wish.storage_class is None:
            raise MoveRefused(Refusal.MUST_WAIT)

    async def find(self, sequence: int) -> Move | None:
        """The newest move of a version."""
        return await self._reader.get_row(MOVE, (sequence,))

    async def cancel(self, sequence: int) -> Move | None:
        """End a move that waits; a running one loses its swap. The row as it is then, None when there is none."""
        move = await self.find(sequence)
        return None if move is None else await self._committer.submit(CancelMove([move]))

    async def pause(self) -> None:
        """Begin no further move, also after a restart; those under way end."""
        await self._cursors.save(_PAUSED, b"1")

    async def resume(self) -> None:
        """Begin moves again."""
        await self._cursors.save(_PAUSED, b"")
        self.woken.set()

    async def is_paused(self) -> bool:
        """Whether moves are paused."""
        return bool(await self._cursors.load(_PAUSED))


class MoveWorker:
    """Works the queue off: the most urgent first, small contents together. A `Worker`; `close` when no step runs.

    `owner` is `<process>/<incarnation>`: what an earlier incarnation of the process left running is taken back at the
    first step. `observe` is told of every move that ends. `schedules` are for the commit thread alone.
    """

    name = "moves"

    def __init__(
        self,
        mover: Mover,
        reader: Reader,
        committer: Committer,
        carriage: Carriage,
        *,
        owner: str,
        schedules: Schedules,
        observe: Callable[[MoveCounted], None] = lambda counted: None,
        step_seconds: float = STEP_SECONDS,
    ) -> None:
        self._mover, self._reader, self._committer, self._carriage = mover, reader, committer, carriage
        self._owner, self._observe, self._schedules = owner, observe, schedules
        self._step_seconds = step_seconds
        self._tasks: set[asyncio.Task[int]] = set()
        self._has_begun = False

    async def wait_for_work(self) -> None:
        """Return when a move was asked for, or after a while."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._mover.woken.wait(), REST_SECONDS)

    async def step(self) -> Step:
        """See `Worker`. A haul that is long goes on beside the steps."""
        self._mover.woken.clear()
        await self._tidy()
        settled = 0
        if not await self._mover.is_paused():
            for _ in range(HAULS_MAX - len(self._tasks)):
                haul = await self._next()
                if haul is None:
                    break
                settled += await self._begin(haul)
        if not self._tasks:
            return Step(settled, is_idle=not settled)
        done, _ = await asyncio.wait(self._tasks, timeout=self._step_seconds, return_when=asyncio.FIRST_COMPLETED)
        self._tasks -= done
        return Step(settled + sum(task.result() for task in done), is_idle=False)

    async def close(self) -> None:
        """Give up what is under way; its moves wait for the next process."""
        tasks, self._tasks = self._tasks, set()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # ---------------------------------------------------------------- what others left

    async def _tidy(self) -> None:
        now_ms = int(self._carriage.clock() * 1000)
        if not self._has_begun:
            running = await self._reader.list_moves(MoveState.RUNNING, EVER_MS, 2 * QUEUE_MOVES_MAX)
            process = self._owner.partition("/")[0] + "/"
            left = [move for move in running if move.owner.startswith(process) and move.owner != self._owner]
            await self._reap(left, is_owner_gone=True)
            self._has_begun = True
        await self._reap(await self._reader.list_moves(MoveState.RUNNING, now_ms, TIDIED_MAX))
        excess = await self._reader.count_moves(MoveState.ENDED) - ENDED_MOVES_MAX
        old = await self._reader.list_moves(MoveState.ENDED, now_ms, TIDIED_MAX)
        if excess > 0:
            old = await self._reader.list_moves(MoveState.ENDED, EVER_MS, min(excess, TIDIED_MAX))
        if old:
            await self._committer.submit(ForgetMoves(old))

    async def _reap(self, moves: Sequence[Move], *, is_owner_gone: bool = False) -> None:
        for start in range(0, len(moves), TIDIED_MAX):
            some = moves[start : start + TIDIED_MAX]
            self._count(await self._committer.submit(ReapMoves(some, is_owner_gone=is_owner_gone)))

    # ---------------------------------------------------------------- what goes next

    async def _next(self) -> Haul | None:
        """What is due and most urgent, as far as it can go together."""
        now_ms = int(self._carriage.clock() * 1000)
        weighed: list[tuple[Load, Way]] = []
        lost: list[Move] = []
        for move in await self._reader.list_moves(MoveState.QUEUED, now_ms, PLANNED_MAX):
            version = await find_moving(self._reader, move)
            if version is None:
                lost.append(move)
                continue
            blobs = {extent.blob_id for extent in unpack_extents(version.extents)}
            tiers = {row.tier for row in await self._reader.get_blobs(sorted(blobs))} if blobs else set()
            weighed.append((Load(move, version), way_of(version, move.target, tiers)))
        if lost:
            self._count(await self._committer.submit(DropLost(lost)))
        return first_haul(weighed)

    async def _begin(self, haul: Haul) -> int:
        """Claim a haul and set it going; how many moves were settled at once."""
        if haul.way is Way.NONE:
            placed = [Placed(load, load.extents) for load in haul.loads]
            return self._count(await self._committer.submit(SwapMoves(placed, None, self._schedules)))
        try:
            planned = self._carriage.plan(haul)
        except (StorageError, KeyError) as error:  # KeyError: a tier that the catalogue lost since
            return await self._give_up([load.move for load in haul.loads], f"{type(error).__name__}: {error}")
        claim = ClaimMoves(haul.loads, planned, self._owner, LEASE_MS)
        claimed = await self._committer.submit(claim)
        if claimed:
            self._tasks.add(asyncio.ensure_future(self._carry(haul._replace(loads=claimed), planned)))
        return 0

    async def _carry(self, haul: Haul, planned: Blob) -> int:
        """Carry a claimed haul and swap; how many moves ended."""
        moves = [load.move for load in haul.loads]
        lease = _HeldMoves(self._committer, moves, self._carriage.clock)
        try:
            placed, blob = await self._carriage.carry(haul, planned, lease.beat)
            return self._count(await self._committer.submit(SwapMoves(placed, blob, self._schedules)), is_carried=True)
        except StorageError as error:
            # Also when the outcome of the swap is unknown: if it happened, the moves have ended and the blob lives.
            return await self._give_up(moves, f"{type(error).__name__}: {error}")
        except asyncio.CancelledError:
            self._committer.submit(GiveUpMoves(moves, "its process ended", is_counted=False)).add_done_callback(
                _retrieve
            )
            raise

    async def _give_up(self, moves: Sequence[Move], text: str) -> int:
        logger.warning("%d moves to %s failed: %s", len(moves), moves[0].target, text)
        return self._count(await self._committer.submit(GiveUpMoves(moves, text)))

    def _count(self, moves: Sequence[Move], *, is_carried: bool = False) -> int:
        """Tell of the moves that ended; how many."""
        ended = [move for move in moves if move.state == MoveState.ENDED]
        for move in ended:
            byte_count = move.byte_count if is_carried and move.result == Result.MOVED else 0
            self._observe(MoveCounted(move.source, move.target, move.reason, move.result, byte_count))
        return len(ended)


class _HeldMoves:
    """The lease of moves under way; renewed when a third of it is over."""

    def __init__(self, committer: Committer, moves: Sequence[Move], clock: Callable[[], float]) -> None:
        self._committer, self._moves, self._clock = committer, moves, clock
        self._renewed = clock()

    async def beat(self) -> None:
        """Keep the lease. Errors: PlacementMoved when it was taken away: what is still written is for nothing."""
        now = self._clock()
        if now - self._renewed < LEASE_MS / 3000:
            return
        self._renewed = now
        if not await self._committer.submit(RenewMoves(self._moves, LEASE_MS)):
            raise PlacementMoved("the lease is over")


async def find_moving(reader: Reader, move: Move) -> Version | None:
    """The version that a move is about, as committed; None when it is gone or a delete marker."""
    current = await reader.get_row(OBJECT, (move.bucket_id, move.key))
    if current is None or current.sequence != move.sequence:
        current = await reader.get_row(NONCURRENT, (move.bucket_id, move.key, move.sequence))
    return None if current is None or current.is_delete_marker else current


def _draft(wish: MoveWish, bucket: str) -> Move:
    return Move(
        wish.sequence, wish.bucket_id, wish.key, bucket, "", "", wish.to_tier, wish.storage_class or "",
        wish.reason, wish.priority, MoveState.QUEUED, "", "", 0, "", NO_BLOB, 0, 0, 0, 0,
    )  # fmt: skip


def _retrieve(future: "asyncio.Future[list[Move]]") -> None:
    """Losing this record is harmless: the lease ends, or the next incarnation takes the moves back."""
    if not future.cancelled():
        future.exception()
