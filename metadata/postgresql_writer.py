"""The write side on PostgreSQL: one connection of the commit thread, behind a loop of its own.

Owns the cluster's write lock and the sequence. A transaction costs the lock, the chain row, one statement for each
table and kind of change, and the commit; `prefetch` turns the look-ups of a batch into one statement a table.
"""

import asyncio
from collections import defaultdict
from collections.abc import Coroutine, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final, TypeVar

import asyncpg
from sqlalchemy import URL

from metadata.contract import Transaction
from metadata.errors import MetadataUnavailable
from metadata.overlay import EMPTY_CHAIN, UNKNOWN, OverlayTransaction, row_of
from metadata.postgresql_connection import (
    DELETE,
    DRIVER_ERRORS,
    GET_ROWS,
    TEXTS,
    UPSERT,
    WRITE_LOCK,
    connect_durable,
    holds_nul,
    unavailable,
)
from metadata.tables import CHAIN, Table
from metadata.types import ChainHead

Result = TypeVar("Result")
Row = TypeVar("Row", bound=tuple[Any, ...])
Key = tuple[Any, ...]

BEGIN: Final = f"begin isolation level read committed; select pg_advisory_xact_lock({WRITE_LOCK})"
NEXT_SEQUENCE: Final = (
    "select setval('commit_sequence', greatest((select last_value from commit_sequence), $1::bigint) + $2::bigint)"
)
CLOSE_SECONDS_MAX: Final = 5.0
SEQUENCE_GAP: Final = 1 << 20
"""Numbers skipped, and the skip committed, before a new connection hands out its first.

A sequence is not rolled back, but a crash of the server forgets what no commit has flushed yet. A crash ends every
connection, and fewer numbers than this are handed out between two flushes: past the gap none was ever handed out.
"""


class PrivateLoop:
    """Runs the driver's coroutines in the calling thread, on an event loop that nothing else uses."""

    def __init__(self) -> None:
        try:
            import uvloop
        except ImportError:  # not on every platform, and only a matter of speed
            self._loop = asyncio.new_event_loop()
        else:
            self._loop = uvloop.new_event_loop()

    def run(self, coroutine: Coroutine[Any, Any, Result]) -> Result:
        """Wait for the result. Errors: MetadataUnavailable for the driver's."""
        try:
            return self._loop.run_until_complete(coroutine)
        except DRIVER_ERRORS as error:
            raise unavailable(error) from error

    def close(self) -> None:
        """Close the loop. Idempotent."""
        if not self._loop.is_closed():
            self._loop.run_until_complete(asyncio.sleep(0))  # a connection cut just now closes its socket in this turn
            self._loop.close()


class PostgresqlTransaction(OverlayTransaction):
    """One transaction under the write lock."""

    def __init__(self, loop: PrivateLoop, connection: asyncpg.Connection) -> None:
        super().__init__(TEXTS)
        self._run = loop.run
        self._connection = connection
        # Two messages: the snapshot that reads the chain must be younger than the lock.
        self._run(connection.execute(BEGIN))
        head = self._fetch(CHAIN, (0,))
        self.head = EMPTY_CHAIN if head is None else ChainHead._make(head)

    def prefetch(self, keys: Iterable[tuple[Table[Any], Key]]) -> None:
        """Load rows in one round trip a table."""
        wanted: defaultdict[Table[Any], set[Key]] = defaultdict(set)
        for table, key in keys:
            if self._pending[table].get(key, UNKNOWN) is UNKNOWN and key not in self._loaded[table]:
                wanted[table].add(key)
        for table, missing in wanted.items():
            loaded = self._loaded[table]
            loaded.update(dict.fromkeys(missing))
            askable = [key for key in missing if not holds_nul(key)]
            columns = list(zip(*askable, strict=True))
            for values in self._run(self._connection.fetch(GET_ROWS[table], *columns)) if askable else ():
                row = row_of(table, values)
                loaded[row[: table.key_columns]] = row

    def put(self, table: Table[Row], row: Row) -> None:
        """Insert the row or replace the one with its key."""
        assert not holds_nul(row)
        super().put(table, row)

    def _fetch(self, table: Table[Any], key: Key) -> Key | None:
        rows = self._rows(TEXTS.get_row[table], key)
        return row_of(table, rows[0]) if rows else None

    def _rows(self, text: str, parameters: Key) -> Sequence[Sequence[Any]]:
        if holds_nul(parameters):  # the server would refuse it, and end the transaction for every other step
            return ()
        rows: Sequence[Sequence[Any]] = self._run(self._connection.fetch(text, *parameters))
        return rows

    def _write(self, table: Table[Any], rows: list[Any], deleted: list[Key]) -> None:
        for text, batch in ((DELETE[table], deleted), (UPSERT[table], rows)):
            if batch:
                self._run(self._connection.execute(text, *zip(*batch, strict=True)))

    def _end(self, *, is_commit: bool) -> None:
        try:
            done = self._run(self._connection.execute("commit" if is_commit else "rollback"))
        except BaseException as error:
            self._connection.terminate()  # it may still be inside the transaction, holding the lock
            if is_commit or not isinstance(error, MetadataUnavailable):
                raise
            return  # the server rolls back what a lost connection has begun
        # The server answers ROLLBACK, and no error, to the commit of a transaction that has failed before.
        if is_commit and done != "COMMIT":
            raise MetadataUnavailable("postgresql: the transaction had failed and was rolled back")


