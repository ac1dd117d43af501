"""The changes of one write transaction, collected in memory and written in bulk.

Owns what both databases share: reads see the transaction's own writes, a step can be taken back, the redo images come
out at the end. Refuses to know a driver: subclasses fetch rows and write batches. A transaction of 64 steps costs two
dict operations a put, so that the time of a batch is the database's.
"""

import sys
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from metadata.errors import TooManyChanges
from metadata.statements import StatementTexts
from metadata.tables import (
    BLOB,
    BUCKET,
    BUCKET_DOCUMENT,
    CHAIN,
    EXTENT,
    NONCURRENT,
    OBJECT,
    PART,
    TABLES,
    UPLOAD,
    USAGE,
    Table,
)
from metadata.types import Blob, BucketDocument, ChainHead, ExtentReference, Part, Upload, Version

Row = TypeVar("Row", bound=tuple[Any, ...])
Key = tuple[Any, ...]
Images = defaultdict[Table[Any], dict[Key, Any]]

UNKNOWN: Final[Any] = object()
"""Stands for "no image", because None is the image of a row that does not exist."""

ROW_MAKERS: Final[dict[Table[Any], Callable[[Sequence[Any]], Any]]] = {table: table.row._make for table in TABLES}
"""Every row type is a NamedTuple, which the type of `Table.row` cannot say."""

EMPTY_CHAIN: Final = ChainHead(0, 0, b"")

KEPT_TABLES: Final = (BUCKET, BLOB, USAGE)
"""Rows that nearly every batch reads and changes; every change of them beside other writers moves the chain."""

KEPT_ROWS_MAX: Final = 1024


class Kept(NamedTuple):
    """Rows as a transaction left them: true for as long as the chain's head is the one that it set."""

    head: ChainHead
    rows: dict[Table[Any], dict[Key, Any]]


