"""S3 in full: configuration revisions, access lists, locks and encryption of versions, usage of owners, events."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def integer(name: str, *, key: bool = False) -> sa.Column[int]:
    """A 64-bit integer."""
    return sa.Column(name, sa.BigInteger(), primary_key=key, nullable=False, autoincrement=False)


def text(name: str, *, key: bool = False) -> sa.Column[str]:
    """Text that compares bytewise."""
    bytewise = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
    return sa.Column(name, bytewise, primary_key=key, nullable=False)


def binary(name: str) -> sa.Column[bytes]:
    """Bytes."""
    return sa.Column(name, sa.LargeBinary(), nullable=False)


def is_sqlite() -> bool:
    """Whether the database is SQLite."""
    return op.get_bind().dialect.name == "sqlite"


def add(table: str, column: sa.Column[Any], default: str) -> None:
    """A column with a value for the rows there are. Rewrites no row."""
    column.server_default = sa.DefaultClause(sa.text(default))
    op.add_column(table, column)
    if not is_sqlite():  # which cannot; every insert of this program names every column
        op.alter_column(table, column.name, server_default=None)


def add_bytes(table: str, *names: str) -> None:
    """Columns of bytes, empty in the rows there are."""
    for name in names:
        # To SQLite a plain '' is text, whatever the column.
        add(table, binary(name), "x''" if is_sqlite() else "''")


def widen_tables() -> None:
    """New columns; `metadata.tables.EARLIER` gives rows of the commit log the same values."""
    add("bucket", integer("revision"), "0")
    op.execute("update bucket set revision = bucket_id")
    for table in ("object", "noncurrent_version", "upload"):
        add_bytes(table, "acl", "lock", "encryption")
    add("upload", text("initiator_id"), "''")
    op.execute("update upload set initiator_id = owner_id")
    add_bytes("part", "encryption")
    add("principal", text("email"), "''")
    add("principal", text("tenant"), "''")
    add_bytes("principal", "quotas")


def create_usage() -> None:
    """Usage of owners, counted from their buckets."""
    columns = text("owner_id", key=True), integer("object_count"), integer("byte_count")
    op.create_table("usage", *columns, sqlite_with_rowid=False)
    op.execute(
        "insert into usage (owner_id, object_count, byte_count) select owner_id, sum(object_count), sum(byte_count) "
        "from bucket group by owner_id having sum(object_count) > 0 or sum(byte_count) > 0"
    )


def create_events() -> None:
    """Notifications that wait for delivery."""
    columns = integer("sequence", key=True), integer("bucket_id"), binary("payload"), integer("attempts")
    op.create_table("event_outbox", *columns, integer("not_before_ms"), sqlite_with_rowid=False)


def upgrade() -> None:
    """Widen the tables there are, add two. Time follows the number of buckets, not of objects."""
    widen_tables()
    create_usage()
    create_events()
