"""Multipart uploads: what Complete refuses, what it computes, what it repeats; part copies that share bytes."""

import asyncio
import hashlib
from base64 import b64encode
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from metadata.tables import BLOB
from metadata.types import Upload
from tests.audit import all_rows, audit_references
from tests.unit.namespace.test_objects import LARGE, assert_nothing_leaks, found
from tests.world import OWNER, BytesBody, World, open_world
from tiers.datapath.digests import DigestSet
from tiers.errors import (
    BucketNotFound,
    ChecksumMismatch,
    ConditionFailed,
    InvalidPart,
    InvalidPartOrder,
    KeyNotFound,
    PartTooSmall,
    PlacementMoved,
    UploadNotFound,
)
from tiers.namespace.types import UNCONDITIONAL, CompletedPart, DeclaredObject, Description, PutOutcome, WriteConditions

PARTS = {1: b"one" * 100, 2: b"two" * 100, 3: b"three"}


def digest(algorithm: str, data: bytes) -> bytes:
    digests = DigestSet([algorithm])
    digests.update(memoryview(data))
    return digests.results()[algorithm]


def base64_of(data: bytes) -> str:
    return b64encode(data).decode()


async def begin(world: World, description: Description = OWNER) -> tuple[Upload, list[CompletedPart]]:
    multipart = world.namespace.multipart
    upload = await multipart.create("bucket", "k", description)
    outcomes = [
        await multipart.put_part("bucket", "k", upload.upload_id, number, BytesBody(content))
        for number, content in PARTS.items()
    ]
    named = [CompletedPart(n, outcome.etag, outcome.checksum) for n, outcome in zip(PARTS, outcomes, strict=True)]
    return upload, named


def in_world(tmp_path: Path, check: Callable[[World], Awaitable[None]]) -> None:
    async def run() -> None:
        async with open_world(tmp_path) as world:
            await check(world)

    asyncio.run(run())


def test_complete_refuses_and_stays_open(tmp_path: Path) -> None:
    async def check(world: World) -> None:
        upload, (one, two, three) = await begin(world)

        async def complete(*parts: CompletedPart, conditions: WriteConditions = UNCONDITIONAL) -> PutOutcome:
            return await world.namespace.multipart.complete("bucket", "k", upload.upload_id, list(parts), conditions)

        refused: list[tuple[type[Exception], Awaitable[PutOutcome]]] = [
            (InvalidPart, complete()),
            (InvalidPartOrder, complete(two, one)),
            (InvalidPartOrder, complete(one, two, one)),
            (InvalidPart, complete(one, CompletedPart(1, two.etag, ""))),
            (InvalidPart, complete(one, CompletedPart(9, two.etag, ""))),
            (InvalidPart, complete(one, CompletedPart(2, one.etag, ""))),
            (InvalidPart, complete(one, CompletedPart(2, two.etag, one.checksum))),
            (KeyNotFound, complete(one, conditions=WriteConditions(if_match=("*",)))),
        ]
        for expected, act in refused:
            with pytest.raises(expected):
                await act
        await world.put("bucket", "k", b"already here")
        with pytest.raises(ConditionFailed):
            await complete(one, conditions=WriteConditions(if_none_match=("*",)))
        outcome = await complete(one, two, three)
        assert await world.read(outcome.version) == b"".join(PARTS.values())
        await assert_nothing_leaks(world)

    in_world(tmp_path, check)


def test_a_part_sent_and_listed_again(tmp_path: Path) -> None:
    """Of entries with one number the last counts, and its ETag must be that of the part that was put last."""

    async def check(world: World) -> None:
        upload, (one, two, three) = await begin(world)
        again = await world.namespace.multipart.put_part("bucket", "k", upload.upload_id, 1, BytesBody(b"again" * 50))
        late = CompletedPart(1, again.etag, "")
        with pytest.raises(InvalidPart):
            await world.namespace.multipart.complete("bucket", "k", upload.upload_id, [late, one, two])
        outcome = await world.namespace.multipart.complete("bucket", "k", upload.upload_id, [one, late, two, three])
        assert await world.read(outcome.version) == b"again" * 50 + PARTS[2] + PARTS[3]
        assert outcome.version.etag.endswith("-3")
        await assert_nothing_leaks(world)

    in_world(tmp_path, check)


