"""Every path that takes a version away asks its lock, also where Object Lock itself lets no such version arise."""

from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path

import pytest

from metadata.tables import BUCKET, BUCKET_DOCUMENT, OBJECT
from metadata.types import BucketDocument, DocumentKind, Version, Versioning
from tests.world import OWNER, BytesBody, World, open_world
from tiers.errors import BucketNotEmpty, VersionLocked
from tiers.namespace.locks import LegalHold, Lock, pack_lock
from tiers.namespace.types import CompletedPart, DeleteTarget

HELD = pack_lock(Lock(legal_hold=LegalHold.ON))


async def hold(world: World, key: str) -> Version:
    """A null version with a legal hold, as a bucket with Object Lock could never lose it."""
    version = await world.put("bucket", key, b"held")
    with closing(world.metadata.open_writer()) as writer, writer.transaction() as transaction:
        transaction.begin_step()
        transaction.put(OBJECT, version._replace(lock=HELD))
        transaction.commit(transaction.head)
    return version


async def put(world: World) -> None:
    await world.put("bucket", "k", b"new")


async def put_large(world: World) -> None:
    await world.put("bucket", "k", b"new" * 100_000)


async def copy(world: World) -> None:
    source = await world.namespace.objects.find("bucket", "source")
    await world.namespace.objects.copy(source, "bucket", "k", OWNER)


async def complete(world: World) -> None:
    multipart = world.namespace.multipart
    upload = await multipart.create("bucket", "k", OWNER)
    part = await multipart.put_part("bucket", "k", upload.upload_id, 1, BytesBody(b"new"))
    await multipart.complete("bucket", "k", upload.upload_id, [CompletedPart(1, part.etag, "")])


async def delete(world: World) -> None:
    await world.namespace.objects.delete("bucket", DeleteTarget("k", bypasses_governance=True))


async def delete_version(world: World) -> None:
    await world.namespace.objects.delete("bucket", DeleteTarget("k", "null", bypasses_governance=True))


async def delete_many(world: World) -> None:
    (outcome,) = await world.namespace.objects.delete_many("bucket", [DeleteTarget("k", "null")])
    assert isinstance(outcome, Exception)
    raise outcome


@pytest.mark.asyncio
@pytest.mark.parametrize("state", [None, Versioning.SUSPENDED])
@pytest.mark.parametrize("path", [put, put_large, copy, complete, delete, delete_version, delete_many])
async def test_nothing_replaces_or_removes_a_held_version(
    tmp_path: Path, path: Callable[[World], Awaitable[None]], state: Versioning | None
) -> None:
    async with open_world(tmp_path) as world:
        await world.put("bucket", "source", b"source")
        version = await hold(world, "k")
        if state is not None:
            await world.namespace.buckets.set_versioning("bucket", state)
        before = await world.namespace.buckets.get("bucket")
        with pytest.raises(VersionLocked):
            await path(world)
        found = await world.namespace.objects.find("bucket", "k")
        assert (found.version.sequence, await world.read(found.version)) == (version.sequence, b"held")
        after = await world.namespace.buckets.get("bucket")
        assert (after.object_count, after.version_count) == (before.object_count, before.version_count)
        with pytest.raises(BucketNotEmpty):
            await world.namespace.buckets.delete("bucket")


@pytest.mark.asyncio
async def test_nothing_is_written_under_a_default_that_cannot_be_read(tmp_path: Path) -> None:
    async with open_world(tmp_path) as world:
        with closing(world.metadata.open_writer()) as writer, writer.transaction() as transaction:
            transaction.begin_step()
            bucket = transaction.get(BUCKET, ("bucket",))
            assert bucket is not None
            transaction.put(BUCKET_DOCUMENT, BucketDocument(bucket.bucket_id, DocumentKind.OBJECT_LOCK, b"\xc1"))
            transaction.commit(transaction.head)
        with pytest.raises(ValueError, match="unreadable"):
            await world.put("bucket", "k", b"x")
        assert (await world.namespace.buckets.get("bucket")).version_count == 0