class OverlayTransaction(ABC):
    """`contract.Transaction` over a driver that can fetch rows and write batches. Used by one thread."""

    head: ChainHead

    def __init__(self, texts: StatementTexts) -> None:
        self._texts = texts
        self._loaded: Images = defaultdict(dict)  # as the database shows them inside this transaction
        self._pending: Images = defaultdict(dict)  # put or deleted, not yet written
        self._flushed: Images = defaultdict(dict)  # written, not yet committed
        self._undo: list[tuple[dict[Key, Any], Key, Any]] = []
        self._counted = 0
        self._changes_max = self._step_max = sys.maxsize
        self._is_written = self._is_ended = self._is_committed = False

    @property
    def change_count(self) -> int:
        """Puts and deletes so far, those of steps taken back left out."""
        return self._counted + len(self._undo)

    def adopt(self, kept: Kept | None) -> None:
        """Start with what an earlier transaction of the same writer knew, if nobody has committed since."""
        if kept is not None and kept.head == self.head:
            self._loaded.update(kept.rows)

    def keep(self) -> Kept | None:
        """What the next transaction may adopt; None unless this one has committed."""
        if not self._is_committed:
            return None
        rows = {table: self._loaded[table] for table in KEPT_TABLES}
        return Kept(self.head, rows) if all(len(found) <= KEPT_ROWS_MAX for found in rows.values()) else None

    # ---------------------------------------------------------------- what a driver supplies

    @abstractmethod
    def _fetch(self, table: Table[Any], key: Key) -> Key | None:
        """The row as the database has it, or None."""

    @abstractmethod
    def _rows(self, text: str, parameters: tuple[Any, ...]) -> Sequence[Sequence[Any]]: ...

    @abstractmethod
    def _write(self, table: Table[Any], rows: list[Any], deleted: list[Key]) -> None: ...

    @abstractmethod
    def _end(self, *, is_commit: bool) -> None:
        """Commit or roll back in the database."""

    # ---------------------------------------------------------------- steps

    def begin_step(self) -> None:
        """What is put from here on is taken back by `undo_step`."""
        assert not self._is_ended
        self._counted += len(self._undo)
        self._undo.clear()
        self._step_max = self._changes_max - self._counted

    def limit_changes(self, count: int) -> None:
        """Let the step that brings `change_count` above `count` fail with TooManyChanges; of the steps to come."""
        self._changes_max = count

    def undo_step(self) -> None:
        """Take back what the open step put and deleted. Idempotent."""
        for pending, key, before in reversed(self._undo):
            if before is UNKNOWN:
                del pending[key]
            else:
                pending[key] = before
        self._undo.clear()

    # ---------------------------------------------------------------- rows by key

    @abstractmethod
    def prefetch(self, keys: Iterable[tuple[Table[Any], Key]]) -> None:
        """Load rows ahead of their `get`."""

    def get(self, table: Table[Row], key: Key) -> Row | None:
        """The row as this transaction sees it; fetched at most once."""
        row = self._pending[table].get(key, UNKNOWN)
        if row is UNKNOWN:
            loaded = self._loaded[table]
            row = loaded.get(key, UNKNOWN)
            if row is UNKNOWN:
                row = loaded[key] = self._fetch(table, key)
        found: Row | None = row
        return found

    def put(self, table: Table[Row], row: Row) -> None:
        """Insert the row or replace the one with its key."""
        key = row[: table.key_columns]
        pending = self._pending[table]
        self._undo.append((pending, key, pending.get(key, UNKNOWN)))
        if len(self._undo) > self._step_max:
            raise TooManyChanges(f"more than {self._changes_max} rows")
        pending[key] = row

    def delete(self, table: Table[Row], key: Key) -> None:
        """Delete the row with this key, if there is one."""
        pending = self._pending[table]
        self._undo.append((pending, key, pending.get(key, UNKNOWN)))
        if len(self._undo) > self._step_max:
            raise TooManyChanges(f"more than {self._changes_max} rows")
        pending[key] = None

    # ---------------------------------------------------------------- selects

    def _flush(self, *tables: Table[Any]) -> None:
        for table in tables:
            pending = self._pending[table]
            if pending:
                rows = [row for row in pending.values() if row is not None]
                deleted = [key for key, row in pending.items() if row is None]
                self._write(table, rows, deleted)
                self._loaded[table].update(pending)
                self._flushed[table].update(pending)
                pending.clear()

    def _select(self, tables: tuple[Table[Any], ...], text: str, parameters: Key) -> Sequence[Sequence[Any]]:
        assert not self._is_ended
        assert not self._undo, "a step selects before its first put or delete"
        self._flush(*tables)
        return self._rows(text, parameters)

    def select_newest_noncurrent(self, bucket_id: int, key: bytes) -> Version | None:
        """The noncurrent version or delete marker with the highest sequence."""
        rows = self._select((NONCURRENT,), self._texts.newest_noncurrent, (bucket_id, key))
        return Version._make(rows[0]) if rows else None

    def select_noncurrent(self, bucket_id: int, key: bytes, version_id: str) -> Version | None:
        """The noncurrent version or delete marker with this id."""
        rows = self._select((NONCURRENT,), self._texts.find_noncurrent, (bucket_id, key, version_id))
        return Version._make(rows[0]) if rows else None

    def select_noncurrent_at(self, bucket_id: int, key: bytes, newer: int) -> Version | None:
        """The noncurrent version or delete marker that has `newer` rows of higher sequence."""
        rows = self._select((NONCURRENT,), self._texts.noncurrent_at, (bucket_id, key, newer))
        return Version._make(rows[0]) if rows else None

    def select_parts(self, upload_id: str) -> list[Part]:
        """All parts of an upload, by part number."""
        return list(map(Part._make, self._select((PART,), self._texts.select_parts, (upload_id,))))

    def select_open_uploads(self, bucket_id: int, limit: int) -> list[Upload]:
        """Up to `limit` open uploads of a bucket, by key."""
        return list(map(Upload._make, self._select((UPLOAD,), self._texts.select_open_uploads, (bucket_id, limit))))

    def select_documents(self, bucket_id: int, limit: int) -> list[BucketDocument]:
        """Up to `limit` documents of a bucket, by kind."""
        rows = self._select((BUCKET_DOCUMENT,), self._texts.list_documents, (bucket_id, "", limit))
        return list(map(BucketDocument._make, rows))

    def has_versions(self, bucket_id: int) -> bool:
        """Whether any version, delete marker or object row of the bucket exists."""
        return bool(self._select((OBJECT, NONCURRENT), self._texts.has_versions, (bucket_id, bucket_id))[0][0])

    def select_open_packs(self) -> list[Blob]:
        """Packs in state OPEN, whoever writes them."""
        return list(map(Blob._make, self._select((BLOB,), self._texts.select_open_packs, ())))

    def select_references(self, blob_id: bytes, limit: int) -> list[ExtentReference]:
        """Up to `limit` references to a blob, by offset."""
        rows = self._select((EXTENT,), self._texts.select_references, (blob_id, limit))
        return list(map(ExtentReference._make, rows))

    def scan(self, table: Table[Row], after: Key | None, limit: int) -> list[Row]:
        """Up to `limit` rows in primary key order with a key greater than `after`."""
        if after is None:
            rows = self._select((table,), self._texts.scan_first[table], (limit,))
        else:
            rows = self._select((table,), self._texts.scan_after[table], (*after, limit))
        return [row_of(table, row) for row in rows]

    # ---------------------------------------------------------------- end

    def changes(self) -> Iterator[tuple[Table[Any], Key, Key | None]]:
        """Final image of every logged row this transaction changed: (table, key, row or None when deleted)."""
        for table in TABLES:
            if table.is_logged:
                images = {**self._flushed[table], **self._pending[table]}
                for key, row in images.items():
                    yield table, key, row

    def write(self, head: ChainHead) -> None:
        """Write what is collected and the chain head; it counts from `commit` on. Errors: MetadataUnavailable."""
        assert not self._is_ended
        self._undo.clear()
        self._flush(*[table for table, pending in self._pending.items() if pending])
        self._write(CHAIN, [head], [])
        self._is_written = True

    def commit(self, head: ChainHead) -> None:
        """Write what is collected, set the chain head, commit.

        Errors: MetadataUnavailable. Once it was raised nothing of this transaction may be assumed: neither that it
        happened nor that it did not.
        """
        if not self._is_written:
            self.write(head)
        self._is_ended = True
        self._end(is_commit=True)
        self._is_committed = True
        self.head = head

    def rollback(self) -> None:
        """Leave nothing behind. Idempotent, so that the writer can call it whatever the block did."""
        if not self._is_ended:
            self._is_ended = True
            self._end(is_commit=False)


def row_of(table: Table[Row], values: Sequence[Any]) -> Row:
    """A fetched row as the row type of its table."""
    row: Row = ROW_MAKERS[table](values)
    return row
