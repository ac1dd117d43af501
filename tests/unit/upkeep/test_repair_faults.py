"""Repair under faults: killed at every device call, refused by devices, hung, overtaken by others."""

import asyncio
import itertools
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from metadata.tables import BLOB
from metadata.types import Blob
from tests.audit import all_rows, audit_files, audit_references
from tests.unit.commit.cut import CutMetadata, Died
from tests.unit.upkeep.damage import (
    LARGE,
    contents_of,
    delete,
    enter,
    flip,
    places,
    queue,
    row_of,
    striped_blobs,
)
from tests.unit.upkeep.test_reclaim import in_world
from tests.unit.upkeep.test_repair import OFFSETS, in_spare_world, put_warm
from tests.world import GRACE_SECONDS, World, run_pass
from tiers.commit.committer import GroupCommitter
from tiers.devices.contract import Area
from tiers.devices.fleet import Fleet
from tiers.devices.interception import Operation
from tiers.errors import DeviceFailed
from tiers.namespace.types import DeleteTarget
from tiers.upkeep.device_calls import DeviceCalls
from tiers.upkeep.repair_mutations import SwapPlacement


class Killer:
    """Counts the calls of a tier's devices and lets the process die before the `nth`; none happens after that.

    The log's tier is another one: what dies with a commit has its own test.
    """

    def __init__(self, world: World, nth: int, tier: str) -> None:
        self._left, self._lock = nth, threading.Lock()
        self._devices = [device for device in world.devices.values() if device.device_id.startswith(tier)]
        for device in self._devices:
            device.hang = self._before

    def _before(self, operation: Operation) -> None:
        with self._lock:
            self._left -= 1
            if self._left < 0:
                raise Died(operation)

    def revive(self) -> None:
        for device in self._devices:
            device.hang = None


async def killed(world: World, nth: int, tier: str = "warm") -> bool:
    """Run a repair that dies before its `nth` device call; whether it came that far."""
    killer = Killer(world, nth, tier)
    try:
        await run_pass(world.repair)
    except Died:
        return True
    finally:
        killer.revive()
    return False


Damage = Callable[[World, Blob], None]


def lose_two(world: World, blob: Blob) -> None:
    delete(world, blob, 0, 3)


def spoil_two(world: World, blob: Blob) -> None:
    flip(world, blob, 0, OFFSETS["row"])
    flip(world, blob, 3, OFFSETS["last row"])


def spoil_all(world: World, blob: Blob) -> None:
    for index in range(4):
        flip(world, blob, index, 4096 + index * 65536)


@pytest.mark.parametrize("damage", [lose_two, spoil_two, spoil_all], ids=lambda damage: damage.__name__)
def test_killed_at_any_device_call_the_blob_stays_readable_and_the_next_run_ends_it(
    tmp_path: Path, damage: Damage
) -> None:
    async def check(world: World) -> None:
        for nth in itertools.count():
            key, content = f"k{nth}", LARGE[: 400_000 + nth]
            version = await put_warm(world, key, content)
            (blob,) = [one for one in await striped_blobs(world) if one.size == len(content)]
            damage(world, blob)
            await enter(world, blob, 0, 3)
            did_die = await killed(world, nth)
            assert await world.read(version) == content
            await queue(world)  # what the read reported is in it
            await run_pass(world.repair)
            assert await queue(world) == []
            row = await row_of(world, blob)
            assert None not in contents_of(world, row).values()
            delete(world, row, 1, 2)
            assert await world.read(version) == content
            await world.namespace.objects.delete("bucket", DeleteTarget(key))
            if not did_die:
                assert nth > 10
                return
            world.clock.advance(GRACE_SECONDS + 1)
            await run_pass(world.reclaim)

    in_world(tmp_path, check)


@pytest.mark.parametrize("is_after", [False, True])
def test_killed_at_its_commit_the_next_run_ends_it(tmp_path: Path, is_after: bool) -> None:
    async def check(world: World) -> None:
        version = await put_warm(world)
        (blob,) = await striped_blobs(world)
        before = contents_of(world, blob)
        delete(world, blob, 0)
        await enter(world, blob, 0)
        calm = world.committer
        cut = CutMetadata(world.metadata, 1, after=is_after)
        world.committer = GroupCommitter(
            cut, world.catalogue, world.fleet, worker=1, clock=world.clock, new_id=world.new_id, rng=world.rng
        )
        await world.committer.start()
        with pytest.raises(Exception, match="Died"):
            await run_pass(world.repair)
        await world.committer.stop()
        world.committer = calm
        await run_pass(world.repair)
        assert await queue(world) == []
        assert contents_of(world, blob) == before
        assert await world.read(version) == LARGE

    in_world(tmp_path, check)


@pytest.mark.parametrize("operation", [Operation.STAGE, Operation.WRITE, Operation.FLUSH, Operation.PUBLISH])
def test_a_device_that_refuses_is_passed_over(tmp_path: Path, operation: Operation) -> None:
    async def check(world: World) -> None:
        version = await put_warm(world)
        (blob,) = await striped_blobs(world)
        delete(world, blob, 2)
        await enter(world, blob, 2)
        sick = places(blob)[2][0]
        world.devices[sick].fail([operation], times=None)
        assert await run_pass(world.repair) == 1
        row = await row_of(world, blob)
        assert set(row.placement.split(" ")) == {f"warm-{n}" for n in (0, 1, 2, 3, 9)} - {sick}
        assert await world.read(version) == LARGE
        await audit_files(world)

    in_spare_world(tmp_path, check)


