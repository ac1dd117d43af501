"""Rows of moves: what each end or failure makes of one, and whose hands it is in."""

from collections.abc import Iterator, Sequence
from typing import Final

from metadata.contract import Transaction
from metadata.moves import Move, MoveState
from metadata.tables import BLOB, MOVE, NONCURRENT, OBJECT
from metadata.types import BlobId, Version
from tiers.lifecycle.move_plan import ATTEMPTS_MAX, Result, backoff_seconds
from tiers.namespace.mutations import Keys

KEPT_MS: Final = 24 * 3600 * 1000
"""How long the outcome of a move can be asked for."""

ERROR_CHARACTERS_MAX: Final = 200
NO_BLOB: Final = BlobId(b"")


class MoveMutation:
    """What all of them share: no body, and rows of moves with their versions ahead."""

    __slots__ = ("_moves", "body", "tier")

    def __init__(self, moves: Sequence[Move]) -> None:
        self._moves = moves
        self.body: bytes | None = None
        self.tier = ""

    def reads(self) -> Keys:
        """The moves, where their versions may be, and the blob that a running one writes."""
        for move in self._moves:
            yield MOVE, (move.sequence,)
            yield OBJECT, (move.bucket_id, move.key)
        for blob_id in sorted({move.blob_id for move in self._moves if move.blob_id}):
            yield BLOB, (blob_id,)


def version_of(transaction: Transaction, move: Move) -> Version | None:
    """The version that a move is about, wherever it stands; None when it is gone or a delete marker."""
    current = transaction.get(OBJECT, (move.bucket_id, move.key))
    if current is None or current.sequence != move.sequence:
        current = transaction.get(NONCURRENT, (move.bucket_id, move.key, move.sequence))
    return None if current is None or current.is_delete_marker else current


def is_claim_of(move: Move, seen: Move) -> bool:
    """Whether a move is in the hands in which it was seen; its lease may have been renewed, or its end been asked for.

    A claim has an attempt of its own, so that no owner takes a later one of its own for this.
    """
    held = (move.state, move.owner, move.blob_id, move.attempts, move.created_ms)
    return move.state != MoveState.ENDED and held == (
        seen.state,
        seen.owner,
        seen.blob_id,
        seen.attempts,
        seen.created_ms,
    )


def ended(move: Move, result: Result, now_ms: int, error: str = "") -> Move:
    """The row of a move that is over."""
    return move._replace(
        state=MoveState.ENDED,
        result=result,
        error=error[:ERROR_CHARACTERS_MAX],
        owner="",
        blob_id=NO_BLOB,
        due_ms=now_ms + KEPT_MS,
        ended_ms=now_ms,
    )


def queued(move: Move, error: str, due_ms: int) -> Move:
    """The row of a move that waits for another try."""
    return move._replace(
        state=MoveState.QUEUED, error=error[:ERROR_CHARACTERS_MAX], owner="", blob_id=NO_BLOB, due_ms=due_ms
    )


def after_failure(move: Move, error: str, now_ms: int) -> Move:
    """The row of a move whose try failed."""
    if move.result == Result.CANCELLED:
        return ended(move, Result.CANCELLED, now_ms)
    if move.attempts >= ATTEMPTS_MAX:
        return ended(move, Result.FAILED, now_ms, error)
    return queued(move, error, now_ms + int(backoff_seconds(max(move.attempts, 1)) * 1000))


def as_claimed(transaction: Transaction, moves: Sequence[Move]) -> Iterator[Move]:
    """The moves that are still in the hands in which they were seen, as they are now."""
    for seen in moves:
        move = transaction.get(MOVE, (seen.sequence,))
        if move is not None and is_claim_of(move, seen):
            yield move
