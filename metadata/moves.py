"""The row of a move, and its life."""

from enum import IntEnum
from typing import NamedTuple

from metadata.types import BlobId


class MoveState(IntEnum):
    """Life of a move."""

    QUEUED = 0
    RUNNING = 1  # its owner holds a lease and writes the blob it names
    ENDED = 2  # kept a while, so that its outcome can be asked for


class Move(NamedTuple):
    """The newest move of a version to another home tier; `sequence` is the version's, so that it has one at a time.

    `source` is the version's tier when the move was asked for. An empty `storage_class` leaves the version's.
    `priority` 0 is the most urgent. `result` is empty until the move has ended, but `cancelled` from when that was
    asked for. `owner` and `blob_id` are those of a running move and empty otherwise. `due_ms` is when the row is next
    looked at: a queued move may begin then, the lease of a running one ends, an ended one is forgotten. `byte_count` is
    the stored bytes of the version.
    """

    sequence: int
    bucket_id: int
    key: bytes
    bucket: str
    version_id: str
    source: str
    target: str
    storage_class: str
    reason: str
    priority: int
    state: int
    result: str
    error: str
    attempts: int
    owner: str
    blob_id: BlobId
    due_ms: int
    created_ms: int
    ended_ms: int
    byte_count: int
