"""What goes wrong while a batch is on the event loop: every waiter is told, nothing is held that others need."""

import asyncio
import fcntl
import os
import sqlite3
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from metadata.contract import Transaction, Writer
from metadata.errors import MetadataUnavailable
from metadata.lock_file import LockFile
from metadata.sqlite_writer import SqliteTransaction
from metadata.tables import BUCKET, OBJECT
from metadata.types import ChainHead
from tests.unit.commit.bench import Bench, CreateBucket, Put, dump
from tests.unit.commit.test_turns import Brief, Long, applied_on
from tiers.commit import committer as committer_module
from tiers.commit.committer import GroupCommitter
from tiers.commit.contract import Slot
from tiers.commit.pack import Append
from tiers.errors import StoreBusy


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


class Stopping(Brief):
    """A bug: lets the end of an iterator out."""

    def apply(self, transaction: Transaction, slot: Slot) -> Any:
        return next(iter(()))


class Wide(Brief):
    """Says that it is brief, and then changes a great many rows: an overwrite of a content of many extents."""

    def apply(self, transaction: Transaction, slot: Slot) -> Any:
        version = super().apply(transaction, slot)
        for number in range(committer_module.BRIEF_CHANGES_MAX):
            transaction.put(OBJECT, version._replace(key=b"%s-%d" % (self.key, number), extents=b""))
        return version


def test_a_mutation_that_lets_an_iterator_end_harms_nobody_else(bench: Bench) -> None:
    async def work(committer: GroupCommitter) -> None:
        await committer.submit(CreateBucket())
        futures = [committer.submit(put) for put in (Brief(b"a", b"x"), Stopping(b"b", b"x"), Brief(b"c", b"x"))]
        _, waiting = await asyncio.wait(futures, timeout=10)
        assert not waiting
        assert isinstance(futures[1].exception(), RuntimeError)
        assert futures[2].result().key == b"c"

    bench.run(bench.database(), work)


