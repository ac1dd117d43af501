"""Mutations of moves; each judges again, on rows of its own transaction.

The swap is the only point at which a version changes places. It takes three things together: the claim is still the
mover's own, its blob is still pending, and the version still holds the extents that were copied. Extents name blobs
that are never used twice and bytes that are never written twice, so equal extents are the same content in the same
place, whatever else of the row has changed: tags, lists and locks are those of the row read here.
"""

from collections.abc import Sequence

from metadata.contract import Transaction
from metadata.moves import Move, MoveState
from metadata.tables import BLOB, BUCKET, MOVE, NONCURRENT, OBJECT
from metadata.types import Blob, BlobId, BlobState, Extent, Version, pack_extents
from tiers.commit.contract import Slot
from tiers.errors import PlacementMoved
from tiers.lifecycle.move_plan import Load, Placed, Result
from tiers.lifecycle.move_rows import MoveMutation, after_failure, as_claimed, ended, queued, version_of
from tiers.namespace.bucket_rules import RulesOfBuckets
from tiers.namespace.content import owner_of_version, swap_references
from tiers.namespace.schedules import Schedule, follow_version
from tiers.namespace.versions import is_current


class ClaimMoves(MoveMutation):
    """The intent: moves become their mover's, and the blob they will write is announced before its first byte."""

    __slots__ = ("_blob", "_lease_ms", "_loads", "_owner")

    def __init__(self, loads: Sequence[Load], blob: Blob, owner: str, lease_ms: int) -> None:
        super().__init__([load.move for load in loads])
        self._loads, self._blob, self._owner, self._lease_ms = loads, blob, owner, lease_ms

    def apply(self, transaction: Transaction, slot: Slot) -> list[Load]:
        """The loads that are the owner's now; without any there is no blob either."""
        claimed: list[Load] = []
        for load in self._loads:
            move = transaction.get(MOVE, (load.move.sequence,))
            if move != load.move or move.state != MoveState.QUEUED:
                continue
            version = version_of(transaction, move)
            if version is None:
                transaction.put(MOVE, ended(move, Result.LOST, slot.now_ms))
            elif version.extents == load.version.extents:
                running = move._replace(
                    state=MoveState.RUNNING,
                    owner=self._owner,
                    blob_id=self._blob.blob_id,
                    due_ms=slot.now_ms + self._lease_ms,
                    attempts=move.attempts + 1,
                )
                transaction.put(MOVE, running)
                claimed.append(Load(running, version))
        if claimed:
            transaction.put(BLOB, self._blob._replace(state=BlobState.PENDING, live_bytes=0, dead_ms=0))
        return claimed


class RenewMoves(MoveMutation):
    """Prolongs the leases of one owner."""

    __slots__ = ("_lease_ms",)

    def __init__(self, moves: Sequence[Move], lease_ms: int) -> None:
        super().__init__(moves)
        self._lease_ms = lease_ms

    def apply(self, transaction: Transaction, slot: Slot) -> int:
        """How many are still the owner's."""
        held = 0
        for move in as_claimed(transaction, self._moves):
            transaction.put(MOVE, move._replace(due_ms=slot.now_ms + self._lease_ms))
            held += 1
        return held


class DropLost(MoveMutation):
    """Ends waiting moves whose version is gone."""

    __slots__ = ()

    def apply(self, transaction: Transaction, slot: Slot) -> list[Move]:
        """Those that ended."""
        lost = [
            ended(move, Result.LOST, slot.now_ms)
            for move in as_claimed(transaction, self._moves)
            if version_of(transaction, move) is None
        ]
        for move in lost:
            transaction.put(MOVE, move)
        return lost


class Schedules:
    """The lifecycle rules of the buckets of moves; used by one thread, the one that commits."""

    def __init__(self, rules: RulesOfBuckets) -> None:
        self._rules = rules

    def find(self, transaction: Transaction, move: Move) -> Schedule | None:
        """The rules of a move's bucket as read in this transaction; before the first put of a step."""
        bucket = transaction.get(BUCKET, (move.bucket,))
        if bucket is None or bucket.bucket_id != move.bucket_id:
            return None
        return self._rules.find(transaction, bucket).schedule


