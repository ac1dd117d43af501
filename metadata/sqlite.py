"""The metadata in one SQLite file: read inline on the event loop, written by one process at a time.

Owns the connection settings and what they promise. In WAL mode with `synchronous` NORMAL a power cut may lose the last
commits, never the file's consistency: the commit log on the devices is the truth and start-up replays what is missing.
Anything weaker is refused. Refuses to wait with SQLite's busy handler: writers queue on a lock file.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from sqlalchemy import URL, create_engine
from sqlalchemy.dialects.sqlite import dialect as sqlite_dialect
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool, PoolProxiedConnection

from metadata import migration, statements
from metadata.contract import Located, Reader, Transaction, Writer
from metadata.errors import MetadataRefused, MetadataUnavailable
from metadata.lock_file import LockFile
from metadata.overlay import EMPTY_CHAIN, OverlayTransaction, row_of
from metadata.reader import StatementReader, Values, located
from metadata.statements import StatementTexts
from metadata.tables import BLOB, CHAIN, TABLES, Table
from metadata.types import Blob, ChainHead

DIALECT: Final = sqlite_dialect()
TEXTS: Final = StatementTexts(DIALECT)
LOCATE: Final = statements.compile_text(DIALECT, statements.locate())
UPSERT: Final = {table: statements.compile_text(DIALECT, statements.sqlite_upsert(table)) for table in TABLES}
DELETE: Final = {table: statements.compile_text(DIALECT, statements.sqlite_delete(table)) for table in TABLES}

SYNCHRONOUS_NORMAL: Final = 1
MAPPED_BYTES: Final = 1 << 30  # address space, not memory: the file's pages are read in place
CACHED_KIBIBYTES: Final = 32 << 10  # of each connection, for pages that are not in the mapped file yet
CACHED_STATEMENTS: Final = 256  # more than all statements there are
FOREIGN_LOCK_SECONDS: Final = 10.0  # only for those who do not take the lock file: a shell, a recovery after a crash
LOG_FRAMES_MAX: Final = (64 << 20) // 4096  # above it a checkpoint finishes with the writers held back


def unavailable(error: Exception) -> MetadataUnavailable:
    """A driver's error in the words of this package."""
    return MetadataUnavailable(f"sqlite: {error}")


def configure(driver: sqlite3.Connection) -> None:
    """Set what this program relies on, and read back what durability rests on.

    Errors: MetadataRefused when the file cannot be in WAL mode or `synchronous` reads below NORMAL.
    """
    driver.execute("pragma journal_mode = wal").fetchone()
    driver.execute("pragma synchronous = normal")
    driver.execute(f"pragma mmap_size = {MAPPED_BYTES}").fetchone()
    driver.execute(f"pragma cache_size = -{CACHED_KIBIBYTES}")
    driver.execute("pragma wal_autocheckpoint = 0").fetchone()
    driver.execute("pragma foreign_keys = off")
    driver.execute("pragma temp_store = memory")
    refuse_weak(driver)


def refuse_weak(driver: sqlite3.Connection) -> None:
    """Read the durability settings back. Errors: MetadataRefused."""
    journal = driver.execute("pragma journal_mode").fetchone()[0]
    synchronous = driver.execute("pragma synchronous").fetchone()[0]
    if journal != "wal":
        raise MetadataRefused(f"sqlite: journal_mode is {journal}, needed is wal")
    if synchronous < SYNCHRONOUS_NORMAL:
        raise MetadataRefused(f"sqlite: synchronous is {synchronous}, needed is at least {SYNCHRONOUS_NORMAL} (NORMAL)")


class SqliteReader(StatementReader):
    """Committed state through a connection of its own; every statement is its own snapshot and never suspends."""

    is_inline = True

    def __init__(self, pooled: PoolProxiedConnection) -> None:
        super().__init__(TEXTS)
        self._pooled = pooled
        self._execute = _driver(pooled).execute
        self._locate = _driver(pooled).cursor().execute  # one cursor for all: its row is read before the next call

    async def _rows(self, text: str, parameters: tuple[Any, ...]) -> Sequence[Values]:
        try:
            return self._execute(text, parameters).fetchall()
        except sqlite3.Error as error:
            raise unavailable(error) from error

    async def locate(self, bucket_name: str, key: bytes) -> Located | None:
        """Bucket and current version in one statement; None when the bucket does not exist."""
        try:
            values = self._locate(LOCATE, (key, bucket_name)).fetchone()
        except sqlite3.Error as error:
            raise unavailable(error) from error
        return None if values is None else located(values)

    async def get_blobs(self, blob_ids: Sequence[bytes]) -> list[Blob]:
        """Rows of the blobs that exist, in any order. Cost: one look-up each."""
        found = [await self.get_row(BLOB, (blob_id,)) for blob_id in blob_ids]
        return [blob for blob in found if blob is not None]

    async def close(self) -> None:
        """Close the connection. Idempotent."""
        self._pooled.close()


