"""The repair queue as work: the most endangered first, rests that grow, margins; and what readers report into it."""

import asyncio
from pathlib import Path

import pytest

from metadata.tables import REPAIR
from metadata.types import Blob
from tests.audit import all_rows
from tests.unit.upkeep.damage import LARGE, delete, enter, queue, striped_blobs
from tests.unit.upkeep.test_reclaim import in_world
from tests.unit.upkeep.test_repair import put_warm
from tests.world import World, run_pass
from tiers.errors import PlacementMoved
from tiers.namespace.types import DeleteTarget
from tiers.upkeep.repair_mutations import ForgetRepairs, SwapPlacement
from tiers.upkeep.repair_queue import BACKOFF_SECONDS_MAX, RepairQueue, margin_of
from tiers.upkeep.reports import NOTED_SECONDS, FragmentReports


async def several(world: World, count: int) -> list[Blob]:
    """Blobs that may lose two fragments each, in the order they were put."""
    for number in range(count):
        await put_warm(world, f"k{number}", LARGE[: 200_000 + number])
    return sorted(await striped_blobs(world), key=lambda blob: blob.size)


async def drained(repairs: RepairQueue) -> list[bytes]:
    found = []
    while (due := await repairs.next()) is not None:
        found.append(due.blob_id)
        repairs.rest(due.blob_id)
    return found


def test_the_most_endangered_come_first(tmp_path: Path) -> None:
    async def check(world: World) -> None:
        blobs = await several(world, 5)
        for lost, blob in zip((1, 2, 1, 2, 3), blobs, strict=True):
            await enter(world, blob, *range(lost))
        repairs = RepairQueue(world.reader, world.clock)
        order = [next(n for n, blob in enumerate(blobs) if blob.blob_id == id_) for id_ in await drained(repairs)]
        assert order[0] == 4
        assert set(order[1:3]) == {1, 3}
        assert set(order[3:]) == {0, 2}
        assert repairs.margins == {-1: 1, 0: 2, 1: 2}

    in_world(tmp_path, check)


def test_a_blob_that_failed_rests_longer_each_time(tmp_path: Path) -> None:
    async def check(world: World) -> None:
        (blob,) = await several(world, 1)
        await enter(world, blob, 0)
        repairs = RepairQueue(world.reader, world.clock)
        rests = []
        for _ in range(10):
            assert await drained(repairs) == [blob.blob_id]
            began = world.clock.now
            while await repairs.next() is None:
                world.clock.advance(10)
            rests.append(world.clock.now - began)
        assert rests == sorted(rests)
        assert rests[0] <= 40
        assert rests[-1] <= BACKOFF_SECONDS_MAX + 10
        repairs.end(blob.blob_id)
        assert await drained(repairs) == [blob.blob_id]

    in_world(tmp_path, check)


def test_entries_of_blobs_that_are_gone_end(tmp_path: Path) -> None:
    async def check(world: World) -> None:
        (blob,) = await several(world, 1)
        await enter(world, blob, 0, 1)
        assert not await world.committer.submit(ForgetRepairs(blob.blob_id, [0, 1])), "it lives"
        assert len(await all_rows(world.reader, REPAIR)) == 2
        await world.namespace.objects.delete("bucket", DeleteTarget("k0"))
        assert await run_pass(world.repair) == 0
        assert await queue(world) == []

    in_world(tmp_path, check)


def test_a_swap_is_refused_when_the_blob_is_placed_otherwise_by_now(tmp_path: Path) -> None:
    async def check(world: World) -> None:
        (blob,) = await several(world, 1)
        await enter(world, blob, 0)
        other = " ".join(reversed(blob.placement.split(" ")))
        for seen in (blob._replace(placement=other), blob._replace(generation=7)):
            with pytest.raises(PlacementMoved):
                await world.committer.submit(SwapPlacement(seen, blob.placement, 1, [0]))
        assert len(await queue(world)) == 1
        await world.committer.submit(SwapPlacement(blob, blob.placement, 1, [1]))
        assert len(await queue(world)) == 1, "the entry of another fragment stays"
        await world.namespace.objects.delete("bucket", DeleteTarget("k0"))
        with pytest.raises(PlacementMoved):
            await world.committer.submit(SwapPlacement(blob, blob.placement, 1, [0]))

    in_world(tmp_path, check)


def test_a_pack_may_lose_all_copies_but_one() -> None:
    pack = Blob(b"p" * 16, "hot", 0, "copies:3", 0, 0, 1, "a b c", 0, 0, 0, 0, 0)  # type: ignore[arg-type]  # a BlobId
    assert [margin_of(pack, lost) for lost in (1, 2, 3)] == [1, 0, -1]


def test_a_fragment_that_goes_bad_again_is_reported_again(tmp_path: Path) -> None:
    async def check(world: World) -> None:
        (blob,) = await several(world, 1)
        report = FragmentReports(world.committer, world.clock)
        report(blob.blob_id, 0, "missing")
        assert len(await queue(world)) == 1
        delete(world, blob, 0)
        assert await run_pass(world.repair) == 1
        report(blob.blob_id, 0, "missing")
        assert await queue(world) == [], "a stream that began before the repair may still say so"
        world.clock.advance(NOTED_SECONDS)
        report(blob.blob_id, 0, "missing")
        assert len(await queue(world)) == 1

    in_world(tmp_path, check)


def test_work_is_waited_for(tmp_path: Path) -> None:
    async def check(world: World) -> None:
        worker = world.repair()
        step = await worker.step()
        assert (step.items, step.is_idle) == (0, True)
        waiting = asyncio.ensure_future(worker.wait_for_work())
        await asyncio.sleep(0)
        assert not waiting.done()
        waiting.cancel()

    in_world(tmp_path, check)
