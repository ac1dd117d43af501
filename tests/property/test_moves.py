"""Random client operations, moves to every tier and deaths of the mover against the plain model of a namespace.

The model knows nothing of tiers: whatever moves, dies or is cancelled, bytes, headers, listings and counters are what
clients made them, and after reclaim the devices hold exactly what the rows place. A failing example prints its seed.
"""

import asyncio
import random
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from metadata.moves import MoveState
from metadata.tables import MOVE, NONCURRENT, OBJECT
from metadata.types import Version
from tests.audit import all_rows, audit_files, audit_references
from tests.property.test_namespace import LIMITS, History
from tests.unit.lifecycle.moving import Death, Died, DyingCommitter, Moving
from tests.world import GRACE_SECONDS, open_world, run_pass
from tiers.lifecycle.move_requests import MoveRefused
from tiers.lifecycle.mover import LEASE_MS

PLACES = (("warm", "STANDARD_IA"), ("hot", "STANDARD"), ("warm", None), ("hot", None))


@dataclass
class MovingHistory(History):
    """A history in which versions move too."""

    moved: int = 0
    deaths: int = 0

    def moving(self, death: Death | None = None) -> Moving:
        """A fresh control process."""
        committer = self.world.committer
        return Moving(self.world, committer if death is None else DyingCommitter(committer, death), death)

    async def _versions(self) -> list[Version]:
        rows = await all_rows(self.world.reader, OBJECT) + await all_rows(self.world.reader, NONCURRENT)
        return [row for row in rows if not row.is_delete_marker]

    async def ask(self) -> None:
        moving = self.moving()
        for version in await self._versions():
            if self.rng.random() < 0.6:
                with suppress(MoveRefused):
                    await moving.ask(version, *self.rng.choice(PLACES), priority=self.rng.randrange(3))

    async def work(self) -> None:
        moving = self.moving()
        moving.carriage.act = self.rng.choice((None, self.put, self.delete, self.set_tags, self.compact_beside))
        await moving.work()
        self.moved += sum(one.result == "moved" for one in moving.counted)

    async def compact_beside(self) -> None:
        await run_pass(self.world.compaction)

    async def cancel(self) -> None:
        moves = await all_rows(self.world.reader, MOVE)
        if moves:
            await self.moving().mover.cancel(self.rng.choice(moves).sequence)

    async def die(self) -> None:
        """The mover dies at some step; what a client sees is the same, before and after the next one took over."""
        death = Death()
        death.arm(self.rng.randrange(1, 60))
        moving = self.moving(death)
        with suppress(Died):
            await moving.work()
        self.deaths += death.has_come
        await moving.worker.close()
        if self.rng.random() < 0.5:
            await self.world.restart()
        await self.compare()

    async def wait(self) -> None:
        self.world.clock.advance(LEASE_MS / 1000)

    def operations(self) -> list[tuple[Callable[[], Awaitable[None]], int]]:
        return [
            *super().operations(),
            (self.ask, 8), (self.work, 6), (self.die, 5), (self.cancel, 2), (self.wait, 2),
        ]  # fmt: skip


async def play(seed: int, steps: int) -> tuple[int, int]:
    with tempfile.TemporaryDirectory() as folder:
        async with open_world(Path(folder), seed=seed, limits=LIMITS) as world:
            history = MovingHistory(world, random.Random(seed))
            await history.run(steps)
            await history.compare()
            await audit_references(world)
            for _ in range(10):  # whatever was left to the mover is done, or given up
                world.clock.advance(10 * GRACE_SECONDS)
                await history.moving().work()
            assert all(move.state == MoveState.ENDED for move in await all_rows(world.reader, MOVE))
            await history.compact()
            world.clock.advance(10 * GRACE_SECONDS)
            await run_pass(world.reclaim)
            await audit_files(world)
            await audit_references(world)
            await history.compare()
            return history.moved, history.deaths


@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=8, deadline=None, derandomize=True)
def test_moves_change_nothing_that_a_client_sees(seed: int) -> None:
    asyncio.run(play(seed, steps=40))


def test_histories_move_and_die() -> None:
    """What the property above says would be empty if nothing moved. How far a step comes is the threads' to decide."""
    moved = deaths = 0
    for seed in range(20):
        outcome = asyncio.run(play(seed, steps=40))
        moved, deaths = moved + outcome[0], deaths + outcome[1]
        if moved > 5 and deaths > 1:
            return
    raise AssertionError(f"{moved} moves, {deaths} deaths in 20 histories")
