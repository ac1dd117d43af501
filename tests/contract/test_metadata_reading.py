"""The conformance suite of `metadata.contract`, read side: every test runs on SQLite and on PostgreSQL."""

import asyncio
import random
from functools import partial
from typing import Any

import pytest

from metadata.contract import Located, Metadata, Reader, Writer
from metadata.seeks import Leap, Listed
from metadata.tables import BLOB, BUCKET, MOVE, NONCURRENT, OBJECT, PART, REPAIR, UPLOAD
from metadata.types import BlobState, Upload, Version
from tests.metadata_rows import ask, commit, listed, sample, version

# In bytewise order; SQL that treats any of them as text gets at least one pair wrong.
KEYS = [
    b"\x00",
    b"\x00\x00",
    b"A",
    b"B",
    b"a",
    b"a\x00b",
    b"a b",
    b"a/",
    b"aa",
    b"\x7f",
    "\u00e9".encode(),
    b"\xff",
    b"\xff\xff",
]


async def page_objects(reader: Reader, start: bytes, stop: bytes | None, limit: int) -> list[Version]:
    return await reader.page_objects(1, start, stop, limit)


def test_keys_sort_bytewise_with_nul_and_high_bytes(metadata: Metadata, writer: Writer) -> None:
    assert sorted(KEYS) == KEYS
    rows = [version(key, number) for number, key in enumerate(KEYS)]
    shuffled = random.Random(3).sample(rows, len(rows))
    commit(writer, *[(OBJECT, row) for row in shuffled], *[(OBJECT, row._replace(bucket_id=2)) for row in shuffled])
    rows = list(map(listed, rows))
    assert ask(metadata, lambda reader: reader.page_objects(1, b"", None, 99)) == rows
    assert ask(metadata, lambda reader: reader.page_objects(1, b"", None, 3)) == rows[:3]
    for at, key in enumerate(KEYS):
        assert ask(metadata, partial(page_objects, start=key, stop=None, limit=2)) == rows[at : at + 2]
        assert ask(metadata, partial(page_objects, start=b"", stop=key, limit=99)) == rows[:at]
    assert ask(metadata, lambda reader: reader.page_objects(1, b"b", b"a", 9)) == []


def test_names_sort_bytewise(metadata: Metadata, writer: Writer) -> None:
    names = sorted(["a", "a-b", "a.b", "ab", "B", "Z", "z", "\u00e9", "\U0001f600"], key=str.encode)
    commit(writer, *[(BUCKET, sample(BUCKET, 1, name=name, bucket_id=at)) for at, name in enumerate(reversed(names))])
    buckets = ask(metadata, lambda reader: reader.list_buckets("", 99))
    assert [bucket.name for bucket in buckets] == names

    async def next_of_each(reader: Reader) -> list[str]:
        return [(await reader.list_buckets(name, 1))[0].name for name in names[:-1]]

    assert ask(metadata, next_of_each) == names[1:]
    assert [row.name for row in ask(metadata, lambda reader: reader.list_buckets("a\0", 1))] == ["a-b"]


async def walk_versions(reader: Reader, limit: int, start: bytes, stop: bytes | None) -> list[Version]:
    """Everything from `start` to `stop`, page by page."""
    found: list[Version] = []
    before: int | None = None
    while page := await reader.page_versions(1, start, before, stop, limit):
        assert len(page) <= limit
        found += page
        start, before = page[-1].key, page[-1].sequence
    return found


@pytest.mark.parametrize("seed", range(3))
def test_versions_page_by_key_and_newest_first(metadata: Metadata, writer: Writer, seed: int) -> None:
    rng = random.Random(seed)
    current: list[Version] = []
    older: list[Version] = []
    sequences = iter(rng.sample(range(1, 1000), 200))
    for key in KEYS:
        rows = [version(key, next(sequences), noncurrent_ms=5) for _ in range(rng.choice([0, 1, 2, 9]))]
        if rows and rng.random() < 0.7:
            newest = max(rows, key=lambda row: row.sequence)
            rows.remove(newest)
            current.append(newest._replace(noncurrent_ms=0))
        older += rows
    foreign = [(NONCURRENT, version(b"a", 1, bucket_id=2)), (OBJECT, version(b"a", 2, bucket_id=0))]
    commit(writer, *[(OBJECT, row) for row in current], *[(NONCURRENT, row) for row in older], *foreign)
    expected = [listed(row) for row in sorted([*current, *older], key=lambda row: (row.key, -row.sequence))]

    async def check(reader: Reader) -> None:
        for limit in (1, 2, 7, 500):
            assert await walk_versions(reader, limit, b"", None) == expected
            for start, stop in ((b"A", b"a/"), (b"a", b"a"), (b"a\x00", b"\xff"), (b"\xff", None)):
                inside = [row for row in expected if row.key >= start and (stop is None or row.key < stop)]
                assert await walk_versions(reader, limit, start, stop) == inside

    ask(metadata, check)


