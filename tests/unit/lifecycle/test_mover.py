"""Moves between home tiers: what they change, what they never change, and how they end."""

from pathlib import Path

import msgpack
import pytest

from metadata.moves import MoveState
from metadata.tables import BLOB, MOVE
from metadata.types import BlobKind, BlobState, Version, Versioning
from tests.audit import all_rows
from tests.unit.lifecycle.moving import Moving, unplaced, with_moves
from tests.world import OWNER, BytesBody, run_pass
from tiers.devices.contract import Area
from tiers.lifecycle.move_requests import MoveRefused, Refusal
from tiers.lifecycle.mover import HAULS_MAX, MoveCounted
from tiers.namespace.types import CompletedPart, DeleteTarget, Description, WriteConditions
from tiers.upkeep.reports import NoteRepair

SMALL, LARGE = b"s" * 5_000, bytes(range(256)) * 2_000
TAGS = msgpack.packb([["k", "v"]])


async def multipart(moving: Moving, *parts: bytes) -> Version:
    uploads = moving.world.namespace.multipart
    upload = await uploads.create("bucket", "key", Description(owner_id="owner", tags=TAGS))
    named = []
    for number, part in enumerate(parts, 1):
        put = await uploads.put_part("bucket", "key", upload.upload_id, number, BytesBody(part))
        named.append(CompletedPart(number, put.etag, ""))
    return (await uploads.complete("bucket", "key", upload.upload_id, named)).version


@pytest.mark.parametrize("content", [b"", b"x", SMALL, b"y" * 131_072, LARGE], ids=len)
def test_a_version_goes_down_and_back_unchanged(tmp_path: Path, content: bytes) -> None:
    async def act(moving: Moving) -> None:
        world = moving.world
        before = await world.put("bucket", "key", content)
        for tier, storage_class in (("warm", "STANDARD_IA"), ("hot", "STANDARD")):
            await moving.ask(before, tier, storage_class)
            assert await moving.work() == 1
            assert await moving.outcome(before) == "moved"
            after = await moving.found(before)
            assert (after.tier, after.storage_class) == (tier, storage_class)
            assert unplaced(after) == unplaced(before)
            assert await world.read(after) == content
            assert await moving.tiers_of(after) <= {tier}
        assert [one.byte_count for one in moving.counted] == [len(content)] * 2

    with_moves(tmp_path, act)


def test_parts_keep_their_boundaries(tmp_path: Path) -> None:
    """Large and small parts together: one blob then, with the runs that there were."""

    async def act(moving: Moving) -> None:
        parts = (LARGE, b"b" * 150_000, b"c" * 200)
        before = await multipart(moving, *parts)
        await moving.ask(before, "warm")
        await moving.work()
        after = await moving.found(before)
        assert unplaced(after) == unplaced(before)
        assert after.storage_class == "STANDARD", "no class was asked for"
        assert [extent.length for extent in moving.extents(after)] == [len(part) for part in parts]
        assert await moving.world.read(after) == b"".join(parts)
        assert len({extent.blob_id for extent in moving.extents(after)}) == 1

    with_moves(tmp_path, act)


def test_many_small_versions_share_one_new_pack(tmp_path: Path) -> None:
    async def act(moving: Moving) -> None:
        count = 70
        versions = [await moving.world.put("bucket", f"key-{n}", b"%d" % n * (n + 1) * 900) for n in range(count)]
        for version in versions:
            await moving.ask(version, "warm")
        assert await moving.work() == count
        packs = set()
        for number, version in enumerate(versions):
            after = await moving.found(version)
            assert await moving.world.read(after) == b"%d" % number * (number + 1) * 900
            packs |= {extent.blob_id for extent in moving.extents(after)}
        assert len(packs) == 1
        row = await moving.world.reader.get_row(BLOB, (packs.pop(),))
        assert row is not None
        assert (row.kind, row.state, row.tier) == (BlobKind.PACK, BlobState.SEALED, "warm")
        assert row.last_sequence > 1, "more than a batch"

    with_moves(tmp_path, act)


def test_a_pack_of_moves_is_repaired_and_compacted_like_any_other(tmp_path: Path) -> None:
    async def act(moving: Moving) -> None:
        world = moving.world
        versions = [await world.put("bucket", f"key-{n}", b"%d" % n * 20_000) for n in range(6)]
        for version in versions:
            await moving.ask(version, "warm")
        await moving.work()
        (extent,) = moving.extents(await moving.found(versions[0]))
        (pack,) = await world.reader.get_blobs([extent.blob_id])
        device = world.devices[pack.placement.split(" ")[1]]
        device.delete(Area.PACKS, f"{pack.blob_id.hex()}.1")
        await world.committer.submit(NoteRepair(pack.blob_id, 1, "missing"))
        assert await run_pass(world.repair) == 1
        for number in range(1, 6):
            await world.namespace.objects.delete("bucket", DeleteTarget(f"key-{number}"))
        assert await run_pass(world.compaction) == 1
        after = await moving.found(versions[0])
        assert moving.extents(after)[0].blob_id != pack.blob_id
        assert await world.read(after) == b"0" * 20_000

    with_moves(tmp_path, act)