def test_what_fails_before_the_lock_is_told_to_every_waiter(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(committer: GroupCommitter) -> None:
        await committer.submit(CreateBucket())

        def broken() -> bool:
            raise MetadataUnavailable("no locks left")

        monkeypatch.setattr(committer._writer, "try_lock", broken)
        assert await applied_on(committer, Brief(b"a", b"x")) == {"commit"}
        assert await applied_on(committer, Brief(b"b", b"x")) == {"commit"}

    bench.run(bench.database(), work)


def test_a_change_of_many_rows_is_left_to_the_thread(bench: Bench) -> None:
    metadata = bench.database()

    async def work(committer: GroupCommitter) -> None:
        await committer.submit(CreateBucket())
        assert await applied_on(committer, Brief(b"a", b"x"), Wide(b"w", b"x")) == {"commit"}
        assert await applied_on(committer, Brief(b"b", b"x")) == {threading.current_thread().name}

    bench.run(metadata, work)
    rows = dump(metadata)
    assert len(rows[OBJECT.name]) == 3 + committer_module.BRIEF_CHANGES_MAX
    assert rows[BUCKET.name][0][6] == 3


def test_a_foreign_writer_does_not_hold_the_loop_up(bench: Bench) -> None:
    """A shell that writes to the database does not take the lock file."""
    metadata = bench.database()

    async def work(committer: GroupCommitter) -> None:
        await committer.submit(CreateBucket())
        shell = sqlite3.connect(bench.folder / "m0.db", isolation_level=None)
        shell.execute("begin immediate")
        future = committer.submit(Brief(b"k", b"x"))
        for _ in range(50):
            await asyncio.sleep(0.001)  # the loop turns
        assert not future.done()
        shell.execute("rollback")
        shell.close()
        assert (await asyncio.wait_for(future, 10)).key == b"k"
        assert await applied_on(committer, Brief(b"b", b"x")) == {threading.current_thread().name}

    began = time.monotonic()
    bench.run(metadata, work)
    assert time.monotonic() - began < 9, "the busy handler waited, on the loop"


def test_a_flush_is_waited_for_though_the_database_refuses_the_rows(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else its buffer would be used again, or its pack closed, while the devices still write."""
    finished: list[Append] = []
    begun: list[Append] = []
    start, finish, write = Append.start, Append.finish, SqliteTransaction.write
    refusals = iter([MetadataUnavailable("disk full")])

    def starting(self: Append, *arguments: Any) -> None:
        begun.append(self)
        start(self, *arguments)

    def finishing(self: Append) -> Any:
        finished.append(self)
        return finish(self)

    def refusing(self: SqliteTransaction, head: ChainHead) -> None:
        if (refusal := next(refusals, None)) is not None:
            raise refusal
        write(self, head)

    async def work(committer: GroupCommitter) -> None:
        await committer.submit(CreateBucket())
        await committer.submit(Put(b"a", b"x"))
        monkeypatch.setattr(Append, "start", starting)
        monkeypatch.setattr(Append, "finish", finishing)
        monkeypatch.setattr(SqliteTransaction, "write", refusing)
        with pytest.raises(MetadataUnavailable):
            await committer.submit(Brief(b"refused", b"x"))
        assert finished == begun
        assert len(begun) == 1
        await committer.submit(Brief(b"b", b"x"))

    metadata = bench.database()
    bench.run(metadata, work)
    assert [row[1] for row in dump(metadata)[OBJECT.name]] == [b"a", b"b"]
    rebuilt = bench.database()
    bench.recover(rebuilt)
    assert dump(rebuilt) == dump(metadata)


def count_and_leave(writer: Writer) -> None:
    """Change a kept row, write it, and leave without a commit."""
    with writer.transaction() as transaction:
        bucket = transaction.get(BUCKET, ("b",))
        assert bucket is not None
        transaction.put(BUCKET, bucket._replace(object_count=99))
        transaction.write(ChainHead(0, 2, b"2" * 16))


def test_rows_of_a_transaction_that_could_not_even_roll_back_are_not_kept(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = bench.database().open_writer()
    head = ChainHead(0, 1, b"1" * 16)
    with writer.transaction() as transaction:
        CreateBucket().apply(transaction, Slot(1, 0, None))
        transaction.commit(head)
    give_up = SqliteTransaction._give_up

    def failing(self: SqliteTransaction) -> None:
        give_up(self)
        raise MetadataUnavailable("cannot roll back")

    monkeypatch.setattr(SqliteTransaction, "_give_up", failing)
    with pytest.raises(MetadataUnavailable, match="roll back"):
        count_and_leave(writer)
    monkeypatch.setattr(SqliteTransaction, "_give_up", give_up)
    with writer.transaction() as transaction:
        bucket = transaction.get(BUCKET, ("b",))
        assert bucket is not None
        assert bucket.object_count == 0
    writer.close()


def test_stop_returns_after_a_start_that_failed(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    metadata = bench.database()

    @contextmanager
    def refused(self: Any) -> Any:
        raise MetadataUnavailable("not now")
        yield

    async def main() -> None:
        monkeypatch.setattr("metadata.sqlite_writer.SqliteWriter.transaction", refused)
        committer = bench.committer(metadata)
        with pytest.raises(MetadataUnavailable):
            await committer.start()
        await asyncio.wait_for(committer.stop(), 10)
        with pytest.raises(StoreBusy):
            await committer.submit(Brief(b"a", b"x"))

    asyncio.run(main())


def test_what_is_submitted_while_it_starts_is_committed(bench: Bench) -> None:
    metadata = bench.database()

    async def main() -> None:
        committer = bench.committer(metadata)
        starting = asyncio.ensure_future(committer.start())
        await asyncio.sleep(0)
        future = committer.submit(CreateBucket())
        await starting
        await asyncio.wait_for(future, 10)
        await committer.stop()

    asyncio.run(main())


def test_stop_in_every_state_answers_everybody(bench: Bench) -> None:
    """Right after submitting, after one turn, with the thread at work, and while another writer has the lock."""
    metadata = bench.database()

    async def main() -> None:
        for turns in range(6):
            committer = bench.committer(metadata, worker=turns)
            await committer.start()
            if not turns:
                await committer.submit(CreateBucket())
            futures = [committer.submit(Put(b"opens-%d" % turns, b"x"))]
            if turns % 2:
                await futures[0]
            futures += [
                committer.submit(kind(b"%d-%s" % (turns, kind.__name__.encode()), b"x")) for kind in (Brief, Long)
            ]
            for _ in range(turns):
                await asyncio.sleep(0)
            await asyncio.wait_for(committer.stop(), 20)
            assert all(future.done() and future.exception() is None for future in futures)

    asyncio.run(main())
    assert len(dump(metadata)[OBJECT.name]) == 18


def test_a_hint_is_taken_back_however_the_lock_was_got(tmp_path: Path) -> None:
    """One that stays would make the others wait for somebody who has long had his turn."""
    mine, others = LockFile(tmp_path / "lock"), LockFile(tmp_path / "lock")
    for _ in range(2):
        with others.held():
            assert not mine.try_take()
        assert not others.try_take(), "mine waits"
        with mine.held():
            pass
        assert others.try_take()
        others.release()
    mine.close()
    others.close()


def test_who_waits_again_is_heard_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [10**12]
    monkeypatch.setattr("metadata.lock_file.time.monotonic_ns", lambda: now[0])
    mine, others = LockFile(tmp_path / "lock"), LockFile(tmp_path / "lock")
    with others.held():
        assert not mine.try_take()
        now[0] += 10**9  # the first hint is long out of date
        assert not mine.try_take()
    assert not others.try_take()
    now[0] += 10**9
    assert others.try_take(), "nobody waits for ever for one that died"
    mine.close()
    others.close()


def test_the_thread_s_batches_are_not_kept_out_by_a_flood_of_brief_ones(bench: Bench) -> None:
    metadata = bench.database()

    async def work(committer: GroupCommitter) -> None:
        await committer.submit(CreateBucket())
        other = bench.committer(metadata, worker=1)
        await other.start()
        await other.submit(Put(b"opens", b"x"))
        is_over = False

        async def flood(number: int) -> None:
            count = 0
            while not is_over:
                count += 1
                await committer.submit(Brief(b"flood-%d-%d" % (number, count), b"x"))

        floods = [asyncio.ensure_future(flood(number)) for number in range(4)]
        began = time.monotonic()
        for number in range(30):
            await asyncio.wait_for(other.submit(Long(b"%d" % number, b"x")), 30)
        is_over = True
        await asyncio.gather(*floods)
        await other.stop()
        print(f"30 long commits beside a flood: {time.monotonic() - began:.3f} s")

    bench.run(metadata, work)
    assert len([row for row in dump(metadata)[OBJECT.name] if row[1].isdigit()]) == 30


def test_a_lock_is_given_back_when_the_transaction_cannot_begin(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    metadata = bench.database()
    writer = metadata.open_writer()

    def broken(self: Any, *_: Any) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    with monkeypatch.context() as patched:
        patched.setattr(SqliteTransaction, "__init__", broken)
        with pytest.raises(MetadataUnavailable):
            writer.try_lock()
    descriptor = os.open(bench.folder / "m0.db.lock", os.O_RDWR)
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(descriptor)
    assert writer.try_lock()
    with writer.transaction() as transaction:
        assert transaction.get(BUCKET, ("b",)) is None
    writer.close()