class SwapMoves(MoveMutation):
    """The commit point: versions get the extents that were written, each for itself, and the blob becomes theirs.

    `blob` is the row as it is when written, None when no bytes go. The entries of lifecycle rules follow.
    """

    __slots__ = ("_blob", "_placed", "_schedules")

    def __init__(self, placed: Sequence[Placed], blob: Blob | None, schedules: Schedules) -> None:
        super().__init__([one.load.move for one in placed])
        self._placed, self._blob, self._schedules = placed, blob, schedules

    def apply(self, transaction: Transaction, slot: Slot) -> list[Move]:
        """The moves that were still the owner's, as they are now.

        Errors: PlacementMoved when the blob is no longer pending: nothing changed then.
        """
        row = self._pending(transaction)
        judged = [
            (one, *self._judge(transaction, move, one, slot.now_ms))
            for one in self._placed
            for move in as_claimed(transaction, [one.load.move])
        ]
        won = [
            (version, one.extents, move, self._schedules.find(transaction, move))
            for one, move, version in judged
            if version is not None
        ]
        if row is not None:
            assert self._blob is not None
            settled = row._replace(size=self._blob.size, last_sequence=self._blob.last_sequence)
            transaction.put(BLOB, settled._replace(state=BlobState.SEALED) if won else dead(settled, slot.now_ms))
        for version, extents, move, schedule in won:
            placed = place(transaction, version, extents, move, slot.now_ms)
            follow_version(transaction, schedule, version, placed)
        for _, move, _ in judged:
            transaction.put(MOVE, move)
        return [move for _, move, _ in judged]

    def _pending(self, transaction: Transaction) -> Blob | None:
        if self._blob is None:
            return None
        row = transaction.get(BLOB, (self._blob.blob_id,))
        if row is None or row.state != BlobState.PENDING:
            raise PlacementMoved(f"blob {self._blob.blob_id.hex()} is no longer ours")
        return row

    def _judge(self, transaction: Transaction, move: Move, one: Placed, now_ms: int) -> tuple[Move, Version | None]:
        """What becomes of one move, and the version to swap when it has won."""
        if move.result == Result.CANCELLED:
            return ended(move, Result.CANCELLED, now_ms), None
        version = version_of(transaction, move)
        if version is None:
            return ended(move, Result.LOST, now_ms), None
        if one.error:
            return after_failure(move, one.error, now_ms), None
        if version.extents != one.load.version.extents:  # compacted meanwhile: copied from what is no longer its place
            return queued(move, "the extents changed meanwhile", now_ms), None
        return ended(move, Result.MOVED, now_ms), version


class GiveUpMoves(MoveMutation):
    """After a failure: the blob is dead, its moves wait for another try or have failed.

    A try that its own process gave up, to end, does not count.
    """

    __slots__ = ("_error", "_is_counted")

    def __init__(self, moves: Sequence[Move], error: str, *, is_counted: bool = True) -> None:
        super().__init__(moves)
        self._error, self._is_counted = error, is_counted

    def apply(self, transaction: Transaction, slot: Slot) -> list[Move]:
        """The moves that were still the owner's, as they are now."""
        changed: list[Move] = []
        for move in as_claimed(transaction, self._moves):
            kill(transaction, move.blob_id, slot.now_ms)
            if self._is_counted:
                tries = move.attempts + (move.state == MoveState.QUEUED)  # a claim has counted itself already
                changed.append(after_failure(move._replace(attempts=tries), self._error, slot.now_ms))
            else:
                given_back = queued(move, self._error, slot.now_ms)._replace(attempts=max(move.attempts - 1, 0))
                is_over = move.result == Result.CANCELLED
                changed.append(ended(move, Result.CANCELLED, slot.now_ms) if is_over else given_back)
            transaction.put(MOVE, changed[-1])
        return changed


class ReapMoves(MoveMutation):
    """Takes running moves from an owner whose lease is over, or that is known to be no more."""

    __slots__ = ("_is_owner_gone",)

    def __init__(self, moves: Sequence[Move], *, is_owner_gone: bool = False) -> None:
        super().__init__(moves)
        self._is_owner_gone = is_owner_gone

    def apply(self, transaction: Transaction, slot: Slot) -> list[Move]:
        """The moves taken, as they are now."""
        taken: list[Move] = []
        for move in as_claimed(transaction, self._moves):
            if self._is_owner_gone or move.due_ms <= slot.now_ms:
                kill(transaction, move.blob_id, slot.now_ms)
                taken.append(after_failure(move, "its mover is gone", slot.now_ms))
                transaction.put(MOVE, taken[-1])
        return taken


def place(transaction: Transaction, version: Version, extents: Sequence[Extent], move: Move, now_ms: int) -> Version:
    """Give a version its new extents, tier and class, and nothing else; its row as it is then."""
    old = Load(move, version).extents
    assert [extent.length for extent in extents] == [extent.length for extent in old], "a move keeps every boundary"
    swap_references(transaction, owner_of_version(version), old, extents, now_ms=now_ms)
    placed = version._replace(
        extents=pack_extents(extents), tier=move.target, storage_class=move.storage_class or version.storage_class
    )
    transaction.put(OBJECT if is_current(version) else NONCURRENT, placed)
    return placed


def kill(transaction: Transaction, blob_id: BlobId, now_ms: int) -> None:
    """Declare a blob dead that is still pending: its writer loses the swap, and reclaim takes what it wrote."""
    blob = transaction.get(BLOB, (blob_id,)) if blob_id else None
    if blob is not None and blob.state == BlobState.PENDING:
        transaction.put(BLOB, dead(blob, now_ms))


def dead(blob: Blob, now_ms: int) -> Blob:
    """The row of a blob that nothing references from now on."""
    assert blob.live_bytes == 0
    return blob._replace(state=BlobState.DEAD, dead_ms=now_ms)
