"""Who commits a batch: the event loop a brief one, the thread what could hold the loop up; that neither is stuck."""

import asyncio
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from metadata.contract import Transaction
from metadata.tables import BUCKET, OBJECT
from tests.unit.commit.bench import Bench, CreateBucket, Put, dump
from tiers.commit.committer import BRIEF_OPERATIONS_MAX, GroupCommitter
from tiers.commit.contract import Slot
from tiers.devices.interception import Operation


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


class Brief(Put):
    """Says that it may be applied on the loop, and remembers where it was."""

    is_brief = True

    def apply(self, transaction: Transaction, slot: Slot) -> Any:
        self.thread = threading.current_thread()
        return super().apply(transaction, slot)


class Long(Brief):
    is_brief = False


async def applied_on(committer: GroupCommitter, *puts: Brief) -> set[str]:
    """Names of the threads that applied these, submitted together."""
    await asyncio.gather(*[committer.submit(put) for put in puts])
    return {put.thread.name for put in puts}


def test_a_brief_batch_is_committed_on_the_loop_and_others_by_the_thread(bench: Bench) -> None:
    async def work(committer: GroupCommitter) -> None:
        await committer.submit(CreateBucket())  # opens the pack
        here = threading.current_thread().name
        assert await applied_on(committer, Brief(b"a", b"x"), Brief(b"b", b"x")) == {here}
        assert await applied_on(committer, Long(b"c", b"x")) == {"commit"}
        assert await applied_on(committer, Brief(b"d", b"x"), Long(b"e", b"x")) == {"commit"}
        many = [Brief(b"%d" % number, b"x") for number in range(BRIEF_OPERATIONS_MAX + 1)]
        assert await applied_on(committer, *many) == {"commit"}
        assert await applied_on(committer, Brief(b"w", b"x", tier="warm")) == {"commit"}, "its pack had to be created"
        assert await applied_on(committer, Brief(b"v", b"x", tier="warm")) == {here}

    bench.run(bench.database(), work)


def test_a_lock_that_another_writer_has_is_waited_for_without_the_loop(bench: Bench) -> None:
    metadata = bench.database()

    async def work(committer: GroupCommitter) -> None:
        await committer.submit(CreateBucket())
        other = metadata.open_writer()
        with other.transaction() as transaction:
            future = committer.submit(Brief(b"k", b"x"))
            for _ in range(50):
                await asyncio.sleep(0.001)  # the loop turns
            assert not future.done()
            bucket = transaction.get(BUCKET, ("b",))
            assert bucket is not None
            transaction.commit(transaction.head)
        other.close()
        assert (await asyncio.wait_for(future, 10)).key == b"k"

    bench.run(metadata, work)


def test_a_slow_flush_does_not_hold_the_loop_up(bench: Bench) -> None:
    gate = threading.Event()

    async def work(committer: GroupCommitter) -> None:
        await committer.submit(CreateBucket())
        for device in bench.faulty.values():
            device.hang = lambda operation: gate.wait(30) if operation is Operation.APPEND else None
        future = committer.submit(Brief(b"slow", b"x"))
        behind = committer.submit(Brief(b"behind", b"x"))
        for _ in range(20):
            await asyncio.sleep(0.001)
        later = committer.submit(Brief(b"later", b"x"))
        await asyncio.sleep(0.01)
        assert not future.done()
        gate.set()
        await asyncio.gather(future, behind, later)
        assert await applied_on(committer, Brief(b"next", b"x")) == {threading.current_thread().name}

    metadata = bench.database()
    bench.run(metadata, work)
    assert [row[1] for row in dump(metadata)[OBJECT.name]] == [b"behind", b"later", b"next", b"slow"]


def test_two_committers_share_the_lock_fairly(bench: Bench) -> None:
    """One that always has more to commit does not keep the other out."""
    metadata = bench.database()

    async def work(committer: GroupCommitter) -> None:
        await committer.submit(CreateBucket())
        other = bench.committer(metadata, worker=1)
        await other.start()
        await other.submit(Put(b"opens", b"x"))
        is_over = False

        async def flood(number: int) -> None:
            count = 0
            while not is_over:
                count += 1
                await committer.submit(Brief(b"flood-%d-%d" % (number, count), b"x"))

        floods = [asyncio.ensure_future(flood(number)) for number in range(4)]
        began = time.monotonic()
        for number in range(30):
            await asyncio.wait_for(other.submit(Brief(b"%d" % number, b"x")), 30)
        is_over = True
        await asyncio.gather(*floods)
        await other.stop()
        print(f"30 commits beside a flood: {time.monotonic() - began:.3f} s")

    bench.run(metadata, work)
    assert len([row for row in dump(metadata)[OBJECT.name] if row[1].isdigit()]) == 30


def test_rows_kept_between_transactions_are_dropped_when_somebody_else_has_committed(bench: Bench) -> None:
    """Both count in the same bucket row: a stale one would lose the other's objects."""
    metadata = bench.database()

    async def work(committer: GroupCommitter) -> None:
        await committer.submit(CreateBucket())
        other = bench.committer(metadata, worker=1)
        await other.start()
        for number in range(10):
            await committer.submit(Brief(b"a%d" % number, b"x"))
            await committer.submit(Brief(b"b%d" % number, b"x"))
            await other.submit(Brief(b"c%d" % number, b"x"))
        await other.stop()

    bench.run(metadata, work)
    assert dump(metadata)[BUCKET.name][0][6] == 30
