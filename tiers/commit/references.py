"""What rows imply, so that the commit log need not carry it: references of versions and parts, usage of buckets."""

from typing import Any

from metadata.contract import Transaction
from metadata.tables import BUCKET, EXTENT, NONCURRENT, OBJECT, UPLOAD, Table
from metadata.types import Bucket, ExtentReference, Part, Version, unpack_extents
from tiers.commit.log import Image
from tiers.commit.usage import move_usage


def version_references(version: Version) -> list[ExtentReference]:
    """One reference for each extent of a version."""
    return [
        ExtentReference(
            extent.blob_id, extent.offset, version.sequence, extent.length, version.bucket_id, version.key, "", 0
        )
        for extent in unpack_extents(version.extents)
    ]


def part_references(part: Part, bucket_id: int, key: bytes) -> list[ExtentReference]:
    """One reference for each extent of a part of an upload to `key` of `bucket_id`."""
    return [
        ExtentReference(
            extent.blob_id,
            extent.offset,
            part.sequence,
            extent.length,
            bucket_id,
            key,
            part.upload_id,
            part.part_number,
        )
        for extent in unpack_extents(part.extents)
    ]


def apply_images(transaction: Transaction, images: list[Image]) -> None:
    """Bring rows to the state the images show, and their references and usage with them. Idempotent.

    Two passes: what the old rows implied goes first, so that a version that moves between tables within one batch
    keeps its references.
    """
    transaction.begin_step()
    for table, key, _ in images:
        for reference in _implied(transaction, table, transaction.get(table, key)):
            transaction.delete(EXTENT, EXTENT.key_of(reference))
    for table, key, row in images:
        if table is BUCKET:
            assert row is None or isinstance(row, Bucket)
            move_usage(transaction, transaction.get(BUCKET, key), row)
        if row is None:
            transaction.delete(table, key)
        else:
            transaction.put(table, row)
    for table, _, row in images:
        for reference in _implied(transaction, table, row):
            transaction.put(EXTENT, reference)


def _implied(transaction: Transaction, table: Table[Any], row: tuple[Any, ...] | None) -> list[ExtentReference]:
    if row is None:
        return []
    if isinstance(row, Version):
        assert table is OBJECT or table is NONCURRENT
        return version_references(row)
    if isinstance(row, Part):
        upload = transaction.get(UPLOAD, (row.upload_id,))
        return [] if upload is None else part_references(row, upload.bucket_id, upload.key)
    return []
