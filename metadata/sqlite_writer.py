"""The write side on SQLite: transactions under the lock file, on one connection."""

import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy.pool import PoolProxiedConnection

from metadata.contract import Transaction
from metadata.errors import MetadataUnavailable
from metadata.freshness import Freshness, bucket_cell, key_cell
from metadata.lock_file import LockFile
from metadata.overlay import EMPTY_CHAIN, Kept, OverlayTransaction, row_of
from metadata.reader import Values
from metadata.sqlite_connection import (
    DELETE,
    FOREIGN_LOCK_SECONDS,
    FOREIGN_PAUSE_SECONDS,
    TEXTS,
    UPSERT,
    ForeignLock,
    driver_of,
    unavailable,
)
from metadata.tables import BUCKET, CHAIN, OBJECT, Table
from metadata.types import ChainHead


class SqliteTransaction(OverlayTransaction):
    """One `begin immediate` ... `commit` on the writer's connection."""

    def __init__(self, driver: sqlite3.Connection, freshness: Freshness) -> None:
        super().__init__(TEXTS)
        self._driver = driver
        self._freshness = freshness
        self._execute = driver.execute
        self._get_texts = TEXTS.get_row
        try:
            self._execute("begin immediate")
            head = self._fetch(CHAIN, (0,))
            self.head = EMPTY_CHAIN if head is None else ChainHead._make(head)
        except BaseException:
            self._give_up()
            raise

    def prefetch(self, keys: Iterable[tuple[Table[Any], tuple[Any, ...]]]) -> None:
        """Nothing to gain: a row costs no round trip."""

    def _fetch(self, table: Table[Any], key: tuple[Any, ...]) -> tuple[Any, ...] | None:
        try:
            values = self._execute(self._get_texts[table], key).fetchone()
        except sqlite3.Error as error:
            raise unavailable(error) from error
        return None if values is None else row_of(table, values)

    def _rows(self, text: str, parameters: tuple[Any, ...]) -> Sequence[Values]:
        try:
            return self._execute(text, parameters).fetchall()
        except sqlite3.Error as error:
            raise unavailable(error) from error

    def _write(self, table: Table[Any], rows: list[Any], deleted: list[tuple[Any, ...]]) -> None:
        # After a full disk or a failed read SQLite may have rolled back by itself: what was flushed before is gone
        # then, and each row written now would stand alone.
        if not self._driver.in_transaction:
            raise MetadataUnavailable("sqlite: the transaction was rolled back after an error")
        try:
            if deleted:
                self._driver.executemany(DELETE[table], deleted)
            if rows:
                self._driver.executemany(UPSERT[table], rows)
        except sqlite3.Error as error:
            raise unavailable(error) from error

    def _end(self, *, is_commit: bool) -> None:
        if not is_commit:
            self._give_up()
            return
        cells = self._changed_cells()
        self._freshness.begin(cells)
        try:
            self._execute("commit")
        except sqlite3.Error as error:
            raise unavailable(error) from error
        finally:
            self._give_up()
            self._freshness.end(cells)

    def _changed_cells(self) -> set[int]:
        """Cells of the current versions and of the configuration of buckets that this transaction changes."""
        cells = {key_cell(*key) for key in self._flushed[OBJECT]}
        for (name,), bucket in self._flushed[BUCKET].items():
            if bucket is None or bucket.revision > self.head.sequence:
                cells.add(bucket_cell(name))
        return cells

    def _give_up(self) -> None:
        # SQLite has rolled back by itself after some errors; a connection that cannot even do that is of no use.
        if self._driver.in_transaction:
            try:
                self._execute("rollback")
            except sqlite3.Error as error:
                raise unavailable(error) from error


class SqliteWriter:
    """`contract.Writer`: the lock file orders the writers of a host, in one process or in several."""

    is_inline = True

    def __init__(self, pooled: PoolProxiedConnection, lock: LockFile, freshness: Freshness) -> None:
        self._pooled = pooled
        self._driver = driver_of(pooled)
        self._lock = lock
        self._freshness = freshness
        self._driver.execute("pragma busy_timeout = 0").fetchone()  # `_begun` waits, where that may be
        self._head: ChainHead | None = None
        self._kept: Kept | None = None
        self._ready: SqliteTransaction | None = None

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Wait for the lock file, begin, yield; roll back what was not committed. Errors: MetadataUnavailable."""
        assert self._head is None, "one transaction at a time"
        with self._lock.held():
            transaction, self._ready = self._ready or _begun(self._driver, self._freshness, FOREIGN_LOCK_SECONDS), None
            self._head = transaction.head
            kept, self._kept = self._kept, None  # from here on they are this transaction's, whatever becomes of it
            transaction.adopt(kept)
            try:
                yield transaction
            finally:
                self._head = None
                transaction.rollback()
                self._kept = transaction.keep()

    def try_lock(self) -> bool:
        """See `contract.Writer`."""
        assert self._head is None, "one transaction at a time"
        if not self._lock.try_take():
            return False
        try:
            self._ready = _begun(self._driver, self._freshness, 0.0)
        except BaseException as error:
            self._lock.release()
            if isinstance(error, ForeignLock):
                return False
            raise
        return True

    def wait_free(self) -> None:
        """See `contract.Writer`."""
        self._lock.wait_free()

    def next_sequence(self, count: int, at_least: int) -> int:
        """First of `count` fresh sequence numbers, each greater than `at_least`. Errors: MetadataUnavailable."""
        assert self._head is not None, "a sequence number is taken inside a transaction"
        return self._lock.next_sequence(count, max(at_least, self._head.sequence))

    def close(self) -> None:
        """Close connection and lock file. Idempotent."""
        self._pooled.close()
        self._lock.close()
        self._freshness.close()


def _begun(driver: sqlite3.Connection, freshness: Freshness, patience: float) -> SqliteTransaction:
    """A transaction, as soon as nobody who does not take the lock file keeps the database, for so many seconds.

    Errors: MetadataUnavailable; ForeignLock when it is still kept.
    """
    deadline = time.monotonic() + patience
    while True:
        try:
            return SqliteTransaction(driver, freshness)
        except sqlite3.Error as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF != sqlite3.SQLITE_BUSY:
                raise unavailable(error) from error
            if time.monotonic() >= deadline:
                raise ForeignLock(f"sqlite: {error}") from error
        time.sleep(FOREIGN_PAUSE_SECONDS)
