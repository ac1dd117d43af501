"""Mutations of repair; each judges again, on rows of its own transaction."""

from collections.abc import Collection

from metadata.contract import Transaction
from metadata.tables import BLOB, REPAIR
from metadata.types import Blob, BlobId, BlobState, Repair
from tiers.commit.contract import Slot
from tiers.errors import PlacementMoved
from tiers.namespace.mutations import Keys


class SwapPlacement:
    """Gives a blob the placement with its new fragments, and ends their entries in the repair queue, in one step."""

    __slots__ = ("_generation", "_placement", "_seen", "_settled", "body", "tier")

    def __init__(self, seen: Blob, placement: str, generation: int, settled: Collection[int]) -> None:
        self._seen, self._placement, self._generation = seen, placement, generation
        self._settled = settled
        self.body: bytes | None = None
        self.tier = seen.tier

    def reads(self) -> Keys:
        """The blob and its entries."""
        yield BLOB, (self._seen.blob_id,)
        for index in self._settled:
            yield REPAIR, (self._seen.blob_id, index)

    def apply(self, transaction: Transaction, slot: Slot) -> None:
        """Swap. Errors: PlacementMoved when the blob is dead or gone, or is no longer placed as it was seen."""
        blob_id = self._seen.blob_id
        row = transaction.get(BLOB, (blob_id,))
        if row is None or not is_placed_as(row, self._seen):
            raise PlacementMoved(f"blob {blob_id.hex()}")
        moved = row._replace(placement=self._placement, generation=self._generation)
        if moved != row:
            transaction.put(BLOB, moved)
        for index, device_id in enumerate(self._placement.split(" ")):
            entry = transaction.get(REPAIR, (blob_id, index))
            if not device_id and entry is None:
                transaction.put(REPAIR, Repair(blob_id, index, "not written", slot.now_ms))
            elif device_id and entry is not None and index in self._settled:
                transaction.delete(REPAIR, (blob_id, index))


class ForgetRepairs:
    """Ends the entries of a blob that is dead or gone."""

    __slots__ = ("_blob_id", "_indexes", "body", "tier")

    def __init__(self, blob_id: bytes, indexes: Collection[int]) -> None:
        self._blob_id, self._indexes = BlobId(blob_id), indexes
        self.body: bytes | None = None
        self.tier = ""

    def reads(self) -> Keys:
        """The blob and its entries."""
        yield BLOB, (self._blob_id,)
        for index in self._indexes:
            yield REPAIR, (self._blob_id, index)

    def apply(self, transaction: Transaction, slot: Slot) -> bool:
        """Whether the entries ended; a blob that lives keeps them."""
        del slot
        row = transaction.get(BLOB, (self._blob_id,))
        if row is not None and row.state != BlobState.DEAD:
            return False
        for index in self._indexes:
            if transaction.get(REPAIR, (self._blob_id, index)) is not None:
                transaction.delete(REPAIR, (self._blob_id, index))
        return True


def is_placed_as(row: Blob, seen: Blob) -> bool:
    """Whether a blob lives and is placed as it was seen."""
    return row.state != BlobState.DEAD and (row.placement, row.generation) == (seen.placement, seen.generation)
