"""Buckets: names, emptiness, documents, listing; and that a bucket made anew shares nothing with the old one."""

import asyncio
from pathlib import Path

import pytest

from metadata.tables import UPLOAD
from metadata.types import DocumentKind, Versioning
from tests.audit import all_rows, audit_references
from tests.world import OWNER, BytesBody, open_world
from tiers.errors import BucketNameTaken, BucketNotEmpty, BucketNotFound, PlacementMoved, UploadNotFound
from tiers.namespace import bucket_mutations
from tiers.namespace.types import DeleteTarget, Description, ListQuery


def test_names_are_taken_once(tmp_path: Path) -> None:
    async def check() -> None:
        async with open_world(tmp_path) as world:
            buckets = world.namespace.buckets
            with pytest.raises(BucketNameTaken) as caught:
                await buckets.create("bucket", "stranger", "eu-west-1")
            assert caught.value.owner_id == "owner"
            racers = [buckets.create("raced", f"owner-{n}", "us-east-1") for n in range(8)]
            outcomes = await asyncio.gather(*racers, return_exceptions=True)
            assert sum(isinstance(outcome, BucketNameTaken) for outcome in outcomes) == 7

    asyncio.run(check())


def test_only_an_empty_bucket_is_deleted(tmp_path: Path) -> None:
    async def check() -> None:
        async with open_world(tmp_path) as world:
            buckets, objects = world.namespace.buckets, world.namespace.objects
            await buckets.set_versioning("bucket", Versioning.ENABLED)
            version = await world.put("bucket", "k", b"content")
            marker = await objects.delete("bucket", DeleteTarget("k"))
            await objects.delete("bucket", DeleteTarget("k", version.version_id))
            with pytest.raises(BucketNotEmpty):
                await buckets.delete("bucket")
            await objects.delete("bucket", DeleteTarget("k", marker.version_id))
            await buckets.delete("bucket")
            for act in (buckets.get("bucket"), buckets.delete("bucket"), world.put("bucket", "k", b"")):
                with pytest.raises(BucketNotFound):
                    await act

    asyncio.run(check())


def test_a_bucket_made_anew_shares_nothing(tmp_path: Path) -> None:
    async def check() -> None:
        async with open_world(tmp_path) as world:
            buckets, multipart = world.namespace.buckets, world.namespace.multipart
            await buckets.put_document("bucket", DocumentKind.TAGGING, b"<Tagging/>")
            upload = await multipart.create("bucket", "k", OWNER)
            await multipart.put_part("bucket", "k", upload.upload_id, 1, BytesBody(b"p" * 200_000))
            old = await buckets.get("bucket")
            assert old.byte_count == 200_000
            await buckets.delete("bucket")
            new = await buckets.create("bucket", "owner", "us-east-1")
            assert new.bucket_id != old.bucket_id
            assert await buckets.get_document("bucket", DocumentKind.TAGGING) is None
            with pytest.raises(UploadNotFound):
                await multipart.put_part("bucket", "k", upload.upload_id, 2, BytesBody(b"late"))
            assert (await world.namespace.listing.uploads(ListQuery("bucket"))).entries == []
            await audit_references(world)

    asyncio.run(check())


def test_a_bucket_with_many_uploads_goes_in_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bucket_mutations, "UPLOADS_A_STEP", 3)
    monkeypatch.setattr(bucket_mutations, "PARTS_A_STEP", 4)

    async def check() -> None:
        async with open_world(tmp_path) as world:
            buckets, multipart = world.namespace.buckets, world.namespace.multipart
            for number in range(8):
                upload = await multipart.create("bucket", f"k{number}", OWNER)
                for part in range(1, number + 1):
                    await multipart.put_part("bucket", f"k{number}", upload.upload_id, part, BytesBody(b"part"))
            batches = world.committer.counters.batches
            await buckets.delete("bucket")
            assert world.committer.counters.batches - batches >= 5
            with pytest.raises(BucketNotFound):
                await buckets.get("bucket")
            assert await all_rows(world.reader, UPLOAD) == []
            await audit_references(world)

    asyncio.run(check())


def test_documents_read_back_as_put(tmp_path: Path) -> None:
    async def check() -> None:
        async with open_world(tmp_path) as world:
            buckets = world.namespace.buckets
            assert await buckets.get_document("bucket", "tagging") is None
            await buckets.put_document("bucket", "tagging", b"\x00first")
            await buckets.put_document("bucket", "tagging", b"\xffsecond")
            assert await buckets.get_document("bucket", "tagging") == b"\xffsecond"
            for _ in range(2):
                await buckets.delete_document("bucket", "tagging")
            assert await buckets.get_document("bucket", "tagging") is None

    asyncio.run(check())


def test_list_by_prefix_owner_and_marker(tmp_path: Path) -> None:
    async def check() -> None:
        async with open_world(tmp_path) as world:
            buckets = world.namespace.buckets
            names = ["ab", "abc", "abd", "ac", "b-1", "b.1", "b1"]
            for number, name in enumerate(names):
                await buckets.create(name, f"owner-{number % 2}", "us-east-1")

            async def listed(owner: str | None, prefix: str, after: str, limit: int) -> list[str]:
                return [bucket.name for bucket in await buckets.list(owner, prefix, after, limit)]

            everything = sorted([*names, "bucket"])
            assert await listed(None, "", "", 100) == everything
            assert await listed(None, "ab", "", 100) == ["ab", "abc", "abd"]
            assert await listed(None, "ab", "ab", 1) == ["abc"]
            assert await listed("owner-1", "", "abc", 100) == ["ac", "b.1"]
            assert await listed(None, "zz", "", 100) == []
            assert await listed(None, "", "", 0) == []
            pages = [await listed(None, "", after, 1) for after in ["", *everything]]
            assert [name for page in pages for name in page] == everything

    asyncio.run(check())


