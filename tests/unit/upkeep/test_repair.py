"""Repair of striped blobs: whatever is lost up to m comes back byte for byte, and nothing good is ever taken away."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from metadata.types import Device as DeviceRow
from metadata.types import DeviceState, Version
from tests.audit import audit_files, audit_references
from tests.unit.upkeep.damage import (
    LARGE,
    content_of,
    contents_of,
    delete,
    enter,
    flip,
    places,
    quarantined,
    queue,
    row_of,
    striped_blobs,
    wipe,
)
from tests.unit.upkeep.test_reclaim import in_world
from tests.world import GRACE_SECONDS, OWNER, BytesBody, World, directory_devices, run_pass
from tiers.devices.contract import Area
from tiers.devices.interception import Operation
from tiers.devices.memory import MemoryDevice
from tiers.devices.wrappers import FaultyDevice
from tiers.errors import ContentUnreadable
from tiers.namespace.types import Description

WARM = Description(owner_id=OWNER.owner_id, storage_class="STANDARD_IA")
PATTERNS = [pattern for lost in (1, 2) for pattern in itertools.combinations(range(4), lost)]
ROW_BYTES = 65536
OFFSETS = {"header": 100, "row": 4096 + 10, "last row": 4096 + 3 * ROW_BYTES, "table": -4096 - 4096, "trailer": -4000}


async def put_warm(world: World, key: str = "k", content: bytes = LARGE) -> Version:
    """A content of 2+2 fragments on four devices."""
    return (await world.namespace.objects.put("bucket", key, BytesBody(content), WARM)).version


def in_spare_world(path: Path, check: Callable[[World], Awaitable[None]]) -> None:
    """A world whose warm tier has one device more than a blob has fragments."""

    async def run() -> None:
        world = World(path)
        world.device_rows.append(
            DeviceRow("warm-9", "warm", "memory", "", DeviceState.ACTIVE, "host-9", "rack", "zone", "site", 0)
        )
        world.devices["warm-9"] = FaultyDevice(MemoryDevice("warm-9", world.clock), world.rng)
        await world.start()
        try:
            await world.namespace.buckets.create("bucket", "owner", "us-east-1")
            await check(world)
        finally:
            await world.stop()

    asyncio.run(run())


@pytest.mark.parametrize("pattern", PATTERNS, ids=str)
def test_every_loss_up_to_m_is_noticed_by_a_get_and_repaired(tmp_path: Path, pattern: tuple[int, ...]) -> None:
    async def check(world: World) -> None:
        version = await put_warm(world)
        (blob,) = await striped_blobs(world)
        before = contents_of(world, blob)
        delete(world, blob, *pattern)
        assert await world.read(version) == LARGE
        # A read asks for parity only when it must; a repair looks at the whole blob.
        noticed = {row.fragment_index for row in await queue(world)}
        assert bool(noticed) == (min(pattern) < 2)
        assert noticed <= set(pattern)
        if not noticed:
            await enter(world, blob, pattern[0])
        assert await run_pass(world.repair) == len(pattern)
        assert await queue(world) == []
        assert await row_of(world, blob) == blob, "same devices, same generation"
        assert contents_of(world, blob) == before
        assert await world.read(version) == LARGE
        await audit_files(world)
        await audit_references(world)

    in_world(tmp_path, check)


@pytest.mark.parametrize("place", OFFSETS)
@pytest.mark.parametrize("pattern", [(0,), (3,), (0, 1), (1, 3)], ids=str)
def test_corrupt_fragments_are_set_aside_and_rebuilt(tmp_path: Path, pattern: tuple[int, ...], place: str) -> None:
    async def check(world: World) -> None:
        version = await put_warm(world)
        (blob,) = await striped_blobs(world)
        before = contents_of(world, blob)
        for index in pattern:
            flip(world, blob, index, OFFSETS[place])
        bad = contents_of(world, blob)
        await enter(world, blob, *pattern, reason="corrupt")
        assert await run_pass(world.repair) == len(pattern)
        assert contents_of(world, blob) == before
        aside = quarantined(world)
        assert {name: content_of(world, device, Area.QUARANTINE, name) for name, device in aside.items()} == {
            places(blob)[index][2]: bad[index] for index in pattern
        }
        assert await world.read(version) == LARGE
        assert await queue(world) == []

    in_world(tmp_path, check)


def test_a_get_reports_and_a_reader_with_old_files_open_sees_the_repaired_ones(tmp_path: Path) -> None:
    async def check(world: World) -> None:
        version = await put_warm(world)
        (blob,) = await striped_blobs(world)
        flip(world, blob, 0, OFFSETS["row"])
        assert await world.read(version) == LARGE
        assert [(row.fragment_index, row.reason) for row in await queue(world)] == [(0, "corrupt")]
        await run_pass(world.repair)
        assert await world.read(version) == LARGE
        world.clock.advance(3600)
        assert await world.read(version) == LARGE
        assert await queue(world) == [], "the old file is no longer read"

    in_world(tmp_path, check)


def test_good_fragments_only_leave_the_queue(tmp_path: Path) -> None:
    async def check(world: World) -> None:
        await put_warm(world)
        (blob,) = await striped_blobs(world)
        files = world.files(*Area)
        await enter(world, blob, 0, 3, reason="failed")
        assert await run_pass(world.repair) == 2
        assert await queue(world) == []
        assert world.files(*Area) == files
        assert all(not device.calls[Operation.WRITE] for device in world.devices.values() if "hot" in device.device_id)

    in_world(tmp_path, check)


def test_what_was_never_written_is_written_later(tmp_path: Path) -> None:
    async def check(world: World) -> None:
        late = world.devices["warm-1"]
        late.fail([Operation.STAGE], times=None)
        versions = [await put_warm(world, f"k{n}") for n in range(8)]
        blobs = await striped_blobs(world)
        lacking = {blob.blob_id: blob.placement.split(" ").index("") for blob in blobs}
        assert min(lacking.values()) < 2, "data of one of them is missing"
        for version in versions:
            assert await world.read(version) == LARGE
        late.clear_faults()
        assert await run_pass(world.repair) == 8
        late.calls.clear()
        for version in versions:
            assert await world.read(version) == LARGE
        assert late.calls[Operation.OPEN] == sum(index < 2 for index in lacking.values()), "readers have the new rows"
        for blob in blobs:
            row = await row_of(world, blob)
            assert row.placement.split(" ")[lacking[blob.blob_id]] == "warm-1"
            delete(world, row, *[index for index in range(4) if index != lacking[blob.blob_id]][:2])
        world.contents.close()
        for version in versions:
            assert await world.read(version) == LARGE

    in_world(tmp_path, check)


def test_a_wiped_device_is_filled_again(tmp_path: Path) -> None:
    async def check(world: World) -> None:
        versions = [await put_warm(world, f"k{n}", LARGE[n * 1000 :]) for n in range(5)]
        blobs = await striped_blobs(world)
        before = world.files(Area.FRAGMENTS)
        wipe(world, "warm-2")
        for blob in blobs:
            await enter(world, blob, blob.placement.split(" ").index("warm-2"))
        assert await run_pass(world.repair) == 5
        assert world.files(Area.FRAGMENTS) == before
        for number, version in enumerate(versions):
            assert await world.read(version) == LARGE[number * 1000 :]
        await audit_references(world)

    in_world(tmp_path, check)


def test_an_unavailable_device_is_replaced_by_another_and_stale_readers_follow(tmp_path: Path) -> None:
    async def check(world: World) -> None:
        version = await put_warm(world)
        (blob,) = await striped_blobs(world)
        assert await world.read(version) == LARGE  # the reader keeps the row and the files
        index = 0
        gone, area, name = places(blob)[index]
        world.contents.close_idle()
        world.contents.close_idle()
        world.devices[gone].fail(times=None)
        for _ in range(10):
            world.fleet.note_failure(gone)
        assert await world.read(version) == LARGE
        await enter(world, blob, index)
        assert await run_pass(world.repair) == 1
        row = await row_of(world, blob)
        assert row.placement.split(" ")[index] not in blob.placement.split(" ")
        assert row.generation == blob.generation
        assert row.placement.split(" ")[1:] == blob.placement.split(" ")[1:]
        delete(world, row, 2, 3)
        assert await world.read(version) == LARGE, "a stale row is read again"
        for _ in range(1000):  # a report is committed behind the read, not before it answers
            if await queue(world):
                break
            await asyncio.sleep(0.01)
        assert await queue(world) != []
        await run_pass(world.repair)  # what the stale reader said of the old place ends, and parity comes back
        assert await queue(world) == []
        world.clock.advance(3600)
        assert await world.read(version) == LARGE
        assert await queue(world) == [], "from its new place, and not around its old one"
        # The device comes back: what it holds is no longer placed there.
        world.devices[gone].clear_faults()
        world.clock.advance(GRACE_SECONDS + 1)
        await run_pass(world.reclaim)
        assert quarantined(world)[name] == gone
        assert content_of(world, gone, area, name) is None

    in_spare_world(tmp_path, check)


def test_without_a_spare_device_the_entry_stays_and_the_device_that_returns_gets_it(tmp_path: Path) -> None:
    async def check(world: World) -> None:
        await put_warm(world)
        (blob,) = await striped_blobs(world)
        delete(world, blob, 1)
        await enter(world, blob, 1)
        full = world.devices[places(blob)[1][0]]
        full.fail([Operation.STAGE], times=None)
        worker = world.repair()
        assert await run_pass(lambda: worker) == 0
        assert len(await queue(world)) == 1
        full.clear_faults()
        assert await run_pass(lambda: worker) == 0, "it rests"
        world.clock.advance(31)
        await run_pass(lambda: worker)
        assert await queue(world) == []
        await audit_files(world)

    in_world(tmp_path, check)


def test_damage_in_every_fragment_is_repaired_as_a_new_generation(tmp_path: Path) -> None:
    """No fragment is whole, each block is good somewhere: nothing may be set aside before all is written anew."""

    async def check(world: World) -> None:
        version = await put_warm(world)
        (blob,) = await striped_blobs(world)
        for index in range(4):
            flip(world, blob, index, 4096 + index * ROW_BYTES + 7)
        old = world.files(Area.FRAGMENTS)
        await enter(world, blob, 0, 1, 2, reason="corrupt")
        assert await run_pass(world.repair) == 4
        row = await row_of(world, blob)
        assert row.generation == blob.generation + 1
        assert world.files(Area.FRAGMENTS) > old, "the old files stay until their grace is over"
        assert await queue(world) == []
        world.clock.advance(GRACE_SECONDS + 1)
        await run_pass(world.reclaim)
        assert world.files(Area.FRAGMENTS).isdisjoint(old)
        assert await world.read(version) == LARGE
        delete(world, row, 0, 2)
        assert await world.read(version) == LARGE

    in_world(tmp_path, check)


def test_damage_met_on_the_way_is_entered_and_repaired_too(tmp_path: Path) -> None:
    async def check(world: World) -> None:
        version = await put_warm(world)
        (blob,) = await striped_blobs(world)
        before = contents_of(world, blob)
        delete(world, blob, 3)
        flip(world, blob, 0, OFFSETS["last row"])
        await enter(world, blob, 3)
        assert await run_pass(world.repair) == 2
        assert contents_of(world, blob) == before
        assert await world.read(version) == LARGE

    in_world(tmp_path, check)


def test_more_than_m_lost_stays_queued_and_holds_up_nobody(tmp_path: Path) -> None:
    async def check(world: World) -> None:
        lost = await put_warm(world, "lost")
        (lost_blob,) = await striped_blobs(world)
        fine = [await put_warm(world, f"fine-{n}") for n in range(3)]
        for blob in await striped_blobs(world):
            is_lost = blob.blob_id == lost_blob.blob_id
            delete(world, blob, *([0, 1, 2] if is_lost else [0]))
            await enter(world, blob, *([0, 1, 2] if is_lost else [0]))
        left = world.files(Area.FRAGMENTS)
        worker = world.repair()
        assert await run_pass(lambda: worker) == 3
        assert {row.blob_id for row in await queue(world)} == {lost_blob.blob_id}
        assert worker._queue.margins == {-1: 1}
        assert left <= world.files(Area.FRAGMENTS), "what is left of it stays"
        assert not world.files(Area.STAGING)
        for version in fine:
            assert await world.read(version) == LARGE
        with pytest.raises(ContentUnreadable):
            await world.read(lost)

    in_world(tmp_path, check)


def test_real_files_come_back_the_same(tmp_path: Path) -> None:
    async def run() -> None:
        world = World(tmp_path, devices=directory_devices(tmp_path / "devices"))
        await world.start()
        try:
            await world.namespace.buckets.create("bucket", "owner", "us-east-1")
            version = await put_warm(world)
            (blob,) = await striped_blobs(world)
            before = contents_of(world, blob)
            delete(world, blob, 0)
            flip(world, blob, 2, OFFSETS["row"])
            await enter(world, blob, 0, 2)
            assert await run_pass(world.repair) == 2
            assert contents_of(world, blob) == before
            assert await world.read(version) == LARGE
            assert len(world.files(Area.QUARANTINE)) == 1
        finally:
            await world.stop()

    asyncio.run(run())
