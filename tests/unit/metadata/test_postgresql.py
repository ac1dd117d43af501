"""What only PostgreSQL promises: settings that are read back, broken connections, numbers that outlive a crash."""

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

import asyncpg
import pytest
from sqlalchemy.engine import make_url

from metadata.contract import Located, Metadata, Reader, Transaction, Writer
from metadata.errors import MetadataRefused, MetadataUnavailable
from metadata.postgresql import LOCATE_BATCH_MAX, PostgresqlReader
from metadata.postgresql_writer import PostgresqlTransaction
from metadata.session import open_metadata
from metadata.tables import BUCKET, LEASE, OBJECT
from tests.databases import PostgresServer
from tests.metadata_rows import ask, commit, sample, version


@pytest.fixture
def url(postgres_server: PostgresServer, migrated_postgres_url: str) -> Iterator[str]:
    made = postgres_server.create_database(like=migrated_postgres_url)
    yield made
    postgres_server.drop_database(made)


@pytest.fixture
def metadata(url: str) -> Metadata:
    return open_metadata(url)


def break_connections(server: PostgresServer, url: str) -> None:
    name = make_url(url).database
    server.execute(f"select pg_terminate_backend(pid) from pg_stat_activity where datname = '{name}'")


def test_weaker_commits_are_refused(postgres_server: PostgresServer, url: str, metadata: Metadata) -> None:
    metadata.check()
    postgres_server.execute(f'alter database "{make_url(url).database}" set synchronous_commit = off')
    with pytest.raises(MetadataRefused, match="synchronous_commit is off"):
        metadata.check()
    with pytest.raises(MetadataRefused):
        metadata.open_writer()


def test_a_server_that_does_not_flush_is_refused(postgres_server: PostgresServer, metadata: Metadata) -> None:
    if not postgres_server.is_ours:
        pytest.skip("the server belongs to somebody else")
    postgres_server.execute("alter system set fsync = off")
    postgres_server.restart()
    try:
        with pytest.raises(MetadataRefused, match="fsync is off"):
            metadata.check()
    finally:
        postgres_server.execute("alter system reset fsync")
        postgres_server.restart()
    metadata.check()


def test_a_connection_broken_inside_a_transaction(
    postgres_server: PostgresServer, url: str, metadata: Metadata, writer: Writer
) -> None:
    with pytest.raises(MetadataUnavailable):
        lose_connection(postgres_server, url, writer)
    commit(writer, (BUCKET, sample(BUCKET, 2)))
    assert ask(metadata, lambda reader: reader.list_buckets("", 9)) == [sample(BUCKET, 2)]


def lose_connection(server: PostgresServer, url: str, writer: Writer) -> None:
    with writer.transaction() as transaction:
        transaction.begin_step()
        transaction.put(BUCKET, sample(BUCKET, 1))
        break_connections(server, url)
        transaction.commit(transaction.head)


def test_what_was_prefetched_costs_no_further_statement(
    postgres_server: PostgresServer, url: str, writer: Writer
) -> None:
    commit(writer, (OBJECT, version(b"stored", 1)), (BUCKET, sample(BUCKET, 1)))
    with writer.transaction() as transaction:
        keys = [(OBJECT, (1, b"stored")), (OBJECT, (1, b"missing"))]
        transaction.prefetch([*keys, (BUCKET, ("t0001",))])
        break_connections(postgres_server, url)
        assert [transaction.get(table, key) for table, key in keys] == [version(b"stored", 1), None]
        assert transaction.get(BUCKET, ("t0001",)) == sample(BUCKET, 1)
        with pytest.raises(MetadataUnavailable):
            transaction.get(OBJECT, (1, b"never asked"))


def test_a_connection_lost_while_idle_is_not_noticed(
    postgres_server: PostgresServer, url: str, metadata: Metadata, writer: Writer
) -> None:
    commit(writer, (BUCKET, sample(BUCKET, 1)))
    break_connections(postgres_server, url)
    commit(writer, (BUCKET, sample(BUCKET, 2)))
    assert len(ask(metadata, lambda reader: reader.list_buckets("", 9))) == 2


