"""Group commit: what counts as one batch, what a refused mutation leaves, what a failed copy costs."""

import asyncio
from pathlib import Path

import pytest

from metadata.tables import BLOB, BUCKET, OBJECT, REPAIR
from metadata.types import BlobState
from tests.unit.commit.bench import Bench, CreateBucket, Put, body_of, dump
from tiers.commit.committer import GroupCommitter
from tiers.devices.interception import Operation
from tiers.errors import ConditionFailed, QuorumNotReached


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def appends(bench: Bench) -> int:
    return sum(device.calls[Operation.APPEND] for device in bench.faulty.values())


def test_one_flush_a_copy_and_batch(bench: Bench) -> None:
    async def work(committer: GroupCommitter) -> None:
        await committer.submit(CreateBucket())
        before, batches = appends(bench), committer.counters.batches
        for number in range(10):
            await committer.submit(Put(b"one-%d" % number, b"x"))
        assert committer.counters.batches - batches == 10
        assert appends(bench) - before == 30
        before, batches = appends(bench), committer.counters.batches
        await asyncio.gather(*[committer.submit(Put(b"many-%d" % number, b"x")) for number in range(64)])
        taken = committer.counters.batches - batches
        assert taken < 64 / 4
        assert appends(bench) - before == 3 * taken

    bench.run(bench.database(), work)


def test_a_refused_mutation_leaves_nothing_and_harms_nobody(bench: Bench) -> None:
    metadata = bench.database()

    async def work(committer: GroupCommitter) -> None:
        await committer.submit(CreateBucket())
        await committer.submit(Put(b"k", b"first"))
        outcomes = await asyncio.gather(
            committer.submit(Put(b"a", b"A" * 100)),
            committer.submit(Put(b"k", b"refused" * 50, must_be_new=True)),
            committer.submit(Put(b"c", b"C" * 100)),
            return_exceptions=True,
        )
        assert isinstance(outcomes[1], ConditionFailed)
        assert body_of(bench, outcomes[0]) == b"A" * 100
        assert body_of(bench, outcomes[2]) == b"C" * 100

    bench.run(metadata, work)
    rows = dump(metadata)
    assert [row[1] for row in rows[OBJECT.name]] == [b"a", b"c", b"k"]
    assert rows[BUCKET.name][0][6] == 3
    assert sum(row[5] for row in rows[BLOB.name]) == 205


def test_bodies_of_another_tier_go_to_its_pack_first(bench: Bench) -> None:
    metadata = bench.database()

    async def work(committer: GroupCommitter) -> None:
        await committer.submit(CreateBucket())
        version = await committer.submit(Put(b"w", b"warm body", tier="warm"))
        assert body_of(bench, version) == b"warm body"

    bench.run(metadata, work)
    assert sorted({row[1] for row in dump(metadata)[BLOB.name]}) == ["hot", "warm"]
    assert all(bench.faulty[f"warm-{n}"].calls[Operation.APPEND] <= 1 for n in range(6))


def test_one_failed_copy_commits_seals_and_asks_for_repair(bench: Bench) -> None:
    metadata = bench.database()

    async def work(committer: GroupCommitter) -> None:
        await committer.submit(CreateBucket())
        holder = next(d for d in bench.faulty.values() if d.calls[Operation.APPEND])
        holder.fail([Operation.APPEND], times=None)
        await committer.submit(Put(b"degraded", b"x" * 10))
        await committer.submit(Put(b"after", b"y" * 10))

    bench.run(metadata, work)
    rows = dump(metadata)
    assert [row[1] for row in rows[OBJECT.name]] == [b"after", b"degraded"]
    assert sorted(row[6] for row in rows[BLOB.name]) == [BlobState.OPEN, BlobState.SEALED]
    assert len(rows[REPAIR.name]) == 1


def test_below_quorum_nothing_is_acknowledged_and_the_next_write_works(bench: Bench) -> None:
    metadata = bench.database()

    async def work(committer: GroupCommitter) -> None:
        await committer.submit(CreateBucket())
        faults = [d.fail([Operation.APPEND], times=1) for d in bench.faulty.values() if d.calls[Operation.APPEND]]
        assert len(faults) == 3
        with pytest.raises(QuorumNotReached):
            await committer.submit(Put(b"lost", b"x" * 10))
        assert (await committer.submit(Put(b"after", b"y"))).key == b"after"

    bench.run(metadata, work)
    assert [row[1] for row in dump(metadata)[OBJECT.name]] == [b"after"]
    # ... and it does not come back: no later batch continues it.
    rebuilt = bench.database()
    bench.recover(rebuilt)
    assert dump(rebuilt) == dump(metadata)


def test_a_stopped_committer_has_committed_what_was_queued(bench: Bench) -> None:
    metadata = bench.database()

    async def main() -> None:
        committer = bench.committer(metadata)
        await committer.start()
        futures = [committer.submit(CreateBucket())]
        futures += [committer.submit(Put(b"%d" % number, b"x")) for number in range(50)]
        await committer.stop()
        await asyncio.gather(*futures)

    asyncio.run(main())
    assert len(dump(metadata)[OBJECT.name]) == 50