def test_only_the_last_part_may_be_small(tmp_path: Path) -> None:
    async def check(world: World) -> None:
        multipart = world.namespace.multipart
        upload, (one, _, three) = await begin(world)
        after = await multipart.put_part("bucket", "k", upload.upload_id, 4, BytesBody(b"x" * 500))
        with pytest.raises(PartTooSmall):
            await multipart.complete("bucket", "k", upload.upload_id, [one, three, CompletedPart(4, after.etag, "")])
        await multipart.complete("bucket", "k", upload.upload_id, [three])

    in_world(tmp_path, check)


@pytest.mark.parametrize("algorithm", ["CRC32", "CRC32C", "SHA1", "SHA256"])
def test_composite_checksums(tmp_path: Path, algorithm: str) -> None:
    async def check(world: World) -> None:
        upload, named = await begin(world, Description("owner", checksum_algorithm=algorithm))
        assert [part.checksum for part in named] == [base64_of(digest(algorithm, part)) for part in PARTS.values()]
        whole = base64_of(digest(algorithm, b"".join(digest(algorithm, part) for part in PARTS.values())))
        complete = world.namespace.multipart.complete
        with pytest.raises(ChecksumMismatch):
            await complete("bucket", "k", upload.upload_id, named, UNCONDITIONAL, DeclaredObject(base64_of(b"other")))
        with pytest.raises(ChecksumMismatch):
            await complete(
                "bucket", "k", upload.upload_id, named, UNCONDITIONAL, DeclaredObject(checksum_type="FULL_OBJECT")
            )
        outcome = await complete(
            "bucket", "k", upload.upload_id, named, UNCONDITIONAL, DeclaredObject(whole, "COMPOSITE")
        )
        assert outcome.version.checksum == f"{algorithm}:COMPOSITE:{whole}-3"
        copied = await world.namespace.objects.copy(await found(world, "k"), "bucket", "c", OWNER)
        content = b"".join(PARTS.values())
        assert copied.version.checksum == f"{algorithm}:FULL_OBJECT:{base64_of(digest(algorithm, content))}"
        assert copied.version.etag == hashlib.md5(content).hexdigest()

    in_world(tmp_path, check)


@pytest.mark.parametrize("algorithm", ["", "CRC32", "CRC32C", "CRC64NVME"])
def test_full_object_checksums_follow_from_the_parts(tmp_path: Path, algorithm: str) -> None:
    async def check(world: World) -> None:
        kind = "FULL_OBJECT" if algorithm else ""
        upload, named = await begin(world, Description("owner", checksum_algorithm=algorithm, checksum_type=kind))
        assert (upload.checksum_algorithm, upload.checksum_type) == (algorithm or "CRC64NVME", "FULL_OBJECT")
        whole = base64_of(digest(upload.checksum_algorithm, b"".join(PARTS.values())))
        outcome = await world.namespace.multipart.complete(
            "bucket", "k", upload.upload_id, named, UNCONDITIONAL, DeclaredObject(whole, "FULL_OBJECT")
        )
        assert outcome.version.checksum == f"{upload.checksum_algorithm}:FULL_OBJECT:{whole}"

    in_world(tmp_path, check)


def test_complete_twice_answers_the_same_only_for_the_same_list(tmp_path: Path) -> None:
    async def check(world: World) -> None:
        multipart = world.namespace.multipart
        upload, named = await begin(world)
        first = await multipart.complete("bucket", "k", upload.upload_id, named[:2])
        await world.put("bucket", "k", b"overwritten meanwhile")
        again = await multipart.complete("bucket", "k", upload.upload_id, named[:2])
        for field in ("version_id", "etag", "checksum", "size", "modified_ms"):
            assert getattr(again.version, field) == getattr(first.version, field)
        assert (await found(world, "k")).version.size == 21, "the repetition changed nothing"
        with pytest.raises(UploadNotFound):
            await multipart.complete("bucket", "k", upload.upload_id, named)
        for act in (
            multipart.get("bucket", "k", upload.upload_id),
            multipart.abort("bucket", "k", upload.upload_id),
            multipart.put_part("bucket", "k", upload.upload_id, 1, BytesBody(LARGE)),
        ):
            with pytest.raises(UploadNotFound):
                await act
        await assert_nothing_leaks(world)
        with pytest.raises(UploadNotFound):
            await multipart.complete("bucket", "k", upload.upload_id, named[:2])

    in_world(tmp_path, check)