def test_the_commit_of_a_failed_transaction_is_an_error(
    postgres_server: PostgresServer, url: str, metadata: Metadata, writer: Writer
) -> None:
    """The server answers ROLLBACK to it, and no error."""
    trigger = "create function fail() returns trigger language plpgsql as $$ begin raise 'planted'; end $$"
    database = make_url(url).database
    postgres_server.execute(trigger, database)
    postgres_server.execute("create trigger planted before insert on lease execute function fail()", database)
    with writer.transaction() as transaction:
        transaction.begin_step()
        transaction.put(BUCKET, sample(BUCKET, 1))
        transaction.begin_step()
        transaction.scan(BUCKET, None, 1)
        with pytest.raises(MetadataUnavailable, match="planted"):
            select_after_failing_put(transaction)
        # Not by `commit`: that writes the chain row first, which a failed transaction refuses already.
        assert isinstance(transaction, PostgresqlTransaction)
        with pytest.raises(MetadataUnavailable, match="rolled back"):
            transaction._end(is_commit=True)
    commit(writer, (BUCKET, sample(BUCKET, 2)))
    assert ask(metadata, lambda reader: reader.list_buckets("", 9)) == [sample(BUCKET, 2)]


def select_after_failing_put(transaction: Transaction) -> None:
    transaction.begin_step()
    transaction.put(LEASE, sample(LEASE, 1))
    transaction.begin_step()
    transaction.scan(LEASE, None, 1)


def test_a_crashed_server_repeats_no_number(
    postgres_server: PostgresServer, metadata: Metadata, writer: Writer
) -> None:
    if not postgres_server.is_ours:
        pytest.skip("the server belongs to somebody else")
    commit(writer, (BUCKET, sample(BUCKET, 1)))
    last = 0
    for _ in range(2):
        with writer.transaction() as transaction:
            first = writer.next_sequence(10, 0)
            assert first > last
            last = first + 9
            postgres_server.crash()
            with pytest.raises(MetadataUnavailable):
                transaction.commit(transaction.head)
    with writer.transaction():
        assert writer.next_sequence(1, 0) > last
    assert ask(metadata, lambda reader: reader.list_buckets("", 9)) == [sample(BUCKET, 1)]


def test_a_nul_in_text_fails_its_own_step_only(metadata: Metadata, writer: Writer) -> None:
    with writer.transaction() as transaction:
        transaction.begin_step()
        transaction.put(BUCKET, sample(BUCKET, 1))
        transaction.begin_step()
        assert transaction.get(BUCKET, ("a\0b",)) is None
        with pytest.raises(AssertionError):
            transaction.put(BUCKET, sample(BUCKET, 2, name="a\0b"))
        transaction.undo_step()
        transaction.commit(transaction.head)
    assert ask(metadata, lambda reader: reader.list_buckets("", 9)) == [sample(BUCKET, 1)]


class CountingReader(PostgresqlReader):
    """Counts the look-ups of each statement."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        super().__init__(pool)
        self.batches: list[int] = []

    async def _rows(self, text: str, parameters: tuple[Any, ...]) -> Sequence[Sequence[Any]]:
        self.batches.append(len(parameters[0]))
        return await super()._rows(text, parameters)


def test_lookups_of_one_turn_share_a_statement(url: str, writer: Writer) -> None:
    commit(writer, (BUCKET, sample(BUCKET, 1, name="b", bucket_id=1)), (OBJECT, version(b"k", 1)))

    async def check() -> None:
        pool = await asyncpg.create_pool(url, min_size=1)
        reader = CountingReader(pool)
        answers = await asyncio.gather(*[reader.locate("b", b"k") for _ in range(LOCATE_BATCH_MAX + 1)])
        assert all(answer is not None and answer.version == version(b"k", 1) for answer in answers)
        assert reader.batches == [LOCATE_BATCH_MAX, 1]
        await reader.close()

    asyncio.run(check())


BLOCKED = "from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
CANCEL_BLOCKED = f"select pg_cancel_backend(pid) {BLOCKED}"


async def wait_until_blocked(connection: asyncpg.Connection) -> None:
    for _ in range(2000):
        if await connection.fetchval(f"select count(*) {BLOCKED}") > 0:
            return
        await asyncio.sleep(0.005)
    raise AssertionError("nobody waits for the lock")


def test_lookups_fail_together_and_a_later_one_succeeds(url: str, metadata: Metadata, writer: Writer) -> None:
    commit(writer, (BUCKET, sample(BUCKET, 1, name="b")))

    async def check(reader: Reader) -> None:
        assert isinstance(reader, PostgresqlReader)
        lock = await asyncpg.connect(url)
        await lock.execute("begin; lock table bucket in access exclusive mode")
        asked = [asyncio.ensure_future(reader.locate("b", b"k")) for _ in range(3)]
        await wait_until_blocked(lock)
        await lock.execute(CANCEL_BLOCKED)
        answers = await asyncio.gather(*asked, return_exceptions=True)
        assert all(isinstance(answer, MetadataUnavailable) for answer in answers)
        await lock.execute("rollback")
        await lock.close()
        assert await reader.locate("b", b"k") == Located(sample(BUCKET, 1, name="b"), None)

    ask(metadata, check)