def test_a_marker_between_versions_and_beyond_them(metadata: Metadata, writer: Writer) -> None:
    """The current row itself may be older than the marker: a newer delete marker was deleted between two pages."""
    commit(writer, (OBJECT, version(b"k", 5)), (NONCURRENT, version(b"k", 3)), (OBJECT, version(b"l", 4)))

    async def check(reader: Reader) -> None:
        for before, sequences in ((9, [5, 3, 4]), (5, [3, 4]), (4, [3, 4]), (3, [4]), (0, [4])):
            page = await reader.page_versions(1, b"k", before, None, 9)
            assert [row.sequence for row in page] == sequences
        assert await reader.page_versions(1, b"k", 9, b"k", 9) == []
        assert [row.sequence for row in await reader.page_versions(1, b"k", 9, b"l", 9)] == [5, 3]
        assert [row.sequence for row in await reader.page_versions(1, b"k", 9, None, 2)] == [5, 3]

    ask(metadata, check)


async def walk_uploads(reader: Reader, limit: int, stop: bytes | None) -> list[Upload]:
    """Every open upload up to `stop`, page by page."""
    found: list[Upload] = []
    start, after = b"", None
    while page := await reader.page_uploads(1, start, after, stop, limit):
        assert len(page) <= limit
        found += page
        start, after = page[-1].key, (page[-1].created_ms, page[-1].upload_id)
    return found


def test_open_uploads_page_by_key_time_and_id(metadata: Metadata, writer: Writer) -> None:
    rng = random.Random(5)
    rows: list[Upload] = [
        sample(
            UPLOAD, number, upload_id=f"u{rng.randrange(10**6)}", bucket_id=rng.choice([1, 1, 1, 2]),
            key=rng.choice(KEYS), created_ms=rng.randrange(4), state=rng.choice([0, 0, 1]),
        )
        for number in range(60)
    ]  # fmt: skip
    commit(writer, *[(UPLOAD, row) for row in rows])
    mine = [row for row in rows if row.bucket_id == 1 and row.state == 0]
    expected = sorted(mine, key=lambda row: (row.key, row.created_ms, row.upload_id))

    async def check(reader: Reader) -> None:
        for limit in (1, 7, 99):
            assert await walk_uploads(reader, limit, None) == expected
            assert await walk_uploads(reader, limit, b"a b") == [row for row in expected if row.key < b"a b"]
        first = expected[0]
        after = await reader.page_uploads(1, first.key, (first.created_ms, first.upload_id + "\0"), None, 1)
        assert after == [expected[1]]
        assert await reader.page_uploads(1, expected[9].key, None, None, 99) == [
            row for row in expected if row.key >= expected[9].key
        ]

    ask(metadata, check)


def test_parts_page_by_number(metadata: Metadata, writer: Writer) -> None:
    parts = [sample(PART, number, upload_id="u") for number in (1, 2, 10, 9999)]
    commit(writer, *[(PART, row) for row in reversed(parts)], (PART, sample(PART, 5, upload_id="t")))
    assert ask(metadata, lambda reader: reader.page_parts("u", 0, 2)) == parts[:2]
    assert ask(metadata, lambda reader: reader.page_parts("u", 2, 9)) == parts[2:]
    assert ask(metadata, lambda reader: reader.page_parts("u", 9999, 9)) == []
    assert ask(metadata, lambda reader: reader.page_parts("u\0", 0, 9)) == []


def test_noncurrent_versions_are_found(metadata: Metadata, writer: Writer) -> None:
    rows = [version(b"k", 1), version(b"k", 3, version_id="null"), version(b"k", 2)]
    commit(writer, *[(NONCURRENT, row) for row in rows], (NONCURRENT, version(b"k\x00", 9)))
    assert ask(metadata, lambda reader: reader.newest_noncurrent(1, b"k")) == rows[1]
    assert ask(metadata, lambda reader: reader.newest_noncurrent(2, b"k")) is None