def test_an_upload_belongs_to_its_bucket_and_key(tmp_path: Path) -> None:
    async def check(world: World) -> None:
        multipart = world.namespace.multipart
        upload, named = await begin(world)
        await world.namespace.buckets.create("other", "owner", "us-east-1")
        for bucket, key in (("bucket", "K"), ("other", "k")):
            with pytest.raises(UploadNotFound):
                await multipart.complete(bucket, key, upload.upload_id, named)
            with pytest.raises(UploadNotFound):
                await multipart.put_part(bucket, key, upload.upload_id, 1, BytesBody(b""))
        with pytest.raises(BucketNotFound):
            await multipart.get("absent", "k", upload.upload_id)

    in_world(tmp_path, check)


def test_parts_are_listed_and_replaced(tmp_path: Path) -> None:
    async def check(world: World) -> None:
        upload, _ = await begin(world)
        listing, multipart = world.namespace.listing, world.namespace.multipart
        await multipart.put_part("bucket", "k", upload.upload_id, 2, BytesBody(b"other"))

        async def listed(after: int, limit: int) -> tuple[list[tuple[int, int]], bool]:
            _, parts, is_truncated = await listing.parts("bucket", "k", upload.upload_id, after, limit)
            return [(part.part_number, part.size) for part in parts], is_truncated

        assert await listed(0, 1000) == ([(1, 300), (2, 5), (3, 5)], False)
        assert await listed(0, 2) == ([(1, 300), (2, 5)], True)
        assert await listed(2, 1) == ([(3, 5)], False)
        assert await listed(0, 0) == ([], False)
        assert (await world.namespace.buckets.get("bucket")).byte_count == 310
        await audit_references(world)

    in_world(tmp_path, check)


def test_a_part_refused_at_its_commit_leaves_nothing(tmp_path: Path) -> None:
    async def check(world: World) -> None:
        upload, _ = await begin(world)
        multipart = world.namespace.multipart
        late = asyncio.ensure_future(multipart.put_part("bucket", "k", upload.upload_id, 5, BytesBody(LARGE)))
        await asyncio.sleep(0)
        await multipart.abort("bucket", "k", upload.upload_id)
        with pytest.raises(UploadNotFound):
            await late
        assert (await world.namespace.buckets.get("bucket")).byte_count == 0
        await assert_nothing_leaks(world)

    in_world(tmp_path, check)


def test_part_copies_share_bytes(tmp_path: Path) -> None:
    async def check(world: World) -> None:
        multipart = world.namespace.multipart
        await world.put("bucket", "small", b"0123456789" * 50)
        await world.put("bucket", "large", LARGE)
        blobs = len(await all_rows(world.reader, BLOB))
        upload = await multipart.create("bucket", "k", OWNER)
        wanted = [("small", 0, 500), ("small", 13, 200), ("large", 0, len(LARGE)), ("large", 100_000, 200_001)]
        contents = {"small": b"0123456789" * 50, "large": LARGE}
        named = []
        for number, (key, start, stop) in enumerate(wanted, 1):
            source = await found(world, key)
            part = await multipart.copy_part("bucket", "k", upload.upload_id, number, source, start, stop)
            assert part.etag == hashlib.md5(contents[key][start:stop]).hexdigest()
            named.append(CompletedPart(number, part.etag, part.checksum))
        outcome = await multipart.complete("bucket", "k", upload.upload_id, named)
        assert len(await all_rows(world.reader, BLOB)) == blobs
        expected = b"".join(contents[key][start:stop] for key, start, stop in wanted)
        assert await world.read(outcome.version) == expected
        await audit_references(world)

    in_world(tmp_path, check)


def test_a_part_copy_of_a_replaced_source_is_an_error(tmp_path: Path) -> None:
    async def check(world: World) -> None:
        upload, _ = await begin(world)
        await world.put("bucket", "s", LARGE)
        source = await found(world, "s")
        await world.put("bucket", "s", b"newer")
        with pytest.raises((PlacementMoved, KeyNotFound)):
            await world.namespace.multipart.copy_part("bucket", "k", upload.upload_id, 9, source, 0, 10)
        await audit_references(world)

    in_world(tmp_path, check)