class SqliteTransaction(OverlayTransaction):
    """One `begin immediate` ... `commit` on the writer's connection."""

    def __init__(self, driver: sqlite3.Connection) -> None:
        super().__init__(TEXTS)
        self._driver = driver
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
        try:
            if is_commit:
                self._execute("commit")
        except sqlite3.Error as error:
            raise unavailable(error) from error
        finally:
            self._give_up()

    def _give_up(self) -> None:
        # SQLite has rolled back by itself after some errors; a connection that cannot even do that is of no use.
        if self._driver.in_transaction:
            try:
                self._execute("rollback")
            except sqlite3.Error as error:
                raise unavailable(error) from error


class SqliteWriter:
    """`contract.Writer`: the lock file orders the writers of a host, in one process or in several."""

    def __init__(self, pooled: PoolProxiedConnection, lock: LockFile) -> None:
        self._pooled = pooled
        self._driver = _driver(pooled)
        self._lock = lock
        self._head: ChainHead | None = None

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Wait for the lock file, begin, yield; roll back what was not committed. Errors: MetadataUnavailable."""
        assert self._head is None, "one transaction at a time"
        with self._lock.held():
            transaction = _begun(self._driver)
            self._head = transaction.head
            try:
                yield transaction
            finally:
                self._head = None
                transaction.rollback()

    def next_sequence(self, count: int, at_least: int) -> int:
        """First of `count` fresh sequence numbers, each greater than `at_least`. Errors: MetadataUnavailable."""
        assert self._head is not None, "a sequence number is taken inside a transaction"
        return self._lock.next_sequence(count, max(at_least, self._head.sequence))

    def close(self) -> None:
        """Close connection and lock file. Idempotent."""
        self._pooled.close()
        self._lock.close()


def _begun(driver: sqlite3.Connection) -> SqliteTransaction:
    try:
        return SqliteTransaction(driver)
    except sqlite3.Error as error:
        raise unavailable(error) from error


class SqliteMetadata:
    """`contract.Metadata` for one file. Holds no connection itself, so that it survives a fork."""

    dialect = "sqlite"

    def __init__(self, url: URL) -> None:
        if url.database is None or not Path(url.database).is_absolute():
            raise MetadataRefused("sqlite: the URL names no absolute path (sqlite:////absolute/path)")
        self._lock_path = Path(url.database + ".lock")
        arguments = {
            "isolation_level": None,  # transactions begin where this package says so
            "check_same_thread": False,  # whoever stops a thread may close what it left
            "cached_statements": CACHED_STATEMENTS,
            "timeout": FOREIGN_LOCK_SECONDS,
        }
        self._engine = create_engine(url, poolclass=NullPool, connect_args=arguments)

    def _connect(self) -> PoolProxiedConnection:
        try:
            pooled = self._engine.raw_connection()
        except (sqlite3.Error, DBAPIError) as error:
            raise unavailable(error) from error
        try:
            configure(_driver(pooled))
        except BaseException as error:
            pooled.close()
            if isinstance(error, sqlite3.Error):
                raise unavailable(error) from error
            raise
        return pooled

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        pooled = self._connect()
        try:
            yield _driver(pooled)
        except sqlite3.Error as error:
            raise unavailable(error) from error
        finally:
            pooled.close()

    async def open_reader(self) -> Reader:
        """A reader with a connection of its own. Errors: MetadataUnavailable, MetadataRefused."""
        return SqliteReader(self._connect())

    def open_writer(self) -> Writer:
        """A writer with a connection and a lock of its own. Errors: MetadataUnavailable, MetadataRefused."""
        lock = LockFile(self._lock_path)
        try:
            return SqliteWriter(self._connect(), lock)
        except BaseException:
            lock.close()
            raise

    def migrate(self) -> None:
        """Bring the schema to the newest revision, in one transaction that keeps every writer out.

        Errors: MetadataRefused when the schema is newer than this program, MetadataUnavailable; nothing was changed.
        """
        lock = LockFile(self._lock_path)
        try:
            with lock.held(), self._engine.connect() as connection:
                configure(_driver(connection.connection))
                with connection.begin():
                    connection.exec_driver_sql("begin immediate")  # the driver begins nothing by itself
                    migration.upgrade(connection)
        except (sqlite3.Error, DBAPIError) as error:
            raise unavailable(error) from error
        finally:
            lock.close()

    def checkpoint(self) -> None:
        """Move the write-ahead log into the file without blocking writers; only a very long log is finished under lock.

        A passive checkpoint under steady writes never reaches the log's end, so the log is never reused and only
        grows. Past 64 MiB the little that was appended meanwhile is moved with the writers held back.
        Errors: MetadataUnavailable.
        """
        with self._connection() as driver:
            _, frames, moved = driver.execute("pragma wal_checkpoint(passive)").fetchone()
            if frames > LOG_FRAMES_MAX and moved < frames:
                lock = LockFile(self._lock_path)
                try:
                    with lock.held():
                        driver.execute("pragma wal_checkpoint(passive)").fetchone()
                finally:
                    lock.close()

    def check(self) -> None:
        """Read the durability settings back. Errors: MetadataRefused, MetadataUnavailable."""
        with self._connection() as driver:
            refuse_weak(driver)


def _driver(pooled: PoolProxiedConnection) -> sqlite3.Connection:
    driver = pooled.driver_connection
    assert isinstance(driver, sqlite3.Connection)
    return driver
