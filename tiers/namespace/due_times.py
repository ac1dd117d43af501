"""The due-time index as a service: what is due, doing it, and walking buckets whose rules changed."""

import asyncio
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgpack

from metadata.tables import BUCKET_DOCUMENT, CURSOR
from metadata.types import Bucket, Cursor, DocumentKind, Due, DueKind, Upload, Version
from tiers.errors import BucketNotFound
from tiers.namespace.context import Context
from tiers.namespace.due_mutations import Act, DropEntries, Fired, FireDue, Result
from tiers.namespace.index_mutations import EnrolBuckets, IndexPage, Page, PurgeBucket
from tiers.namespace.schedules import cursor_name

PAGE_ROWS: Final = 500
PAGE_PARTS_MAX: Final = 20_000
"""Versions of a page, and parts of them all: a row of 10,000 parts is a megabyte, and a step reads each row whole."""

DOCUMENTS_A_PAGE: Final = 200
OUTDATED_MAX: Final = 1_000
"""Buckets that are known to be outdated at a time; what fires in others of them is refused by its commit."""

NAMES_MAX: Final = 4_096
FOREVER_MS: Final = 1 << 62
ENROLLED: Final = "lifecycle"
"""The cursor of the walk over all buckets that have rules."""


class Place(NamedTuple):
    """Where a walk over a bucket goes on; the stamp is that of the change of rules it follows.

    In versions: after `key`, or within it before the version `number`. In uploads: after that of `key`, created at
    `number`, with `upload_id`.
    """

    stamp_ms: int
    is_in_uploads: bool = False
    key: bytes = b""
    number: int = 0
    upload_id: str = ""


class DueTimes:
    """What the lifecycle rules of all buckets want done, by time."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._names: dict[int, str] = {}

    async def page(self, kind: DueKind, now_ms: int, after: Due | None, limit: int) -> list[Due]:
        """Entries that are due, the longest due first, behind `after`. Cost: what is returned."""
        return await self._context.reader.list_due(kind, now_ms, after, limit)

    async def count(self, kind: DueKind, now_ms: int, limit: int) -> int:
        """How many are due, `limit` at most."""
        return await self._context.reader.count_due(kind, now_ms, limit)

    async def outdated(self) -> list[Due]:
        """Buckets whose entries do not follow their rules, the longest outdated first."""
        return await self._context.reader.list_due(DueKind.INDEX, FOREVER_MS, None, OUTDATED_MAX)

    async def fire(self, entries: Sequence[Due], retry_ms: int) -> list[Fired | Exception]:
        """Do what each entry is for, one commit each, submitted together; the answers are in their order.

        A move that is due comes back after `retry_ms`. A failure leaves its entry as it is.
        """
        names = [await self._name(entry.bucket_id) for entry in entries]
        lost = [entry for entry, name in zip(entries, names, strict=True) if name is None]
        if lost:
            await self._context.committer.submit(DropEntries(lost))
        submit, context = self._context.committer.submit, self._context
        futures = [
            submit(FireDue(context, name, entry, retry_ms=retry_ms))
            for entry, name in zip(entries, names, strict=True)
            if name is not None
        ]
        done = iter(await asyncio.gather(*futures, return_exceptions=True))
        return [Fired(Act.NONE, Result.SKIPPED) if name is None else self._answer(next(done)) for name in names]

    def _answer(self, outcome: Fired | BaseException) -> Fired | Exception:
        if isinstance(outcome, BucketNotFound):
            self._names.clear()
            return Fired(Act.NONE, Result.SKIPPED)
        if isinstance(outcome, Exception | Fired):
            return outcome
        raise outcome

    async def _name(self, bucket_id: int) -> str | None:
        """The name of a bucket, which it never changes; None when it is gone."""
        name = self._names.get(bucket_id)
        if name is None:
            bucket = await self._context.reader.bucket_of_id(bucket_id)
            if bucket is None:
                return None
            if len(self._names) >= NAMES_MAX:
                self._names.clear()
            name = self._names[bucket_id] = bucket.name
        return name

    # walks

    async def follow_rules(self, stamp: Due) -> int:
        """Bring a page of an outdated bucket's entries up to its rules; how many were looked at.

        The walk goes on where it was, after a restart too, and begins again after another change of the rules.
        """
        bucket = await self._context.reader.bucket_of_id(stamp.bucket_id)
        if bucket is None:
            return await self._context.committer.submit(PurgeBucket(stamp.bucket_id))
        row = await self._context.reader.get_row(CURSOR, (cursor_name(bucket.bucket_id),))
        place = Place(stamp.due_ms) if row is None else Place(*msgpack.unpackb(row.position))
        if place.stamp_ms != stamp.due_ms:
            place = Place(stamp.due_ms)
        page = await (self._upload_page if place.is_in_uploads else self._version_page)(bucket, place)
        try:
            return await self._context.committer.submit(IndexPage(self._context, bucket.name, stamp, page)) or 0
        except BucketNotFound:
            return 0

    async def _version_page(self, bucket: Bucket, place: Place) -> Page:
        before = place.number or None
        rows = await self._context.reader.page_versions(bucket.bucket_id, place.key, before, None, PAGE_ROWS)
        taken = _light(rows)
        if len(rows) < PAGE_ROWS and len(taken) == len(rows):
            after = Place(place.stamp_ms, is_in_uploads=True)
        else:
            after = place._replace(key=taken[-1].key, number=taken[-1].sequence)
        return Page([(row.key, row.sequence) for row in taken], (), msgpack.packb(after))

    async def _upload_page(self, bucket: Bucket, place: Place) -> Page:
        before = (place.number, place.upload_id) if place.upload_id else None
        rows: list[Upload] = await self._context.reader.page_uploads(
            bucket.bucket_id, place.key, before, None, PAGE_ROWS
        )
        after = b""
        if len(rows) == PAGE_ROWS:
            last = rows[-1]
            after = msgpack.packb(place._replace(key=last.key, number=last.created_ms, upload_id=last.upload_id))
        return Page((), [row.upload_id for row in rows], after)

    async def enrol(self, day_ms: int) -> bool:
        """Mark a page of the buckets with rules as outdated; whether the last one was reached, now or before.

        Done once in the life of a database and length of day: a database of an earlier program, one that was rebuilt
        and one whose days were of another length have entries that do not follow the rules.
        """
        reader = self._context.reader
        row = await reader.get_row(CURSOR, (ENROLLED,))
        walked_ms, *after = (0,) if row is None else msgpack.unpackb(row.position)
        if walked_ms != day_ms:
            after = []
        elif not after:
            return True
        page = await reader.scan(BUCKET_DOCUMENT, tuple(after) if after else None, DOCUMENTS_A_PAGE)
        ids = [document.bucket_id for document in page if document.kind == DocumentKind.LIFECYCLE]
        is_last = len(page) < DOCUMENTS_A_PAGE
        position = [day_ms] if is_last else [day_ms, page[-1].bucket_id, page[-1].kind]
        await self._context.committer.submit(EnrolBuckets(ids, Cursor(ENROLLED, msgpack.packb(position))))
        return is_last


def _light(rows: Sequence[Version]) -> Sequence[Version]:
    """As many of the first versions as have no more parts than a page may, at least one."""
    parts = 0
    for count, row in enumerate(rows):
        parts += int(row.etag.partition("-")[2] or 0)
        if count and parts > PAGE_PARTS_MAX:
            return rows[:count]
    return rows
