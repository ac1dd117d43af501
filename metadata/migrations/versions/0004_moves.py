"""Moves between tiers: one row a version, its newest move."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def integer(name: str, *, key: bool = False) -> sa.Column[int]:
    """A 64-bit integer."""
    return sa.Column(name, sa.BigInteger(), primary_key=key, nullable=False, autoincrement=False)


def text(name: str) -> sa.Column[str]:
    """Text that compares bytewise."""
    bytewise = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
    return sa.Column(name, bytewise, nullable=False)


def binary(name: str) -> sa.Column[bytes]:
    """Bytes."""
    return sa.Column(name, sa.LargeBinary(), nullable=False)


def upgrade() -> None:
    """Create the table of moves and the index that its worker reads."""
    op.create_table(
        "move",
        integer("sequence", key=True), integer("bucket_id"), binary("key"), text("bucket"), text("version_id"),
        text("source"), text("target"), text("storage_class"), text("reason"), integer("priority"), integer("state"),
        text("result"), text("error"), integer("attempts"), text("owner"), binary("blob_id"), integer("due_ms"),
        integer("created_ms"), integer("ended_ms"), integer("byte_count"),
        sqlite_with_rowid=False,
    )  # fmt: skip
    op.create_index("move_state", "move", ["state", "priority", "due_ms", "sequence"])
