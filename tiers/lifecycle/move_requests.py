"""Mutations of those who ask for moves: enter, cancel, forget."""

from enum import Enum

from metadata.contract import Transaction
from metadata.moves import Move, MoveState
from metadata.tables import MOVE
from metadata.types import unpack_extents
from tiers.commit.contract import Slot
from tiers.lifecycle.move_plan import Result
from tiers.lifecycle.move_rows import MoveMutation, ended, version_of


class Refusal(Enum):
    """Why a move was not taken."""

    NO_TIER = "there is no such tier"
    NO_VERSION = "there is no such version"
    CLASS_ELSEWHERE = "another tier serves that storage class"
    MUST_WAIT = "the class promises a read at once, and the tier does not"
    OPEN_ELSEWHERE = "another move of the version is open"
    QUEUE_FULL = "the queue of moves is full"


class MoveRefused(Exception):
    """A wish for a move was turned down; nothing changed."""

    def __init__(self, reason: Refusal) -> None:
        super().__init__(reason.value)
        self.reason = reason


class RequestMove(MoveMutation):
    """Enters a move into the queue, unless the version has one already; what the version says of it is filled in."""

    __slots__ = ("_draft",)

    def __init__(self, draft: Move) -> None:
        super().__init__([draft])
        self._draft = draft

    def apply(self, transaction: Transaction, slot: Slot) -> Move:
        """The open move: the one there is when it asks for the same, else a new one. Errors: MoveRefused."""
        draft = self._draft
        version = version_of(transaction, draft)
        if version is None:
            raise MoveRefused(Refusal.NO_VERSION)
        found = transaction.get(MOVE, (draft.sequence,))
        if found is not None and found.state != MoveState.ENDED:
            if (found.target, found.storage_class, found.result) == (draft.target, draft.storage_class, ""):
                return found
            raise MoveRefused(Refusal.OPEN_ELSEWHERE)
        move = draft._replace(
            version_id=version.version_id,
            source=version.tier,
            byte_count=sum(extent.length for extent in unpack_extents(version.extents)),
            state=MoveState.QUEUED,
            due_ms=slot.now_ms,
            created_ms=slot.now_ms,
        )
        transaction.put(MOVE, move)
        return move


class CancelMove(MoveMutation):
    """Ends a move that waits, and keeps one that runs from its swap; one that has ended stays as it is."""

    __slots__ = ()

    def apply(self, transaction: Transaction, slot: Slot) -> Move | None:
        """The move as it is now, None when there is none."""
        (seen,) = self._moves
        move = transaction.get(MOVE, (seen.sequence,))
        if move is None or move.state == MoveState.ENDED:
            return move
        if move.state == MoveState.QUEUED:
            move = ended(move, Result.CANCELLED, slot.now_ms)
        else:
            move = move._replace(result=Result.CANCELLED)
        transaction.put(MOVE, move)
        return move


class ForgetMoves(MoveMutation):
    """Removes moves that have ended."""

    __slots__ = ()

    def apply(self, transaction: Transaction, slot: Slot) -> int:
        """How many were removed; one that was asked for anew meanwhile stays."""
        del slot
        gone = [seen for seen in self._moves if transaction.get(MOVE, (seen.sequence,)) == seen]
        for move in gone:
            assert move.state == MoveState.ENDED
            transaction.delete(MOVE, (move.sequence,))
        return len(gone)
