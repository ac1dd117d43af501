"""Renames and appends on a store in one process: what moves, what stays, what is refused, and that nothing leaks."""

from collections.abc import Awaitable, Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from metadata.tables import OBJECT
from metadata.types import Version, Versioning, unpack_extents
from tests.unit.namespace.test_objects import LARGE, assert_nothing_leaks
from tests.world import OWNER, BytesBody, World, open_world
from tiers.errors import (
    AppendRefused,
    BucketVersioned,
    ChecksumNotCombinable,
    ConditionFailed,
    KeyNotFound,
    OffsetMismatch,
    PlacementMoved,
    StorageError,
    TokenReused,
    TooManyExtents,
    VersionLocked,
)
from tiers.namespace import append_mutations
from tiers.namespace.events import NOBODY
from tiers.namespace.locks import LegalHold, Lock, pack_lock
from tiers.namespace.rename_mutations import Rename, SideConditions, judge_side

ANY = SideConditions()
HELD = pack_lock(Lock(legal_hold=LegalHold.ON))


async def asked(world: World, source: str, target: str, *, token: str = "", caller: str = "owner") -> Rename:
    """A rename as the gateway asks for it now."""
    bucket = await world.namespace.buckets.get("bucket")
    try:
        seen: Version | None = (await world.namespace.objects.find("bucket", source)).version
    except KeyNotFound:
        seen = None
    return Rename(bucket, source, target, seen, caller, ANY, ANY, token, NOBODY)


async def content(world: World, key: str) -> bytes:
    return await world.read((await world.namespace.objects.find("bucket", key)).version)


async def hold(world: World, version: Version) -> None:
    with closing(world.metadata.open_writer()) as writer, writer.transaction() as transaction:
        transaction.begin_step()
        transaction.put(OBJECT, version._replace(lock=HELD))
        transaction.commit(transaction.head)


@pytest.mark.asyncio
async def test_a_rename_moves_everything_and_no_byte(tmp_path: Path) -> None:
    async with open_world(tmp_path) as world:
        objects = world.namespace.objects
        await objects.put(
            "bucket", "a", BytesBody(LARGE), replace(OWNER, attributes=b"x: y\r\n", tags=b"tags", acl=b"a")
        )
        await world.put("bucket", "b", b"overwritten")
        before = (await objects.find("bucket", "a")).version
        world.clock.advance(5)
        await objects.rename(await asked(world, "a", "b"))
        after = (await objects.find("bucket", "b")).version
        kept = {"key": b"b", "sequence": after.sequence, "modified_ms": before.modified_ms + 5000}
        assert after == before._replace(**kept)
        assert await content(world, "b") == LARGE
        with pytest.raises(KeyNotFound):
            await objects.find("bucket", "a")
        bucket = await world.namespace.buckets.get("bucket")
        assert (bucket.object_count, bucket.version_count, bucket.byte_count) == (1, 1, len(LARGE))
        await assert_nothing_leaks(world)


@pytest.mark.asyncio
async def test_a_token_renames_once(tmp_path: Path) -> None:
    async with open_world(tmp_path) as world:
        objects = world.namespace.objects
        await world.put("bucket", "a", b"first")
        await objects.rename(await asked(world, "a", "b", token="t"))
        await world.put("bucket", "a", b"second")
        await objects.rename(await asked(world, "a", "b", token="t"))
        assert (await content(world, "a"), await content(world, "b")) == (b"second", b"first")
        with pytest.raises(TokenReused):
            await objects.rename(await asked(world, "a", "c", token="t"))
        await objects.rename(await asked(world, "a", "c", token="t", caller="other"))
        assert await content(world, "c") == b"second"
        assert (await world.namespace.listing.uploads(_everything())).entries == []


def _everything() -> object:
    from tiers.namespace.types import ListQuery

    return ListQuery("bucket")


async def absent(world: World) -> None:
    await world.namespace.objects.rename(await asked(world, "nothing", "b"))


async def replaced(world: World) -> None:
    rename = await asked(world, "a", "b")
    await world.put("bucket", "a", b"newer")
    await world.namespace.objects.rename(rename)


async def deleted(world: World) -> None:
    from tiers.namespace.types import DeleteTarget

    rename = await asked(world, "a", "b")
    await world.namespace.objects.delete("bucket", DeleteTarget("a"))
    await world.namespace.objects.rename(rename)


async def versioned(world: World) -> None:
    await world.namespace.buckets.set_versioning("bucket", Versioning.SUSPENDED)
    await world.namespace.objects.rename(await asked(world, "a", "b"))


async def held_source(world: World) -> None:
    await hold(world, (await world.namespace.objects.find("bucket", "a")).version)
    await world.namespace.objects.rename(await asked(world, "a", "b"))


async def held_target(world: World) -> None:
    await hold(world, await world.put("bucket", "b", b"held"))
    await world.namespace.objects.rename(await asked(world, "a", "b"))


async def target_conditions(world: World) -> None:
    rename = await asked(world, "a", "b")
    await world.put("bucket", "b", b"there")
    await world.namespace.objects.rename(rename._replace(target_conditions=SideConditions(if_none_match=("*",))))


