"""Listings by key: one walk for objects, versions and uploads, which seeks past each common prefix.

An entry and a common prefix are listed when they sort after the marker; a page ends after `limit` of both together.
Rows read stay within a small multiple of what is returned, whatever lies beneath the prefixes.
"""

from dataclasses import dataclass, field
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

from metadata.contract import Reader
from metadata.seeks import Leap, Listed
from metadata.tables import OBJECT, UPLOAD
from metadata.types import Bucket, Part, Upload, Version
from tiers.errors import BucketNotFound
from tiers.namespace.context import Context
from tiers.namespace.multipart import Multipart
from tiers.namespace.types import ListPage, ListQuery

ROWS_MIN: Final = 4
"""Rows read after a seek, before it is known how many of them one prefix hides."""

Row = TypeVar("Row", Version, Upload)


@dataclass(frozen=True, slots=True)
class UploadPage:
    """Open uploads and common prefixes in one order; `next_key` and `next_upload` as in `ListPage`."""

    entries: list[Upload]
    common_prefixes: list[str]
    is_truncated: bool
    next_key: str = ""
    next_upload: str = ""


class Position(NamedTuple):
    """Where to read on: from key `start`; `inner` is set when rows of that key came already."""

    start: bytes
    inner: Any = None


class Rows(Protocol[Row]):
    """One kind of rows in listing order."""

    async def fetch(self, position: Position, stop: bytes | None, limit: int) -> list[Row]:
        """Up to `limit` rows from a position on, with keys below `stop`; fewer only at the end."""

    def after(self, row: Row) -> Position:
        """The position just behind a row."""

    async def leap(self, leap: Leap) -> list[bytes]:
        """See `metadata.contract.Reader.leap`."""


class Listing:
    """The listing service of a namespace."""

    def __init__(self, context: Context) -> None:
        self._reader = context.reader
        self._multipart = Multipart(context)

    async def objects(self, query: ListQuery) -> ListPage:
        """One page of current versions; delete markers are not met. Errors: BucketNotFound."""
        rows = ObjectRows(self._reader, await self._bucket(query))
        walk = await _walk(rows, query, Position(after_key(query.after)))
        return ListPage(walk.entries, walk.common_prefixes(), walk.is_truncated, walk.next_key())

    async def versions(self, query: ListQuery) -> ListPage:
        """One page of versions and delete markers, newest first within a key. Errors: BucketNotFound.

        `after_version` is a version id of key `after`; one that is gone meanwhile starts at that key again, so that
        nothing is skipped.
        """
        bucket = await self._bucket(query)
        position = Position(after_key(query.after))
        if query.after_version:
            position = await self._version_position(bucket, query)
        walk = await _walk(VersionRows(self._reader, bucket), query, position)
        next_version = walk.last_entry.version_id if walk.is_truncated and walk.last_entry else ""
        return ListPage(walk.entries, walk.common_prefixes(), walk.is_truncated, walk.next_key(), next_version)

    async def uploads(self, query: ListQuery) -> UploadPage:
        """One page of open uploads by key, then start. `after_version` is an upload id. Errors: BucketNotFound."""
        bucket = await self._bucket(query)
        position = Position(after_key(query.after))
        if query.after_version:
            upload = await self._reader.get_row(UPLOAD, (query.after_version,))
            is_there = upload is not None and (upload.bucket_id, upload.key) == (bucket.bucket_id, query.after.encode())
            position = UploadRows.after(upload) if upload and is_there else Position(query.after.encode())
        walk = await _walk(UploadRows(self._reader, bucket), query, position)
        next_upload = walk.last_entry.upload_id if walk.is_truncated and walk.last_entry else ""
        return UploadPage(walk.entries, walk.common_prefixes(), walk.is_truncated, walk.next_key(), next_upload)

    async def parts(
        self, bucket_name: str, key: str, upload_id: str, after: int, limit: int
    ) -> tuple[Upload, list[Part], bool]:
        """Up to `limit` parts of an open upload with numbers above `after`, and whether more follow.

        Errors: BucketNotFound, UploadNotFound.
        """
        upload = await self._multipart.get(bucket_name, key, upload_id)
        if limit == 0:
            return upload, [], False
        found = await self._reader.page_parts(upload_id, after, limit + 1)
        return upload, found[:limit], len(found) > limit

    async def _bucket(self, query: ListQuery) -> Bucket:
        bucket = await self._reader.find_bucket(query.bucket)
        if bucket is None:
            raise BucketNotFound(query.bucket)
        return bucket

    async def _version_position(self, bucket: Bucket, query: ListQuery) -> Position:
        key = query.after.encode()
        version = await self._reader.get_row(OBJECT, (bucket.bucket_id, key))
        if version is None or version.version_id != query.after_version:
            version = await self._reader.find_version(bucket.bucket_id, key, query.after_version)
        return Position(key) if version is None else VersionRows.after(version)


