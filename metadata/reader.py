"""The read side that both databases share: which statement answers which question, and what its rows become.

Refuses to know a driver. A subclass runs one statement, and overrides `locate`, the one question of every GET.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Final, TypeVar

from metadata import tables
from metadata.contract import Located
from metadata.moves import Move
from metadata.overlay import row_of
from metadata.queues import Texts
from metadata.seeks import ABOVE_KEYS, Leap, Listed, SeekTexts
from metadata.tables import Table
from metadata.types import Blob, Bucket, BucketDocument, Due, Part, Repair, Upload, Version

Row = TypeVar("Row", bound=tuple[Any, ...])
Values = Sequence[Any]

BUCKET_COLUMNS: Final = len(Bucket._fields)
BEFORE_ALL: Final = Due(0, b"", 0, "", 0, -1)
"""An entry that every entry is ordered behind."""


def located(values: Values) -> Located:
    """The row of `statements.locate`: a bucket's columns, then a version's or NULLs."""
    version = None if values[BUCKET_COLUMNS] is None else Version._make(values[BUCKET_COLUMNS:])
    return Located(Bucket._make(values[:BUCKET_COLUMNS]), version)


class StatementReader(ABC):
    """`contract.Reader` over a driver that runs one statement. Errors of every method: MetadataUnavailable."""

    is_inline: bool

    def __init__(self, texts: Texts, seeks: SeekTexts) -> None:
        self._texts = texts
        self._seeks = seeks

    @abstractmethod
    async def _rows(self, text: str, parameters: tuple[Any, ...]) -> Sequence[Values]: ...

    @abstractmethod
    async def locate(self, bucket_name: str, key: bytes) -> Located | None:
        """Bucket and current version in one statement; None when the bucket does not exist."""

    @abstractmethod
    async def get_blobs(self, blob_ids: Sequence[bytes]) -> list[Blob]:
        """Rows of the blobs that exist, in any order."""

    @abstractmethod
    async def get_summaries(self, bucket_id: int, keys: Sequence[bytes]) -> list[Version]:
        """The current versions of those of the keys that have one, in any order; see the contract."""

    @abstractmethod
    async def close(self) -> None:
        """Give the connections back. Nothing may be asked afterwards."""

    async def find_bucket(self, name: str) -> Bucket | None:
        """The bucket of this name, or None."""
        return await self.get_row(tables.BUCKET, (name,))

    async def recall_bucket(self, name: str) -> Bucket | None:
        """The same; where the database is another machine's there is nothing to go by."""
        return await self.find_bucket(name)

    async def bucket_of_id(self, bucket_id: int) -> Bucket | None:
        """The bucket with this id, or None."""
        rows = await self._rows(self._texts.bucket_of_id, (bucket_id,))
        return Bucket._make(rows[0]) if rows else None

    async def list_buckets(self, after: str, limit: int) -> list[Bucket]:
        """Up to `limit` buckets with a name greater than `after`, by name."""
        # No stored text holds a NUL, PostgreSQL takes none, and no name lies between "a" and "a\0...".
        rows = await self._rows(self._texts.list_buckets, (after.partition("\0")[0], limit))
        return list(map(Bucket._make, rows))

    async def list_documents(self, bucket_id: int, after: str, limit: int) -> list[BucketDocument]:
        """Up to `limit` documents of a bucket with a kind greater than `after`, by kind."""
        rows = await self._rows(self._texts.list_documents, (bucket_id, after, limit))
        return list(map(BucketDocument._make, rows))

    async def get_row(self, table: Table[Row], key: tuple[Any, ...]) -> Row | None:
        """The row with this primary key, or None."""
        rows = await self._rows(self._texts.get_row[table], key)
        return row_of(table, rows[0]) if rows else None

    async def find_version(self, bucket_id: int, key: bytes, version_id: str) -> Version | None:
        """The version or delete marker with this id, current or not, or None; one statement, as it may move."""
        named = (bucket_id, key, version_id)
        rows = await self._rows(self._seeks.find_version, (*named, *named))
        return Version._make(rows[0]) if rows else None

    async def newest_noncurrent(self, bucket_id: int, key: bytes) -> Version | None:
        """The noncurrent version or delete marker with the highest sequence, or None."""
        rows = await self._rows(self._texts.newest_noncurrent, (bucket_id, key))
        return Version._make(rows[0]) if rows else None

    async def page_objects(self, bucket_id: int, start: bytes, stop: bytes | None, limit: int) -> list[Version]:
        """Current versions with start <= key < stop in key order; `stop` None is the end of the bucket."""
        parameters = (bucket_id, start) if stop is None else (bucket_id, start, stop)
        rows = await self._rows(self._texts.page_objects[stop is not None], (*parameters, limit))
        return list(map(Version._make, rows))

    async def page_versions(
        self, bucket_id: int, start: bytes, before_sequence: int | None, stop: bytes | None, limit: int
    ) -> list[Version]:
        """All versions and delete markers, by key, newest first within a key; see the contract.

        Cost: follows the rows returned, however many versions a key has; a second statement when `before_sequence`
        is given and its key does not fill the page. The two are not one snapshot, as two pages never are.
        """
        found: list[Version] = []
        if before_sequence is not None and (stop is None or start < stop):
            older = (bucket_id, start, before_sequence, limit)
            rows = await self._rows(self._texts.versions_before, (*older, *older, limit))
            found = list(map(Version._make, rows))
        if len(found) < limit:
            left = limit - len(found)
            range_of = (bucket_id, start, left) if stop is None else (bucket_id, start, stop, left)
            text = self._texts.page_versions[before_sequence is not None, stop is not None]
            rows = await self._rows(text, (*range_of, *range_of, left))
            found.extend(map(Version._make, rows))
        return found

    async def page_uploads(
        self, bucket_id: int, start: bytes, after_upload: tuple[int, str] | None, stop: bytes | None, limit: int
    ) -> list[Upload]:
        """Open uploads by (key, created_ms, upload_id); `after_upload` = (created_ms, upload_id) within key `start`."""
        parameters: tuple[Any, ...] = (bucket_id, start)
        if after_upload is not None:
            created_ms, upload_id = after_upload
            parameters = (*parameters, created_ms, upload_id.partition("\0")[0])
        if stop is not None:
            parameters = (*parameters, stop)
        text = self._texts.page_uploads[after_upload is not None, stop is not None]
        return list(map(Upload._make, await self._rows(text, (*parameters, limit))))

    async def leap(self, listed: Listed, bucket_id: int, leap: Leap) -> list[bytes]:
        """See the contract."""
        stop = ABOVE_KEYS if leap.stop is None else leap.stop
        rows = await self._rows(self._seeks.leap[listed], (bucket_id, *leap._replace(stop=stop)))
        return [row[0] for row in rows]

    async def page_parts(self, upload_id: str, after: int, limit: int) -> list[Part]:
        """Up to `limit` parts of an upload with a number greater than `after`, by number."""
        return list(map(Part._make, await self._rows(self._texts.page_parts, (upload_id, after, limit))))

    async def list_dead_blobs(self, dead_before_ms: int, limit: int) -> list[Blob]:
        """Up to `limit` blobs dead since before a time, longest dead first."""
        return list(map(Blob._make, await self._rows(self._texts.list_dead_blobs, (dead_before_ms, limit))))

    async def list_due(self, kind: int, until_ms: int, after: Due | None, limit: int) -> list[Due]:
        """Up to `limit` entries due by a time, behind `after`, the longest due first; see the contract."""
        bucket_id, key, sequence, upload_id, _, due_ms = after or BEFORE_ALL
        order = (due_ms, bucket_id, key, sequence, upload_id)
        rows = await self._rows(self._texts.list_due, (kind, until_ms, *order, limit))
        return list(map(Due._make, rows))

    async def count_due(self, kind: int, until_ms: int, limit: int) -> int:
        """How many entries are due by a time, `limit` at most."""
        count: int = (await self._rows(self._texts.count_due, (kind, until_ms, limit)))[0][0]
        return count

    @abstractmethod
    async def now_ms(self) -> int:
        """The time by the database's own clock."""

    async def list_repairs(self, limit: int) -> list[Repair]:
        """Up to `limit` fragments known to be missing or bad."""
        return list(map(Repair._make, await self._rows(self._texts.list_repairs, (limit,))))

    async def list_moves(self, state: int, due_by_ms: int, limit: int) -> list[Move]:
        """Up to `limit` moves in a state that are due, by priority, then the longest due first."""
        return list(map(Move._make, await self._rows(self._texts.list_moves, (state, due_by_ms, limit))))

    async def count_moves(self, state: int) -> int:
        """How many moves are in a state."""
        return int((await self._rows(self._texts.count_moves, (state,)))[0][0])

    async def scan(self, table: Table[Row], after: tuple[Any, ...] | None, limit: int) -> list[Row]:
        """Up to `limit` rows in primary key order with a key greater than `after` (from the start when None)."""
        if after is None:
            rows = await self._rows(self._texts.scan_first[table], (limit,))
        else:
            rows = await self._rows(self._texts.scan_after[table], (*after, limit))
        return [row_of(table, row) for row in rows]