def test_a_write_authorised_before_its_bucket_was_made_anew_writes_nothing(tmp_path: Path) -> None:
    """`recall` gives the row as committed, whatever was remembered; the commit compares the owner once more."""

    async def check() -> None:
        async with open_world(tmp_path) as world:
            buckets, objects = world.namespace.buckets, world.namespace.objects
            stale = await buckets.recall("bucket")
            assert stale.owner_id == "owner"
            # Another process deletes the bucket and somebody else makes it anew: this one's memory stays as it was.
            await buckets.delete("bucket")
            made = await buckets.create("bucket", "stranger", "us-east-1")
            objects._context.remember_bucket(stale)
            assert await buckets.recall("bucket") == made
            described = Description("owner", writer_id="owner", bucket=stale)
            for size in (10, 300_000):
                with pytest.raises(PlacementMoved):
                    await objects.put("bucket", "k", BytesBody(b"x" * size), described)
            with pytest.raises(PlacementMoved):
                await world.namespace.multipart.create("bucket", "k", described)
            assert (await world.namespace.listing.objects(ListQuery("bucket"))).entries == []
            await buckets.delete("bucket")
            objects._context.remember_bucket(stale)
            with pytest.raises(BucketNotFound):
                await objects.put("bucket", "k", BytesBody(b"x"), OWNER)
            with pytest.raises(BucketNotFound):
                await buckets.recall("bucket")

    asyncio.run(check())


def test_only_the_owner_writes_into_a_bucket_it_made_anew_since(tmp_path: Path) -> None:
    """What another account was allowed in the bucket before, nobody allowed in this one."""

    async def check() -> None:
        async with open_world(tmp_path) as world:
            buckets, objects = world.namespace.buckets, world.namespace.objects
            stale = await buckets.get("bucket")
            his = await objects.put("bucket", "k", BytesBody(b"x"), Description("bob", writer_id="bob", bucket=stale))
            assert his.version.owner_id == "bob"
            assert (await buckets.get("bucket")).byte_count == 1
            await objects.delete("bucket", DeleteTarget("k"))
            await buckets.delete("bucket")
            await buckets.create("bucket", "owner", "us-east-1")
            with pytest.raises(PlacementMoved):
                await objects.put("bucket", "k", BytesBody(b"x"), Description("bob", writer_id="bob", bucket=stale))
            mine = Description("owner", writer_id="owner", bucket=stale)
            assert (await objects.put("bucket", "k", BytesBody(b"x"), mine)).version.owner_id == "owner"

    asyncio.run(check())


def test_documents_are_those_of_the_revision_and_read_once(tmp_path: Path) -> None:
    async def check() -> None:
        async with open_world(tmp_path) as world:
            buckets = world.namespace.buckets
            given = {DocumentKind.POLICY: b"p", DocumentKind.ACL: b"a"}
            made = await buckets.create("made", "owner", "us-east-1", documents=given, versioning=Versioning.ENABLED)
            assert (made.versioning, made.revision) == (Versioning.ENABLED, made.bucket_id)
            first = await buckets.documents(made)
            assert first == {"policy": b"p", "acl": b"a"}
            assert await buckets.documents(await buckets.get("made")) is first
            changed = await buckets.put_documents("made", {"inventory/x": b"i", "policy": None, "cors": None})
            assert changed.revision > made.revision
            second = await buckets.documents(await buckets.get("made"))
            assert second == {"acl": b"a", "inventory/x": b"i"}
            assert await buckets.documents(await buckets.get("made")) is second
            # A row read before the change: never older documents than its own, and the newer stay kept.
            assert await buckets.documents(made) == second
            assert await buckets.documents(await buckets.get("made")) is second
            await buckets.delete_document("made", DocumentKind.CORS)
            assert (await buckets.get("made")).revision == changed.revision, "nothing was there to delete"
            suspended = await buckets.set_versioning("made", Versioning.SUSPENDED)
            assert suspended.revision > changed.revision

    asyncio.run(check())


def test_deleting_a_bucket_removes_every_document_in_bounded_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tiers.namespace.bucket_mutations.DOCUMENTS_A_STEP", 20)
    monkeypatch.setattr("tiers.namespace.buckets.PAGE", 7)

    async def check() -> None:
        async with open_world(tmp_path) as world:
            buckets = world.namespace.buckets
            plain = (DocumentKind.CORS, DocumentKind.POLICY, DocumentKind.TAGGING, DocumentKind.WEBSITE)
            given = dict.fromkeys(map(str, plain), b"x") | {f"inventory/{n}": b"y" for n in range(50)}
            made = await buckets.create("made", "owner", "us-east-1", documents=given)
            other = await buckets.create("other", "owner", "us-east-1", documents={"policy": b"kept"})
            assert await buckets.documents(made) == given
            await buckets.delete("made")
            assert await world.reader.list_documents(made.bucket_id, "", 99) == []
            assert await buckets.documents(other) == {"policy": b"kept"}
            await audit_references(world)

    asyncio.run(check())