@pytest.mark.parametrize("when", ["before publish", "before swap"])
@pytest.mark.parametrize("is_spare", [False, True])
def test_a_blob_deleted_meanwhile_leaves_nothing_behind(tmp_path: Path, when: str, is_spare: bool) -> None:
    async def check(world: World) -> None:
        await put_warm(world)
        (blob,) = await striped_blobs(world)
        delete(world, blob, 1)
        await enter(world, blob, 1)
        if is_spare:
            world.devices[places(blob)[1][0]].fail([Operation.STAGE], times=None)
        fired = asyncio.Event()
        loop = asyncio.get_running_loop()
        moment = Operation.FLUSH if when == "before publish" else Operation.PUBLISH

        def at(operation: Operation) -> None:
            if operation is moment and not fired.is_set():
                loop.call_soon_threadsafe(fired.set)
                removal = world.namespace.objects.delete("bucket", DeleteTarget("k"))
                asyncio.run_coroutine_threadsafe(removal, loop).result(10)

        for device in world.devices.values():
            if device.device_id.startswith("warm"):
                device.hang = at
        await run_pass(world.repair)
        assert fired.is_set()
        for device in world.devices.values():
            device.clear_faults()
        assert await queue(world) == []
        assert not world.files(Area.STAGING)
        world.clock.advance(GRACE_SECONDS + 1)
        await run_pass(world.reclaim)
        assert not world.files(Area.FRAGMENTS)
        assert not await striped_blobs(world)
        await audit_files(world)

    (in_spare_world if is_spare else in_world)(tmp_path, check)


def test_a_blob_repaired_meanwhile_keeps_the_other_repair(tmp_path: Path) -> None:
    """The other one moved the fragment to the spare device while ours was on its way back to the old one."""

    async def check(world: World) -> None:
        version = await put_warm(world)
        (blob,) = await striped_blobs(world)
        gone = places(blob)[1]
        raw = contents_of(world, blob)[1]
        assert raw is not None
        delete(world, blob, 1)
        await enter(world, blob, 1)
        names = blob.placement.split(" ")
        names[1] = "warm-9"
        loop = asyncio.get_running_loop()
        rivals: list[Operation] = []

        def rival(operation: Operation) -> None:
            if operation is Operation.PUBLISH and not rivals:
                rivals.append(operation)
                world.devices["warm-9"].store(Area.FRAGMENTS, gone[2], raw)
                swap = SwapPlacement(blob, " ".join(names), blob.generation, [1])

                async def submit() -> None:
                    await world.committer.submit(swap)

                asyncio.run_coroutine_threadsafe(submit(), loop).result(10)

        world.devices[gone[0]].hang = rival
        assert await run_pass(world.repair) == 0
        assert rivals
        assert (await row_of(world, blob)).placement == " ".join(names)
        assert await queue(world) == []
        assert await world.read(version) == LARGE
        await audit_files(world)
        await audit_references(world)

    in_spare_world(tmp_path, check)


def test_a_blob_that_died_leaves_the_queue(tmp_path: Path) -> None:
    async def check(world: World) -> None:
        await put_warm(world)
        (blob,) = await striped_blobs(world)
        await enter(world, blob, 0, 1)
        await world.namespace.objects.delete("bucket", DeleteTarget("k"))
        assert await run_pass(world.repair) == 0
        assert await queue(world) == []
        assert len(await all_rows(world.reader, BLOB)) == 2, "the blob waits for reclaim"

    in_world(tmp_path, check)


def test_an_interrupted_repair_removes_what_it_staged(tmp_path: Path) -> None:
    async def check(world: World) -> None:
        await put_warm(world)
        (blob,) = await striped_blobs(world)
        delete(world, blob, 0)
        await enter(world, blob, 0)
        worker = world.repair()
        job = await worker._next()
        assert job is not None
        while not world.files(Area.STAGING):
            assert job.advance(1) is None
        worker._job = job
        await worker.close()
        assert not world.files(Area.STAGING)
        assert await run_pass(lambda: worker) == 1, "another run begins anew"

    in_world(tmp_path, check)


def test_a_hung_device_is_given_up_and_not_used_before_it_answers(tmp_path: Path) -> None:
    async def check(world: World) -> None:
        released = threading.Event()

        def hang(operation: Operation) -> None:
            released.wait(10)

        world.devices["hot-0"].hang = hang
        calls = DeviceCalls(world.fleet, timeout_seconds=0.05)
        device = calls.device("hot-0")
        with pytest.raises(DeviceFailed):
            await asyncio.to_thread(calls.call, "hot-0", device.capacity)
        assert not calls.is_usable("hot-0")
        assert calls.is_usable("hot-1")
        world.devices["hot-0"].hang = None
        released.set()
        while not calls.is_usable("hot-0"):  # noqa: ASYNC110  # a thread is waited for, not a task
            await asyncio.sleep(0.01)

    in_world(tmp_path, check)


def test_a_device_that_is_not_here_is_not_usable() -> None:
    calls = DeviceCalls(Fleet({}))
    assert not calls.is_usable("")
    with pytest.raises(DeviceFailed):
        calls.device("gone")