async def skip_numbers(connection: asyncpg.Connection) -> None:
    """Leave `SEQUENCE_GAP` numbers out, durably: a transaction of its own, under the lock that all numbers need."""
    await connection.execute(BEGIN)
    await connection.fetchval(NEXT_SEQUENCE, 0, SEQUENCE_GAP)
    await connection.execute("commit")


class PostgresqlWriter:
    """`contract.Writer`. Connects anew at the next transaction after its connection broke."""

    is_inline = False

    def __init__(self, url: URL) -> None:
        """Connect. Errors: MetadataUnavailable, MetadataRefused."""
        self._url = url
        self._loop = PrivateLoop()
        self._connection: asyncpg.Connection | None = None
        self._head: ChainHead | None = None
        self._has_skipped = False
        try:
            self._connect()
        except BaseException:
            self._loop.close()
            raise

    def try_lock(self) -> bool:
        """See `contract.Writer`: asking would take a round trip."""
        return False

    def wait_free(self) -> None:
        """See `contract.Writer`; the database orders its writers itself."""

    def _connect(self) -> None:
        self._connection = self._loop.run(connect_durable(self._url))
        self._has_skipped = False

    def _begin_here(self, connection: asyncpg.Connection) -> PostgresqlTransaction:
        if not self._has_skipped:
            self._loop.run(skip_numbers(connection))
            self._has_skipped = True
        return PostgresqlTransaction(self._loop, connection)

    def _begin(self) -> PostgresqlTransaction:
        if self._connection is not None:
            try:
                return self._begin_here(self._connection)
            except MetadataUnavailable:
                # A connection that was lost while idle says so only now; nothing has begun, so another may be tried.
                if not self._connection.is_closed():
                    self._drop()
                    raise
        self._drop()
        self._connect()
        return self._begin_here(self._connection)

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Wait for the write lock, begin, yield; roll back what was not committed.

        Errors: MetadataUnavailable; MetadataRefused when a new connection is less durable than promised.
        """
        assert self._head is None, "one transaction at a time"
        transaction = self._begin()
        self._head = transaction.head
        try:
            yield transaction
        finally:
            self._head = None
            transaction.rollback()

    def next_sequence(self, count: int, at_least: int) -> int:
        """First of `count` fresh sequence numbers, each greater than `at_least`. Errors: MetadataUnavailable."""
        assert self._head is not None, "a sequence number is taken inside a transaction"
        assert count > 0 <= at_least
        floor = max(at_least, self._head.sequence)
        assert self._connection is not None
        last: int = self._loop.run(self._connection.fetchval(NEXT_SEQUENCE, floor, count))
        return last - count + 1

    def close(self) -> None:
        """Close the connection, telling the server. Idempotent."""
        if self._connection is not None and not self._connection.is_closed():
            with suppress(MetadataUnavailable):
                self._loop.run(self._connection.close(timeout=CLOSE_SECONDS_MAX))
        self._drop()
        self._loop.close()
