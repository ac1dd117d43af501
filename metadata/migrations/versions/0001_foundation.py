"""The foundation: namespace, blobs and devices, uploads, principals, and the state of the commit chain."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def integer(name: str, *, key: bool = False) -> sa.Column[int]:
    """A 64-bit integer."""
    return sa.Column(name, sa.BigInteger(), primary_key=key, nullable=False, autoincrement=False)


def text(name: str, *, key: bool = False) -> sa.Column[str]:
    """Text that compares bytewise."""
    bytewise = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
    return sa.Column(name, bytewise, primary_key=key, nullable=False)


def binary(name: str, *, key: bool = False) -> sa.Column[bytes]:
    """Bytes, which compare bytewise by nature."""
    return sa.Column(name, sa.LargeBinary(), primary_key=key, nullable=False)


def create(name: str, *columns: sa.Column[Any]) -> None:
    """A table with a natural key: on SQLite one tree, without a hidden row number."""
    op.create_table(name, *columns, sqlite_with_rowid=False)


def create_buckets() -> None:
    """Buckets and their documents."""
    create(
        "bucket",
        text("name", key=True), integer("bucket_id"), text("owner_id"), integer("created_ms"), integer("versioning"),
        text("region"), integer("object_count"), integer("version_count"), integer("byte_count"),
    )  # fmt: skip
    op.create_index("bucket_bucket_id", "bucket", ["bucket_id"])
    create("bucket_document", integer("bucket_id", key=True), text("kind", key=True), binary("document"))


def create_versions() -> None:
    """Current versions, and all others."""
    create(
        "object",
        integer("bucket_id", key=True), binary("key", key=True), integer("sequence"), text("version_id"),
        integer("is_delete_marker"), integer("size"), text("etag"), integer("modified_ms"), text("storage_class"),
        text("tier"), text("owner_id"), binary("attributes"), text("checksum"), binary("parts"), binary("tags"),
        binary("extents"), integer("noncurrent_ms"),
    )  # fmt: skip
    create(
        "noncurrent_version",
        integer("bucket_id", key=True), binary("key", key=True), integer("sequence", key=True), text("version_id"),
        integer("is_delete_marker"), integer("size"), text("etag"), integer("modified_ms"), text("storage_class"),
        text("tier"), text("owner_id"), binary("attributes"), text("checksum"), binary("parts"), binary("tags"),
        binary("extents"), integer("noncurrent_ms"),
    )  # fmt: skip
    op.create_index("noncurrent_version_id", "noncurrent_version", ["bucket_id", "key", "version_id"])
    newest: list[str | sa.TextClause] = ["bucket_id", "key", sa.text("sequence DESC")]
    op.create_index("noncurrent_version_newest", "noncurrent_version", newest)


def create_uploads() -> None:
    """Multipart uploads and their parts."""
    create(
        "upload",
        text("upload_id", key=True), integer("bucket_id"), binary("key"), text("owner_id"), integer("created_ms"),
        integer("state"), text("storage_class"), text("tier"), binary("attributes"), binary("tags"),
        text("checksum_algorithm"), text("checksum_type"), binary("completion"), integer("completed_ms"),
    )  # fmt: skip
    open_only = sa.text("state = 0")
    by_key = ["bucket_id", "key", "created_ms", "upload_id"]
    op.create_index("upload_open", "upload", by_key, sqlite_where=open_only, postgresql_where=open_only)
    create(
        "part",
        text("upload_id", key=True), integer("part_number", key=True), integer("sequence"), integer("size"),
        text("etag"), integer("modified_ms"), text("checksum"), binary("extents"),
    )  # fmt: skip


def create_blobs() -> None:
    """Blobs and who references them."""
    create(
        "extent",
        binary("blob_id", key=True), integer("blob_offset", key=True), integer("owner_sequence", key=True),
        integer("length"), integer("bucket_id"), binary("key"), text("upload_id"), integer("part_number"),
    )  # fmt: skip
    create(
        "blob",
        binary("blob_id", key=True), text("tier"), integer("kind"), text("layout"), integer("size"),
        integer("live_bytes"), integer("state"), text("placement"), integer("generation"), integer("created_ms"),
        integer("dead_ms"), integer("last_sequence"), integer("worker"),
    )  # fmt: skip
    op.create_index("blob_state", "blob", ["state", "dead_ms"])
    create(
        "repair",
        binary("blob_id", key=True), integer("fragment_index", key=True), text("reason"), integer("since_ms"),
    )  # fmt: skip


def create_settings() -> None:
    """What the operator configures."""
    create(
        "device",
        text("device_id", key=True), text("tier"), text("kind"), text("location"), integer("state"), text("host"),
        text("rack"), text("zone"), text("site"), integer("created_ms"),
    )  # fmt: skip
    create("tier", text("name", key=True), text("descriptor"))
    create(
        "principal",
        text("principal_id", key=True), text("name"), integer("is_root"), integer("state"), integer("created_ms"),
    )  # fmt: skip
    create(
        "access_key",
        text("access_key_id", key=True), text("principal_id"), binary("secret"), integer("state"),
        integer("created_ms"),
    )  # fmt: skip


def create_state() -> None:
    """Positions, counters and leases."""
    create("revision", text("name", key=True), integer("value"))
    create("chain", integer("chain_id", key=True), integer("sequence"), binary("batch_id"))
    create("cursor", text("name", key=True), binary("position"))
    create("lease", text("name", key=True), text("holder"), integer("expires_ms"))


def upgrade() -> None:
    """Create every table. On PostgreSQL also the sequence that numbers batches and versions."""
    create_buckets()
    create_versions()
    create_uploads()
    create_blobs()
    create_settings()
    create_state()
    if op.get_bind().dialect.name == "postgresql":
        op.execute("create sequence commit_sequence as bigint minvalue 0 start 0 cache 1")
