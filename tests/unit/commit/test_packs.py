"""Packs when devices and databases fail: nobody waits for one device, nothing piles up, nothing visible goes."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from metadata.tables import BLOB, OBJECT
from metadata.types import BlobState, Version
from tests.unit.commit.bench import Bench, CreateBucket, Put, body_of, dump
from tests.unit.commit.cut import CutMetadata
from tiers.commit import pack
from tiers.commit.committer import GroupCommitter
from tiers.devices.contract import Area
from tiers.devices.interception import Operation
from tiers.devices.wrappers import ALL_OPERATIONS, FaultyDevice
from tiers.errors import MetadataUnavailable, QuorumNotReached


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setattr(pack, "LATE_SECONDS", 0.2)
    return Bench(tmp_path)


def holders(bench: Bench) -> list[FaultyDevice]:
    """The devices that were appended to, in the order of their copies."""
    found = {
        file.name.partition(".")[2]: device
        for device in bench.faulty.values()
        for file in device.survey(Area.PACKS)
        if device.calls[Operation.APPEND]
    }
    return [device for _, device in sorted(found.items())]


def pack_files(bench: Bench) -> list[str]:
    return [file.name for device in bench.memory.values() for file in device.survey(Area.PACKS)]


@pytest.mark.parametrize("copy", [0, 2])
def test_a_hung_copy_is_left_behind_and_its_device_gets_no_other_pack(bench: Bench, copy: int) -> None:
    release = threading.Event()

    async def work(committer: GroupCommitter) -> None:
        await committer.submit(CreateBucket())
        sick = holders(bench)[copy]
        sick.hang = lambda operation: assert_released(release)
        async with asyncio.timeout(20):
            versions = [await committer.submit(Put(b"%d" % number, b"body %d" % number)) for number in range(5)]
        before = sick.calls[Operation.APPEND]
        assert before == 2
        sick.hang = None
        release.set()
        assert [body_of(bench, version) for version in versions] == [b"body %d" % number for number in range(5)]

    metadata = bench.database()
    try:
        bench.run(metadata, work)
    finally:
        release.set()
    assert [row[1] for row in dump(metadata)["repair"]] == [copy]


def assert_released(release: threading.Event) -> None:
    assert release.wait(60)


def test_a_device_that_takes_nothing_stops_no_write(bench: Bench) -> None:
    for device_id in ("hot-0", "hot-1", "hot-2"):
        bench.faulty[device_id].fail(ALL_OPERATIONS, times=None)

    async def work(committer: GroupCommitter) -> None:
        await committer.submit(CreateBucket())
        await committer.submit(Put(b"k", b"x"))

    metadata = bench.database()
    bench.run(metadata, work)
    assert len(dump(metadata)[OBJECT.name]) == 1


def test_failing_batches_leave_neither_files_nor_rows_nor_threads(bench: Bench) -> None:
    metadata = bench.database()

    async def work(committer: GroupCommitter) -> None:
        await committer.submit(CreateBucket())
        files, threads = len(pack_files(bench)), threading.active_count()
        faults = [device.fail([Operation.APPEND], times=None) for device in bench.faulty.values()]
        for number in range(30):
            with pytest.raises(QuorumNotReached):
                await committer.submit(Put(b"%d" % number, b"x"))
        for fault in faults:
            fault.times = 0
        await committer.submit(Put(b"after", b"y"))
        assert len(pack_files(bench)) <= 2 * files
        assert threading.active_count() <= threads + 20  # those of the devices' own pools among them

    bench.run(metadata, work)
    rows = dump(metadata)
    assert sorted(row[6] for row in rows[BLOB.name]) == [BlobState.OPEN, BlobState.DEAD]
    assert [row[1] for row in rows[OBJECT.name]] == [b"after"]


@pytest.mark.parametrize("after", [False, True])
def test_a_commit_of_unknown_outcome_keeps_its_pack(bench: Bench, after: bool) -> None:
    metadata = bench.database()

    async def first(committer: GroupCommitter) -> None:
        await committer.submit(CreateBucket())

    async def last(committer: GroupCommitter) -> None:
        with pytest.raises(MetadataUnavailable):
            await committer.submit(Put(b"k", b"unknown"))

    bench.run(metadata, first)
    dying: Any = CutMetadata(metadata, 1, after=after)
    bench.run(dying, last, worker=1)
    bench.recover(metadata)
    rows = dump(metadata)
    assert [body_of(bench, Version._make(row)) for row in rows[OBJECT.name]] == [b"unknown"]


def test_a_commit_that_happened_but_failed_is_not_counted_twice(bench: Bench) -> None:
    metadata = bench.database()

    async def work(committer: GroupCommitter) -> None:
        await committer.submit(CreateBucket())

    async def more(committer: GroupCommitter) -> None:
        with pytest.raises(MetadataUnavailable):
            await committer.submit(Put(b"k", b"12345"))
        await committer.submit(Put(b"l", b"123"))

    bench.run(metadata, work)
    dying: Any = CutMetadata(metadata, 1, after=True)
    bench.run(dying, more, worker=1)
    rows = dump(metadata)
    assert [row[1] for row in rows[OBJECT.name]] == [b"k", b"l"]
    assert sum(row[5] for row in rows[BLOB.name]) == 8
    rebuilt = bench.database()
    bench.recover(rebuilt)
    assert dump(rebuilt) == rows
