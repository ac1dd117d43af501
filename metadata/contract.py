"""What the layers above may ask of the database: a reader on the event loop and a writer in a commit thread.

Implemented for SQLite and PostgreSQL under one conformance suite. `metadata.session.open_metadata(url)` returns one.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol, TypeVar

from metadata.moves import Move
from metadata.seeks import Leap, Listed
from metadata.tables import Table
from metadata.types import Blob, Bucket, BucketDocument, ChainHead, Due, Part, Repair, Upload, Version

Row = TypeVar("Row", bound=tuple[Any, ...])


class Located(NamedTuple):
    """A bucket and, where the key has one, its current version."""

    bucket: Bucket
    version: Version | None


class Transaction(Protocol):
    """One write transaction: reads see its own writes; changes are collected and written in bulk at `commit`.

    A *step* is one mutation. `begin_step` opens it; after an exception `undo_step` takes back what the step put, and
    the steps before it stand. Within a step every `select_*` and `scan` comes before the first `put` or `delete`
    (asserted): they flush the collected changes of earlier steps to the database first.
    Used by one thread. Ends with exactly one of `commit` and `rollback`.
    """

    head: ChainHead
    """Chain head as it stands in the database; `commit` replaces it."""

    @property
    def change_count(self) -> int:
        """Puts and deletes so far, those of steps taken back left out."""

    def limit_changes(self, count: int) -> None:
        """Let the step that brings `change_count` above `count` fail with TooManyChanges; of the steps to come."""

    def begin_step(self) -> None: ...
    def undo_step(self) -> None: ...

    def prefetch(self, keys: Iterable[tuple[Table[Any], tuple[Any, ...]]]) -> None:
        """Load rows in one round trip a table (PostgreSQL); SQLite may ignore it."""

    def get(self, table: Table[Row], key: tuple[Any, ...]) -> Row | None: ...
    def put(self, table: Table[Row], row: Row) -> None: ...
    def delete(self, table: Table[Row], key: tuple[Any, ...]) -> None: ...

    def select_newest_noncurrent(self, bucket_id: int, key: bytes) -> Version | None:
        """The noncurrent version or delete marker with the highest sequence."""

    def select_noncurrent(self, bucket_id: int, key: bytes, version_id: str) -> Version | None: ...
    def select_noncurrent_at(self, bucket_id: int, key: bytes, newer: int) -> Version | None:
        """The noncurrent version or delete marker of the key that has `newer` rows of higher sequence."""

    def select_parts(self, upload_id: str) -> list[Part]:
        """All parts of an upload, by part number."""

    def select_open_uploads(self, bucket_id: int, limit: int) -> list[Upload]:
        """Up to `limit` open uploads of a bucket, by key."""

    def select_documents(self, bucket_id: int, limit: int) -> list[BucketDocument]:
        """Up to `limit` documents of a bucket, by kind."""

    def has_versions(self, bucket_id: int) -> bool:
        """Whether any version, delete marker or object row of the bucket exists."""

    def select_open_packs(self) -> list[Blob]:
        """Packs in state OPEN, whoever writes them."""

    def select_references(self, blob_id: bytes, limit: int) -> list[Any]:
        """Up to `limit` ExtentReference rows of a blob, by offset."""

    def scan(self, table: Table[Row], after: tuple[Any, ...] | None, limit: int) -> list[Row]:
        """Up to `limit` rows in primary key order with a key greater than `after` (from the start when None)."""

    def changes(self) -> Iterator[tuple[Table[Any], tuple[Any, ...], tuple[Any, ...] | None]]:
        """Final image of every logged row this transaction changed: (table, key, row or None when deleted)."""

    def write(self, head: ChainHead) -> None:
        """Do the work of `commit(head)`, which comes next, but for the commit itself. Errors: MetadataUnavailable."""

    def commit(self, head: ChainHead) -> None:
        """Write what is collected, set the chain head, commit.

        Errors: MetadataUnavailable; the outcome is then unknown.
        """

    def rollback(self) -> None: ...


class Writer(Protocol):
    """The write side of one process's commits: one caller at a time, of whichever thread; the caller closes it."""

    is_inline: bool
    """Whether a transaction only ever waits for the write lock: then an event loop may run a short one itself."""

    def transaction(self) -> AbstractContextManager[Transaction]:
        """Take the host's (SQLite) or cluster's (PostgreSQL) write lock, begin, and yield.

        Leaving the block without `commit` rolls back. Errors: MetadataUnavailable.
        """

    def try_lock(self) -> bool:
        """Take the write lock ahead of `transaction`, which must follow, unless somebody has it; never waits.

        False also where `is_inline` is. Errors: MetadataUnavailable.
        """

    def wait_free(self) -> None:
        """Wait until no other writer has the lock, and leave it free. Only where `is_inline`."""

    def next_sequence(self, count: int, at_least: int) -> int:
        """First of `count` fresh sequence numbers, each greater than `at_least`. Inside a transaction, under its lock.

        Numbers come from outside the transaction: one is never handed out twice, not even after a rollback.
        """

    def close(self) -> None: ...


