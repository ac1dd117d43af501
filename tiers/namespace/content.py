"""Who references which bytes: extent rows and live bytes of blobs, kept in the transaction that changes the owner.

Callers add the references of what is new before they drop those of what is replaced, so that a blob shared by both
never passes through zero live bytes.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from metadata.contract import Transaction
from metadata.tables import BLOB, EXTENT, REPAIR
from metadata.types import Blob, BlobId, BlobState, Extent, ExtentReference, Part, Repair, Upload, Version


class Owner(NamedTuple):
    """A version or a part as the holder of extents; `sequence` is its own and never used twice."""

    sequence: int
    bucket_id: int
    key: bytes
    upload_id: str = ""
    part_number: int = 0


def owner_of_version(version: Version) -> Owner:
    """The owner that stands for a version."""
    return Owner(version.sequence, version.bucket_id, version.key)


def owner_of_part(upload: Upload, part: Part) -> Owner:
    """The owner that stands for a part of an open upload."""
    return Owner(part.sequence, upload.bucket_id, upload.key, part.upload_id, part.part_number)


def add_references(transaction: Transaction, owner: Owner, extents: Sequence[Extent]) -> None:
    """Record that `owner`, which is new, holds `extents`. Their blobs must exist and not be dead (asserted)."""
    swap_references(transaction, owner, (), extents, now_ms=0)


def drop_references(transaction: Transaction, owner: Owner, extents: Sequence[Extent], *, now_ms: int) -> None:
    """Record that `owner` ends and holds `extents` no longer; a sealed blob left without any is dead from `now_ms`."""
    swap_references(transaction, owner, extents, (), now_ms=now_ms)


def swap_references(
    transaction: Transaction, owner: Owner, dropped: Sequence[Extent], added: Sequence[Extent], *, now_ms: int
) -> None:
    """Replace the extents of one owner; an extent in both lists is left as it is."""
    old, new = _lengths(dropped), _lengths(added)
    for (blob_id, offset), length in new.items():
        if old.get((blob_id, offset)) != length:
            reference = ExtentReference(blob_id, offset, owner.sequence, length, *owner[1:])
            transaction.put(EXTENT, reference)
    for blob_id, offset in old.keys() - new.keys():
        transaction.delete(EXTENT, (blob_id, offset, owner.sequence))
    for blob_id, delta in _live_changes(dropped, added).items():
        _change_live_bytes(transaction, blob_id, delta, now_ms)


def insert_blob(transaction: Transaction, blob: Blob, now_ms: int) -> None:
    """Add the row of a freshly published blob and queue each fragment that did not become durable for repair."""
    assert blob.live_bytes == 0
    transaction.put(BLOB, blob)
    for index, device_id in enumerate(blob.placement.split(" ")):
        if not device_id:
            transaction.put(REPAIR, Repair(blob.blob_id, index, "not written", now_ms))


def _lengths(extents: Iterable[Extent]) -> dict[tuple[BlobId, int], int]:
    """Length by place. Several runs of one owner from one offset share a row, as they do when rebuild derives it."""
    return {(extent.blob_id, extent.offset): extent.length for extent in extents}


def _live_changes(dropped: Iterable[Extent], added: Iterable[Extent]) -> dict[BlobId, int]:
    changes: dict[BlobId, int] = {}
    for extent in added:
        changes[extent.blob_id] = changes.get(extent.blob_id, 0) + extent.length
    for extent in dropped:
        changes[extent.blob_id] = changes.get(extent.blob_id, 0) - extent.length
    return changes


def _change_live_bytes(transaction: Transaction, blob_id: BlobId, delta: int, now_ms: int) -> None:
    if delta == 0:
        return
    blob = transaction.get(BLOB, (blob_id,))
    assert blob is not None, "an extent names a blob without a row"
    assert blob.state != BlobState.DEAD, "a dead blob cannot gain or lose references"
    live_bytes = blob.live_bytes + delta
    assert live_bytes >= 0
    if live_bytes == 0 and blob.state == BlobState.SEALED:
        assert now_ms > 0
        blob = blob._replace(state=BlobState.DEAD, dead_ms=now_ms)
    transaction.put(BLOB, blob._replace(live_bytes=live_bytes))


def slice_extents(extents: Iterable[Extent], start: int, stop: int) -> list[Extent]:
    """The runs that hold bytes [start, stop) of a content. A cut run keeps the checksum of the whole one."""
    assert 0 <= start <= stop
    found: list[Extent] = []
    at = 0
    for extent in extents:
        first, last = max(start, at), min(stop, at + extent.length)
        if first < last:
            found.append(extent._replace(offset=extent.offset + first - at, length=last - first))
        at += extent.length
    assert stop <= at or start == stop
    return found
