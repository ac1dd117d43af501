"""The conformance suite of `metadata.contract`, what is due: every test runs on SQLite and on PostgreSQL."""

import random

from metadata.contract import Metadata, Reader, Writer
from metadata.tables import BUCKET, DUE, NONCURRENT
from metadata.types import Due, DueKind
from tests.metadata_rows import ask, commit, sample, version


def entries(seed: int, count: int) -> list[Due]:
    rng = random.Random(seed)
    keys = [b"a", b"a\x00", b"b", b"\xff"]
    made = {
        DUE.key_of(row): row
        for row in (
            Due(rng.randrange(3), rng.choice(keys), rng.randrange(9), rng.choice(("", "u")), kind, rng.randrange(20))
            for kind in DueKind
            for _ in range(count)
        )
    }
    return list(made.values())


def in_order(rows: list[Due], kind: int, until_ms: int) -> list[Due]:
    due = [row for row in rows if row.kind == kind and row.due_ms <= until_ms]
    return sorted(due, key=lambda row: (row.due_ms, *row))


def test_what_is_due_comes_by_time_and_page_by_page(metadata: Metadata, writer: Writer) -> None:
    rows = entries(1, 60)
    commit(writer, *[(DUE, row) for row in rows])

    async def walk(reader: Reader, kind: DueKind, limit: int) -> list[Due]:
        found: list[Due] = []
        while page := await reader.list_due(kind, 12, found[-1] if found else None, limit):
            assert len(page) <= limit
            found += page
        return found

    for kind in DueKind:
        expected = in_order(rows, kind, 12)
        assert 0 < len(expected) < 60
        for limit in (1, 7, 500):
            assert ask(metadata, lambda reader, k=kind, n=limit: walk(reader, k, n)) == expected
        assert ask(metadata, lambda reader, k=kind: reader.count_due(k, 12, 500)) == len(expected)
        assert ask(metadata, lambda reader, k=kind: reader.count_due(k, 12, 3)) == 3
    assert ask(metadata, lambda reader: reader.list_due(DueKind.END, -1, None, 9)) == []
    assert ask(metadata, lambda reader: reader.count_due(DueKind.END, -1, 9)) == 0


def test_an_entry_has_one_time(metadata: Metadata, writer: Writer) -> None:
    entry = Due(1, b"k", 2, "", DueKind.END, 50)
    commit(writer, (DUE, entry))
    commit(writer, (DUE, entry._replace(due_ms=70)))
    assert ask(metadata, lambda reader: reader.list_due(DueKind.END, 60, None, 9)) == []
    assert ask(metadata, lambda reader: reader.list_due(DueKind.END, 70, None, 9)) == [entry._replace(due_ms=70)]


def test_a_noncurrent_version_is_found_by_how_many_are_newer(metadata: Metadata, writer: Writer) -> None:
    rows = [version(b"k", sequence) for sequence in (3, 9, 4)]
    commit(writer, *[(NONCURRENT, row) for row in (*rows, version(b"kk", 99), version(b"", 98))])
    with writer.transaction() as transaction:
        transaction.begin_step()
        found = [transaction.select_noncurrent_at(1, b"k", newer) for newer in range(4)]
        assert [row and row.sequence for row in found] == [9, 4, 3, None]
        transaction.put(NONCURRENT, version(b"k", 12))
        transaction.begin_step()
        newest = transaction.select_noncurrent_at(1, b"k", 0)
        assert newest is not None
        assert newest.sequence == 12


def test_a_bucket_is_found_by_its_id(metadata: Metadata, writer: Writer) -> None:
    commit(writer, (BUCKET, sample(BUCKET, 1, bucket_id=5)), (BUCKET, sample(BUCKET, 2, bucket_id=6)))
    assert ask(metadata, lambda reader: reader.bucket_of_id(6)) == sample(BUCKET, 2, bucket_id=6)
    assert ask(metadata, lambda reader: reader.bucket_of_id(7)) is None


def test_the_database_has_a_clock(metadata: Metadata) -> None:
    first = ask(metadata, lambda reader: reader.now_ms())
    second = ask(metadata, lambda reader: reader.now_ms())
    assert second >= first > 1_700_000_000_000
