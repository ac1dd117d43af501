"""Checks over a whole store: references, live bytes and counters follow from the rows; files follow from the blobs."""

from collections import Counter
from typing import Any, TypeVar

from metadata.contract import Reader
from metadata.tables import BLOB, BUCKET, BUCKET_DOCUMENT, EXTENT, NONCURRENT, OBJECT, PART, UPLOAD, USAGE, Table
from metadata.types import Blob, BlobState, UploadState, Usage, unpack_extents
from tests.world import World
from tiers.devices.contract import Area
from tiers.upkeep.sweeps import files_of

Row = TypeVar("Row", bound=tuple[Any, ...])


async def all_rows(reader: Reader, table: Table[Row]) -> list[Row]:
    """Every row of a table."""
    rows: list[Row] = []
    while page := await reader.scan(table, table.key_of(rows[-1]) if rows else None, 500):
        rows += page
    return rows


async def audit_references(world: World) -> None:
    """Extent rows and live bytes are exactly what versions and parts of open uploads hold; counters add up."""
    expected: set[tuple[Any, ...]] = set()
    live: Counter[bytes] = Counter()
    byte_counts: Counter[int] = Counter()
    versions = await all_rows(world.reader, OBJECT) + await all_rows(world.reader, NONCURRENT)
    for version in versions:
        byte_counts[version.bucket_id] += version.size
        for extent in unpack_extents(version.extents):
            expected.add((extent.blob_id, extent.offset, version.sequence, version.bucket_id, version.key, "", 0))
            live[extent.blob_id] += extent.length
    uploads = {upload.upload_id: upload for upload in await all_rows(world.reader, UPLOAD)}
    for part in await all_rows(world.reader, PART):
        upload = uploads[part.upload_id]
        assert upload.state == UploadState.OPEN, "a completed upload has no parts left"
        byte_counts[upload.bucket_id] += part.size
        for extent in unpack_extents(part.extents):
            owner = (upload.bucket_id, upload.key, part.upload_id, part.part_number)
            expected.add((extent.blob_id, extent.offset, part.sequence, *owner))
            live[extent.blob_id] += extent.length
    assert {(*row[:3], *row[4:]) for row in await all_rows(world.reader, EXTENT)} == expected
    blobs = await all_rows(world.reader, BLOB)
    assert {blob.blob_id: blob.live_bytes for blob in blobs if blob.live_bytes} == dict(live)
    for blob in blobs:
        assert (blob.state == BlobState.DEAD) == bool(blob.dead_ms)
        assert blob.state != BlobState.DEAD or not blob.live_bytes
    await audit_buckets(world, byte_counts)


async def audit_buckets(world: World, byte_counts: Counter[int]) -> None:
    """Counters of buckets and usage of owners are what a recount finds, and no document outlives its bucket."""
    currents = Counter([version.bucket_id for version in await all_rows(world.reader, OBJECT)])
    others = Counter([version.bucket_id for version in await all_rows(world.reader, NONCURRENT)])
    objects: Counter[str] = Counter()
    stored: Counter[str] = Counter()
    buckets = await all_rows(world.reader, BUCKET)
    for bucket in buckets:
        current = currents[bucket.bucket_id]
        assert bucket.byte_count == byte_counts[bucket.bucket_id]
        assert (bucket.object_count, bucket.version_count) == (current, current + others[bucket.bucket_id])
        objects[bucket.owner_id] += bucket.object_count
        stored[bucket.owner_id] += bucket.byte_count
    owners = sorted(owner for owner in objects if objects[owner] or stored[owner])
    expected = [Usage(owner, objects[owner], stored[owner]) for owner in owners]
    assert await all_rows(world.reader, USAGE) == expected
    ids = {bucket.bucket_id for bucket in buckets}
    assert all(row.bucket_id in ids for row in await all_rows(world.reader, BUCKET_DOCUMENT))


async def audit_files(world: World) -> None:
    """The devices hold exactly the files that blobs place, nothing is staged, and no blob is dead."""
    blobs: list[Blob] = await all_rows(world.reader, BLOB)
    assert all(blob.state != BlobState.DEAD for blob in blobs)
    placed = {(device_id, name) for blob in blobs for device_id, _, name in files_of(blob)}
    assert world.files(Area.FRAGMENTS, Area.PACKS) == placed
    assert not world.files(Area.STAGING)
    assert not world.files(Area.QUARANTINE)
