"""The tables as data: name, row type, primary key, whether the commit log carries them.

Everything generic (statements, redo images, snapshots, rebuild) walks this list; adding a table is one line here, one
model in `metadata.models` and one migration.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from metadata import moves, types

Row = TypeVar("Row", bound=tuple[Any, ...])


@dataclass(frozen=True, slots=True, eq=False)
class Table(Generic[Row]):
    """One table. The first `key_columns` columns of `row` are the primary key. `code` names it in the commit log."""

    code: int
    name: str
    row: type[Row]
    key_columns: int
    is_logged: bool = True

    def key_of(self, row: Row) -> tuple[Any, ...]:
        """Primary key of a row."""
        return row[: self.key_columns]


# fmt: off
BUCKET: Final = Table(1, "bucket", types.Bucket, 1)
BUCKET_DOCUMENT: Final = Table(2, "bucket_document", types.BucketDocument, 2)
OBJECT: Final = Table(3, "object", types.Version, 2)
NONCURRENT: Final = Table(4, "noncurrent_version", types.Version, 3)
BLOB: Final = Table(5, "blob", types.Blob, 1)
DEVICE: Final = Table(6, "device", types.Device, 1)
TIER: Final = Table(7, "tier", types.TierRow, 1)
UPLOAD: Final = Table(8, "upload", types.Upload, 1)
PART: Final = Table(9, "part", types.Part, 2)
PRINCIPAL: Final = Table(10, "principal", types.Principal, 1)
ACCESS_KEY: Final = Table(11, "access_key", types.AccessKey, 1)
REPAIR: Final = Table(12, "repair", types.Repair, 2)
REVISION: Final = Table(13, "revision", types.Revision, 1)
EXTENT: Final = Table(14, "extent", types.ExtentReference, 3, is_logged=False)
CHAIN: Final = Table(15, "chain", types.ChainHead, 1, is_logged=False)
CURSOR: Final = Table(16, "cursor", types.Cursor, 1, is_logged=False)
LEASE: Final = Table(17, "lease", types.Lease, 1, is_logged=False)
USAGE: Final = Table(18, "usage", types.Usage, 1, is_logged=False)
EVENT: Final = Table(19, "event_outbox", types.Event, 1)
DUE: Final = Table(23, "due", types.Due, 5)
MOVE: Final = Table(24, "move", moves.Move, 1)
# fmt: on

TABLES: Final[tuple[Table[Any], ...]] = (
    BUCKET, BUCKET_DOCUMENT, OBJECT, NONCURRENT, BLOB, DEVICE, TIER, UPLOAD, PART, PRINCIPAL, ACCESS_KEY, REPAIR,
    REVISION, EXTENT, CHAIN, CURSOR, LEASE, USAGE, EVENT, DUE, MOVE,
)  # fmt: skip
BY_CODE: Final = {table.code: table for table in TABLES}

Values = Sequence[Any]

_NO_BYTES: Final = (b"", b"", b"")


def _version_0001(values: Values) -> Values:
    return (*values[:15], *_NO_BYTES, *values[15:])


EARLIER: Final[Mapping[tuple[Table[Any], int], Callable[[Values], Values]]] = {
    (BUCKET, 9): lambda values: (*values, values[1]),
    (OBJECT, 17): _version_0001,
    (NONCURRENT, 17): _version_0001,
    (UPLOAD, 14): lambda values: (*values[:10], *_NO_BYTES, *values[10:], values[3]),
    (PART, 8): lambda values: (*values, b""),
    (PRINCIPAL, 5): lambda values: (*values, "", "", b""),
}
"""How a row stored by an earlier program becomes one of this program: its table, how many columns it has, the rest.

A migration never reaches the commit log, the snapshots and kept answers. Columns added later need a line here, which
gives what the migration gives.
"""


def stored_row(table: Table[Row], values: Values) -> Row:
    """A row out of the commit log, a snapshot or a kept answer, whichever program wrote it."""
    widen = EARLIER.get((table, len(values)))
    maker: Any = table.row  # a NamedTuple, which its type cannot say
    row: Row = maker._make(values if widen is None else widen(values))
    return row
