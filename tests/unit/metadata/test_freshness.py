"""What a reader remembers: never anything that a commit has changed, whoever committed and however it ended."""

import asyncio
import random
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from metadata.contract import Located, Reader, Writer
from metadata.errors import MetadataUnavailable
from metadata.freshness import Freshness, bucket_cell, key_cell
from metadata.session import open_metadata
from metadata.tables import BUCKET, OBJECT
from metadata.types import Bucket, ChainHead
from tests.metadata_rows import version

SEED = 20261201


def bucket(name: str, bucket_id: int, revision: int, objects: int = 0) -> Bucket:
    return Bucket(name, bucket_id, "owner", 1, 0, "us-east-1", objects, objects, 0, revision)


class Store:
    """A database with a reader that counts its statements and a writer of another connection."""

    def __init__(self, url: str) -> None:
        self.metadata = open_metadata(url)
        self.metadata.migrate()
        self.writer = self.metadata.open_writer()
        self.sequence = 0

    def commit(self, change: Callable[[Any], None], writer: Writer | None = None) -> int:
        self.sequence += 1
        with (writer or self.writer).transaction() as transaction:
            transaction.begin_step()
            change(transaction)
            transaction.commit(ChainHead(0, self.sequence, b"%d" % self.sequence))
        return self.sequence


def counted(reader: Any) -> list[str]:
    """The statements that a reader runs from now on."""
    statements: list[str] = []
    reader._pooled.driver_connection.set_trace_callback(statements.append)
    return statements


@pytest.fixture
def store(sqlite_url: str) -> Store:
    made = Store(sqlite_url)
    made.commit(lambda t: t.put(BUCKET, bucket("b", 1, 1)))
    made.commit(lambda t: t.put(OBJECT, version(b"k", 2)))
    return made


async def located(reader: Reader, key: bytes = b"k", name: str = "b") -> Located:
    found = await reader.locate(name, key)
    assert found is not None
    return found


def test_what_still_stands_needs_no_statement(store: Store) -> None:
    async def main() -> None:
        reader = await store.metadata.open_reader()
        for _ in range(2):
            await located(reader)
            await located(reader, b"absent")
        statements = counted(reader)
        assert (await located(reader)).version == version(b"k", 2)
        assert (await located(reader, b"absent")).version is None
        store.commit(lambda t: t.put(OBJECT, version(b"other", 3)))
        store.commit(lambda t: t.put(BUCKET, bucket("b", 1, 1, objects=7)))  # counters alone
        await located(reader)
        assert statements == []
        await reader.close()

    asyncio.run(main())


@pytest.mark.parametrize(
    "change",
    [
        lambda t: t.put(OBJECT, version(b"k", 3)),
        lambda t: t.delete(OBJECT, (1, b"k")),
        lambda t: t.put(BUCKET, bucket("b", 1, 3)),
        lambda t: t.delete(BUCKET, ("b",)),
    ],
    ids=["overwritten", "deleted", "configured", "bucket deleted"],
)
def test_a_change_is_seen_at_once(store: Store, change: Callable[[Any], None]) -> None:
    async def main() -> None:
        reader = await store.metadata.open_reader()
        fresh = await store.metadata.open_reader()
        for _ in range(3):
            await located(reader)
        store.commit(change)
        assert await reader.locate("b", b"k") == await fresh.locate("b", b"k")
        await reader.close()
        await fresh.close()

    asyncio.run(main())


def test_a_bucket_made_anew_under_an_old_name_shares_nothing(store: Store) -> None:
    async def main() -> None:
        reader = await store.metadata.open_reader()
        for _ in range(3):
            await located(reader)
        store.commit(lambda t: t.delete(BUCKET, ("b",)))
        store.commit(lambda t: t.put(BUCKET, bucket("b", 9, 4)))
        for _ in range(3):
            found = await located(reader)
            assert (found.bucket.bucket_id, found.version) == (9, None)
        await reader.close()

    asyncio.run(main())


