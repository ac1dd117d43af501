"""Encrypted contents in the namespace: sealed on every way in, opened on every way out, moved as ciphertext."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from metadata.types import Version, unpack_extents
from tests.audit import audit_references
from tests.world import OWNER, BytesBody, World, open_world, run_pass
from tiers.datapath.encryption import ContentKey, Envelope, sealed_length
from tiers.errors import ContentUnreadable
from tiers.namespace.types import CompletedPart, CopyKeys, DeleteTarget, Description

SMALL = b"small plaintext " * 100
LARGE = b"large plaintext " * 30_000  # above the largest small content, several blocks


def in_world(path: Path, check: Callable[[World], Awaitable[None]]) -> None:
    async def run() -> None:
        async with open_world(path) as world:
            await check(world)

    asyncio.run(run())


def fresh_key(world: World) -> ContentKey:
    return ContentKey(world.new_id() * 2, Envelope("AES256", "", b"wrapped", world.new_id()))


def key_for(key: ContentKey, version: Version) -> ContentKey:
    """The key with the envelope of a row, as the gateway opens it."""
    return ContentKey(key.data_key, Envelope.unpack(version.encryption))


async def read(
    world: World, key: ContentKey | None, version: Version, start: int = 0, stop: int | None = None
) -> bytes:
    stop = version.size if stop is None else stop
    opened = None if key is None else key_for(key, version)
    stream = await world.namespace.objects.open(version, start, stop, opened)
    try:
        runs = []
        while (run := await stream.next()) is not None:
            runs.append(bytes(run))
        return b"".join(runs)
    finally:
        stream.close()


async def put(world: World, key: ContentKey, name: str, content: bytes, description: Description = OWNER) -> Version:
    outcome = await world.namespace.objects.put("bucket", name, BytesBody(content), description, content_key=key)
    return outcome.version


@pytest.mark.parametrize("content", [b"", SMALL, b"x" * 100_000, LARGE], ids=["empty", "small", "md5", "large"])
@pytest.mark.parametrize("is_length_known", [True, False])
def test_a_row_says_the_plaintexts_size_and_etag(tmp_path: Path, content: bytes, is_length_known: bool) -> None:
    async def check(world: World) -> None:
        clear = await world.put("bucket", "clear", content)
        key = fresh_key(world)
        body = BytesBody(content, is_length_known=is_length_known)
        version = (await world.namespace.objects.put("bucket", "k", body, OWNER, content_key=key)).version
        assert (version.size, version.etag, version.checksum) == (clear.size, clear.etag, clear.checksum)
        extents = unpack_extents(version.extents)
        assert sum(extent.length for extent in extents) == sealed_length(len(content))
        assert await read(world, key, version) == content
        if content:
            assert (
                await read(world, key, version, len(content) // 3, len(content) // 2 + 1)
                == (content[len(content) // 3 : len(content) // 2 + 1])
            )
        bucket = await world.namespace.buckets.get("bucket")
        assert bucket.byte_count == 2 * len(content)

    in_world(tmp_path, check)


def test_what_does_not_open_fails_before_its_first_byte(tmp_path: Path) -> None:
    async def check(world: World) -> None:
        for content in (SMALL, LARGE):
            version = await put(world, fresh_key(world), "k", content)
            with pytest.raises(ContentUnreadable):
                await read(world, fresh_key(world), version)

    in_world(tmp_path, check)


def test_contents_swapped_between_rows_do_not_open(tmp_path: Path) -> None:
    """S89: whoever can write rows gives one content the place, or the envelope, of another."""

    async def check(world: World) -> None:
        key, other = fresh_key(world), fresh_key(world)
        one, two = await put(world, key, "one", SMALL), await put(world, other, "two", SMALL[::-1])
        newer = await put(world, ContentKey(key.data_key, key.envelope), "one", SMALL.upper())
        for changed in (
            one._replace(extents=two.extents),
            one._replace(extents=newer.extents),
            one._replace(encryption=two.encryption),
            one._replace(encryption=newer.encryption),
        ):
            with pytest.raises(ContentUnreadable):
                await read(world, key, changed)

    in_world(tmp_path, check)


def test_copies_share_bytes_only_under_one_key(tmp_path: Path) -> None:
    async def check(world: World) -> None:
        objects = world.namespace.objects
        for content in (SMALL, LARGE):
            key, other = fresh_key(world), fresh_key(world)
            version = await put(world, key, "k", content)
            found = await objects.find("bucket", "k")
            opened = key_for(key, version)
            shared = (await objects.copy(found, "bucket", "s", OWNER, keys=CopyKeys(opened, opened))).version
            assert (shared.extents, shared.encryption) == (version.extents, version.encryption)
            anew = (await objects.copy(found, "bucket", "a", OWNER, keys=CopyKeys(opened, other))).version
            assert anew.extents != version.extents
            clear = (await objects.copy(found, "bucket", "c", OWNER, keys=CopyKeys(opened, None))).version
            moved = replace(OWNER, storage_class="STANDARD_IA")
            warm = (await objects.copy(found, "bucket", "w", moved, keys=CopyKeys(opened, opened))).version
            assert (warm.tier, warm.extents != version.extents) == ("warm", True)
            await objects.delete("bucket", DeleteTarget("k"))
            for row, its in ((shared, key), (anew, other), (clear, None), (warm, key)):
                assert await read(world, its, row) == content
                assert (row.etag, row.size) == (version.etag, version.size)
        await audit_references(world)

    in_world(tmp_path, check)


def test_parts_are_runs_of_one_key(tmp_path: Path) -> None:
    async def check(world: World) -> None:
        objects, multipart = world.namespace.objects, world.namespace.multipart
        key, source_key = fresh_key(world), fresh_key(world)
        source = await put(world, source_key, "source", LARGE)
        described = replace(OWNER, encryption=key.envelope.pack())
        upload = await multipart.create("bucket", "k", described)
        put_part = multipart.put_part
        first = await put_part("bucket", "k", upload.upload_id, 2, BytesBody(LARGE), content_key=key)
        await put_part("bucket", "k", upload.upload_id, 7, BytesBody(b"dropped"), content_key=key)
        again = await put_part("bucket", "k", upload.upload_id, 2, BytesBody(LARGE), content_key=key)
        assert first.etag == again.etag
        keys = CopyKeys(key_for(source_key, source), key)
        found = await objects.find("bucket", "source")
        copied = await multipart.copy_part("bucket", "k", upload.upload_id, 5, found, 100, 70_100, keys=keys)
        listed = [CompletedPart(2, again.etag, ""), CompletedPart(5, copied.etag, "")]
        outcome = await multipart.complete("bucket", "k", upload.upload_id, listed)
        whole = LARGE + LARGE[100:70_100]
        assert outcome.version.size == len(whole)
        assert await read(world, key, outcome.version) == whole
        assert await read(world, key, outcome.version, len(LARGE) - 3, len(LARGE) + 3) == whole[len(LARGE) - 3 :][:6]
        repeated = await multipart.complete("bucket", "k", upload.upload_id, listed)
        assert repeated.version.encryption == key.envelope.pack(), "how, and not of every part"
        opened = key_for(key, outcome.version)
        joined = await objects.copy(
            await objects.find("bucket", "k"), "bucket", "j", OWNER, keys=CopyKeys(opened, opened)
        )
        assert await read(world, key, joined.version) == whole
        assert "-" not in joined.version.etag
        await audit_references(world)

    in_world(tmp_path, check)


def test_a_move_carries_ciphertext(tmp_path: Path) -> None:
    """Compaction moves what it cannot read, and the rows stay as they are but for the place."""

    async def check(world: World) -> None:
        key = fresh_key(world)
        version = await put(world, key, "kept", SMALL)
        await world.put("bucket", "dropped", b"x" * 100_000)
        await world.namespace.objects.delete("bucket", DeleteTarget("dropped"))
        await world.restart()
        await world.put("bucket", "seals", b"the packs of the process before")
        assert await run_pass(world.compaction) == 1
        moved = (await world.namespace.objects.find("bucket", "kept")).version
        assert moved.extents != version.extents
        assert moved._replace(extents=b"") == version._replace(extents=b"")
        assert await read(world, key, moved) == SMALL

    in_world(tmp_path, check)


def test_an_encrypted_content_is_never_handed_out_without_its_key(tmp_path: Path) -> None:
    async def check(world: World) -> None:
        version = await put(world, fresh_key(world), "k", SMALL)
        with pytest.raises(AssertionError):
            await world.namespace.objects.open(version, 0, 10)

    in_world(tmp_path, check)
