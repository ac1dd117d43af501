"""The due-time index of lifecycle rules. It begins empty; the engine fills it for the buckets that have rules."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def integer(name: str, *, key: bool = False) -> sa.Column[int]:
    """A 64-bit integer."""
    return sa.Column(name, sa.BigInteger(), primary_key=key, nullable=False, autoincrement=False)


def upgrade() -> None:
    """Create the table, and the order in which it is read."""
    bytewise = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
    op.create_table(
        "due",
        integer("bucket_id", key=True),
        sa.Column("key", sa.LargeBinary(), primary_key=True, nullable=False),
        integer("sequence", key=True),
        sa.Column("upload_id", bytewise, primary_key=True, nullable=False),
        integer("kind", key=True),
        integer("due_ms"),
        sqlite_with_rowid=False,
    )
    op.create_index("due_time", "due", ["kind", "due_ms", "bucket_id", "key", "sequence", "upload_id"])
