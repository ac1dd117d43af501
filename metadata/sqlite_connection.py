"""Connections to the SQLite file: their settings and what durability rests on, statements as text, errors."""

import sqlite3
from typing import Final

from sqlalchemy.dialects.sqlite import dialect as sqlite_dialect
from sqlalchemy.pool import PoolProxiedConnection

from metadata import statements
from metadata.errors import MetadataRefused, MetadataUnavailable
from metadata.queues import Texts
from metadata.seeks import SeekTexts
from metadata.tables import TABLES

DIALECT: Final = sqlite_dialect()
TEXTS: Final = Texts(DIALECT)
SEEKS: Final = SeekTexts(DIALECT)
LOCATE: Final = statements.compile_text(DIALECT, statements.locate())
GET_SUMMARY: Final = statements.compile_text(DIALECT, statements.get_summary())
UPSERT: Final = {table: statements.compile_text(DIALECT, statements.sqlite_upsert(table)) for table in TABLES}
DELETE: Final = {table: statements.compile_text(DIALECT, statements.sqlite_delete(table)) for table in TABLES}

NOW: Final = "select cast((julianday('now') - 2440587.5) * 86400000 as integer)"

SYNCHRONOUS_NORMAL: Final = 1
MAPPED_BYTES: Final = 1 << 30  # address space, not memory: the file's pages are read in place
CACHED_KIBIBYTES: Final = 32 << 10  # of each connection, for pages that are not in the mapped file yet
CACHED_STATEMENTS: Final = 256  # more than all statements there are
FOREIGN_LOCK_SECONDS: Final = 10.0  # only for those who do not take the lock file: a shell, a recovery after a crash
FOREIGN_PAUSE_SECONDS: Final = 0.005
LOG_FRAMES_MAX: Final = (64 << 20) // 4096  # above it a checkpoint finishes with the writers held back


class ForeignLock(MetadataUnavailable):
    """Somebody who does not take the lock file is writing to the database."""


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


def driver_of(pooled: PoolProxiedConnection) -> sqlite3.Connection:
    """The standard library's connection under SQLAlchemy's."""
    driver = pooled.driver_connection
    assert isinstance(driver, sqlite3.Connection)
    return driver