@pytest.mark.asyncio
@pytest.mark.parametrize(("act", "error"), [
    (absent, KeyNotFound), (replaced, PlacementMoved), (deleted, KeyNotFound), (versioned, BucketVersioned),
    (held_source, VersionLocked), (held_target, VersionLocked), (target_conditions, ConditionFailed),
])  # fmt: skip
async def test_renames_refused_change_nothing(
    tmp_path: Path, act: Callable[[World], Awaitable[None]], error: type[StorageError]
) -> None:
    async with open_world(tmp_path) as world:
        await world.put("bucket", "a", b"a")
        with pytest.raises(error):
            await act(world)
        await assert_nothing_leaks(world)


VERSION = Version(
    *(1, b"k", 1, "null", 0, 1, "etag", 5000, "STANDARD", "hot", "owner", b"", "", b"", b"", b"", b"", b"", b"", 0)
)


@pytest.mark.parametrize(("conditions", "version", "failed"), [
    (SideConditions(if_match=("etag",)), VERSION, ""),
    (SideConditions(if_match=("other",)), VERSION, "p-If-Match"),
    (SideConditions(if_none_match=("other",)), VERSION, ""),
    (SideConditions(if_none_match=("*",)), VERSION, "p-If-None-Match"),
    (SideConditions(if_none_match=("*",)), None, ""),
    (SideConditions(modified_since=4), VERSION, ""),
    (SideConditions(modified_since=5), VERSION, "p-If-Modified-Since"),
    (SideConditions(modified_since=4), None, "p-If-Modified-Since"),
    (SideConditions(unmodified_since=5), VERSION, ""),
    (SideConditions(unmodified_since=4), VERSION, "p-If-Unmodified-Since"),
    (SideConditions(if_match=("etag",), unmodified_since=4), VERSION, ""),
    (SideConditions(unmodified_since=4), None, ""),
])  # fmt: skip
def test_conditions_of_one_side(conditions: SideConditions, version: Version | None, failed: str) -> None:
    if not failed:
        judge_side(conditions, version, key="k", prefix="p-")
        return
    with pytest.raises(ConditionFailed) as raised:
        judge_side(conditions, version, key="k", prefix="p-")
    assert raised.value.condition == failed


# ------------------------------------------------------------------------------------------------------------ appends


async def append(world: World, data: bytes, offset: int, *, algorithm: str = "") -> Version:
    description = replace(OWNER, checksum_algorithm=algorithm)
    outcome = await world.namespace.objects.append("bucket", "k", BytesBody(data), description, offset=offset)
    return outcome.version


@pytest.mark.asyncio
@pytest.mark.parametrize("algorithm", ["", "CRC32", "CRC32C"])
async def test_appends_add_extents_and_checksum_the_whole(tmp_path: Path, algorithm: str) -> None:
    async with open_world(tmp_path) as world:
        pieces = [b"first", LARGE, b"", b"last"]
        whole = b""
        for piece in pieces:
            version = await append(world, piece, len(whole), algorithm=algorithm)
            whole += piece
        assert await world.read(version) == whole
        reference = await world.namespace.objects.put(
            "bucket", "whole", BytesBody(whole), replace(OWNER, checksum_algorithm=algorithm)
        )
        assert (version.size, version.checksum) == (len(whole), reference.version.checksum)
        assert version.etag.endswith("-4")
        assert len(unpack_extents(version.extents)) == 3
        bucket = await world.namespace.buckets.get("bucket")
        assert (bucket.object_count, bucket.byte_count) == (2, 2 * len(whole))
        await assert_nothing_leaks(world)


@pytest.mark.asyncio
async def test_one_of_two_appends_at_one_offset_wins(tmp_path: Path) -> None:
    import asyncio

    async with open_world(tmp_path) as world:
        await append(world, b"start", 0)
        answers = await asyncio.gather(append(world, b"A", 5), append(world, b"B", 5), return_exceptions=True)
        assert sorted(type(answer).__name__ for answer in answers) == ["OffsetMismatch", "Version"]
        assert await content(world, "k") in {b"startA", b"startB"}
        await assert_nothing_leaks(world)


@pytest.mark.asyncio
async def test_appends_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_world(tmp_path) as world:
        with pytest.raises(OffsetMismatch):
            await append(world, b"x", 1)
        version = await append(world, b"abc", 0)
        for offset in (0, 2, 4):
            with pytest.raises(OffsetMismatch):
                await append(world, LARGE, offset)
        await hold(world, version)
        with pytest.raises(VersionLocked):
            await append(world, b"x", 3)
        await world.namespace.objects.put(
            "bucket", "k2", BytesBody(b"abc"), replace(OWNER, checksum_algorithm="SHA256")
        )
        with pytest.raises(ChecksumNotCombinable):
            await world.namespace.objects.append("bucket", "k2", BytesBody(b"x"), OWNER, offset=3)
        await world.put("bucket", "k3", b"abc")
        monkeypatch.setattr(append_mutations, "EXTENTS_MAX", 2)
        await world.namespace.objects.append("bucket", "k3", BytesBody(b"x"), OWNER, offset=3)
        with pytest.raises(TooManyExtents):
            await world.namespace.objects.append("bucket", "k3", BytesBody(b"x"), OWNER, offset=4)
        await world.namespace.buckets.set_versioning("bucket", Versioning.ENABLED)
        for offset, key in ((3, "k2"), (0, "fresh")):
            with pytest.raises(AppendRefused):
                await world.namespace.objects.append("bucket", key, BytesBody(b"x"), OWNER, offset=offset)
        await assert_nothing_leaks(world)
