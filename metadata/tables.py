"""The tables as data: name, row type, primary key, whether the commit log carries them.

Everything generic (statements, redo images, snapshots, rebuild) walks this list; adding a table is one line here, one
model in `metadata.models` and one migration.
"""

from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from metadata import types

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
# fmt: on

TABLES: Final[tuple[Table[Any], ...]] = (
    BUCKET, BUCKET_DOCUMENT, OBJECT, NONCURRENT, BLOB, DEVICE, TIER, UPLOAD, PART, PRINCIPAL, ACCESS_KEY, REPAIR,
    REVISION, EXTENT, CHAIN, CURSOR, LEASE,
)  # fmt: skip
BY_CODE: Final = {table.code: table for table in TABLES}
