"""Documents of moves and of where contents lie."""

from collections.abc import Sequence
from typing import Annotated, Final

from pydantic import Field

from gateway.admin.documents import Document, iso_time
from metadata.moves import Move as MoveRow
from metadata.moves import MoveState
from tiers.lifecycle.mover import PRIORITY_DEFAULT, PRIORITY_LAST

KEY_BYTES_MAX: Final = 1024

VersionId = Annotated[str, Field(max_length=128)]


class NewMove(Document):
    """A version to move: the current one of the key unless `version_id` names another.

    Without a `storage_class` it keeps its own. A dry run answers what would be entered, and enters nothing.
    """

    bucket: str = Field(min_length=3, max_length=63)
    key: str = Field(min_length=1, max_length=KEY_BYTES_MAX)
    version_id: VersionId = ""
    to: str = Field(pattern=r"^[A-Za-z0-9_.-]{1,64}$")
    storage_class: str | None = Field(default=None, pattern=r"^[A-Z0-9_a-z-]{1,64}$")
    priority: int = Field(default=PRIORITY_DEFAULT, ge=0, le=PRIORITY_LAST)
    is_dry_run: bool = False


class Move(Document):
    """A move; `id` names the version, which has one at a time. `result` is empty until it has ended.

    A running move whose `result` is `cancelled` is about to end.
    """

    id: str
    bucket: str
    key: str
    version_id: str
    source: str = Field(serialization_alias="from")
    target: str = Field(serialization_alias="to")
    storage_class: str | None
    reason: str
    priority: int
    state: str
    result: str
    error: str
    attempts: int
    byte_count: int
    created: str | None
    due: str | None
    ended: str | None


class MovePage(Document):
    """Moves by id."""

    moves: Sequence[Move]
    next_cursor: str


class MoveQueue(Document):
    """The queue as a whole."""

    is_paused: bool
    queued: int
    running: int


class Piece(Document):
    """A run of a content's stored bytes, and the devices it lies on; null stands for a fragment that is missing."""

    blob_id: str
    kind: str
    tier: str
    layout: str
    offset: int
    length: int
    devices: Sequence[str | None]


class Placement(Document):
    """Where the stored bytes of a version lie; `stored_bytes` differs from `size` when they are encrypted."""

    bucket: str
    key: str
    version_id: str
    size: int
    stored_bytes: int
    tier: str
    storage_class: str
    pieces: Sequence[Piece]
    move: Move | None


def move_of(row: MoveRow) -> Move:
    """A move as clients see it."""
    return Move(
        id=str(row.sequence),
        bucket=row.bucket,
        key=row.key.decode(errors="replace"),
        version_id=row.version_id,
        source=row.source,
        target=row.target,
        storage_class=row.storage_class or None,
        reason=row.reason,
        priority=row.priority,
        state=MoveState(row.state).name.lower(),
        result=row.result,
        error=row.error,
        attempts=row.attempts,
        byte_count=row.byte_count,
        created=_time(row.created_ms),
        due=_time(row.due_ms) if row.state == MoveState.QUEUED else None,
        ended=_time(row.ended_ms),
    )


def _time(milliseconds: int) -> str | None:
    return iso_time(milliseconds) if milliseconds else None
