"""What one batch may hold, and what its mutations may be told when it fails."""

import asyncio
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from metadata.contract import Transaction
from metadata.tables import BUCKET_DOCUMENT, OBJECT, Table
from metadata.types import BucketDocument
from tests.unit.commit.bench import Bench, CreateBucket, Put, dump
from tiers.commit import batch
from tiers.commit.committer import GroupCommitter
from tiers.commit.contract import Slot
from tiers.devices.interception import Operation
from tiers.errors import QuorumNotReached, StoreBusy


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


class Document:
    """Puts one row of a chosen size; with a gate it waits for the test, twice."""

    body = None
    tier = "hot"

    def __init__(self, number: int, size: int = 0, gate: threading.Barrier | None = None) -> None:
        self.number, self.size, self.gate = number, size, gate

    def reads(self) -> Iterable[tuple[Table[Any], tuple[Any, ...]]]:
        return ()

    def apply(self, transaction: Transaction, slot: Slot) -> int:
        if self.gate is not None:
            self.gate.wait(30)
            self.gate.wait(30)
        transaction.put(BUCKET_DOCUMENT, BucketDocument(self.number, "tagging", bytes(self.size)))
        return self.number


async def together(committer: GroupCommitter, *mutations: Any, before: Callable[[], None] = lambda: None) -> list[Any]:
    """Submit so that all are taken as one batch, beside which something is done; their outcomes."""
    futures = [committer.submit(mutation) for mutation in mutations]
    await asyncio.sleep(0)  # what one turn of the loop submits is one batch
    before()
    return await asyncio.gather(*futures, return_exceptions=True)


def test_a_refusal_beside_changes_that_do_not_stand_is_not_answered(bench: Bench) -> None:
    async def work(committer: GroupCommitter) -> None:
        await committer.submit(CreateBucket())
        holding = threading.Barrier(2)
        puts = [Put(b"k", b"x"), Put(b"k", b"y", must_be_new=True), Document(0, gate=holding)]

        def fail() -> None:
            holding.wait(30)
            for device in bench.faulty.values():
                device.fail([Operation.APPEND], times=1)
            holding.wait(30)

        outcomes = await together(committer, *puts, before=fail)
        assert [type(outcome) for outcome in outcomes] == [QuorumNotReached] * 3, "nobody had written the key"

    bench.run(bench.database(), work)


def test_a_record_never_outgrows_what_recovery_reads(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch, "RECORD_BYTES_MAX", 8192)
    metadata = bench.database()

    async def work(committer: GroupCommitter) -> None:
        await committer.submit(CreateBucket())
        mutations = [Document(number, 1500) for number in range(20)]
        assert await together(committer, *mutations) == list(range(20))
        outcomes = await together(committer, Document(100, 1500), Document(101, 9000), Document(102, 1500))
        assert outcomes[0] == 100
        assert outcomes[2] == 102
        assert isinstance(outcomes[1], StoreBusy)

    bench.run(metadata, work)
    rebuilt = bench.database()
    bench.recover(rebuilt)
    assert dump(rebuilt) == dump(metadata)
    assert [row[0] for row in dump(metadata)[BUCKET_DOCUMENT.name]] == [*range(20), 100, 102]


def test_many_rows_are_many_batches(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch, "ROWS_MAX", 20)
    metadata = bench.database()

    async def work(committer: GroupCommitter) -> None:
        await committer.submit(CreateBucket())
        before = committer.counters.batches
        puts = [Put(b"%d" % number, b"x" * 50, must_be_new=True) for number in range(40)]
        assert len({version.sequence for version in await together(committer, *puts)}) == 40
        assert committer.counters.batches - before >= 8

    bench.run(metadata, work)
    assert len(dump(metadata)[OBJECT.name]) == 40
    rebuilt = bench.database()
    bench.recover(rebuilt)
    assert dump(rebuilt) == dump(metadata)
