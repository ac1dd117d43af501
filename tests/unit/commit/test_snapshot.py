"""Snapshots bound the log: loaded and continued they give the same database, also when taken amid commits."""

import asyncio
from pathlib import Path

import pytest

from tests.unit.commit.bench import Bench, CreateBucket, Put, dump
from tiers.commit.committer import GroupCommitter
from tiers.commit.rebuild import rebuild
from tiers.commit.snapshot import SnapshotStore, log_devices, take_snapshot
from tiers.devices.contract import Area
from tiers.errors import MetadataRefused
from tiers.upkeep.snapshots import Snapshots


def quiet(_phase: str, _done: int, _total: int) -> None:
    """No progress wanted."""


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def store_of(bench: Bench) -> SnapshotStore:
    return log_devices(bench.catalogue, bench.fleet)


def test_snapshot_amid_commits_and_log_give_the_same_database(bench: Bench) -> None:
    metadata = bench.database()

    async def work(committer: GroupCommitter) -> None:
        await committer.submit(CreateBucket())
        for number in range(200):
            await committer.submit(Put(b"%d" % (number % 60), b"x" * number))
        reader = await metadata.open_reader()
        store = store_of(bench)
        number = 0

        def slow_store(name: str, data: bytes) -> None:
            store.store(name, data)

        async def churn() -> None:
            nonlocal number
            for number in range(100):
                await committer.submit(Put(b"%d" % (number % 90), b"y" * number))

        task = asyncio.create_task(churn())
        await asyncio.sleep(0)
        manifest = await take_snapshot(reader, slow_store, 1)
        await task
        await reader.close()
        assert store.manifests() == [manifest]

    bench.run(metadata, work)
    rebuilt = bench.database()
    result = rebuild(rebuilt, bench.fleet, progress=quiet)
    assert result.snapshot_rows > 60
    assert dump(rebuilt) == dump(metadata)
    with pytest.raises(MetadataRefused):
        rebuild(rebuilt, bench.fleet, progress=quiet)


def test_rebuild_without_the_log_before_the_snapshot(bench: Bench) -> None:
    """What a snapshot covers is no longer needed: packs before it may be reclaimed."""
    metadata = bench.database()

    async def fill(committer: GroupCommitter) -> None:
        await committer.submit(CreateBucket())
        for number in range(50):
            await committer.submit(Put(b"%d" % number, b"x"))

    async def snapshot() -> None:
        reader = await metadata.open_reader()
        await take_snapshot(reader, store_of(bench).store, 1)
        await reader.close()

    bench.run(metadata, fill)
    asyncio.run(snapshot())
    for device in bench.memory.values():
        for found in list(device.survey(Area.PACKS)):
            device.delete(Area.PACKS, found.name)

    async def more(committer: GroupCommitter) -> None:
        await committer.submit(Put(b"after", b"y"))

    bench.run(metadata, more, worker=1)
    rebuilt = bench.database()
    result = rebuild(rebuilt, bench.fleet, progress=quiet)
    assert result.batches == 1
    assert dump(rebuilt) == dump(metadata)


def test_a_damaged_snapshot_copy_is_read_around(bench: Bench) -> None:
    metadata = bench.database()

    async def fill(committer: GroupCommitter) -> None:
        await committer.submit(CreateBucket())
        await committer.submit(Put(b"k", b"x"))

    async def snapshot() -> None:
        reader = await metadata.open_reader()
        await take_snapshot(reader, store_of(bench).store, 1)
        await reader.close()

    bench.run(metadata, fill)
    asyncio.run(snapshot())
    damaged = 0
    for device in bench.memory.values():
        for found in list(device.survey(Area.SNAPSHOTS)):
            if damaged < 4:
                device._find(Area.SNAPSHOTS, found.name).data[3] ^= 1  # rot happens below the contract
                damaged += 1
    assert damaged == 4  # two whole copies of manifest and rows
    rebuilt = bench.database()
    assert rebuild(rebuilt, bench.fleet, progress=quiet).snapshot_rows > 0
    assert dump(rebuilt) == dump(metadata)


def test_a_device_that_fails_stops_neither_snapshot_nor_recovery_nor_rebuild(bench: Bench) -> None:
    metadata = bench.database()

    async def fill(committer: GroupCommitter) -> None:
        await committer.submit(CreateBucket())
        await committer.submit(Put(b"k", b"x"))

    async def snapshots() -> None:
        reader = await metadata.open_reader()
        worker = Snapshots(metadata, reader, store_of(bench), clock=bench.clock, rest_seconds=1)
        assert (await worker.step()).items == 1
        await reader.close()

    bench.run(metadata, fill)
    bench.faulty["hot-0"].fail(times=None)
    asyncio.run(snapshots())
    bench.recover(metadata)
    rebuilt = bench.database()
    rebuild(rebuilt, bench.fleet, progress=quiet)
    assert dump(rebuilt) == dump(metadata)
