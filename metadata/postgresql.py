"""The metadata in a PostgreSQL database: read through a pool on the event loop, written by `postgresql_writer`.

The only modules that need asyncpg are this one and those it imports. Look-ups that arrive in one turn of the loop go
out as one statement: sixteen waiting requests cost one round trip, and an idle server answers no later for it.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import asyncpg
from sqlalchemy import URL, NullPool, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import create_async_engine

from metadata import migration
from metadata.contract import Located, Reader, Writer
from metadata.errors import MetadataUnavailable
from metadata.postgresql_connection import (
    DRIVER_ERRORS,
    GET_ROWS,
    GET_SUMMARIES,
    LOCATE_MANY,
    SEEKS,
    TEXTS,
    WRITE_LOCK,
    connect_arguments,
    connect_durable,
    holds_nul,
    unavailable,
)
from metadata.postgresql_writer import PostgresqlWriter
from metadata.reader import StatementReader, Values, located
from metadata.tables import BLOB
from metadata.types import Blob, Version

CONNECTIONS_MAX: Final = 8
LOCATE_BATCH_MAX: Final = 256
NOW: Final = "select (extract(epoch from clock_timestamp()) * 1000)::bigint"
CLOSE_SECONDS_MAX: Final = 5.0

Waiter = tuple[str, bytes, asyncio.Future[Located | None]]


class PostgresqlReader(StatementReader):
    """Committed state through a pool of connections of one event loop."""

    is_inline = False

    def __init__(self, pool: asyncpg.Pool) -> None:
        super().__init__(TEXTS, SEEKS)
        self._pool = pool
        self._waiting: list[Waiter] = []
        self._answering: set[asyncio.Task[None]] = set()

    async def _rows(self, text: str, parameters: tuple[Any, ...]) -> Sequence[Values]:
        if holds_nul(parameters):
            return ()
        try:
            rows: Sequence[Values] = await self._pool.fetch(text, *parameters)
        except DRIVER_ERRORS as error:
            raise unavailable(error) from error
        return rows

    async def locate(self, bucket_name: str, key: bytes) -> Located | None:
        """Bucket and current version; None when the bucket does not exist.

        Cost: one statement for all that is asked in one turn of the loop, up to `LOCATE_BATCH_MAX`.
        """
        if "\0" in bucket_name:
            return None
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Located | None] = loop.create_future()
        if not self._waiting:
            loop.call_soon(self._send_waiting)
        self._waiting.append((bucket_name, key, answer))
        return await answer

    def _send_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        for start in range(0, len(waiting), LOCATE_BATCH_MAX):
            task = asyncio.create_task(self._answer(waiting[start : start + LOCATE_BATCH_MAX]))
            self._answering.add(task)
            task.add_done_callback(self._answering.discard)

    async def _answer(self, waiting: list[Waiter]) -> None:
        found: dict[int, Located] | None = None
        failure = MetadataUnavailable("postgresql: the reader was closed")
        try:
            names, keys, _ = zip(*waiting, strict=True)
            rows = await self._rows(LOCATE_MANY, (names, keys))
            found = {values[0]: located(values[1:]) for values in rows}
        except MetadataUnavailable as error:
            failure = error
        finally:  # also when this task is cancelled: nobody waits for ever
            for position, (_, _, answer) in enumerate(waiting, start=1):
                if answer.done():
                    continue
                if found is None:
                    answer.set_exception(failure)
                else:
                    answer.set_result(found.get(position))

    async def now_ms(self) -> int:
        """The time by the server's clock."""
        now: int = (await self._rows(NOW, ()))[0][0]
        return now

    async def get_blobs(self, blob_ids: Sequence[bytes]) -> list[Blob]:
        """Rows of the blobs that exist, in any order, in one statement."""
        return list(map(Blob._make, await self._rows(GET_ROWS[BLOB], (list(blob_ids),))))

    async def get_summaries(self, bucket_id: int, keys: Sequence[bytes]) -> list[Version]:
        """The current versions of those of the keys that have one, in any order, in one statement."""
        rows = await self._rows(GET_SUMMARIES, ([bucket_id] * len(keys), list(keys)))
        return list(map(Version._make, rows))

    async def close(self) -> None:
        """Answer what was asked, then close the pool; cut it after `CLOSE_SECONDS_MAX`. Idempotent."""
        await asyncio.gather(*self._answering, return_exceptions=True)
        try:
            await asyncio.wait_for(self._pool.close(), CLOSE_SECONDS_MAX)
        except TimeoutError:
            self._pool.terminate()


class PostgresqlMetadata:
    """`contract.Metadata` for one database. Holds no connection itself, so that it survives a fork."""

    dialect = "postgresql"

    def __init__(self, url: URL) -> None:
        self._url = url

    async def open_reader(self) -> Reader:
        """A reader with a pool on the running loop. Errors: MetadataUnavailable."""
        arguments = connect_arguments(self._url, default_transaction_read_only="on")
        try:
            pool = await asyncpg.create_pool(min_size=1, max_size=CONNECTIONS_MAX, reset=_keep_as_it_is, **arguments)
        except DRIVER_ERRORS as error:
            raise unavailable(error) from error
        return PostgresqlReader(pool)

    def open_writer(self) -> Writer:
        """A writer with a connection of its own. Errors: MetadataUnavailable, MetadataRefused."""
        return PostgresqlWriter(self._url)

    def migrate(self) -> None:
        """Bring the schema to the newest revision, in one transaction that keeps every writer out.

        Errors: MetadataRefused when the schema is newer than this program, MetadataUnavailable; nothing was changed.
        """
        _run_apart(self._migrate)

    async def _migrate(self) -> None:
        engine = create_async_engine(self._url.set(drivername="postgresql+asyncpg"), poolclass=NullPool)
        try:
            async with engine.begin() as connection:
                await connection.execute(text(f"select pg_advisory_xact_lock({WRITE_LOCK})"))
                await connection.run_sync(migration.upgrade)
        except (*DRIVER_ERRORS, DBAPIError) as error:
            raise unavailable(error) from error
        finally:
            await engine.dispose()

    def checkpoint(self) -> None:
        """Nothing to do: the server checkpoints itself."""

    def check(self) -> None:
        """Read the durability settings back. Errors: MetadataRefused, MetadataUnavailable."""
        _run_apart(self._check)

    async def _check(self) -> None:
        connection = await connect_durable(self._url)
        await connection.close()


async def _keep_as_it_is(_connection: asyncpg.Connection) -> None:
    # Called as a connection goes back to the pool. Readers leave nothing to reset: a round trip saved a statement.
    return


def _run_apart(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    # A thread of its own, because the caller may be running an event loop already.
    with ThreadPoolExecutor(1) as thread:
        thread.submit(lambda: asyncio.run(work())).result()
