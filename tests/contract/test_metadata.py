"""The conformance suite of `metadata.contract`, write side: every test runs on SQLite and on PostgreSQL."""

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from metadata import tables
from metadata.contract import Metadata, Transaction, Writer
from metadata.tables import BLOB, BUCKET, CHAIN, CURSOR, EXTENT, NONCURRENT, OBJECT, PART, TABLES, UPLOAD
from metadata.types import ChainHead, Cursor
from tests.metadata_rows import ask, commit, listed, sample, version

STORED = [table for table in TABLES if table is not CHAIN]


def test_rows_of_every_table_are_stored_replaced_deleted_and_scanned(metadata: Metadata, writer: Writer) -> None:
    for table in STORED:
        check_storage_of(table, metadata, writer)


def check_storage_of(table: tables.Table[Any], metadata: Metadata, writer: Writer) -> None:
    rows = [sample(table, number) for number in range(1, 8)]
    commit(writer, *[(table, row) for row in reversed(rows)])
    replaced = [*rows[2][: table.key_columns], *rows[0][table.key_columns :]]
    with writer.transaction() as transaction:
        transaction.begin_step()
        assert transaction.get(table, table.key_of(rows[2])) == rows[2]
        transaction.put(table, table.row(*replaced))
        transaction.delete(table, table.key_of(rows[4]))
        transaction.delete(table, sample(table, 99)[: table.key_columns])
        transaction.commit(transaction.head)
    left = [*rows[:2], table.row(*replaced), rows[3], *rows[5:]]
    assert ask(metadata, lambda reader: reader.scan(table, None, 3)) == left[:3]
    assert ask(metadata, lambda reader: reader.scan(table, table.key_of(left[2]), 9)) == left[3:]
    assert ask(metadata, lambda reader: reader.get_row(table, table.key_of(left[2]))) == left[2]
    assert ask(metadata, lambda reader: reader.get_row(table, table.key_of(rows[4]))) is None
    assert all(type(row) is table.row for row in ask(metadata, lambda reader: reader.scan(table, None, 9)))
    with writer.transaction() as transaction:
        assert transaction.scan(table, None, 2) == left[:2]
        assert transaction.scan(table, table.key_of(left[1]), 9) == left[2:]


def test_a_transaction_sees_its_own_writes(writer: Writer) -> None:
    commit(writer, (OBJECT, version(b"old", 1)), (NONCURRENT, version(b"a", 2)))
    with writer.transaction() as transaction:
        transaction.begin_step()
        transaction.put(OBJECT, version(b"new", 3))
        transaction.put(NONCURRENT, version(b"a", 4))
        transaction.delete(OBJECT, (1, b"old"))
        assert transaction.get(OBJECT, (1, b"new")) == version(b"new", 3)
        assert transaction.get(OBJECT, (1, b"old")) is None
        transaction.begin_step()
        assert transaction.select_newest_noncurrent(1, b"a") == version(b"a", 4)
        assert transaction.scan(OBJECT, None, 9) == [version(b"new", 3)]
        assert transaction.get(OBJECT, (1, b"old")) is None


def test_undo_takes_back_one_step_only(metadata: Metadata, writer: Writer) -> None:
    commit(writer, (OBJECT, version(b"stored", 1)), (OBJECT, version(b"kept", 2)))
    with writer.transaction() as transaction:
        transaction.begin_step()
        transaction.put(OBJECT, version(b"first", 3))
        transaction.delete(OBJECT, (1, b"kept"))
        transaction.begin_step()
        transaction.scan(OBJECT, None, 9)  # the first step is in the database now, and still stands
        transaction.put(OBJECT, version(b"first", 4))
        transaction.put(OBJECT, version(b"first", 5))
        transaction.put(OBJECT, version(b"kept", 6))
        transaction.put(OBJECT, version(b"second", 7))
        transaction.delete(OBJECT, (1, b"stored"))
        transaction.undo_step()
        transaction.undo_step()
        assert transaction.get(OBJECT, (1, b"first")) == version(b"first", 3)
        assert transaction.get(OBJECT, (1, b"second")) is None
        assert {key[1] for _, key, _ in transaction.changes()} == {b"first", b"kept"}
        transaction.commit(transaction.head)
    stored = ask(metadata, lambda reader: reader.page_objects(1, b"", None, 9))
    assert stored == [listed(version(b"first", 3)), listed(version(b"stored", 1))]


SELECTS: list[Callable[[Transaction], Any]] = [
    lambda transaction: transaction.select_newest_noncurrent(1, b"k"),
    lambda transaction: transaction.select_noncurrent(1, b"k", "null"),
    lambda transaction: transaction.select_parts("u"),
    lambda transaction: transaction.select_open_uploads(1, 10),
    lambda transaction: transaction.has_versions(1),
    lambda transaction: transaction.select_open_packs(),
    lambda transaction: transaction.select_references(b"b", 1),
    lambda transaction: transaction.scan(BUCKET, None, 1),
]


