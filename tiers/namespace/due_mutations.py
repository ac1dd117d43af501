"""Acts of lifecycle rules, each one mutation: rules and rows are judged as they are when it commits."""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from metadata.contract import Transaction
from metadata.tables import BUCKET, DUE, NONCURRENT, OBJECT, UPLOAD
from metadata.types import Bucket, Due, DueKind, UploadState, Version, Versioning
from tiers.commit.contract import Slot
from tiers.errors import BucketNotFound, VersionLocked
from tiers.namespace.context import Context
from tiers.namespace.events import DELETE, EXPIRATION, MARKER
from tiers.namespace.locks import is_retained, judge_removal, unpack_lock
from tiers.namespace.mutations import BucketMutation, Keys
from tiers.namespace.object_mutations import new_marker
from tiers.namespace.schedules import Descent, Schedule, Standing, class_order, index_key
from tiers.namespace.upload_mutations import drop_upload
from tiers.namespace.versions import (
    NOTHING_LEFT,
    is_current,
    is_top_marker,
    judge_displaced,
    pop_version,
    push_version,
    put_bucket,
    read_key,
    rest_of,
)

HELD_MS: Final = 86_400_000
"""A version under a legal hold is looked at again after so long; the end of the hold enters it anew by itself."""


class Act(StrEnum):
    """What an entry led to; a closed set, as it is a metric label."""

    EXPIRE = "expire"  # a key deleted as a client without a version id deletes it
    REMOVE = "remove"  # a noncurrent version, or a delete marker that hid nothing, taken out
    ABORT = "abort"
    MOVE = "move"
    NONE = "none"


class Result(StrEnum):
    """How it ended; a closed set, as it is a metric label."""

    DONE = "done"
    LOCKED = "locked"  # Object Lock or a legal hold forbids it
    SKIPPED = "skipped"  # what was due is not there any more
    NOT_DUE = "not_due"  # judged anew, it is due later or never
    HELD = "held"  # the index does not follow the bucket's rules yet
    HANDED = "handed"  # a move that is due, for whoever moves


class Fired(NamedTuple):
    """What became of an entry. `version` and `descent` are those of a move that is due."""

    act: Act
    result: Result
    version: Version | None = None
    descent: Descent | None = None


