"""Reclaim: what goes, what is set aside, what stays, and when."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import pytest

from metadata.contract import Transaction
from metadata.tables import BLOB, REPAIR, UPLOAD
from metadata.types import Blob, BlobId, BlobState
from tests.audit import all_rows, audit_files
from tests.world import GRACE_SECONDS, OWNER, BytesBody, World, open_world, run_pass
from tiers.commit.contract import Slot
from tiers.devices.contract import Area
from tiers.devices.interception import Operation
from tiers.namespace.content import insert_blob
from tiers.namespace.mutations import Keys
from tiers.namespace.types import CompletedPart, DeleteTarget
from tiers.upkeep.removal import RemoveBlob
from tiers.upkeep.sweeps import STEP_ITEMS_MAX

LARGE = b"0123456789abcdef" * 20_000


def in_world(tmp_path: Path, check: Callable[[World], Awaitable[None]]) -> None:
    async def run() -> None:
        async with open_world(tmp_path) as world:
            await check(world)

    asyncio.run(run())


async def dead_blob(world: World) -> Blob:
    await world.put("bucket", "dead", LARGE)
    await world.namespace.objects.delete("bucket", DeleteTarget("dead"))
    (dead,) = [blob for blob in await all_rows(world.reader, BLOB) if blob.state == BlobState.DEAD]
    return dead


async def seal(world: World) -> None:
    await world.restart()
    await world.namespace.buckets.put_document("bucket", "tagging", b"the first commit seals")


def test_dead_blobs_wait_for_their_grace(tmp_path: Path) -> None:
    async def check(world: World) -> None:
        dead = await dead_blob(world)
        world.clock.advance(GRACE_SECONDS - 1)
        await run_pass(world.reclaim)
        assert await world.reader.get_row(BLOB, (dead.blob_id,)) == dead
        assert len(world.files(Area.FRAGMENTS)) == 3
        world.clock.advance(2)
        assert await run_pass(world.reclaim) == 1
        await audit_files(world)
        assert not world.files(Area.FRAGMENTS)

    in_world(tmp_path, check)


def test_a_row_that_lives_again_is_not_removed(tmp_path: Path) -> None:
    async def check(world: World) -> None:
        await world.put("bucket", "alive", LARGE)
        (alive,) = [blob for blob in await all_rows(world.reader, BLOB) if blob.kind]
        as_seen = alive._replace(state=BlobState.DEAD, live_bytes=0, dead_ms=1)
        assert not await world.committer.submit(RemoveBlob(as_seen))
        assert await world.reader.get_row(BLOB, (alive.blob_id,)) == alive

    in_world(tmp_path, check)


def test_packs_wait_for_a_snapshot_that_holds_them(tmp_path: Path) -> None:
    async def check(world: World) -> None:
        await world.put("bucket", "k", b"small")
        await world.namespace.objects.delete("bucket", DeleteTarget("k"))
        await seal(world)
        (pack,) = [blob for blob in await all_rows(world.reader, BLOB) if blob.state == BlobState.DEAD]
        world.clock.advance(GRACE_SECONDS * 2)
        for sequence, items in ((pack.last_sequence - 1, 0), (pack.last_sequence, 1)):
            assert await run_pass(partial(world.reclaim, snapshot_sequence=sequence)) == items
        await audit_files(world)

    in_world(tmp_path, check)


def test_unknown_files_are_set_aside_when_old_and_never_deleted(tmp_path: Path) -> None:
    async def check(world: World) -> None:
        await world.put("bucket", "large", LARGE)
        await world.put("bucket", "small", b"small")
        known = world.files(Area.FRAGMENTS, Area.PACKS)
        device = world.devices["hot-1"]
        strangers = {f"{'ab' * 16}.0.1": Area.FRAGMENTS, "00foreign": Area.FRAGMENTS, f"{'cd' * 16}.2": Area.PACKS}
        for name, area in strangers.items():
            device.store(area, name, b"whose?")
        assert await run_pass(world.reclaim) == 0, "too young"
        world.clock.advance(GRACE_SECONDS + 1)
        assert await run_pass(world.reclaim) == 3
        assert world.files(Area.FRAGMENTS, Area.PACKS) == known
        assert {name for _, name in world.files(Area.QUARANTINE)} == set(strangers)

    in_world(tmp_path, check)


def test_staged_files_are_deleted_when_old(tmp_path: Path) -> None:
    async def check(world: World) -> None:
        staged = world.devices["hot-0"].stage("ab" * 16 + ".0.1", 0)
        staged.write(0, memoryview(b"left by a process that died"))
        world.clock.advance(GRACE_SECONDS - 1)
        await run_pass(world.reclaim)
        assert len(world.files(Area.STAGING)) == 1
        world.clock.advance(2)
        assert await run_pass(world.reclaim) == 1
        await audit_files(world)

    in_world(tmp_path, check)


def test_a_failing_device_keeps_the_row_until_it_answers(tmp_path: Path) -> None:
    async def check(world: World) -> None:
        dead = await dead_blob(world)
        world.clock.advance(GRACE_SECONDS + 1)
        sick = world.devices["hot-0"]
        sick.fail([Operation.DELETE], times=None)
        worker = world.reclaim()
        assert await run_pass(lambda: worker) == 0
        assert await world.reader.get_row(BLOB, (dead.blob_id,)) == dead
        sick.clear_faults()
        assert await run_pass(lambda: worker) == 1
        await audit_files(world)

    in_world(tmp_path, check)


def test_a_sick_device_does_not_keep_the_others_from_their_space(tmp_path: Path) -> None:
    async def check(world: World) -> None:
        dead = await dead_blob(world)
        world.clock.advance(GRACE_SECONDS + 1)
        sick = dead.placement.split(" ")[0]
        world.devices[sick].fail([Operation.DELETE, Operation.SURVEY], times=None)
        assert await run_pass(world.reclaim) == 0, "the pass ends"
        world.devices[sick].clear_faults()
        assert {device for device, _ in world.files(Area.FRAGMENTS)} == {sick}
        assert await run_pass(world.reclaim) == 1
        await audit_files(world)

    in_world(tmp_path, check)


def test_kept_answers_expire_and_open_uploads_stay(tmp_path: Path) -> None:
    async def check(world: World) -> None:
        multipart = world.namespace.multipart
        kept = await multipart.create("bucket", "open", OWNER)
        upload = await multipart.create("bucket", "k", OWNER)
        part = await multipart.put_part("bucket", "k", upload.upload_id, 1, BytesBody(b"x"))
        await multipart.complete("bucket", "k", upload.upload_id, [CompletedPart(1, part.etag, "")])
        world.clock.advance(GRACE_SECONDS - 1)
        assert await run_pass(world.reclaim) == 0
        world.clock.advance(2)
        assert await run_pass(world.reclaim) == 1
        assert await all_rows(world.reader, UPLOAD) == [kept]

    in_world(tmp_path, check)


def test_a_pass_goes_on_where_the_last_process_stopped(tmp_path: Path) -> None:
    async def check(world: World) -> None:
        device = world.devices["hot-0"]
        count = STEP_ITEMS_MAX + 10
        for number in range(count):
            device.store(Area.FRAGMENTS, f"{number:032x}.0.1", b"")
        world.clock.advance(GRACE_SECONDS + 1)
        worker, set_aside = world.reclaim(), 0
        while set_aside < STEP_ITEMS_MAX:
            set_aside += (await worker.step()).items
        await world.restart()
        step = await world.reclaim().step()
        assert (set_aside, step.items) == (STEP_ITEMS_MAX, 10)

    in_world(tmp_path, check)


@pytest.mark.parametrize("index", [0, 2])
def test_a_removed_blob_leaves_no_repair(tmp_path: Path, index: int) -> None:
    """A blob written with a fragment missing asks for repair; the request ends with the blob."""

    async def check(world: World) -> None:
        await world.put("bucket", "k", LARGE)
        (blob,) = [row for row in await all_rows(world.reader, BLOB) if row.kind]
        names = blob.placement.split(" ")
        names[index] = ""
        short = blob._replace(blob_id=BlobId(b"s" * 16), placement=" ".join(names), live_bytes=0)
        await world.committer.submit(InsertDead(short))
        assert [(row.blob_id, row.fragment_index) for row in await all_rows(world.reader, REPAIR)] == [
            (b"s" * 16, index)
        ]
        world.clock.advance(GRACE_SECONDS + 1)
        assert await run_pass(world.reclaim) == 1
        assert await all_rows(world.reader, REPAIR) == []

    in_world(tmp_path, check)


class InsertDead:
    """Inserts a blob as a commit does, and lets it die at once."""

    def __init__(self, blob: Blob) -> None:
        self._blob = blob
        self.body: bytes | None = None
        self.tier = blob.tier

    def reads(self) -> Keys:
        return ()

    def apply(self, transaction: Transaction, slot: Slot) -> None:
        insert_blob(transaction, self._blob, slot.now_ms)
        transaction.put(BLOB, self._blob._replace(state=BlobState.DEAD, dead_ms=slot.now_ms))