def test_a_step_selects_before_it_puts(writer: Writer) -> None:
    with writer.transaction() as transaction:
        for select in SELECTS:
            transaction.begin_step()
            select(transaction)
            transaction.delete(OBJECT, (1, b"k"))
            with pytest.raises(AssertionError):
                select(transaction)


def test_changes_are_the_final_images_of_logged_rows(writer: Writer) -> None:
    commit(writer, (OBJECT, version(b"gone", 1)))
    with writer.transaction() as transaction:
        transaction.begin_step()
        transaction.get(OBJECT, (1, b"only read"))
        transaction.put(OBJECT, version(b"a", 2))
        transaction.put(EXTENT, sample(EXTENT, 1))
        transaction.put(CURSOR, sample(CURSOR, 1))
        transaction.delete(OBJECT, (1, b"gone"))
        transaction.begin_step()
        transaction.scan(OBJECT, None, 1)
        transaction.put(OBJECT, version(b"a", 3))
        transaction.put(BUCKET, sample(BUCKET, 1))
        changes = {(table.name, key): row for table, key, row in transaction.changes()}
    assert changes == {
        ("bucket", ("t0001",)): sample(BUCKET, 1),
        ("object", (1, b"a")): version(b"a", 3),
        ("object", (1, b"gone")): None,
    }


def test_prefetch_loads_and_never_hides_what_was_put(writer: Writer) -> None:
    commit(writer, *[(OBJECT, version(b"k%d" % n, n)) for n in range(4)])
    with writer.transaction() as transaction:
        transaction.begin_step()
        transaction.put(OBJECT, version(b"k1", 9))
        transaction.delete(OBJECT, (1, b"k2"))
        wanted = [(1, b"k%d" % n) for n in range(5)]
        transaction.prefetch([(OBJECT, key) for key in wanted] + [(BUCKET, ("no\0such",)), (BUCKET, ("none",))])
        found = [transaction.get(OBJECT, key) for key in wanted]
        assert found == [version(b"k0", 0), version(b"k1", 9), None, version(b"k3", 3), None]
        assert transaction.get(BUCKET, ("no\0such",)) is None
        assert transaction.get(BUCKET, ("none",)) is None


def test_named_selects_of_a_transaction(writer: Writer) -> None:
    parts = [sample(PART, number, upload_id="u") for number in range(3)]
    uploads = [sample(UPLOAD, number, bucket_id=1, state=number % 2) for number in range(4)]
    blobs = [sample(BLOB, number, state=number % 3) for number in range(6)]
    references = [sample(EXTENT, number, blob_id=b"b") for number in range(4)]
    versions = [version(b"k", n, version_id="null" if n == 1 else f"v{n}") for n in range(3)]
    commit(writer, *[(PART, row) for row in reversed(parts)], (PART, sample(PART, 9)))
    commit(writer, *[(UPLOAD, row) for row in uploads], (UPLOAD, sample(UPLOAD, 8, state=0)))
    commit(writer, *[(BLOB, row) for row in blobs], *[(EXTENT, row) for row in references], (EXTENT, sample(EXTENT, 9)))
    commit(writer, *[(NONCURRENT, row) for row in versions], (OBJECT, sample(OBJECT, 1, bucket_id=2)))
    with writer.transaction() as transaction:
        assert transaction.select_parts("u") == parts
        assert transaction.select_parts("u\0") == []
        assert transaction.select_open_uploads(1, 100) == uploads[0::2]
        assert transaction.select_open_uploads(1, 1) == uploads[:1]
        assert transaction.select_open_packs() == blobs[0::3]
        assert transaction.select_references(b"b", 3) == references[:3]
        assert transaction.select_newest_noncurrent(1, b"k") == versions[2]
        assert transaction.select_newest_noncurrent(1, b"kk") is None
        assert transaction.select_noncurrent(1, b"k", "null") == versions[1]
        assert transaction.select_noncurrent(1, b"k", "v1") is None
        assert [transaction.has_versions(bucket_id) for bucket_id in (1, 2, 3)] == [True, True, False]
        transaction.begin_step()
        transaction.delete(NONCURRENT, versions[2][:3])
        transaction.begin_step()
        assert transaction.select_newest_noncurrent(1, b"k") == versions[1]


def break_off(writer: Writer) -> None:
    with writer.transaction() as transaction:
        transaction.begin_step()
        transaction.put(BUCKET, sample(BUCKET, 1))
        transaction.begin_step()
        transaction.scan(BUCKET, None, 1)  # the row reaches the database
        raise KeyError


def test_what_is_not_committed_leaves_nothing(metadata: Metadata, writer: Writer) -> None:
    with pytest.raises(KeyError):
        break_off(writer)
    with writer.transaction() as transaction:
        transaction.begin_step()
        transaction.put(BUCKET, sample(BUCKET, 2))
        transaction.rollback()
    with writer.transaction() as transaction:
        transaction.put(BUCKET, sample(BUCKET, 3))
    assert ask(metadata, lambda reader: reader.list_buckets("", 9)) == []


