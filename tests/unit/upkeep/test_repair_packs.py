"""Repair of packs: lost and bad copies come back from good ones, and the commit log with them."""

import asyncio
import itertools
from pathlib import Path
from typing import Any

import pytest

from metadata.session import open_metadata
from metadata.tables import BLOB, BUCKET, OBJECT, Table
from metadata.types import Blob, BlobKind, BlobState, Version
from tests.audit import all_rows, audit_references
from tests.unit.upkeep.damage import (
    content_of,
    contents_of,
    delete,
    enter,
    flip,
    places,
    quarantined,
    queue,
    row_of,
)
from tests.unit.upkeep.test_reclaim import in_world, seal
from tests.unit.upkeep.test_repair import WARM
from tests.unit.upkeep.test_repair_faults import killed
from tests.world import BytesBody, World, directory_devices, run_pass
from tiers.commit.chain import find_packs
from tiers.commit.log import walk
from tiers.commit.rebuild import rebuild
from tiers.devices.contract import Area
from tiers.devices.interception import Operation
from tiers.errors import ContentUnreadable

COUNT = 6


def content(number: int) -> bytes:
    return b"%d" % number * (1000 + number)


async def sealed_pack(world: World, tier: str = "hot", count: int = COUNT) -> tuple[Blob, list[Version]]:
    """A sealed pack of one tier with a few contents, each in a batch of its own."""
    put = world.namespace.objects.put
    for number in range(count):
        body = BytesBody(content(number))
        await (
            world.put("bucket", f"k{number}", content(number))
            if tier == "hot"
            else put("bucket", f"k{number}", body, WARM)
        )
    await seal(world)
    packs = [blob for blob in await all_rows(world.reader, BLOB) if blob.kind == BlobKind.PACK]
    (pack,) = [pack for pack in packs if pack.tier == tier and pack.state == BlobState.SEALED]
    return pack, [(await world.namespace.objects.find("bucket", f"k{number}")).version for number in range(count)]


async def read_all(world: World, versions: list[Version]) -> bool:
    """Whether every content is what was put."""
    return [await world.read(version) for version in versions] == [content(n) for n in range(len(versions))]


def batch_offsets(world: World, pack: Blob) -> list[int]:
    return [batch.offset for batch in walk(pack.blob_id, find_packs(world.fleet)[pack.blob_id].readers(), 0)]


@pytest.mark.parametrize("tier", ["hot", "warm"])
@pytest.mark.parametrize("copy", [0, 1])
def test_a_lost_copy_comes_back(tmp_path: Path, tier: str, copy: int) -> None:
    async def check(world: World) -> None:
        pack, versions = await sealed_pack(world, tier)
        before = contents_of(world, pack)
        delete(world, pack, copy)
        assert await read_all(world, versions)
        await enter(world, pack, copy)
        assert await run_pass(world.repair) == 1
        assert await queue(world) == []
        assert await row_of(world, pack) == pack
        assert contents_of(world, pack) == before
        assert not world.files(Area.QUARANTINE)
        delete(world, pack, *set(range(len(before))) - {copy})
        assert await read_all(world, versions)
        await audit_references(world)

    in_world(tmp_path, check)


def test_a_read_reports_a_lost_copy(tmp_path: Path) -> None:
    async def check(world: World) -> None:
        pack, versions = await sealed_pack(world)
        delete(world, pack, 0)
        assert await read_all(world, versions)
        assert [(row.blob_id, row.fragment_index) for row in await queue(world)] == [(pack.blob_id, 0)]
        assert await run_pass(world.repair) == 1
        delete(world, pack, 1)
        assert await read_all(world, versions)

    in_world(tmp_path, check)


def test_bad_copies_are_set_aside_and_copied_anew(tmp_path: Path) -> None:
    async def check(world: World) -> None:
        pack, versions = await sealed_pack(world, "warm")
        before = contents_of(world, pack)
        offsets = batch_offsets(world, pack)
        flip(world, pack, 0, offsets[1] + 300)  # a body
        flip(world, pack, 2, offsets[-1] + 20)  # a header
        await enter(world, pack, 0, 2, reason="corrupt")
        assert await run_pass(world.repair) == 2
        assert contents_of(world, pack) == before
        assert set(quarantined(world)) == {places(pack)[0][2], places(pack)[2][2]}
        assert await read_all(world, versions)

    in_world(tmp_path, check)


def test_a_reader_with_the_bad_copy_open_comes_to_read_the_new_one(tmp_path: Path) -> None:
    async def check(world: World) -> None:
        pack, versions = await sealed_pack(world)
        assert await read_all(world, versions)
        flip(world, pack, 0, batch_offsets(world, pack)[2] + 300)
        world.contents.close()
        assert await read_all(world, versions)
        assert len(await queue(world)) == 1
        await run_pass(world.repair)
        assert await read_all(world, versions)
        delete(world, pack, 1)
        world.clock.advance(3600)
        assert await read_all(world, versions)
        assert await queue(world) == []

    in_world(tmp_path, check)