class FireDue(BucketMutation):
    """Does what an entry of the index is for, if the rules still want it; the entry goes, or tells the next time.

    A move is not made here: whoever moves is told of it, and the entry comes back after `retry_ms`.
    """

    __slots__ = ("_catalogue", "_due", "_marker_id", "_retry_ms")

    def __init__(self, context: Context, bucket_name: str, due: Due, *, retry_ms: int) -> None:
        super().__init__(context, bucket_name)
        self.key = due.key
        self.origin = EXPIRATION
        self._due, self._retry_ms = due, retry_ms
        self._catalogue = context.catalogue
        self._marker_id = context.new_version_id()

    def reads(self) -> Keys:
        """The bucket, its entries, and what may be due."""
        due = self._due
        yield BUCKET, (self.bucket_name,)
        yield DUE, DUE.key_of(due)
        yield DUE, index_key(due.bucket_id)
        if due.upload_id:
            yield UPLOAD, (due.upload_id,)
        else:
            yield OBJECT, (due.bucket_id, due.key)
            yield NONCURRENT, (due.bucket_id, due.key, due.sequence)

    def apply(self, transaction: Transaction, slot: Slot) -> Fired:
        """Errors: BucketNotFound, also for another bucket of that name."""
        due = self._due
        bucket = self.read_bucket(transaction)
        if bucket.bucket_id != due.bucket_id:
            raise BucketNotFound(self.bucket_name)
        if transaction.get(DUE, index_key(bucket.bucket_id)) is not None:
            return Fired(Act.NONE, Result.HELD)
        entry = transaction.get(DUE, DUE.key_of(due))
        if entry is None or entry.due_ms > slot.now_ms:
            return Fired(Act.NONE, Result.SKIPPED)
        if due.upload_id:
            return self._fire_upload(transaction, slot, bucket)
        version = self._find(transaction)
        if version is None or self.schedule is None:
            transaction.delete(DUE, DUE.key_of(due))
            return Fired(Act.NONE, Result.SKIPPED)
        standing = _standing(transaction, version, self.schedule)
        if due.kind == DueKind.MOVE:
            return self._fire_move(transaction, slot, version, standing)
        end_ms = self.schedule.end_ms(version, standing)
        if end_ms is None or end_ms > slot.now_ms:
            self._postpone(transaction, end_ms)
            return Fired(Act.NONE, Result.NOT_DUE)
        end = self._expire if is_current(version) else self._remove
        return end(transaction, slot, bucket, version)

    def _find(self, transaction: Transaction) -> Version | None:
        """The very version that the entry is of; not what took its place."""
        due = self._due
        current = transaction.get(OBJECT, (due.bucket_id, due.key))
        if current is not None and current.sequence == due.sequence:
            return current
        return transaction.get(NONCURRENT, (due.bucket_id, due.key, due.sequence))

    def _postpone(self, transaction: Transaction, until_ms: int | None) -> None:
        if until_ms is None:
            transaction.delete(DUE, DUE.key_of(self._due))
        else:
            transaction.put(DUE, self._due._replace(due_ms=until_ms))

    def _is_locked(self, transaction: Transaction, slot: Slot, victims: Iterable[Version]) -> bool:
        """Whether one of them may not go; then the entry waits until that may have ended."""
        for victim in victims:
            try:
                judge_removal(victim.lock, slot.now_ms)
            except VersionLocked:
                lock = unpack_lock(victim.lock)
                retained = is_retained(lock, slot.now_ms)
                self._postpone(transaction, lock.retain_until_ms + 1 if retained else slot.now_ms + HELD_MS)
                return True
        return False

    def _expire(self, transaction: Transaction, slot: Slot, bucket: Bucket, version: Version) -> Fired:
        """Delete the key as its bucket's versioning says."""
        schedule = self.schedule
        state = read_key(transaction, bucket, self.key, schedule)
        replaced, _ = judge_displaced(bucket.versioning, state)
        if self._is_locked(transaction, slot, replaced):
            return Fired(Act.EXPIRE, Result.LOCKED)
        self._postpone(transaction, None)
        if bucket.versioning == Versioning.NEVER:
            put_bucket(
                transaction, pop_version(transaction, bucket, version, NOTHING_LEFT, slot.now_ms, schedule=schedule)
            )
            self.emit(transaction, slot, DELETE, bucket, version)
        else:
            marker = new_marker(bucket, self.key, slot, self._marker_id)
            put_bucket(transaction, push_version(transaction, bucket, state, marker, schedule))
            self.emit(transaction, slot, MARKER, bucket, marker)
        return Fired(Act.EXPIRE, Result.DONE)

    def _remove(self, transaction: Transaction, slot: Slot, bucket: Bucket, version: Version) -> Fired:
        """Take a noncurrent version or a lone delete marker out for good."""
        rest = rest_of(transaction, bucket, version, self.schedule)
        if self._is_locked(transaction, slot, [version]):
            return Fired(Act.REMOVE, Result.LOCKED)
        self._postpone(transaction, None)
        after = pop_version(transaction, bucket, version, rest, slot.now_ms, schedule=self.schedule)
        put_bucket(transaction, after)
        self.emit(transaction, slot, DELETE, bucket, version)
        return Fired(Act.REMOVE, Result.DONE)

    def _fire_move(self, transaction: Transaction, slot: Slot, version: Version, standing: Standing) -> Fired:
        assert self.schedule is not None
        found = self.schedule.descent_of(version, standing, slot.now_ms, class_order(self._catalogue))
        if not isinstance(found, Descent):
            self._postpone(transaction, found)
            return Fired(Act.NONE, Result.NOT_DUE)
        self._postpone(transaction, slot.now_ms + self._retry_ms)
        return Fired(Act.MOVE, Result.HANDED, version, found)

    def _fire_upload(self, transaction: Transaction, slot: Slot, bucket: Bucket) -> Fired:
        upload = transaction.get(UPLOAD, (self._due.upload_id,))
        if upload is None or upload.state != UploadState.OPEN or self.schedule is None:
            self._postpone(transaction, None)
            return Fired(Act.NONE, Result.SKIPPED)
        abort_ms = self.schedule.abort_ms(upload)
        if abort_ms is None or abort_ms > slot.now_ms:
            self._postpone(transaction, abort_ms)
            return Fired(Act.NONE, Result.NOT_DUE)
        after = drop_upload(transaction, bucket, upload, self.schedule, now_ms=slot.now_ms)
        self._postpone(transaction, None)
        put_bucket(transaction, after)
        return Fired(Act.ABORT, Result.DONE)


def _standing(transaction: Transaction, version: Version, schedule: Schedule) -> Standing:
    """Where a version stands among those of its key; looks no further than the rules ask."""
    if is_top_marker(version):
        first = transaction.scan(NONCURRENT, (version.bucket_id, version.key, -1), 2)
        others = [row for row in first if (row.bucket_id, row.key) == (version.bucket_id, version.key)]
        return Standing(is_alone=len(others) == 1)
    if is_current(version) or not schedule.kept:
        return Standing()
    newest = transaction.select_newest_noncurrent(version.bucket_id, version.key)
    has_marker = newest is not None and is_top_marker(newest)
    newer = 0
    for kept in schedule.kept:
        spared = transaction.select_noncurrent_at(version.bucket_id, version.key, kept + has_marker)
        # It has so many newer ones, and so has whatever is older.
        if spared is not None and version.sequence <= spared.sequence:
            newer = max(newer, kept)
    return Standing(newer)


class DropEntries:
    """Takes entries away whose bucket is gone."""

    __slots__ = ("_entries", "body", "tier")

    def __init__(self, entries: Sequence[Due]) -> None:
        self._entries = entries
        self.body: bytes | None = None
        self.tier = ""

    def reads(self) -> Keys:
        """Nothing: what was entered anew since would belong to no bucket either."""
        return ()

    def apply(self, transaction: Transaction, slot: Slot) -> None:
        """Delete the rows."""
        del slot
        for entry in self._entries:
            transaction.delete(DUE, DUE.key_of(entry))
