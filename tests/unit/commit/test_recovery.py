"""The log is the truth: a database that is behind, gone or torn from its log is brought to what was acknowledged."""

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest

from metadata.tables import BLOB, OBJECT
from metadata.types import Blob, BlobKind, BlobState, Version
from tests.unit.commit.bench import Bench, CreateBucket, Put, body_of, dump
from tests.unit.commit.cut import CutMetadata
from tiers.commit.chain import find_packs
from tiers.commit.committer import GroupCommitter
from tiers.commit.log import HEADER_BYTES, walk
from tiers.devices.contract import Area
from tiers.errors import LogGap, MetadataUnavailable


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


async def fill(committer: GroupCommitter, count: int = 20, prefix: bytes = b"k") -> None:
    await committer.submit(CreateBucket())
    for number in range(count):
        tier = "warm" if number % 5 == 0 else "hot"
        await committer.submit(Put(b"%s%d" % (prefix, number % 7), b"body %d" % number * 100, tier=tier))


def keys(rows: dict[str, list[tuple[object, ...]]]) -> list[object]:
    return [row[1] for row in rows[OBJECT.name]]


def test_an_empty_database_becomes_equal(bench: Bench) -> None:
    metadata = bench.database()
    bench.run(metadata, fill)
    copy = bench.database()
    assert bench.recover(copy) > 10
    assert dump(copy) == dump(metadata)
    assert bench.recover(copy) == 0


def test_every_acknowledged_write_survives_a_power_cut_in_any_order(bench: Bench) -> None:
    metadata = bench.database()
    acknowledged: dict[bytes, bytes] = {}

    async def work(committer: GroupCommitter) -> None:
        await committer.submit(CreateBucket())
        for number in range(30):
            body = bench.rng.randbytes(bench.rng.randrange(1, 5000))
            await committer.submit(Put(b"%d" % (number % 11), body))
            acknowledged[b"%d" % (number % 11)] = body

    bench.run(metadata, work)
    rng = random.Random(5)
    for device in bench.memory.values():
        device.power_cut(rng)
    copy = bench.database()
    bench.recover(copy)
    rows = dump(copy)[OBJECT.name]
    from metadata.types import Version

    assert {row[1]: body_of(bench, Version._make(row)) for row in rows} == acknowledged


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("nth", [2, 3, 7])
def test_dying_at_a_commit_leaves_the_operation_whole_or_absent(bench: Bench, nth: int, after: bool) -> None:
    metadata = bench.database()

    async def work(committer: GroupCommitter) -> int:
        await committer.submit(CreateBucket())
        for number in range(10):
            try:
                await committer.submit(Put(b"%d" % number, b"x" * 100))
            except MetadataUnavailable:
                return number
        raise AssertionError("did not die")

    done = bench.run(CutMetadata(metadata, nth, after=after), work)  # type: ignore[arg-type]
    seen = keys(dump(metadata))
    assert len(seen) == done + after
    bench.recover(metadata)  # the restart: flushed but not committed becomes visible, whole
    assert keys(dump(metadata)) == [b"%d" % n for n in range(done + 1)]
    rebuilt = bench.database()
    bench.recover(rebuilt)
    assert dump(rebuilt) == dump(metadata)


def test_what_was_flushed_but_overtaken_is_dropped(bench: Bench) -> None:
    metadata = bench.database()
    bench.run(metadata, fill)

    async def die(committer: GroupCommitter) -> None:
        with pytest.raises(MetadataUnavailable):
            await committer.submit(Put(b"phantom", b"p"))

    async def go_on(committer: GroupCommitter) -> None:
        await committer.submit(Put(b"later", b"l"))

    # Its first commit seals what the worker before it left open.
    bench.run(CutMetadata(metadata, 2), die)  # type: ignore[arg-type]
    bench.run(metadata, go_on, worker=1)
    rebuilt = bench.database()
    bench.recover(rebuilt)
    assert b"later" in keys(dump(rebuilt))
    assert b"phantom" not in keys(dump(rebuilt))
    assert dump(rebuilt) == dump(metadata)


def test_what_a_dead_worker_flushed_is_void_once_another_has_taken_its_place(bench: Bench) -> None:
    metadata = bench.database()
    bench.run(metadata, fill)

    async def die(committer: GroupCommitter) -> None:
        with pytest.raises(MetadataUnavailable):
            await committer.submit(Put(b"phantom", b"p"))

    async def idle(_: GroupCommitter) -> None:
        return

    dying: Any = CutMetadata(metadata, 1)
    bench.run(dying, die, worker=1)
    bench.run(metadata, idle, worker=0)
    # Clients have read past the write by now; a restart must not bring it.
    assert bench.recover(metadata) == 0
    assert b"phantom" not in keys(dump(metadata))