def test_an_unavailable_device_is_replaced_and_the_log_found_there(tmp_path: Path) -> None:
    async def check(world: World) -> None:
        pack, versions = await sealed_pack(world)
        assert await read_all(world, versions)
        gone = places(pack)[1][0]
        world.devices[gone].fail([Operation.CREATE_LOG], times=None)
        delete(world, pack, 1)
        await enter(world, pack, 1)
        assert await run_pass(world.repair) == 1
        world.devices[gone].clear_faults()
        row = await row_of(world, pack)
        (spare,) = {"hot-0", "hot-1", "hot-2"} - set(pack.placement.split(" "))
        assert row.placement.split(" ") == [pack.placement.split(" ")[0], spare]
        delete(world, row, 0)
        assert await read_all(world, versions), "stale rows are read again"
        # The first copy is gone and the second has moved: the namespace still follows from the devices alone.
        anew = open_metadata(f"sqlite:///{tmp_path / 'anew.db'}")
        anew.migrate()
        rebuild(anew, world.fleet, progress=lambda phase, done, total: None)
        reader = await anew.open_reader()
        tables: tuple[Table[Any], ...] = (BUCKET, OBJECT, BLOB)
        for table in tables:
            assert await all_rows(reader, table) == await all_rows(world.reader, table)
        await reader.close()

    in_world(tmp_path, check)


def test_an_open_pack_is_left_for_later(tmp_path: Path) -> None:
    async def check(world: World) -> None:
        version = await world.put("bucket", "k", b"small")
        (pack,) = await all_rows(world.reader, BLOB)
        assert pack.state == BlobState.OPEN
        delete(world, pack, 1)
        await enter(world, pack, 1)
        files = world.files(*Area)
        assert await run_pass(world.repair) == 0
        assert world.files(*Area) == files
        assert len(await queue(world)) == 1
        await seal(world)
        assert await run_pass(world.repair) == 1
        delete(world, pack, 0)
        assert await world.read(version) == b"small"

    in_world(tmp_path, check)


@pytest.mark.parametrize("is_spare", [True, False])
def test_copies_that_are_bad_in_different_places_complete_each_other(tmp_path: Path, is_spare: bool) -> None:
    async def check(world: World) -> None:
        pack, versions = await sealed_pack(world)
        offsets = batch_offsets(world, pack)
        flip(world, pack, 0, offsets[1] + 300)
        flip(world, pack, 1, offsets[3] + 300)
        await enter(world, pack, 0, 1, reason="corrupt")
        (spare,) = {"hot-0", "hot-1", "hot-2"} - set(pack.placement.split(" "))
        if not is_spare:
            world.devices[spare].fail([Operation.CREATE_LOG], times=None)
        worker = world.repair()
        await run_pass(lambda: worker)
        world.clock.advance(31)
        await run_pass(lambda: worker)
        assert await queue(world) == []
        row = await row_of(world, pack)
        assert (spare in row.placement) == is_spare
        first, second = contents_of(world, row).values()
        assert first == second
        for lost in (0, 1):
            kept = content_of(world, *places(row)[lost])
            assert kept is not None
            delete(world, row, lost)
            assert await read_all(world, versions)
            world.devices[places(row)[lost][0]]._inner.store(Area.PACKS, places(row)[lost][2], kept)

    in_world(tmp_path, check)


def test_a_batch_that_no_copy_holds_keeps_the_pack_queued(tmp_path: Path) -> None:
    async def check(world: World) -> None:
        pack, versions = await sealed_pack(world)
        offset = batch_offsets(world, pack)[3] + 300
        for copy in (0, 1):
            flip(world, pack, copy, offset)
        await enter(world, pack, 0, 1, reason="corrupt")
        files = world.files(*Area)
        worker = world.repair()
        assert await run_pass(lambda: worker) == 0
        await run_pass(lambda: worker)
        assert worker._queue.margins == {-1: 1}
        assert world.files(*Area) == files
        unreadable = 0
        for version in versions:
            try:
                await world.read(version)
            except ContentUnreadable:
                unreadable += 1
        assert unreadable == 1

    in_world(tmp_path, check)


def test_killed_at_any_device_call_the_contents_stay_readable_and_the_next_run_ends_it(tmp_path: Path) -> None:
    async def check(world: World) -> None:
        pack, versions = await sealed_pack(world, "warm")
        end = content_of(world, *places(pack)[1])
        for nth in itertools.count():
            pack = await row_of(world, pack)
            delete(world, pack, 0)
            flip(world, pack, 2, 200 + nth)
            await enter(world, pack, 0, 2)
            did_die = await killed(world, nth)
            assert await read_all(world, versions)
            await queue(world)  # what the read reported is in it
            await run_pass(world.repair)
            assert await queue(world) == []
            row = await row_of(world, pack)
            assert set(contents_of(world, row).values()) == {end}
            if not did_die:
                assert nth > 20
                return

    in_world(tmp_path, check)


def test_a_part_of_a_copy_left_by_a_kill_hides_no_good_one(tmp_path: Path) -> None:
    async def check(world: World) -> None:
        pack, _ = await sealed_pack(world)
        whole = batch_offsets(world, pack)
        for device in world.devices.values():
            name = places(pack)[0][2]
            if (device.device_id, name) not in world.files(Area.PACKS):
                device._inner.store(Area.PACKS, name, bytes(4096))
        delete(world, pack, 1)
        assert batch_offsets(world, pack) == whole

    in_world(tmp_path, check)


def test_real_files_come_back_the_same(tmp_path: Path) -> None:
    async def run() -> None:
        world = World(tmp_path, devices=directory_devices(tmp_path / "devices"))
        await world.start()
        try:
            await world.namespace.buckets.create("bucket", "owner", "us-east-1")
            pack, versions = await sealed_pack(world, "warm")
            delete(world, pack, 0)
            await enter(world, pack, 0)
            assert await run_pass(world.repair) == 1
            world.fleet.close()
            contents = contents_of(world, pack)
            assert contents[0] == contents[1] == contents[2]
            delete(world, pack, 1, 2)
            await world.restart()
            assert await read_all(world, versions)
        finally:
            await world.stop()

    asyncio.run(run())