def test_leaps_go_over_what_common_prefixes_hide(metadata: Metadata, writer: Writer) -> None:
    current = [b"a", b"p/1/1", b"p/1/2", b"p/2/\x00", b"p/3//", b"p/alone", b"p/z/1", b"q/1"]
    rows = [(OBJECT, version(key, number)) for number, key in enumerate(current, 1)]
    rows += [(NONCURRENT, version(key, number)) for number, key in enumerate([b"p/0/1", b"p/1/0", b"p/3/"], 20)]
    opened = [(UPLOAD, sample(UPLOAD, n, bucket_id=1, key=key, state=n)) for n, key in enumerate([b"p/1/1", b"p/1/2"])]
    commit(writer, *rows, *opened, (OBJECT, version(b"p/1/0", 30, bucket_id=2)))
    whole = Leap(b"p/", b"p0", 3, b"/", b"0", 100)

    async def check(reader: Reader) -> None:
        leap, objects, versions = reader.leap, Listed.OBJECTS, Listed.VERSIONS
        assert await leap(objects, 1, whole) == [b"p/1/1", b"p/2/\x00", b"p/3//", b"p/alone"]
        assert await leap(versions, 1, whole) == [b"p/0/1", b"p/1/0", b"p/2/\x00", b"p/3/", b"p/alone"]
        assert await leap(Listed.UPLOADS, 1, whole) == [b"p/1/1"], "the other one is completed"
        assert await leap(objects, 1, whole._replace(limit=2)) == [b"p/1/1", b"p/2/\x00"]
        assert await leap(objects, 1, whole._replace(start=b"p/b", stop=None)) == [b"p/z/1", b"q/1"]
        assert await leap(objects, 1, whole._replace(start=b"p/b")) == [b"p/z/1"]
        assert await leap(objects, 1, whole._replace(start=b"p/zz")) == []
        assert await leap(objects, 1, Leap(b"", None, 1, b"/1", b"/2", 9)) == [b"a"]
        assert await leap(objects, 1, Leap(b"p", None, 1, b"/1", b"/2", 9)) == [b"p/1/1", b"p/2/\x00"]
        assert await leap(objects, 3, whole) == []

    ask(metadata, check)


def test_a_version_is_found_wherever_it_is(metadata: Metadata, writer: Writer) -> None:
    rows = [version(b"k", 1), version(b"k", 3, version_id="null"), version(b"k", 2)]
    current = version(b"k", 7)
    others = [(NONCURRENT, version(b"k\x00", 9)), (OBJECT, version(b"k\x00", 8)), (OBJECT, current)]
    commit(writer, *[(NONCURRENT, row) for row in rows], *others)
    assert ask(metadata, lambda reader: reader.find_version(1, b"k", "null")) == rows[1]
    assert ask(metadata, lambda reader: reader.find_version(1, b"k", "v2")) == rows[2]
    assert ask(metadata, lambda reader: reader.find_version(1, b"k", "v7")) == current

    async def find_missing(reader: Reader) -> list[Version | None]:
        return [await reader.find_version(1, b"k", missing) for missing in ("v9", "v8", "v1\0", "")]

    assert ask(metadata, find_missing) == [None] * 4


def test_blobs_and_repairs_are_listed(metadata: Metadata, writer: Writer) -> None:
    dead = [sample(BLOB, number, state=BlobState.DEAD, dead_ms=100 - number) for number in range(4)]
    commit(writer, *[(BLOB, row) for row in dead], (BLOB, sample(BLOB, 9, state=BlobState.SEALED, dead_ms=1)))
    commit(writer, *[(REPAIR, sample(REPAIR, number)) for number in range(3)])
    assert ask(metadata, lambda reader: reader.list_dead_blobs(101, 2)) == [dead[3], dead[2]]
    assert ask(metadata, lambda reader: reader.list_dead_blobs(100, 9)) == [dead[3], dead[2], dead[1]]
    assert ask(metadata, lambda reader: reader.list_repairs(2)) == [sample(REPAIR, 0), sample(REPAIR, 1)]
    some = ask(metadata, lambda reader: reader.get_blobs([dead[0].blob_id, b"none", dead[2].blob_id]))
    assert sorted(some) == [dead[0], dead[2]]
    assert ask(metadata, lambda reader: reader.get_blobs([])) == []


