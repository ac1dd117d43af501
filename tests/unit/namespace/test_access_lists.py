"""Lists and owners of versions, and the principals they name: stored with the change they were authorised for."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from metadata.types import Versioning
from tests.world import OWNER, BytesBody, World, open_world
from tiers.errors import PlacementMoved, UploadNotFound
from tiers.namespace.accounts import CreatePrincipal, EditPrincipal
from tiers.namespace.principals import NAMES_SECONDS
from tiers.namespace.types import CompletedPart, DeleteTarget, Description

BOB = Description("bob", acl=b"list of bob", writer_id="eve")


def run(path: Path, act: Callable[[World], Awaitable[None]]) -> None:
    async def inside() -> None:
        async with open_world(path) as world:
            await act(world)

    asyncio.run(inside())


def test_a_list_is_set_on_the_version_found_and_on_no_other(tmp_path: Path) -> None:
    async def act(world: World) -> None:
        objects = world.namespace.objects
        await world.namespace.buckets.set_versioning("bucket", Versioning.ENABLED)
        old = (await objects.put("bucket", "k", BytesBody(b"old"), BOB)).version
        await objects.put("bucket", "k", BytesBody(b"new"), OWNER)
        found = await objects.find("bucket", "k", old.version_id)
        assert (found.version.owner_id, found.version.acl) == ("bob", b"list of bob")
        world.clock.advance(10)
        changed = await objects.set_acl(found, b"other")
        assert changed == found.version._replace(acl=b"other")
        assert (await objects.find("bucket", "k", old.version_id)).version.acl == b"other"
        assert (await objects.find("bucket", "k")).version.acl == b""

    run(tmp_path, act)


def test_a_list_meant_for_what_is_gone_is_set_on_nothing(tmp_path: Path) -> None:
    async def act(world: World) -> None:
        objects = world.namespace.objects
        await objects.put("bucket", "k", BytesBody(b"old"), OWNER)
        found = await objects.find("bucket", "k")
        await objects.put("bucket", "k", BytesBody(b"new"), OWNER)
        with pytest.raises(PlacementMoved):
            await objects.set_acl(found, b"other")
        assert (await objects.find("bucket", "k")).version.acl == b""
        await objects.delete("bucket", DeleteTarget("k"))
        with pytest.raises(PlacementMoved):
            await objects.set_acl(found, b"other")

    run(tmp_path, act)


def test_an_upload_keeps_who_opened_it_and_gives_its_list_to_the_version(tmp_path: Path) -> None:
    async def act(world: World) -> None:
        multipart = world.namespace.multipart
        upload_id = (await multipart.create("bucket", "k", BOB)).upload_id
        bucket = await world.namespace.buckets.get("bucket")
        assert await multipart.initiator_of(bucket, "k", upload_id) == "eve"
        with pytest.raises(UploadNotFound):
            await multipart.initiator_of(bucket, "other", upload_id)
        part = await multipart.put_part("bucket", "k", upload_id, 1, BytesBody(b"part"))
        parts = [CompletedPart(1, part.etag, "")]
        version = (await multipart.complete("bucket", "k", upload_id, parts)).version
        assert (version.owner_id, version.acl) == ("bob", b"list of bob")
        assert await multipart.initiator_of(bucket, "k", upload_id) == "eve"

    run(tmp_path, act)


def test_principals_by_id_address_and_name(tmp_path: Path) -> None:
    async def act(world: World) -> None:
        principals, submit = world.namespace.principals, world.committer.submit
        await submit(CreatePrincipal("u1", "alice", "Alice@example.com"))
        await submit(CreatePrincipal("u2", "bob"))
        found = await principals.find_email("alice@EXAMPLE.com")
        assert found is not None
        assert found == await principals.get("u1")
        assert await principals.find_email("") is None
        assert await principals.find_email("bob@example.com") is None
        assert await principals.get("nobody") is None
        names = await principals.names(["u1", "u2", "gone"])
        assert [names[name] for name in ("u1", "u2", "gone")] == ["alice", "bob", "gone"]
        await submit(EditPrincipal("u1", name="alicia"))
        world.clock.advance(NAMES_SECONDS)
        assert (await principals.names(["u1"]))["u1"] == "alicia"

    run(tmp_path, act)