def test_a_pack_left_open_is_sealed_behind_its_last_batch_and_trimmed(bench: Bench) -> None:
    metadata = bench.database()
    bench.run(metadata, fill)

    async def die(committer: GroupCommitter) -> None:
        await committer.submit(Put(b"last", b"stands"))
        with pytest.raises(MetadataUnavailable):
            await committer.submit(Put(b"phantom", bytes(9000)))

    async def idle(_: GroupCommitter) -> None:
        return

    dying: Any = CutMetadata(metadata, 2)
    bench.run(dying, die, worker=1)
    bench.run(metadata, idle, worker=1)
    bench.fleet.close()  # trims run on the devices' own threads
    files = {found.name: found.size for device in bench.memory.values() for found in device.survey(Area.PACKS)}
    rows = [Blob._make((*row, 0)) for row in dump(metadata)[BLOB.name]]
    sealed = [row for row in rows if row.kind == BlobKind.PACK and row.state != BlobState.OPEN]
    assert any(row.last_sequence for row in sealed if row.live_bytes == len(b"stands"))
    for row in sealed:
        assert {files[f"{row.blob_id.hex()}.{copy}"] for copy in range(3)} == {row.size}
    (version,) = [Version._make(row) for row in dump(metadata)[OBJECT.name] if row[1] == b"last"]
    assert body_of(bench, version) == b"stands"


def last_batch(bench: Bench) -> tuple[bytes, int]:
    found = [
        (batch.header.last_sequence, pack_id, batch.offset)
        for pack_id, copies in find_packs(bench.fleet).items()
        for batch in walk(pack_id, copies.readers(), 0)
        if batch.header.is_commit
    ]
    _, pack_id, offset = max(found)
    return pack_id, offset


def damage(bench: Bench, copies: int) -> None:
    """Flip a byte of the last batch's first body on so many copies."""
    pack_id, offset = last_batch(bench)
    damaged = 0
    for device in bench.memory.values():
        for found in list(device.survey(Area.PACKS)):
            if found.name.startswith(pack_id.hex()) and damaged < copies:
                content = device._find(Area.PACKS, found.name)  # rot happens below the contract
                content.data[offset + HEADER_BYTES] ^= 1
                damaged += 1
    assert damaged == copies


@pytest.mark.parametrize("copies", [1, 2])
def test_a_tip_on_few_copies_is_taken_and_mended(bench: Bench, copies: int) -> None:
    metadata = bench.database()
    bench.run(metadata, fill)
    damage(bench, copies)
    rebuilt = bench.database()
    bench.recover(rebuilt)
    assert dump(rebuilt) == dump(metadata)
    pack_id, offset = last_batch(bench)
    found = find_packs(bench.fleet)[pack_id]
    whole = [read(offset, 4096) for read in found.readers()]
    assert whole[0] == whole[1] == whole[2]


def test_a_torn_tip_was_never_acknowledged(bench: Bench) -> None:
    metadata = bench.database()

    async def work(committer: GroupCommitter) -> None:
        await fill(committer)
        await committer.submit(Put(b"zz", b"torn"))

    bench.run(metadata, work)
    damage(bench, 3)
    rebuilt = bench.database()
    bench.recover(rebuilt)
    assert b"zz" not in keys(dump(rebuilt))
    assert len(keys(dump(rebuilt))) == 7


def test_a_missing_middle_is_an_error_and_not_a_guess(bench: Bench) -> None:
    metadata = bench.database()
    bench.run(metadata, fill)
    bench.run(metadata, lambda committer: fill(committer, prefix=b"second"), worker=1)
    packs = find_packs(bench.fleet)
    first = min(packs, key=lambda pack: next(walk(pack, packs[pack].readers(), 0)).header.first_sequence)
    for device in bench.memory.values():
        for found in list(device.survey(Area.PACKS)):
            if found.name.startswith(first.hex()):
                device.delete(Area.PACKS, found.name)
    with pytest.raises(LogGap):
        bench.recover(bench.database())


def test_sequence_numbers_are_never_used_twice(bench: Bench) -> None:
    metadata = bench.database()
    bench.run(metadata, fill)
    copy = bench.database()  # a counter that starts anew, as after a power cut
    bench.recover(copy)

    async def one(committer: GroupCommitter) -> int:
        return (await committer.submit(Put(b"new", b"n"))).sequence

    highest = max(row[2] for row in dump(metadata)[OBJECT.name])
    assert bench.run(copy, one) > highest


def test_two_workers_make_one_chain(bench: Bench) -> None:
    metadata = bench.database()

    async def main() -> None:
        committers = [bench.committer(metadata, number) for number in range(2)]
        for committer in committers:
            await committer.start()
        await committers[0].submit(CreateBucket())
        futures = [committers[n % 2].submit(Put(b"%d" % (n % 50), b"x" * (n + 1))) for n in range(200)]
        await asyncio.gather(*futures)
        for committer in committers:
            await committer.stop()

    asyncio.run(main())
    rebuilt = bench.database()
    bench.recover(rebuilt)
    assert dump(rebuilt) == dump(metadata)
