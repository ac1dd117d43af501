"""Listings against a plain model: random keys, prefixes, delimiters, page sizes; and what a page costs in rows."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metadata.contract import Reader
from metadata.session import open_metadata
from metadata.tables import BUCKET, NONCURRENT, OBJECT, UPLOAD
from metadata.types import Bucket, Upload, Version
from tiers.namespace.context import S3_LIMITS, Context
from tiers.namespace.listing import ROWS_MIN, Listing, UploadPage
from tiers.namespace.types import ListPage, ListQuery

Row = TypeVar("Row", Version, Upload)
ALPHABET = ("a", "b", "/", "\0", "é", "\U0001f600", "\U0010ffff")
texts = st.text(st.sampled_from(ALPHABET), max_size=5)
keys = texts.filter(bool)
BYTES = ("parts", "tags", "acl", "lock", "encryption", "extents")


def version(key: str, sequence: int, *, is_marker: bool = False, noncurrent_ms: int = 0) -> Version:
    fixed: dict[str, Any] = dict.fromkeys(Version._fields, "") | dict.fromkeys(BYTES, b"")
    fixed |= {"bucket_id": 7, "size": 0, "modified_ms": 1, "attributes": b""}
    fixed |= {"key": key.encode(), "sequence": sequence, "version_id": f"v{sequence}"}
    return Version(**fixed | {"is_delete_marker": int(is_marker), "noncurrent_ms": noncurrent_ms})


def upload(key: str, number: int) -> Upload:
    row = (f"u{number}", 7, key.encode(), "o", number // 2, 0, "STANDARD", "hot")
    return Upload(*row, b"", b"", b"", b"", b"", "", "", b"", 0)


class CountingReader:
    """A reader that counts the rows and pages it gives out for listings; everything else passes through."""

    def __init__(self, inner: Reader) -> None:
        self._inner = inner
        self.rows_read = self.pages_read = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def page_objects(self, *arguments: Any) -> list[Version]:
        return self._counted(await self._inner.page_objects(*arguments))

    async def page_versions(self, *arguments: Any) -> list[Version]:
        return self._counted(await self._inner.page_versions(*arguments))

    async def page_uploads(self, *arguments: Any) -> list[Upload]:
        return self._counted(await self._inner.page_uploads(*arguments))

    async def leap(self, *arguments: Any) -> list[bytes]:
        keys: list[bytes] = await self._inner.leap(*arguments)
        self.rows_read += len(keys)
        self.pages_read += 1
        return keys

    def _counted(self, page: list[Row]) -> list[Row]:
        self.rows_read += len(page)
        self.pages_read += 1
        return page


class Store:
    """A database filled row by row, and a listing over it. Each example has a bucket of its own."""

    def __init__(self, path: Path) -> None:
        self.metadata = open_metadata(f"sqlite:///{path / 'index.db'}")
        self.metadata.migrate()
        self.runner = asyncio.Runner()
        self.reader = CountingReader(self.runner.run(self.metadata.open_reader()))
        self._writer = self.metadata.open_writer()
        self._buckets = 0
        nothing: Any = None
        reader: Any = self.reader
        context = Context(reader, nothing, nothing, nothing, nothing, nothing, nothing, S3_LIMITS, nothing)
        self.listing = Listing(context)

    def fill(self, rows: Sequence[Version | Upload]) -> str:
        """A new bucket with these rows; its name."""
        self._buckets += 1
        name = f"bucket-{self._buckets}"
        with self._writer.transaction() as transaction:
            transaction.begin_step()
            transaction.put(BUCKET, Bucket(name, self._buckets, "owner", 1, 1, "us-east-1", 0, 0, 0, 1))
            for row in rows:
                if isinstance(row, Upload):
                    transaction.put(UPLOAD, row._replace(bucket_id=self._buckets, upload_id=f"{name}-{row.upload_id}"))
                else:
                    table = NONCURRENT if row.is_delete_marker or row.noncurrent_ms else OBJECT
                    transaction.put(table, row._replace(bucket_id=self._buckets))
            transaction.commit(transaction.head)
        return name

    def remove(self, rows: Sequence[Version]) -> None:
        """Delete versions as a client would between two pages."""
        with self._writer.transaction() as transaction:
            transaction.begin_step()
            for row in rows:
                transaction.delete(NONCURRENT, (row.bucket_id, row.key, row.sequence))
                if not row.is_delete_marker and row.noncurrent_ms == 0:
                    transaction.delete(OBJECT, (row.bucket_id, row.key))
            transaction.commit(transaction.head)

    def close(self) -> None:
        self._writer.close()
        self.runner.run(self.reader.close())
        self.runner.close()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    opened = Store(tmp_path_factory.mktemp("listing"))
    yield opened
    opened.close()


def upload_order(row: Upload) -> tuple[bytes, int, str]:
    return row.key, row.created_ms, row.upload_id


def named(entry: Version | Upload | None) -> Any:
    """What identifies an entry whatever its bucket."""
    if entry is None:
        return None
    return entry.upload_id.rpartition("-")[2] if isinstance(entry, Upload) else entry.version_id


def rolled(key: str, prefix: str, delimiter: str) -> str | None:
    """The common prefix of a key by the words of the protocol."""
    at = key.find(delimiter, len(prefix)) if delimiter else -1
    return None if at < 0 else key[: at + len(delimiter)]


def model(entries: list[tuple[str, Any]], query: ListQuery) -> list[tuple[str, Any]]:
    """(name, entry or None for a common prefix) of everything behind the marker, in order, each prefix once."""
    found: list[tuple[str, Any]] = []
    for key, entry in entries:
        if not key.startswith(query.prefix):
            continue
        prefix = rolled(key, query.prefix, query.delimiter)
        name = key if prefix is None else prefix
        item = (name, entry if prefix is None else None)
        if name.encode() > query.after.encode() and (prefix is None or item not in found[-1:]):
            found.append(item)
    return found


def merged(page: ListPage | UploadPage) -> list[tuple[str, Any]]:
    """Both lists of a page in one order. Entries keep theirs; a key that equals a common prefix is rolled into it."""
    items = [(row.key.decode(), named(row)) for row in page.entries] + [(cut, None) for cut in page.common_prefixes]
    return sorted(items, key=lambda item: item[0].encode())


def in_key_order(names: Sequence[str]) -> list[str]:
    return sorted({*names}, key=str.encode)


@given(
    names=st.lists(keys, max_size=30), prefix=texts, delimiter=st.one_of(st.just("/"), texts), after=texts,
    limit=st.integers(0, 7), markers=st.sets(keys, max_size=5),
)  # fmt: skip
@settings(max_examples=300, deadline=None, derandomize=True)
def test_objects(
    store: Store, names: list[str], prefix: str, delimiter: str, after: str, limit: int, markers: set[str]
) -> None:
    unique = in_key_order([*names, *(prefix + name for name in names[:10])])
    rows = [version(name, number + 1) for number, name in enumerate(unique)]
    hidden = [version(name, 1000 + n, is_marker=True) for n, name in enumerate(sorted(markers - {*unique}))]
    query = ListQuery(store.fill([*rows, *hidden]), prefix, delimiter, after, limit=limit)
    expected = model([(row.key.decode(), named(row)) for row in rows], query)
    page = store.runner.run(store.listing.objects(query))
    assert merged(page) == expected[:limit]
    assert page.is_truncated == (0 < limit < len(expected))
    assert page.next_key == (expected[limit - 1][0] if page.is_truncated else "")


@given(names=st.lists(keys, max_size=25), prefix=texts, delimiter=texts, limit=st.integers(1, 7))
@settings(max_examples=150, deadline=None, derandomize=True)
def test_pages_of_objects_join(store: Store, names: list[str], prefix: str, delimiter: str, limit: int) -> None:
    rows = [version(name, number + 1) for number, name in enumerate(in_key_order(names))]
    query = ListQuery(store.fill(rows), prefix, delimiter, limit=limit)
    expected = model([(row.key.decode(), named(row)) for row in rows], query)
    found: list[tuple[str, Any]] = []
    while True:
        page = store.runner.run(store.listing.objects(query))
        found += merged(page)
        if not page.is_truncated:
            break
        query = replace(query, after=page.next_key)
    assert found == expected


@given(
    histories=st.dictionaries(keys, st.lists(st.booleans(), min_size=1, max_size=4), max_size=10),
    prefix=texts, delimiter=texts, limit=st.integers(1, 7), is_emptied=st.booleans(),
)  # fmt: skip
@settings(max_examples=200, deadline=None, derandomize=True)
def test_pages_of_versions_join(
    store: Store, histories: dict[str, list[bool]], prefix: str, delimiter: str, limit: int, is_emptied: bool
) -> None:
    """Histories say which version is a marker, oldest first. Nothing is skipped for who deletes page by page either."""
    rows: list[Version] = []
    for key, kinds in histories.items():
        rows += [
            version(key, len(rows) + index + 1, is_marker=kind, noncurrent_ms=int(index < len(kinds) - 1))
            for index, kind in enumerate(kinds)
        ]
    ordered = sorted(rows, key=lambda row: (row.key, -row.sequence))
    query = ListQuery(store.fill(rows), prefix, delimiter, limit=limit)
    expected = model([(row.key.decode(), named(row)) for row in ordered], query)
    found: list[tuple[str, Any]] = []
    while True:
        page = store.runner.run(store.listing.versions(query))
        found += merged(page)
        if not page.is_truncated:
            break
        if is_emptied:
            store.remove(page.entries)
        query = replace(query, after=page.next_key, after_version=page.next_version)
    assert found == expected


@given(names=st.lists(keys, max_size=15), prefix=texts, delimiter=texts, limit=st.integers(1, 5))
@settings(max_examples=120, deadline=None, derandomize=True)
def test_pages_of_uploads_join(store: Store, names: list[str], prefix: str, delimiter: str, limit: int) -> None:
    uploads = [upload(name, number) for number, name in enumerate(names)]
    query = ListQuery(store.fill(uploads), prefix, delimiter, limit=limit)
    ordered = sorted(uploads, key=upload_order)
    expected = model([(row.key.decode(), named(row)) for row in ordered], query)
    found: list[tuple[str, Any]] = []
    while True:
        page = store.runner.run(store.listing.uploads(query))
        found += merged(page)
        if not page.is_truncated:
            break
        query = replace(query, after=page.next_key, after_version=page.next_upload)
    assert found == expected


@given(
    groups=st.lists(st.integers(1, 300), min_size=1, max_size=40), alone=st.integers(0, 60), limit=st.integers(1, 50)
)
@settings(max_examples=40, deadline=None, derandomize=True)
def test_rows_read_follow_what_is_returned(store: Store, groups: list[int], alone: int, limit: int) -> None:
    """However many keys a common prefix hides: a bounded number of rows and pages for each thing returned."""
    names = [f"p{group:03}/{n}" for group, count in enumerate(groups) for n in range(count)]
    names += [f"k{n}" for n in range(alone)]
    bucket = store.fill([version(name, number + 1) for number, name in enumerate(names)])
    rows_before, pages_before = store.reader.rows_read, store.reader.pages_read
    page = store.runner.run(store.listing.objects(ListQuery(bucket, delimiter="/", limit=limit)))
    returned = len(page.entries) + len(page.common_prefixes)
    assert store.reader.rows_read - rows_before <= (ROWS_MIN + 2) * (returned + 1)
    assert store.reader.pages_read - pages_before <= returned + 2


def test_delete_markers_cost_a_listing_of_objects_nothing(store: Store) -> None:
    rows = [version(f"gone-{n}", n + 1, is_marker=True) for n in range(500)] + [version("here", 1000)]
    bucket, before = store.fill(rows), store.reader.rows_read
    page = store.runner.run(store.listing.objects(ListQuery(bucket, limit=10)))
    assert [row.key for row in page.entries] == [b"here"]
    assert store.reader.rows_read - before == 1
