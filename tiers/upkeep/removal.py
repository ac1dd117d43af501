"""Mutations of reclaim and compaction; each judges again, on rows of its own transaction."""

from collections.abc import Sequence

from metadata.contract import Transaction
from metadata.tables import BLOB, NONCURRENT, OBJECT, PART, REPAIR, UPLOAD
from metadata.types import (
    Blob,
    BlobKind,
    BlobState,
    Extent,
    ExtentReference,
    Part,
    Version,
    pack_extents,
    unpack_extents,
)
from tiers.commit.contract import Slot
from tiers.errors import PlacementMoved
from tiers.namespace.content import owner_of_part, owner_of_version, swap_references
from tiers.namespace.mutations import Keys


class RemoveBlob:
    """Removes the row of a blob whose files are gone."""

    __slots__ = ("_blob", "body", "tier")

    def __init__(self, blob: Blob) -> None:
        self._blob = blob
        self.body: bytes | None = None
        self.tier = blob.tier

    def reads(self) -> Keys:
        """The blob."""
        yield BLOB, (self._blob.blob_id,)

    def apply(self, transaction: Transaction, slot: Slot) -> bool:
        """Whether the row was removed; one that is not dead and unreferenced now stays."""
        del slot
        blob = transaction.get(BLOB, (self._blob.blob_id,))
        if blob is None or blob.state != BlobState.DEAD or blob.live_bytes != 0:
            return False
        transaction.delete(BLOB, (blob.blob_id,))
        for index in range(len(blob.placement.split(" "))):
            if transaction.get(REPAIR, (blob.blob_id, index)) is not None:
                transaction.delete(REPAIR, (blob.blob_id, index))
        return True


class BuryBlob:
    """Declares a sealed blob dead that nothing references: one sealed when it was empty already."""

    __slots__ = ("_blob", "body", "tier")

    def __init__(self, blob: Blob) -> None:
        self._blob = blob
        self.body: bytes | None = None
        self.tier = blob.tier

    def reads(self) -> Keys:
        """The blob."""
        yield BLOB, (self._blob.blob_id,)

    def apply(self, transaction: Transaction, slot: Slot) -> bool:
        """Whether the blob is dead from now on."""
        blob = transaction.get(BLOB, (self._blob.blob_id,))
        if blob is None or blob.state != BlobState.SEALED or blob.live_bytes != 0:
            return False
        transaction.put(BLOB, blob._replace(state=BlobState.DEAD, dead_ms=slot.now_ms))
        return True


class RelocateExtent:
    """Gives the owners of one extent of a pack the same bytes in the open pack: compare and swap, owner by owner.

    An owner that has changed or gone since keeps what it has; so does one that came meanwhile, until the next pass.
    """

    __slots__ = ("_extent", "_owners", "body", "tier")

    def __init__(self, extent: Extent, owners: Sequence[ExtentReference], body: bytes, tier: str) -> None:
        assert len(body) == extent.length
        self._extent = extent
        self._owners = owners
        self.body: bytes | None = body
        self.tier = tier

    def reads(self) -> Keys:
        """Where the owners may be."""
        for owner in self._owners:
            if owner.upload_id:
                yield UPLOAD, (owner.upload_id,)
                yield PART, (owner.upload_id, owner.part_number)
            else:
                yield OBJECT, (owner.bucket_id, owner.key)

    def apply(self, transaction: Transaction, slot: Slot) -> int:
        """How many owners hold the new extent now. Errors: PlacementMoved when none does; the body is not kept then."""
        assert slot.extent is not None
        assert slot.extent.checksum == self._extent.checksum, "not the bytes that the owners hold"
        moved = 0
        for owner in self._owners:
            if owner.upload_id:
                moved += self._move_part(transaction, owner, slot.extent, slot.now_ms)
            else:
                moved += self._move_version(transaction, owner, slot.extent, slot.now_ms)
        if not moved:
            raise PlacementMoved("no owner holds the extent any more")
        return moved

    def _move_version(self, transaction: Transaction, owner: ExtentReference, target: Extent, now_ms: int) -> bool:
        found = find_owner_version(transaction, owner)
        if found is None:
            return False
        old = unpack_extents(found.extents)
        new = [target if extent == self._extent else extent for extent in old]
        if new == old:
            return False
        swap_references(transaction, owner_of_version(found), old, new, now_ms=now_ms)
        is_object = found.noncurrent_ms == 0 and not found.is_delete_marker
        transaction.put(OBJECT if is_object else NONCURRENT, found._replace(extents=pack_extents(new)))
        return True

    def _move_part(self, transaction: Transaction, owner: ExtentReference, target: Extent, now_ms: int) -> bool:
        upload = transaction.get(UPLOAD, (owner.upload_id,))
        part: Part | None = transaction.get(PART, (owner.upload_id, owner.part_number))
        if upload is None or part is None or part.sequence != owner.owner_sequence:
            return False
        old = unpack_extents(part.extents)
        new = [target if extent == self._extent else extent for extent in old]
        if new == old:
            return False
        swap_references(transaction, owner_of_part(upload, part), old, new, now_ms=now_ms)
        transaction.put(PART, part._replace(extents=pack_extents(new)))
        return True


def find_owner_version(transaction: Transaction, owner: ExtentReference) -> Version | None:
    """The version that a reference names, wherever it stands now."""
    current = transaction.get(OBJECT, (owner.bucket_id, owner.key))
    if current is not None and current.sequence == owner.owner_sequence:
        return current
    return transaction.get(NONCURRENT, (owner.bucket_id, owner.key, owner.owner_sequence))


def is_pack(blob: Blob) -> bool:
    """Whether a blob's files are copies of a pack and not fragments."""
    return blob.kind == BlobKind.PACK
