"""Compaction: live extents of wasteful packs move, their owners with them, and nothing else changes."""

from pathlib import Path

import pytest

from metadata.tables import BLOB, EXTENT
from metadata.types import Blob, BlobId, BlobState, Versioning, unpack_extents
from tests.audit import all_rows, audit_files, audit_references
from tests.unit.upkeep.test_reclaim import in_world, seal
from tests.world import GRACE_SECONDS, OWNER, World, run_pass
from tiers.devices.contract import Area
from tiers.errors import ContentUnreadable, PlacementMoved
from tiers.namespace.types import CompletedPart, DeleteTarget
from tiers.upkeep.compaction import REFERENCES_MAX
from tiers.upkeep.removal import RelocateExtent


async def wasteful_pack(world: World, kept: int = 3) -> Blob:
    """A sealed pack of which only the contents of `kept-*` live."""
    for number in range(kept):
        await world.put("bucket", f"kept-{number}", b"%d" % number * 1000)
    await world.put("bucket", "dropped", b"x" * 100_000)
    await world.namespace.objects.delete("bucket", DeleteTarget("dropped"))
    await seal(world)
    (pack,) = [blob for blob in await all_rows(world.reader, BLOB) if blob.state == BlobState.SEALED]
    return pack


async def pack_of(world: World, key: str) -> BlobId:
    version = (await world.namespace.objects.find("bucket", key)).version
    return unpack_extents(version.extents)[0].blob_id


def test_a_wasteful_pack_is_emptied_and_reclaimed(tmp_path: Path) -> None:
    async def check(world: World) -> None:
        kept = 2 * REFERENCES_MAX + 3
        pack = await wasteful_pack(world, kept)
        before = [(await world.namespace.objects.find("bucket", f"kept-{n}")).version for n in range(kept)]
        assert await run_pass(world.compaction) == kept
        for number, old in enumerate(before):
            version = (await world.namespace.objects.find("bucket", f"kept-{number}")).version
            assert version._replace(extents=b"") == old._replace(extents=b"")
            assert await world.read(version) == b"%d" % number * 1000
        row = await world.reader.get_row(BLOB, (pack.blob_id,))
        assert row is not None
        assert row.state == BlobState.DEAD
        await audit_references(world)
        assert await run_pass(world.compaction) == 0, "nothing is left to do"
        world.clock.advance(GRACE_SECONDS + 1)
        await run_pass(world.reclaim)
        await audit_files(world)

    in_world(tmp_path, check)


def test_all_owners_of_an_extent_share_its_new_place(tmp_path: Path) -> None:
    async def check(world: World) -> None:
        objects, multipart = world.namespace.objects, world.namespace.multipart
        await world.put("bucket", "kept-0", b"a" * 1000)
        source = await objects.find("bucket", "kept-0")
        await objects.copy(source, "bucket", "copy", OWNER)
        upload = await multipart.create("bucket", "k", OWNER)
        whole = await multipart.copy_part("bucket", "k", upload.upload_id, 1, source, 0, 1000)
        await multipart.copy_part("bucket", "k", upload.upload_id, 2, source, 0, 10)
        await wasteful_pack(world, 0)
        assert await run_pass(world.compaction) == 4
        assert await pack_of(world, "kept-0") == await pack_of(world, "copy")
        await audit_references(world)
        named = [CompletedPart(1, whole.etag, "")]
        version = (await world.namespace.multipart.complete("bucket", "k", upload.upload_id, named)).version
        assert await world.read(version) == b"a" * 1000

    in_world(tmp_path, check)


def test_an_owner_that_changed_keeps_what_it_has(tmp_path: Path) -> None:
    async def check(world: World) -> None:
        await wasteful_pack(world)
        old = (await world.namespace.objects.find("bucket", "kept-0")).version
        (extent,) = unpack_extents(old.extents)
        owners = [row for row in await all_rows(world.reader, EXTENT) if row.owner_sequence == old.sequence]
        await world.put("bucket", "kept-0", b"newer")
        with pytest.raises(PlacementMoved):
            await world.committer.submit(RelocateExtent(extent, owners, b"0" * 1000, "hot"))
        version = (await world.namespace.objects.find("bucket", "kept-0")).version
        assert await world.read(version) == b"newer"
        await audit_references(world)

    in_world(tmp_path, check)


def test_an_unreadable_extent_does_not_hold_up_the_others(tmp_path: Path) -> None:
    async def check(world: World) -> None:
        pack = await wasteful_pack(world)
        (extent,) = unpack_extents((await world.namespace.objects.find("bucket", "kept-1")).version.extents)
        for copy, device_id in enumerate(pack.placement.split(" ")):
            log = world.devices[device_id].reopen_log(f"{pack.blob_id.hex()}.{copy}")
            page = extent.offset // 4096 * 4096
            log.append(page, memoryview(bytes(4096)))
            log.close()
        with pytest.raises(ContentUnreadable):
            await world.read((await world.namespace.objects.find("bucket", "kept-1")).version)
        await run_pass(world.compaction)
        row = await world.reader.get_row(BLOB, (pack.blob_id,))
        assert row is not None
        assert row.state == BlobState.SEALED, "the unreadable content is still owed"
        assert await pack_of(world, "kept-1") == pack.blob_id
        await audit_references(world)

    in_world(tmp_path, check)


def test_packs_of_tiny_contents_are_not_rewritten_for_ever(tmp_path: Path) -> None:
    async def check(world: World) -> None:
        for number in range(2 * REFERENCES_MAX):
            await world.put("bucket", f"{number}", b"x" * 100)
        await seal(world)
        assert await run_pass(world.compaction) == 2 * REFERENCES_MAX, "a page for each put is a waste"
        for _ in range(2):
            await seal(world)
            assert await run_pass(world.compaction) == 0, "together they are as small as they get"
        await audit_references(world)

    in_world(tmp_path, check)


def test_full_packs_are_left_alone(tmp_path: Path) -> None:
    async def check(world: World) -> None:
        await world.put("bucket", "k", b"x" * 100_000)
        await seal(world)
        files = world.files(Area.PACKS)
        assert await run_pass(world.compaction) == 0
        assert world.files(Area.PACKS) == files

    in_world(tmp_path, check)


def test_versions_beneath_the_current_one_move_too(tmp_path: Path) -> None:
    async def check(world: World) -> None:
        await world.namespace.buckets.set_versioning("bucket", Versioning.ENABLED)
        old = await world.put("bucket", "k", b"old" * 100)
        await world.put("bucket", "k", b"new" * 100)
        drop = await world.put("bucket", "drop", b"x" * 100_000)
        await world.namespace.objects.delete("bucket", DeleteTarget("drop", drop.version_id))
        await seal(world)
        assert await run_pass(world.compaction) == 2
        found = await world.namespace.objects.find("bucket", "k", old.version_id)
        assert found.version.extents != old.extents
        assert await world.read(found.version) == b"old" * 100
        await audit_references(world)

    in_world(tmp_path, check)
