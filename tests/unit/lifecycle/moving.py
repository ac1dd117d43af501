"""A world whose versions move: the mover of the product over memory devices, and what the tests ask of it."""

import asyncio
import itertools
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from metadata.moves import Move
from metadata.types import Blob, Extent, Version, unpack_extents
from tests.audit import audit_files, audit_references
from tests.world import GRACE_SECONDS, SMALL_LIMITS, World, open_world, run_pass
from tiers.commit.contract import Committer, Mutation
from tiers.datapath.reader import ContentReader
from tiers.datapath.stripes import StripePool
from tiers.datapath.writer import BlobWriter
from tiers.devices.contract import Device
from tiers.devices.interception import InterceptedDevice, Operation
from tiers.lifecycle.due import timetables
from tiers.lifecycle.move_bytes import Beat, Carriage
from tiers.lifecycle.move_mutations import Schedules
from tiers.lifecycle.move_pacing import ByteRates
from tiers.lifecycle.move_plan import Haul, Placed, Reason
from tiers.lifecycle.mover import MoveCounted, Mover, MoveWish, MoveWorker
from tiers.namespace.bucket_rules import RulesOfBuckets
from tiers.namespace.context import Limits

DAY_MS = 86_400_000
INCARNATIONS = itertools.count()
T = TypeVar("T")


class Died(BaseException):
    """The process is dead: nothing of it goes on, no undo either."""


class Death:
    """Kills a process at one of its steps: calls of devices, and commits before and after they are made.

    The process dies at step `at`, 0 for never, and every later step of it finds it dead.
    """

    def __init__(self) -> None:
        self.at = self.count = 0
        self._lock = threading.Lock()

    def arm(self, at: int) -> None:
        """Count anew, and die at that step."""
        self.at, self.count = at, 0

    @property
    def has_come(self) -> bool:
        return bool(self.at) and self.count >= self.at

    def step(self) -> None:
        with self._lock:
            self.count += 1
        if self.has_come:
            raise Died


class DyingDevice(InterceptedDevice):
    """A device as a process sees it that may die; what other processes do with it is theirs."""

    label = "dying"

    def __init__(self, inner: Device, death: Death) -> None:
        super().__init__(inner)
        self._death = death

    def around(self, operation: Operation, byte_count: int, call: Callable[[], T], *, wait: bool = True) -> T:
        self._death.step()
        return call()


class DyingCommitter:
    """The committer of a process that may die."""

    def __init__(self, inner: Committer, death: Death) -> None:
        self._inner, self._death = inner, death

    def submit(self, mutation: Mutation[T]) -> "asyncio.Future[T]":
        return asyncio.ensure_future(self._submit(mutation))

    async def _submit(self, mutation: Mutation[T]) -> T:
        self._death.step()
        outcome = await self._inner.submit(mutation)
        self._death.step()
        return outcome


class HeldCarriage(Carriage):
    """Does `act` once between the bytes and the swap."""

    act: Callable[[], Awaitable[None]] | None = None

    async def carry(self, haul: Haul, planned: Blob, beat: Beat) -> tuple[list[Placed], Blob]:
        carried = await super().carry(haul, planned, beat)
        act, self.act = self.act, None
        if act is not None:
            await act()
        return carried


@dataclass
class Moving:
    """One control process over a world; `committer` may be another than the world's, to fail where a test wants."""

    world: World
    committer: Committer
    death: Death | None = None
    counted: list[MoveCounted] = field(default_factory=list)

    def __post_init__(self) -> None:
        world, death = self.world, self.death
        fleet, contents, writer = world.fleet, world.contents, world.writer
        if death is not None:
            fleet = world.fleet.wrapped(lambda device: DyingDevice(device, death))
            contents = ContentReader(fleet, world.reader, world.executor)
            stripes = StripePool(64 << 20)
            writer = BlobWriter(
                world.catalogue,
                fleet,
                stripes,
                world.executor,
                clock=world.clock,
                new_id=world.new_id,
                rng=world.rng,
            )
        self.mover = Mover(world.reader, self.committer, world.catalogue, world.cursors)
        self.carriage = HeldCarriage(
            contents,
            writer,
            fleet,
            world.catalogue,
            ByteRates({}, 0, world.clock),
            world.clock,
            world.new_id,
            world.rng,
        )
        self.worker = self.another(f"0/{next(INCARNATIONS)}")

    def another(self, owner: str) -> MoveWorker:
        """One more worker over the same store."""
        return MoveWorker(
            self.mover,
            self.world.reader,
            self.committer,
            self.carriage,
            owner=owner,
            schedules=Schedules(RulesOfBuckets(timetables(DAY_MS))),
            observe=self.counted.append,
            step_seconds=60.0,
        )

    async def ask(self, version: Version, to_tier: str, storage_class: str | None = None, **more: Any) -> Move:
        """Wish a move of a version."""
        wish = MoveWish(
            version.bucket_id, version.key, version.sequence, to_tier, storage_class, Reason.OPERATOR, **more
        )
        return await self.mover.move(wish)

    async def work(self) -> int:
        """Work off everything that is due; how many moves ended."""
        return await run_pass(lambda: self.worker)

    async def found(self, version: Version) -> Version:
        """The row of a version now."""
        key = version.key.decode()
        return (await self.world.namespace.objects.find("bucket", key, version.version_id)).version

    def extents(self, version: Version) -> list[Extent]:
        """Where a version's bytes are."""
        return unpack_extents(version.extents)

    async def tiers_of(self, version: Version) -> set[str]:
        """The tiers that a version's blobs lie in."""
        ids = sorted({extent.blob_id for extent in self.extents(version)})
        return {row.tier for row in await self.world.reader.get_blobs(ids)} if ids else set()

    def before_swap(self, act: Callable[[], Awaitable[None]]) -> None:
        """Do something once, when the bytes of the next haul are written and nothing is swapped yet."""
        self.carriage.act = act

    async def outcome(self, version: Version) -> str:
        """How the newest move of a version ended, empty while it has not."""
        move = await self.mover.find(version.sequence)
        assert move is not None
        return move.result


def unplaced(version: Version) -> Version:
    """A version without what a move may change."""
    return version._replace(extents=b"", tier="", storage_class="")


async def settle(world: World) -> None:
    """Reclaim past every grace; then the devices hold what the rows place and nothing else."""
    await audit_references(world)
    await world.restart()
    await world.namespace.buckets.put_document("bucket", "tagging", b"seals")
    world.clock.advance(10 * GRACE_SECONDS)
    await run_pass(world.reclaim)
    await audit_files(world)
    await audit_references(world)


def with_moves(path: Path, act: Callable[[Moving], Awaitable[None]], *, limits: Limits = SMALL_LIMITS) -> None:
    """Run a test over a fresh world; at its end nothing may be left over."""

    async def run() -> None:
        async with open_world(path, limits=limits) as world:
            moving = Moving(world, world.committer)
            await act(moving)
            await moving.worker.close()
            await settle(world)

    asyncio.run(run())
