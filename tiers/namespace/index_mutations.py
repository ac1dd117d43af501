"""Bringing the due-time index up to the rules of a bucket, page by page; until the last page nothing of it fires."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from metadata.contract import Transaction
from metadata.tables import CURSOR, DUE, NONCURRENT, OBJECT, UPLOAD
from metadata.types import Cursor, Due, DueKind, UploadState, Version
from tiers.commit.contract import Slot
from tiers.namespace.context import Context
from tiers.namespace.mutations import BucketMutation, Keys
from tiers.namespace.schedules import EntryKey, Schedule, cursor_name, index_key, mark_outdated, upload_key, version_key

PURGED_A_STEP: Final = 500
"""Entries that one step takes away from a bucket that has no rules any more."""

_VERSION_KINDS: Final = DueKind.END, DueKind.MOVE


class Page(NamedTuple):
    """A run of what a bucket holds: (key, sequence) of versions, ids of uploads, and where the next page begins.

    `after` is empty when there is none.
    """

    versions: Sequence[tuple[bytes, int]]
    uploads: Sequence[str]
    after: bytes


class IndexPage(BucketMutation):
    """Enters a page of a bucket as its rules say now; the last page ends the bucket's being outdated.

    `stamp` is the time of the change that the walk follows: after another change nothing is done.
    """

    __slots__ = ("_page", "_stamp")

    def __init__(self, context: Context, bucket_name: str, stamp: Due, page: Page) -> None:
        super().__init__(context, bucket_name)
        self._stamp, self._page = stamp, page

    def apply(self, transaction: Transaction, slot: Slot) -> int | None:
        """How many entries were looked at; None when another walk is due. Errors: BucketNotFound."""
        del slot
        bucket_id = self._stamp.bucket_id
        bucket = self.read_bucket(transaction)
        if bucket.bucket_id != bucket_id or transaction.get(DUE, index_key(bucket_id)) != self._stamp:
            return None
        if self.schedule is None:
            return purge(transaction, bucket_id)
        for key, sequence in self._page.versions:
            self._enter_version(transaction, self.schedule, key, sequence)
        for upload_id in self._page.uploads:
            self._enter_upload(transaction, self.schedule, upload_id)
        if self._page.after:
            transaction.put(CURSOR, Cursor(cursor_name(bucket_id), self._page.after))
        else:
            end_walk(transaction, bucket_id)
        return len(self._page.versions) + len(self._page.uploads)

    def _enter_version(self, transaction: Transaction, schedule: Schedule, key: bytes, sequence: int) -> None:
        bucket_id = self._stamp.bucket_id
        version: Version | None = transaction.get(OBJECT, (bucket_id, key))
        if version is None or version.sequence != sequence:
            version = transaction.get(NONCURRENT, (bucket_id, key, sequence))
        if version is None:  # gone meanwhile, and its entries with it
            return
        times = schedule.times_of(version)
        for kind in _VERSION_KINDS:
            _enter(transaction, version_key(version, kind), times.get(kind))

    def _enter_upload(self, transaction: Transaction, schedule: Schedule, upload_id: str) -> None:
        upload = transaction.get(UPLOAD, (upload_id,))
        if upload is not None and upload.state == UploadState.OPEN:
            _enter(transaction, upload_key(upload), schedule.abort_ms(upload))


def _enter(transaction: Transaction, key: EntryKey, due_ms: int | None) -> None:
    if due_ms is not None:
        transaction.put(DUE, Due(*key, due_ms))
    elif transaction.get(DUE, key) is not None:
        transaction.delete(DUE, key)


def purge(transaction: Transaction, bucket_id: int) -> int:
    """Take entries of a bucket without rules away, all of them if they are no more than a step may take."""
    page = transaction.scan(DUE, (bucket_id, b"", -1, "", 0), PURGED_A_STEP)
    rows = [row for row in page if row.bucket_id == bucket_id and row.kind != DueKind.INDEX]
    for row in rows:
        transaction.delete(DUE, DUE.key_of(row))
    if len(page) < PURGED_A_STEP or page[-1].bucket_id != bucket_id:
        end_walk(transaction, bucket_id)
    return len(rows)


def end_walk(transaction: Transaction, bucket_id: int) -> None:
    """The entries of a bucket follow its rules."""
    transaction.delete(DUE, index_key(bucket_id))
    transaction.delete(CURSOR, (cursor_name(bucket_id),))


class PurgeBucket:
    """Takes entries away that a bucket left behind; at last the one that says that it is outdated."""

    __slots__ = ("_bucket_id", "body", "tier")

    def __init__(self, bucket_id: int) -> None:
        self._bucket_id = bucket_id
        self.body: bytes | None = None
        self.tier = ""

    def reads(self) -> Keys:
        """Nothing: they are scanned."""
        return ()

    def apply(self, transaction: Transaction, slot: Slot) -> int:
        """How many are gone."""
        del slot
        return purge(transaction, self._bucket_id)


class EnrolBuckets:
    """Marks buckets whose entries may follow other rules, or another length of day, and notes how far that came."""

    __slots__ = ("_cursor", "_marks", "body", "tier")

    def __init__(self, bucket_ids: Sequence[int], cursor: Cursor) -> None:
        self._marks = bucket_ids
        self._cursor = cursor
        self.body: bytes | None = None
        self.tier = ""

    def reads(self) -> Keys:
        """Their marks."""
        for bucket_id in self._marks:
            yield DUE, index_key(bucket_id)

    def apply(self, transaction: Transaction, slot: Slot) -> None:
        """Mark them, save the cursor."""
        for bucket_id in self._marks:
            mark_outdated(transaction, slot, bucket_id)
        transaction.put(CURSOR, self._cursor)
