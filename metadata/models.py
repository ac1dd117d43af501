"""SQLAlchemy Core tables, one for every entry of `metadata.tables`, column for column.

Owns the schema as this program wants it; migrations own how a database gets there, and a test holds the two equal.
Keys are binary and names compare bytewise on both databases (collation "C" on PostgreSQL, SQLite's default), so that a
page has one order everywhere. Every primary key is natural: on SQLite the tables are WITHOUT ROWID and a look-up by key
is one descent of one tree.
"""

from typing import Any, Final, get_type_hints

from sqlalchemy import BigInteger, Column, Index, LargeBinary, MetaData, Text, literal_column
from sqlalchemy import Table as Model
from sqlalchemy.types import TypeEngine

from metadata import tables
from metadata.tables import Table
from metadata.types import UploadState

SCHEMA: Final = MetaData()
BYTEWISE_TEXT: Final = Text().with_variant(Text(collation="C"), "postgresql")
COLUMN_TYPES: Final[dict[type, TypeEngine[Any]]] = {int: BigInteger(), str: BYTEWISE_TEXT, bytes: LargeBinary()}


def column_types(table: Table[Any]) -> dict[str, TypeEngine[Any]]:
    """Column names of a table and their types, in the order of its row."""
    hints = get_type_hints(table.row)
    return {name: COLUMN_TYPES[getattr(hints[name], "__supertype__", hints[name])] for name in hints}


def _model(table: Table[Any]) -> Model:
    columns = [
        Column(name, kind, primary_key=position < table.key_columns, nullable=False, autoincrement=False)
        for position, (name, kind) in enumerate(column_types(table).items())
    ]
    return Model(table.name, SCHEMA, *columns, sqlite_with_rowid=False)


MODELS: Final[dict[Table[Any], Model]] = {table: _model(table) for table in tables.TABLES}

BUCKET: Final = MODELS[tables.BUCKET]
BUCKET_DOCUMENT: Final = MODELS[tables.BUCKET_DOCUMENT]
OBJECT: Final = MODELS[tables.OBJECT]
NONCURRENT: Final = MODELS[tables.NONCURRENT]
UPLOAD: Final = MODELS[tables.UPLOAD]
PART: Final = MODELS[tables.PART]
BLOB: Final = MODELS[tables.BLOB]
REPAIR: Final = MODELS[tables.REPAIR]
EXTENT: Final = MODELS[tables.EXTENT]
DUE: Final = MODELS[tables.DUE]
MOVE: Final = MODELS[tables.MOVE]

UPLOAD_IS_OPEN: Final = UPLOAD.c.state == literal_column(str(UploadState.OPEN.value))
"""A literal, not a parameter: only then do the planners see that the partial index of open uploads answers a query."""

Index("bucket_bucket_id", BUCKET.c.bucket_id)
Index("noncurrent_version_id", NONCURRENT.c.bucket_id, NONCURRENT.c.key, NONCURRENT.c.version_id)
# Newest first within a key: without it a page that starts at a key with a million versions sorts all of them.
Index("noncurrent_version_newest", NONCURRENT.c.bucket_id, NONCURRENT.c.key, NONCURRENT.c.sequence.desc())
# Only open uploads: completed ones are kept a while for repeated requests and must cost a listing nothing.
Index(
    "upload_open", UPLOAD.c.bucket_id, UPLOAD.c.key, UPLOAD.c.created_ms, UPLOAD.c.upload_id,
    sqlite_where=UPLOAD_IS_OPEN, postgresql_where=UPLOAD_IS_OPEN,
)  # fmt: skip
Index("blob_state", BLOB.c.state, BLOB.c.dead_ms)
# All of the key: a page begins after an entry, and PostgreSQL knows no other order than that of the columns named.
Index("due_time", DUE.c.kind, DUE.c.due_ms, DUE.c.bucket_id, DUE.c.key, DUE.c.sequence, DUE.c.upload_id)
Index("move_state", MOVE.c.state, MOVE.c.priority, MOVE.c.due_ms, MOVE.c.sequence)