def test_summaries_of_many_keys(metadata: Metadata, writer: Writer) -> None:
    rows = [version(key, number) for number, key in enumerate(KEYS)]
    commit(writer, *[(OBJECT, row) for row in rows], (OBJECT, rows[0]._replace(bucket_id=2)))
    found = ask(metadata, lambda reader: reader.get_summaries(1, [*KEYS[2:5], b"missing", *KEYS[:1]]))
    expected = [row._replace(attributes=b"", parts=b"", extents=b"") for row in (rows[0], *rows[2:5])]
    assert sorted(found) == sorted(expected)
    assert ask(metadata, lambda reader: reader.get_summaries(1, [])) == []


def test_locate_finds_bucket_and_current_version(metadata: Metadata, writer: Writer) -> None:
    buckets = [sample(BUCKET, number, name=f"b{number}", bucket_id=number) for number in (1, 2)]
    rows = [version(key, number) for number, key in enumerate(KEYS)]
    commit(writer, *[(BUCKET, row) for row in buckets], *[(OBJECT, row) for row in rows])
    asked: list[tuple[str, bytes]] = [(f"b{n}", key) for n in (1, 2, 3) for key in (*KEYS, b"missing")] + [
        ("b1\0", b"a")
    ]
    versions = {("b1", row.key): row for row in rows}
    named = {bucket.name: bucket for bucket in buckets}
    expected = [Located(named[name], versions.get((name, key))) if name in named else None for name, key in asked]

    async def check(reader: Reader) -> list[Any]:
        assert [await reader.locate(name, key) for name, key in asked] == expected
        many = await asyncio.gather(*[reader.locate(name, key) for _ in range(8) for name, key in asked])
        assert many == expected * 8
        gone = asyncio.ensure_future(reader.locate("b1", b"a"))
        stays = asyncio.ensure_future(reader.locate("b1", b"A"))
        await asyncio.sleep(0)
        gone.cancel()
        answers = await asyncio.gather(gone, stays, return_exceptions=True)
        assert answers[1] == Located(buckets[0], versions["b1", b"A"])
        return list(answers)

    answers = ask(metadata, check)
    assert isinstance(answers[0], asyncio.CancelledError | Located)


def test_bucket_by_name(metadata: Metadata, writer: Writer) -> None:
    commit(writer, (BUCKET, sample(BUCKET, 1)))
    assert ask(metadata, lambda reader: reader.find_bucket("t0001")) == sample(BUCKET, 1)
    assert ask(metadata, lambda reader: reader.find_bucket("t0002")) is None
    assert ask(metadata, lambda reader: reader.find_bucket("t0001\0")) is None


def test_an_inline_reader_never_suspends(metadata: Metadata, writer: Writer) -> None:
    commit(writer, (BUCKET, sample(BUCKET, 1)))

    async def check(reader: Reader) -> None:
        questions = [reader.locate("t0001", b"k"), reader.scan(OBJECT, None, 1), reader.get_blobs([b"b"])]
        for question in questions:
            if reader.is_inline:
                with pytest.raises(StopIteration):
                    question.send(None)
            else:
                await question

    ask(metadata, check)
    assert ask(metadata, _is_inline) == (metadata.dialect == "sqlite")


async def _is_inline(reader: Reader) -> bool:
    return reader.is_inline


def test_moves_that_are_due_come_by_priority(metadata: Metadata, writer: Writer) -> None:
    numbers = {1: (0, 5, 10), 2: (0, 1, 30), 3: (0, 1, 20), 4: (0, 1, 99), 5: (1, 0, 1)}
    rows = [sample(MOVE, n, state=state, priority=first, due_ms=due) for n, (state, first, due) in numbers.items()]
    commit(writer, *[(MOVE, row) for row in rows])

    async def check(reader: Reader) -> None:
        assert [row.sequence for row in await reader.list_moves(0, 50, 9)] == [3, 2, 1]
        assert await reader.list_moves(0, 50, 1) == [rows[2]]
        assert await reader.list_moves(1, 0, 9) == []
        assert [await reader.count_moves(state) for state in (0, 1, 2)] == [4, 1, 0]

    ask(metadata, check)