class Reader(Protocol):
    """Committed state, read on one event loop. On SQLite no call ever suspends (`is_inline` is True)."""

    is_inline: bool

    async def locate(self, bucket_name: str, key: bytes) -> Located | None:
        """Bucket and current version as committed, the bucket's counters perhaps older; None without such a bucket.

        One statement, none where what was read before still stands.
        """

    async def find_bucket(self, name: str) -> Bucket | None: ...
    async def recall_bucket(self, name: str) -> Bucket | None:
        """The same, the counters perhaps older. No statement where what was read before still stands."""

    async def bucket_of_id(self, bucket_id: int) -> Bucket | None: ...
    async def list_buckets(self, after: str, limit: int) -> list[Bucket]: ...
    async def list_documents(self, bucket_id: int, after: str, limit: int) -> list[BucketDocument]:
        """Up to `limit` documents of a bucket with a kind greater than `after`, by kind; one snapshot."""

    async def get_row(self, table: Table[Row], key: tuple[Any, ...]) -> Row | None: ...
    async def find_version(self, bucket_id: int, key: bytes, version_id: str) -> Version | None:
        """The version or delete marker with this id, current or not, or None; one snapshot."""

    async def newest_noncurrent(self, bucket_id: int, key: bytes) -> Version | None: ...

    async def page_objects(self, bucket_id: int, start: bytes, stop: bytes | None, limit: int) -> list[Version]:
        """Current versions with start <= key < stop in key order; `stop` None is the end of the bucket.

        As in every page of versions `attributes`, `parts`, `tags`, `acl` and `extents` are left empty: they are as long
        as the client pleases, and no listing shows them.
        """

    async def page_versions(
        self, bucket_id: int, start: bytes, before_sequence: int | None, stop: bytes | None, limit: int
    ) -> list[Version]:
        """All versions and delete markers, by key, newest first within a key.

        Begins at key `start`; when `before_sequence` is given, only versions of `start` older than it are returned
        from that key. A row is the key's latest when `noncurrent_ms` is 0 (an object row), or when it is a delete
        marker whose `noncurrent_ms` is 0 (a current delete marker).
        """

    async def page_uploads(
        self, bucket_id: int, start: bytes, after_upload: tuple[int, str] | None, stop: bytes | None, limit: int
    ) -> list[Upload]:
        """Open uploads by (key, created_ms, upload_id); `after_upload` = (created_ms, upload_id) within key `start`."""

    async def leap(self, listed: Listed, bucket_id: int, leap: Leap) -> list[bytes]:
        """Keys in order: the first of each common prefix, up to and with the first key that has none; see `Leap`.

        Cost: one descent of an index for each key returned, whatever the common prefixes hide.
        """

    async def page_parts(self, upload_id: str, after: int, limit: int) -> list[Part]: ...
    async def get_blobs(self, blob_ids: Sequence[bytes]) -> list[Blob]:
        """Rows of the blobs that exist, in any order."""

    async def get_summaries(self, bucket_id: int, keys: Sequence[bytes]) -> list[Version]:
        """The current versions of those of the keys that have one, in any order.

        `attributes`, `parts` and `extents` are left empty.
        """

    async def list_dead_blobs(self, dead_before_ms: int, limit: int) -> list[Blob]: ...
    async def list_repairs(self, limit: int) -> list[Repair]: ...
    async def list_due(self, kind: int, until_ms: int, after: Due | None, limit: int) -> list[Due]:
        """Up to `limit` entries of a `DueKind` due by a time and ordered behind `after`, the longest due first.

        Cost: reads the index, and of it what is returned.
        """

    async def count_due(self, kind: int, until_ms: int, limit: int) -> int:
        """How many entries of a `DueKind` are due by a time; no more than `limit` are counted."""

    async def now_ms(self) -> int:
        """The time by the database's own clock."""

    async def list_moves(self, state: int, due_by_ms: int, limit: int) -> list[Move]:
        """Up to `limit` moves in a `MoveState` that are due, by priority, then the longest due first."""

    async def count_moves(self, state: int) -> int: ...
    async def scan(self, table: Table[Row], after: tuple[Any, ...] | None, limit: int) -> list[Row]: ...
    async def close(self) -> None: ...


class Metadata(Protocol):
    """An open database. `open_reader` belongs to the calling event loop, `open_writer` to the calling thread."""

    dialect: str

    async def open_reader(self) -> Reader: ...
    def open_writer(self) -> Writer: ...
    def migrate(self) -> None:
        """Bring the schema to the newest revision. Errors: MetadataRefused when it is newer than this program."""

    def checkpoint(self) -> None:
        """Move the write-ahead log into the database file without blocking writers; a no-op on PostgreSQL."""

    def check(self) -> None:
        """Read back the durability settings. Errors: MetadataRefused when they are weaker than promised."""