def test_a_copy_stays_where_its_source_was(tmp_path: Path) -> None:
    async def act(moving: Moving) -> None:
        world = moving.world
        source = await world.put("bucket", "key", LARGE)
        located = await world.namespace.objects.find("bucket", "key")
        copied = (await world.namespace.objects.copy(located, "bucket", "copy", OWNER, WriteConditions())).version
        await moving.ask(source, "warm")
        await moving.work()
        assert await moving.tiers_of(await moving.found(source)) == {"warm"}
        assert await moving.found(copied) == copied
        assert await world.read(copied) == LARGE
        await moving.ask(copied, "warm")
        await moving.work()
        assert await world.read(await moving.found(copied)) == LARGE

    with_moves(tmp_path, act)


def test_a_copy_in_name_only_moves_its_bytes(tmp_path: Path) -> None:
    """The row of a copy may name a tier that the shared bytes do not lie in."""

    async def act(moving: Moving) -> None:
        world = moving.world
        await world.put("bucket", "key", LARGE)
        located = await world.namespace.objects.find("bucket", "key")
        warm = Description(owner_id="owner", storage_class="STANDARD_IA")
        copied = (await world.namespace.objects.copy(located, "bucket", "copy", warm, WriteConditions())).version
        await moving.ask(copied, "warm")
        await moving.work()
        assert await moving.tiers_of(await moving.found(copied)) == {"warm"}

    with_moves(tmp_path, act)


def test_noncurrent_versions_move_and_markers_do_not(tmp_path: Path) -> None:
    async def act(moving: Moving) -> None:
        world = moving.world
        await world.namespace.buckets.set_versioning("bucket", Versioning.ENABLED)
        old = await world.put("bucket", "key", SMALL)
        await world.put("bucket", "key", b"newer")
        await moving.ask(old, "warm", "STANDARD_IA")
        marker = await world.namespace.objects.delete("bucket", DeleteTarget("key"))
        await moving.work()
        after = await moving.found(old)
        assert (after.tier, after.storage_class, after.noncurrent_ms > 0) == ("warm", "STANDARD_IA", True)
        assert await world.read(after) == SMALL
        row = await world.reader.find_version(old.bucket_id, old.key, marker.version_id)
        assert row is not None
        with pytest.raises(MoveRefused) as refused:
            await moving.ask(row, "warm")
        assert refused.value.reason is Refusal.NO_VERSION

    with_moves(tmp_path, act)


@pytest.mark.parametrize("content", [SMALL, LARGE], ids=len)
def test_an_overwrite_or_delete_while_it_is_copied_wins(tmp_path: Path, content: bytes) -> None:
    async def act(moving: Moving) -> None:
        world = moving.world
        for change in ("put", "delete"):
            version = await world.put("bucket", "key", content)
            await moving.ask(version, "warm")

            async def interfere(change: str = change) -> None:
                if change == "put":
                    await world.put("bucket", "key", b"newer")
                else:
                    await world.namespace.objects.delete("bucket", DeleteTarget("key"))

            moving.before_swap(interfere)
            assert await moving.work() == 1
            assert await moving.outcome(version) == "lost"
            if change == "put":
                found = await world.namespace.objects.find("bucket", "key")
                assert await world.read(found.version) == b"newer"
        assert [one.result for one in moving.counted] == ["lost", "lost"]
        assert not [row for row in await all_rows(world.reader, BLOB) if row.state == BlobState.PENDING]

    with_moves(tmp_path, act)


@pytest.mark.parametrize("content", [b"", SMALL, LARGE], ids=len)
def test_what_clients_change_of_the_row_meanwhile_is_kept(tmp_path: Path, content: bytes) -> None:
    async def act(moving: Moving) -> None:
        world = moving.world
        version = await world.put("bucket", "key", content)
        await moving.ask(version, "warm")

        async def tag() -> None:
            await world.namespace.objects.set_tags("bucket", "key", version.version_id, TAGS)

        moving.before_swap(tag)
        if not content:
            await tag()
        await moving.work()
        after = await moving.found(version)
        assert (after.tags, after.tier) == (TAGS, "warm")

    with_moves(tmp_path, act)


def test_tags_and_compaction_between_copy_and_swap(tmp_path: Path) -> None:
    """What a client changes of the row meanwhile is kept; bytes that were relocated meanwhile are copied again."""

    async def act(moving: Moving) -> None:
        world = moving.world
        version = await world.put("bucket", "key", SMALL)
        await world.put("bucket", "dropped", b"x" * 100_000)
        await world.namespace.objects.delete("bucket", DeleteTarget("dropped"))
        await world.restart()
        await world.namespace.buckets.put_document("bucket", "tagging", b"seals")
        moving = Moving(world, world.committer)
        await moving.ask(version, "warm")

        async def interfere() -> None:
            await world.namespace.objects.set_tags("bucket", "key", version.version_id, TAGS)
            assert await run_pass(world.compaction) == 1

        moving.before_swap(interfere)
        await moving.work()
        assert await moving.outcome(version) == "moved"
        move = await moving.mover.find(version.sequence)
        assert move is not None
        assert move.attempts == 2
        after = await moving.found(version)
        assert (after.tags, after.tier) == (TAGS, "warm")

    with_moves(tmp_path, act)


