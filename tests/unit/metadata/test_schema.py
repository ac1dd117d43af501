"""Row types, models and migrations describe one schema."""

import asyncio
import sqlite3
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection, create_engine, make_url, text
from sqlalchemy.dialects.sqlite import dialect as sqlite_dialect
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.schema import CreateTable

from metadata.contract import Metadata
from metadata.errors import MetadataRefused
from metadata.models import MODELS, SCHEMA
from metadata.session import open_metadata
from metadata.tables import TABLES, Table
from tests.databases import PostgresServer


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_models_have_the_columns_of_their_rows(table: Table[Any]) -> None:
    model = MODELS[table]
    assert model.name == table.name
    assert tuple(column.name for column in model.c) == table.row._fields
    assert tuple(column.name for column in model.primary_key) == table.row._fields[: table.key_columns]
    assert not any(column.nullable for column in model.c)
    assert "WITHOUT ROWID" in str(CreateTable(model).compile(dialect=sqlite_dialect()))


def test_every_table_has_a_code_of_its_own() -> None:
    assert len({table.code for table in TABLES}) == len({table.name for table in TABLES}) == len(TABLES)
    assert set(MODELS) == set(TABLES)
    assert set(SCHEMA.tables) == {table.name for table in TABLES}


def inspect(url: str, question: Any) -> Any:
    """What `question` finds out over a plain SQLAlchemy connection."""
    if url.startswith("sqlite"):
        engine = create_engine(url)
        with engine.begin() as connection:
            answer = question(connection)
        engine.dispose()
        return answer

    async def run() -> Any:
        engine = create_async_engine(make_url(url).set(drivername="postgresql+asyncpg"))
        async with engine.begin() as connection:
            answer = await connection.run_sync(question)
        await engine.dispose()
        return answer

    return asyncio.run(run())


def differences(connection: Connection) -> list[Any]:
    # SQLite adds no column without a default for the rows there are, and drops no default again.
    with_defaults = connection.dialect.name != "sqlite"
    options = {"compare_type": True, "compare_server_default": with_defaults}
    context = MigrationContext.configure(connection, opts=options)
    return list(compare_metadata(context, SCHEMA))


def test_migrations_make_the_models(migrated_url: str) -> None:
    assert inspect(migrated_url, differences) == []
    inspect(migrated_url, lambda connection: connection.execute(text("alter table lease add column planted text")))
    assert len(inspect(migrated_url, differences)) == 1


def indexes(connection: Connection) -> list[str]:
    """What the comparison above does not see: the condition of an index and the order within it."""
    if connection.dialect.name == "sqlite":
        found = connection.execute(text("select sql from sqlite_master where type = 'index' and sql is not null"))
    else:
        found = connection.execute(
            text("select indexdef from pg_indexes where tablename = any('{upload,noncurrent_version}')")
        )
    return [row[0].replace('"', "") for row in found]


def test_indexes_are_partial_and_descending_where_they_must_be(migrated_url: str) -> None:
    found = inspect(migrated_url, indexes)
    assert [index for index in found if "upload_open" in index and "state = 0" in index]
    assert [index for index in found if "noncurrent_version_newest" in index and "sequence DESC" in index]


def test_text_compares_bytewise_on_postgresql(postgres_server: PostgresServer, migrated_postgres_url: str) -> None:
    query = (
        "select count(*) from information_schema.columns where table_schema = 'public' and data_type = 'text' "
        "and collation_name is distinct from 'C' and table_name <> 'alembic_version'"
    )
    url = postgres_server.create_database(like=migrated_postgres_url)
    assert inspect(url, lambda connection: connection.execute(text(query)).scalar()) == 0
    assert inspect(url, lambda connection: connection.execute(text(query.replace("'C'", "'X'"))).scalar()) > 20
    postgres_server.drop_database(url)


def test_an_unknown_revision_is_refused(migrated_url: str, metadata: Metadata) -> None:
    newer = text("update alembic_version set version_num = '9999'")
    inspect(migrated_url, lambda connection: connection.execute(newer))
    with pytest.raises(MetadataRefused, match="9999"):
        metadata.migrate()
    assert (
        inspect(migrated_url, lambda connection: connection.execute(text("select count(*) from bucket")).scalar()) == 0
    )


def test_a_migration_that_fails_leaves_nothing(sqlite_url: str) -> None:
    path = str(make_url(sqlite_url).database)
    with sqlite3.connect(path) as driver:
        driver.execute("create table lease (in_the_way int)")  # one of the last tables to be created
    with pytest.raises(Exception, match="lease"):
        open_metadata(sqlite_url).migrate()
    with sqlite3.connect(path) as driver:
        assert driver.execute("select name from sqlite_master where type = 'table'").fetchall() == [("lease",)]
        driver.execute("drop table lease")
    open_metadata(sqlite_url).migrate()
