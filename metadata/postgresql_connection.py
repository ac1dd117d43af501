"""What every PostgreSQL connection of this program has in common: its settings, its errors, what it refuses.

Owns the texts of the statements, because they are compiled once for all connections.
"""

from typing import Any, Final

import asyncpg
from sqlalchemy import URL
from sqlalchemy.dialects.postgresql.asyncpg import dialect as asyncpg_dialect

from metadata import statements
from metadata.errors import MetadataRefused, MetadataUnavailable
from metadata.queues import Texts
from metadata.seeks import SeekTexts
from metadata.tables import TABLES

DIALECT: Final = asyncpg_dialect()  # type: ignore[no-untyped-call]  # SQLAlchemy annotates this class in part
TEXTS: Final = Texts(DIALECT)
SEEKS: Final = SeekTexts(DIALECT)
LOCATE_MANY: Final = statements.compile_text(DIALECT, statements.locate_many())
GET_SUMMARIES: Final = statements.compile_text(DIALECT, statements.postgresql_get_summaries())
UPSERT: Final = {table: statements.compile_text(DIALECT, statements.postgresql_upsert(table)) for table in TABLES}
DELETE: Final = {table: statements.compile_text(DIALECT, statements.postgresql_delete(table)) for table in TABLES}
GET_ROWS: Final = {table: statements.compile_text(DIALECT, statements.postgresql_get_rows(table)) for table in TABLES}

WRITE_LOCK: Final = 0x49534F54
"""Advisory lock of this database that orders its writers and upgraders."""

CONNECT_SECONDS_MAX: Final = 10.0
STATEMENT_SECONDS_MAX: Final = 60.0  # longer than the lock may be waited for
SERVER_SETTINGS: Final = {
    "application_name": "isotherm",
    "jit": "off",  # no statement here runs long enough to earn a compilation
    "lock_timeout": "30000",  # milliseconds
    # A writer whose host vanished must not hold the write lock of the cluster for ever.
    "idle_in_transaction_session_timeout": "60000",  # milliseconds
}
DRIVER_ERRORS: Final = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError)
DURABLE: Final = {"fsync": {"on"}, "synchronous_commit": {"on", "remote_apply"}}
"""Settings and the values with which an acknowledged commit is on disk."""


def unavailable(error: BaseException) -> MetadataUnavailable:
    """A driver's error in the words of this package. The message holds no password: the driver never repeats one."""
    return MetadataUnavailable(f"postgresql: {type(error).__name__}: {error}")


def connect_arguments(url: URL, **settings: str) -> dict[str, Any]:
    """Arguments of `asyncpg.connect`; `settings` are further server settings of the session."""
    return {
        "dsn": url.render_as_string(hide_password=False),
        "timeout": CONNECT_SECONDS_MAX,
        "command_timeout": STATEMENT_SECONDS_MAX,
        "statement_cache_size": 256,
        "max_cached_statement_lifetime": 0,  # seconds; 0 keeps them
        "server_settings": {**SERVER_SETTINGS, **settings},
    }


async def connect_durable(url: URL) -> asyncpg.Connection:
    """A connection whose commits are on disk when they return.

    Errors: MetadataUnavailable; MetadataRefused when a setting is weaker than promised.
    """
    try:
        connection = await asyncpg.connect(**connect_arguments(url))
        values = {name: await connection.fetchval(f"show {name}") for name in DURABLE}
    except DRIVER_ERRORS as error:
        raise unavailable(error) from error
    weak = [f"{name} is {values[name]}" for name, durable in DURABLE.items() if values[name] not in durable]
    if weak:
        await connection.close()
        raise MetadataRefused(f"postgresql: {', '.join(weak)}, needed is on")
    return connection


def holds_nul(values: tuple[Any, ...]) -> bool:
    """Whether a text among the values has a NUL: PostgreSQL stores none, so no row equals it and none may hold it."""
    return any(isinstance(value, str) and "\0" in value for value in values)