def test_a_writer_that_died_in_its_commit_stops_the_remembering_until_the_next_change(
    store: Store, sqlite_url: str
) -> None:
    cells = Freshness(Path(sqlite_url.removeprefix("sqlite:///") + ".lock"))

    async def main() -> None:
        reader = await store.metadata.open_reader()
        for _ in range(3):
            await located(reader)
        cells.begin([key_cell(1, b"k")])  # and nothing more of this writer
        statements = counted(reader)
        for _ in range(3):
            await located(reader)
        assert len(statements) == 3
        store.commit(lambda t: t.put(OBJECT, version(b"k", 5)))
        for _ in range(3):
            assert (await located(reader)).version == version(b"k", 5)
        assert len(statements) == 4
        await reader.close()

    asyncio.run(main())
    cells.close()


def test_a_commit_that_fails_makes_the_cells_even_again(store: Store, sqlite_url: str) -> None:
    cells = Freshness(Path(sqlite_url.removeprefix("sqlite:///") + ".lock"))

    class Broken:
        def __init__(self, inner: Any) -> None:
            self.inner = inner

        def __getattr__(self, name: str) -> Any:
            return getattr(self.inner, name)

        def execute(self, text: str, *rest: Any) -> Any:
            if text == "commit":
                raise sqlite3.OperationalError("disk I/O error")
            return self.inner.execute(text, *rest)

    writer: Any = store.metadata.open_writer()
    writer._driver = Broken(writer._driver)
    before = cells.cells[key_cell(1, b"k")]
    with pytest.raises(MetadataUnavailable):
        store.commit(lambda t: t.put(OBJECT, version(b"k", 8)), writer)
    assert cells.cells[key_cell(1, b"k")] == before + 2
    assert cells.cells[bucket_cell("b")] % 2 == 0
    writer.close()
    cells.close()


def test_two_writers_and_a_reader_never_disagree(store: Store) -> None:
    """Random changes through two connections; what is remembered always equals what a new reader finds."""
    rng = random.Random(SEED)

    async def main() -> None:
        reader = await store.metadata.open_reader()
        fresh: Any = await store.metadata.open_reader()
        other = store.metadata.open_writer()
        for turn in range(600):
            key = b"%d" % rng.randrange(12)
            writer = rng.choice([store.writer, other])
            act = rng.random()
            if act < 0.3:
                store.commit(lambda t, key=key: t.put(OBJECT, version(key, store.sequence)), writer)
            elif act < 0.4:
                store.commit(lambda t, key=key: t.delete(OBJECT, (1, key)), writer)
            elif act < 0.45:
                store.commit(lambda t: t.put(BUCKET, bucket("b", 1, store.sequence)), writer)
            fresh._found.clear()
            assert await reader.locate("b", key) == await fresh.locate("b", key), f"seed {SEED}, turn {turn}"
        other.close()
        await reader.close()
        await fresh.close()

    asyncio.run(main())


def test_a_bucket_is_recalled_without_a_statement_and_never_with_an_older_configuration(store: Store) -> None:
    async def main() -> None:
        reader = await store.metadata.open_reader()
        assert await reader.recall_bucket("b") == bucket("b", 1, 1)
        statements = counted(reader)
        store.commit(lambda t: t.put(BUCKET, bucket("b", 1, 1, objects=7)))
        assert await reader.recall_bucket("b") == bucket("b", 1, 1), "its counters may be older"
        assert statements == []
        revised = store.sequence + 1
        store.commit(lambda t: t.put(BUCKET, bucket("b", 1, revised, objects=7)))
        assert await reader.recall_bucket("b") == bucket("b", 1, revised, objects=7)
        store.commit(lambda t: t.delete(BUCKET, ("b",)))
        assert await reader.recall_bucket("b") is None
        await reader.close()

    asyncio.run(main())