class ObjectRows:
    """Current versions."""

    def __init__(self, reader: Reader, bucket: Bucket) -> None:
        self._reader, self._bucket_id = reader, bucket.bucket_id

    async def fetch(self, position: Position, stop: bytes | None, limit: int) -> list[Version]:
        """See `Rows`."""
        return await self._reader.page_objects(self._bucket_id, position.start, stop, limit)

    async def leap(self, leap: Leap) -> list[bytes]:
        """See `Rows`."""
        return await self._reader.leap(Listed.OBJECTS, self._bucket_id, leap)

    @staticmethod
    def after(row: Version) -> Position:
        """See `Rows`."""
        return Position(row.key + b"\0")


class VersionRows:
    """All versions and delete markers; `inner` is the sequence of the last version of its key."""

    def __init__(self, reader: Reader, bucket: Bucket) -> None:
        self._reader, self._bucket_id = reader, bucket.bucket_id

    async def fetch(self, position: Position, stop: bytes | None, limit: int) -> list[Version]:
        """See `Rows`."""
        return await self._reader.page_versions(self._bucket_id, position.start, position.inner, stop, limit)

    async def leap(self, leap: Leap) -> list[bytes]:
        """See `Rows`."""
        return await self._reader.leap(Listed.VERSIONS, self._bucket_id, leap)

    @staticmethod
    def after(row: Version) -> Position:
        """See `Rows`."""
        return Position(row.key, row.sequence)


class UploadRows:
    """Open uploads; `inner` is start time and id of the last upload of its key."""

    def __init__(self, reader: Reader, bucket: Bucket) -> None:
        self._reader, self._bucket_id = reader, bucket.bucket_id

    async def fetch(self, position: Position, stop: bytes | None, limit: int) -> list[Upload]:
        """See `Rows`."""
        return await self._reader.page_uploads(self._bucket_id, position.start, position.inner, stop, limit)

    async def leap(self, leap: Leap) -> list[bytes]:
        """See `Rows`."""
        return await self._reader.leap(Listed.UPLOADS, self._bucket_id, leap)

    @staticmethod
    def after(row: Upload) -> Position:
        """See `Rows`."""
        return Position(row.key, (row.created_ms, row.upload_id))


def after_key(marker: str) -> bytes:
    """The least key that sorts after a marker; the start of everything when there is none."""
    return marker.encode() + b"\0" if marker else b""


def successor(prefix: bytes) -> bytes | None:
    """The least byte string above every one that begins with `prefix`; None when there is none."""
    trimmed = prefix.rstrip(b"\xff")
    return trimmed[:-1] + bytes([trimmed[-1] + 1]) if trimmed else None


def common_prefix(key: bytes, prefix: bytes, delimiter: bytes) -> bytes | None:
    """What `key` is rolled up into: up to and with the first delimiter behind the prefix; None when it stands alone."""
    if not delimiter:
        return None
    at = key.find(delimiter, len(prefix))
    return None if at < 0 else key[: at + len(delimiter)]