def test_nobody_sees_a_row_before_the_commit(metadata: Metadata, writer: Writer) -> None:
    with writer.transaction() as transaction:
        transaction.begin_step()
        transaction.put(BUCKET, sample(BUCKET, 1))
        transaction.begin_step()
        transaction.scan(BUCKET, None, 1)
        assert ask(metadata, lambda reader: reader.list_buckets("", 9)) == []
        transaction.commit(transaction.head)
        assert ask(metadata, lambda reader: reader.list_buckets("", 9)) == [sample(BUCKET, 1)]


def test_the_chain_head_starts_empty_and_follows_commits(metadata: Metadata, writer: Writer) -> None:
    with writer.transaction() as transaction:
        assert transaction.head == ChainHead(0, 0, b"")
        transaction.commit(ChainHead(0, 7, b"seven"))
        assert transaction.head == ChainHead(0, 7, b"seven")
    with writer.transaction():
        pass
    other = metadata.open_writer()
    with other.transaction() as transaction:
        assert transaction.head == ChainHead(0, 7, b"seven")
    other.close()
    assert ask(metadata, lambda reader: reader.get_row(CHAIN, (0,))) == ChainHead(0, 7, b"seven")


def test_a_sequence_number_is_never_handed_out_twice(metadata: Metadata, writer: Writer) -> None:
    last = 0

    def take(taker: Writer, count: int, at_least: int) -> None:
        nonlocal last
        first = taker.next_sequence(count, at_least)
        assert first > max(last, at_least)
        last = first + count - 1

    with writer.transaction():
        take(writer, 1, 0)
        take(writer, 100, 0)  # rolled back
    other = metadata.open_writer()
    with other.transaction() as transaction:
        take(other, 3, 0)
        take(other, 1, 5_000_000)
        transaction.commit(ChainHead(0, last + 1000, b"ahead"))
        last += 1000
    other.close()
    with writer.transaction():
        take(writer, 1, 0)
    with pytest.raises(AssertionError):
        writer.next_sequence(1, 0)


CHILD = """
import os, signal, sys
from metadata.session import open_metadata
from metadata.tables import BUCKET, CURSOR
from metadata.types import Cursor

def run(url, mode, count):
    writer = open_metadata(url).open_writer()
    for _ in range(count):
        with writer.transaction() as transaction:
            transaction.begin_step()
            value = int((transaction.get(CURSOR, ("n",)) or Cursor("n", b"0")).position)
            first = writer.next_sequence(3, 0)
            transaction.put(CURSOR, Cursor("n", b"%d" % (value + 1)))
            if mode == "die":
                transaction.begin_step()
                transaction.scan(CURSOR, None, 1)
                print(first, flush=True)
                os.kill(os.getpid(), signal.SIGKILL)
            transaction.commit(transaction.head._replace(sequence=first + 2))
            print(first, flush=True)

run(sys.argv[1], sys.argv[2], int(sys.argv[3]))
"""


def child(url: str, mode: str, count: int) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", CHILD, url, mode, str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2])


def test_writers_of_two_processes_take_turns(migrated_url: str, metadata: Metadata) -> None:
    running = [child(migrated_url, "count", 40) for _ in range(2)]
    taken = [int(line) for process in running for line in process.communicate(timeout=60)[0].split()]
    assert [process.returncode for process in running] == [0, 0]
    assert len(set(taken)) == 80
    assert min(later - sooner for sooner, later in zip(sorted(taken), sorted(taken)[1:], strict=False)) >= 3
    found = ask(metadata, lambda reader: reader.get_row(CURSOR, ("n",)))
    assert found == Cursor("n", b"80")
    head = ask(metadata, lambda reader: reader.get_row(CHAIN, (0,)))
    assert head is not None
    assert head.sequence == max(taken) + 2


def test_a_killed_writer_leaves_nothing_but_its_numbers(migrated_url: str, metadata: Metadata, writer: Writer) -> None:
    process = child(migrated_url, "die", 1)
    taken = int(process.communicate(timeout=60)[0])
    assert process.returncode == -signal.SIGKILL
    with writer.transaction() as transaction:
        assert transaction.get(CURSOR, ("n",)) is None
        assert writer.next_sequence(1, 0) > taken + 2
    assert ask(metadata, lambda reader: reader.scan(CURSOR, None, 9)) == []


def test_migration_is_idempotent_and_the_durability_holds(metadata: Metadata, writer: Writer) -> None:
    commit(writer, (BUCKET, sample(BUCKET, 1)))
    metadata.migrate()
    metadata.check()
    metadata.checkpoint()
    assert ask(metadata, lambda reader: reader.find_bucket("t0001")) == sample(BUCKET, 1)
    assert metadata.dialect in {"sqlite", "postgresql"}