def test_cancelling_what_waits_and_what_runs(tmp_path: Path) -> None:
    async def act(moving: Moving) -> None:
        world = moving.world
        waiting, running = await world.put("bucket", "a", SMALL), await world.put("bucket", "b", LARGE)
        for version in (waiting, running):
            await moving.ask(version, "warm")
        cancelled = await moving.mover.cancel(waiting.sequence)
        assert cancelled is not None
        assert (cancelled.state, cancelled.result) == (MoveState.ENDED, "cancelled")

        async def cancel() -> None:
            move = await moving.mover.cancel(running.sequence)
            assert move is not None
            assert (move.state, move.result) == (MoveState.RUNNING, "cancelled")
            with pytest.raises(MoveRefused) as refused:
                await moving.ask(running, "warm")
            assert refused.value.reason is Refusal.OPEN_ELSEWHERE

        moving.before_swap(cancel)
        await moving.work()
        for version in (waiting, running):
            assert await moving.outcome(version) == "cancelled"
            assert await moving.found(version) == version
        assert await moving.mover.cancel(1 << 40) is None

    with_moves(tmp_path, act)


def test_pausing_outlives_the_process(tmp_path: Path) -> None:
    async def act(moving: Moving) -> None:
        version = await moving.world.put("bucket", "key", SMALL)
        await moving.mover.pause()
        await moving.ask(version, "warm")
        await moving.world.restart()
        later = Moving(moving.world, moving.world.committer)
        assert await later.work() == 0
        await later.mover.resume()
        assert await later.work() == 1

    with_moves(tmp_path, act)


def test_sixteen_wishes_are_one_move(tmp_path: Path) -> None:
    """Duplicate tasks of one transition raced elsewhere (RustFS #4827)."""

    async def act(moving: Moving) -> None:
        version = await moving.world.put("bucket", "key", SMALL)
        moves = [await moving.ask(version, "warm", "STANDARD_IA") for _ in range(16)]
        assert len(set(moves)) == 1
        with pytest.raises(MoveRefused) as refused:
            await moving.ask(version, "hot")
        assert refused.value.reason is Refusal.OPEN_ELSEWHERE
        assert await moving.work() == 1
        assert len(moving.counted) == 1
        assert moving.counted[0] == MoveCounted("hot", "warm", "operator", "moved", len(SMALL))

    with_moves(tmp_path, act)


def test_urgent_moves_go_first(tmp_path: Path) -> None:
    async def act(moving: Moving) -> None:
        late = [await moving.world.put("bucket", f"late-{n}", LARGE) for n in range(HAULS_MAX)]
        for version in late:
            await moving.ask(version, "warm")
        urgent = await moving.world.put("bucket", "urgent", LARGE)
        await moving.ask(urgent, "warm", priority=0)
        await moving.worker.step()
        running = await moving.world.reader.list_moves(MoveState.QUEUED, 1 << 62, 10)
        assert [move.sequence for move in running] == [late[-1].sequence], "as many as may run at once began"
        await moving.work()
        assert {await moving.outcome(version) for version in (*late, urgent)} == {"moved"}

    with_moves(tmp_path, act)


def test_what_cannot_be_is_refused(tmp_path: Path) -> None:
    async def act(moving: Moving) -> None:
        version = await moving.world.put("bucket", "key", SMALL)
        for to, storage_class, reason in (
            ("nowhere", None, Refusal.NO_TIER),
            ("warm", "STANDARD", Refusal.CLASS_ELSEWHERE),
        ):
            with pytest.raises(MoveRefused) as refused:
                await moving.ask(version, to, storage_class)
            assert refused.value.reason is reason
        with pytest.raises(MoveRefused) as refused:
            await moving.ask(version._replace(bucket_id=99), "warm")
        assert refused.value.reason is Refusal.NO_VERSION
        assert not await all_rows(moving.world.reader, MOVE)

    with_moves(tmp_path, act)


def test_outcomes_are_forgotten_after_a_day(tmp_path: Path) -> None:
    async def act(moving: Moving) -> None:
        version = await moving.world.put("bucket", "key", SMALL)
        await moving.ask(version, "warm")
        await moving.work()
        moving.world.clock.advance(86_400 - 1)
        await moving.work()
        assert await moving.outcome(version) == "moved"
        moving.world.clock.advance(2)
        await moving.work()
        assert await moving.mover.find(version.sequence) is None

    with_moves(tmp_path, act)