@dataclass(slots=True)
class Walk(Generic[Row]):
    """A page in the making. `last_entry` is the last thing returned, None when that is a common prefix."""

    limit: int
    entries: list[Row] = field(default_factory=list)
    prefixes: list[bytes] = field(default_factory=list)
    last_entry: Row | None = None
    is_truncated: bool = False

    @property
    def count(self) -> int:
        """Entries and common prefixes so far."""
        return len(self.entries) + len(self.prefixes)

    def take(self, row: Row) -> bool:
        """Add a row; False when the page is full, which makes it truncated."""
        if self.count == self.limit:
            self.is_truncated = True
            return False
        self.entries.append(row)
        self.last_entry = row
        return True

    def take_prefix(self, prefix: bytes) -> bool:
        """The same for a common prefix, which stands for all that it hides."""
        if self.count == self.limit:
            self.is_truncated = True
            return False
        self.prefixes.append(prefix)
        self.last_entry = None
        return True

    def take_all(self, rows: list[Row]) -> bool:
        """The same for rows that nothing rolls up, at once."""
        fitting = rows[: self.limit - self.count]
        self.entries += fitting
        self.last_entry = self.entries[-1] if self.entries else None
        self.is_truncated = len(fitting) < len(rows)
        return not self.is_truncated

    def common_prefixes(self) -> list[str]:
        """The common prefixes as text; the client's delimiter is text, so they never cut a character."""
        return [prefix.decode() for prefix in self.prefixes]

    def next_key(self) -> str:
        """Where the next page continues; empty when nothing follows."""
        if not self.is_truncated:
            return ""
        return self.last_entry.key.decode() if self.last_entry else self.prefixes[-1].decode()


async def _walk(rows: Rows[Row], query: ListQuery, position: Position) -> Walk[Row]:
    """Collect one page from behind the marker on; `position` is where the marker says, prefix and delimiter aside."""
    walk: Walk[Row] = Walk(query.limit)
    rolling = Rolling(query.prefix.encode(), query.delimiter.encode())
    stop = successor(rolling.prefix)
    at = rolling.first_position(position, query.after.encode())
    rows_wanted = ROWS_MIN if query.delimiter else query.limit + 1
    while query.limit and at is not None and (stop is None or at.start < stop):
        rows_wanted = min(rows_wanted, query.limit + 1 - walk.count)
        count_before = walk.count
        page = await rows.fetch(at, stop, rows_wanted)
        at = _take_page(walk, rows, page, rolling)
        if walk.is_truncated or len(page) < rows_wanted:
            break
        # As many rows as the last ones were worth: a prefix that hides a million keys costs ROWS_MIN of them.
        rows_wanted = max(ROWS_MIN, 2 * (walk.count - count_before))
        if walk.last_entry is None and at is not None:
            at = await _leap(walk, rows, rolling, at.start, stop)
    return walk


async def _leap(
    walk: Walk[Row], rows: Rows[Row], rolling: "Rolling", start: bytes, stop: bytes | None
) -> Position | None:
    """Take common prefixes for as long as one follows the other; where to read on, None when nothing follows."""
    for key in await rows.leap(rolling.leap(start, stop, walk.limit + 1 - walk.count)):
        hidden = common_prefix(key, rolling.prefix, rolling.delimiter)
        if hidden is None:
            return Position(key)
        if not walk.take_prefix(hidden):
            return None
    return None


class Rolling(NamedTuple):
    """How keys are rolled up into common prefixes; without a delimiter they never are."""

    prefix: bytes
    delimiter: bytes

    def first_position(self, position: Position, marker: bytes) -> Position | None:
        """Where to begin: behind the marker, and behind the common prefix that it is or lies in."""
        if marker.startswith(self.prefix):
            hidden = common_prefix(marker, self.prefix, self.delimiter)
            if hidden is not None:
                return self.behind(hidden)
        return Position(self.prefix) if position.start < self.prefix else position

    def leap(self, start: bytes, stop: bytes | None, limit: int) -> Leap:
        """Over at most `limit` common prefixes; a delimiter is text, so that something always sorts behind it."""
        behind = successor(self.delimiter)
        assert behind is not None
        return Leap(start, stop, len(self.prefix) + 1, self.delimiter, behind, limit)

    def behind(self, hidden: bytes) -> Position | None:
        """The position behind all keys of a common prefix; None when no key can follow."""
        following = successor(hidden)
        return None if following is None else Position(following)


def _take_page(walk: Walk[Row], rows: Rows[Row], page: list[Row], rolling: Rolling) -> Position | None:
    """Add rows to the page until it is full; return where to read on, None when nothing can follow."""
    if not rolling.delimiter:
        return rows.after(page[-1]) if walk.take_all(page) and page else None
    at: Position | None = None
    hidden: bytes | None = None
    for row in page:
        if hidden is not None and row.key.startswith(hidden):
            continue
        hidden = common_prefix(row.key, rolling.prefix, rolling.delimiter)
        if not (walk.take(row) if hidden is None else walk.take_prefix(hidden)):
            return None
        at = rows.after(row) if hidden is None else rolling.behind(hidden)
    return at
