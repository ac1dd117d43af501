"""The metadata in one SQLite file: read inline on the event loop, written by one process at a time.

Owns the connection settings and what they promise. In WAL mode with `synchronous` NORMAL a power cut may lose the last
commits, never the file's consistency: the commit log on the devices is the truth and start-up replays what is missing.
Anything weaker is refused. Refuses to wait with SQLite's busy handler: writers queue on a lock file.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from sqlalchemy import URL, create_engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool, PoolProxiedConnection

from metadata import migration
from metadata.contract import Located, Reader, Writer
from metadata.errors import MetadataRefused
from metadata.freshness import Freshness, bucket_cell, key_cell
from metadata.lock_file import LockFile
from metadata.reader import StatementReader, Values, located
from metadata.sqlite_connection import (
    CACHED_STATEMENTS,
    FOREIGN_LOCK_SECONDS,
    GET_SUMMARY,
    LOCATE,
    LOG_FRAMES_MAX,
    NOW,
    SEEKS,
    TEXTS,
    configure,
    driver_of,
    refuse_weak,
    unavailable,
)
from metadata.sqlite_writer import SqliteWriter
from metadata.tables import BLOB
from metadata.types import Blob, Bucket, Version

KNOWN_ROWS_MAX: Final = 4096  # that a reader remembers, about 2 KiB each
LONG_ROW_BYTES: Final = 4096  # a longer one is not remembered


class SqliteReader(StatementReader):
    """Committed state through a connection of its own; every statement is its own snapshot and never suspends."""

    is_inline = True

    def __init__(self, pooled: PoolProxiedConnection, freshness: Freshness) -> None:
        super().__init__(TEXTS, SEEKS)
        self._pooled = pooled
        self._freshness = freshness
        self._cells = freshness.cells
        self._execute = driver_of(pooled).execute
        self._locate = driver_of(pooled).cursor().execute  # one cursor for all: its row is read before the next call
        self._buckets: dict[str, tuple[Bucket, int, int]] = {}
        self._ids: dict[str, tuple[int, int]] = {}  # by name the id seen last, which names the cells of its keys
        self._found: dict[tuple[str, bytes], tuple[Located, int, int, int, int]] = {}

    async def _rows(self, text: str, parameters: tuple[Any, ...]) -> Sequence[Values]:
        try:
            return self._execute(text, parameters).fetchall()
        except sqlite3.Error as error:
            raise unavailable(error) from error

    async def locate(self, bucket_name: str, key: bytes) -> Located | None:
        """Bucket and current version; None when the bucket does not exist. No statement for what still stands."""
        cells = self._cells
        known = self._found.get((bucket_name, key))
        if known is not None and cells[known[1]] == known[2] and cells[known[3]] == known[4]:
            return known[0]
        bucket_id, of_bucket = self._ids.get(bucket_name, (0, 0))
        of_key = key_cell(bucket_id, key)
        bucket_seen, key_seen = cells[of_bucket], cells[of_key]
        found = self._look_up(bucket_name, key)
        if found is None:
            return None
        if found.bucket.bucket_id != bucket_id:
            self._learn(found.bucket)
        elif not (bucket_seen | key_seen) & 1 and cells[of_bucket] == bucket_seen and cells[of_key] == key_seen:
            self._remember((bucket_name, key), (found, of_bucket, bucket_seen, of_key, key_seen))
        return found

    async def recall_bucket(self, name: str) -> Bucket | None:
        """The bucket, true but for its counters; no statement where what was read before still stands."""
        cells = self._cells
        known = self._buckets.get(name)
        if known is not None and cells[known[1]] == known[2]:
            return known[0]
        of_bucket = bucket_cell(name)
        seen = cells[of_bucket]
        bucket = await self.find_bucket(name)
        if bucket is not None and not seen & 1 and cells[of_bucket] == seen:
            if len(self._buckets) >= KNOWN_ROWS_MAX:
                self._buckets.clear()
            self._buckets[name] = bucket, of_bucket, seen
        return bucket

    def _look_up(self, bucket_name: str, key: bytes) -> Located | None:
        try:
            values = self._locate(LOCATE, (key, bucket_name)).fetchone()
        except sqlite3.Error as error:
            raise unavailable(error) from error
        return None if values is None else located(values)

    def _remember(self, name: tuple[str, bytes], known: tuple[Located, int, int, int, int]) -> None:
        version = known[0].version
        if version is not None and len(version.attributes) + len(version.parts) + len(version.extents) > LONG_ROW_BYTES:
            return
        if len(self._found) >= KNOWN_ROWS_MAX:
            self._found.clear()
        self._found[name] = known

    def _learn(self, bucket: Bucket) -> None:
        if len(self._ids) >= KNOWN_ROWS_MAX:
            self._ids.clear()
        self._ids[bucket.name] = bucket.bucket_id, bucket_cell(bucket.name)

    async def now_ms(self) -> int:
        """The time by the database's own clock, which here is the host's."""
        now: int = (await self._rows(NOW, ()))[0][0]
        return now

    async def get_blobs(self, blob_ids: Sequence[bytes]) -> list[Blob]:
        """Rows of the blobs that exist, in any order. Cost: one look-up each."""
        found = [await self.get_row(BLOB, (blob_id,)) for blob_id in blob_ids]
        return [blob for blob in found if blob is not None]

    async def get_summaries(self, bucket_id: int, keys: Sequence[bytes]) -> list[Version]:
        """The current versions of those of the keys that have one, in any order. Cost: one look-up each."""
        found = [row for key in keys for row in await self._rows(GET_SUMMARY, (bucket_id, key))]
        return list(map(Version._make, found))

    async def close(self) -> None:
        """Close the connection. Idempotent."""
        self._pooled.close()
        self._freshness.close()


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
            configure(driver_of(pooled))
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
            yield driver_of(pooled)
        except sqlite3.Error as error:
            raise unavailable(error) from error
        finally:
            pooled.close()

    async def open_reader(self) -> Reader:
        """A reader with a connection of its own. Errors: MetadataUnavailable, MetadataRefused."""
        return SqliteReader(self._connect(), Freshness(self._lock_path))

    def open_writer(self) -> Writer:
        """A writer with a connection and a lock of its own. Errors: MetadataUnavailable, MetadataRefused."""
        lock = LockFile(self._lock_path)
        try:
            return SqliteWriter(self._connect(), lock, Freshness(self._lock_path))
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
                configure(driver_of(connection.connection))
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
