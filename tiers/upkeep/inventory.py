"""Inventory reports of buckets: once a day one pass over all configurations, report by report, file by file.

What a report looks like, where it goes and whether it may go there is its `Report`'s to say. A step writes one data
file and persists the place behind it; the files that say what belongs together come last, in one step. A step that is
repeated writes the same names again, so that a manifest never names half a report, and never two of them.
"""

import asyncio
import hashlib
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

import msgpack

from metadata.contract import Reader
from metadata.tables import BUCKET_DOCUMENT, NONCURRENT, OBJECT
from metadata.types import INVENTORY_PREFIX, Bucket, BucketDocument, Version
from tiers.datapath.body import Body
from tiers.errors import StorageError
from tiers.namespace.listing import ObjectRows, Position, VersionRows, successor
from tiers.worker import Cursors, Step

logger = logging.getLogger(__name__)

CURSOR: Final = "inventory"
BUCKETS_A_STEP: Final = 100
PAGE_ROWS: Final = 1000
FILE_ROWS: Final = 250_000
"""Of one data file: some 20 MiB, written in seconds."""

ATTEMPTS_MAX: Final = 5
"""Steps of one report that may fail in a row; then it waits for the next pass and holds up no other."""

LOOK_SECONDS: Final = 60.0
"""Between two looks whether a new day has begun."""

_WEEK_DAYS: Final = 7
_SUNDAY: Final = 3
"""The remainder by 7 of every Sunday, counted in days since the epoch, which was a Thursday."""


class ReportRefused(Exception):
    """A report cannot be written, and trying again soon would not help; the text is for the operator's log."""


class DataFile(NamedTuple):
    """A data file of a report, as its manifest names it; `md5` in hexadecimal."""

    key: str
    size: int
    md5: str


class Encoder(Protocol):
    """Makes one data file of rows. Called in a thread, one call at a time."""

    def add(self, rows: Sequence[Version]) -> bytes:
        """What is ready of the file after these rows; may be nothing yet."""

    def finish(self) -> bytes:
        """The rest of the file."""


class Report(Protocol):
    """One configuration, as the worker uses it. `needs_whole_rows`: pages of listings do not say enough."""

    @property
    def is_enabled(self) -> bool: ...
    @property
    def is_weekly(self) -> bool: ...
    @property
    def prefix(self) -> bytes: ...
    @property
    def with_all_versions(self) -> bool: ...
    @property
    def needs_whole_rows(self) -> bool: ...

    def data_key(self, started_ms: int, index: int) -> str:
        """The name of a data file: the same for the same report and index, and for no other."""

    def encoder(self) -> Encoder: ...
    def closing(self, started_ms: int, files: Sequence[DataFile]) -> Iterable[tuple[str, bytes]]:
        """Names and contents of what makes the files a report, in the order in which they are written."""

    async def deposit(self, key: str, body: Body) -> Version:
        """Write into the target, whose right is asked anew. Errors: ReportRefused, StorageError."""

    async def deposit_bytes(self, key: str, content: bytes) -> None:
        """The same for content in memory."""


class Reports(Protocol):
    """Reads configurations."""

    async def read(self, bucket: Bucket, kind: str, document: bytes) -> Report:
        """The report that a document of a bucket asks for. Errors: ReportRefused for what cannot be read or served."""


class Lease(Protocol):
    """See `tiers.upkeep.leases.HeldLease`."""

    async def hold(self) -> bool: ...


class Job(NamedTuple):
    """A report that is being written: of which document, since when, what is there, and where its rows go on."""

    bucket_id: int
    digest: bytes
    started_ms: int
    position: Position
    is_walked: bool = False
    files: tuple[DataFile, ...] = ()
    attempts: int = 0


class Pass(NamedTuple):
    """A pass over the configurations. `previous` is the day of the pass before.

    Configurations up to `kind` of bucket `bucket_name` are done, but for the job.
    """

    day: int
    previous: int
    bucket_name: str = ""
    kind: str = ""
    is_over: bool = False
    job: Job | None = None


def pack_pass(state: Pass) -> bytes:
    """A pass as the cursor keeps it."""
    packed: bytes = msgpack.packb(state)
    return packed


def unpack_pass(packed: bytes, today: int) -> Pass:
    """Inverse of `pack_pass`; nothing means that the day before today was done."""
    if not packed:
        return Pass(today - 1, today - 2, is_over=True)
    day, previous, bucket_name, kind, is_over, job = msgpack.unpackb(packed)
    state = Pass(day, previous, bucket_name, kind, is_over)
    if job is None:
        return state
    bucket_id, digest, started_ms, position, is_walked, files, attempts = job
    named = tuple(DataFile(*file) for file in files)
    return state._replace(job=Job(bucket_id, digest, started_ms, Position(*position), is_walked, named, attempts))


def is_due(report: Report, state: Pass) -> bool:
    """Whether a report is to be written in a pass: weekly ones on the first pass after a Sunday has begun."""
    if not report.is_enabled:
        return False
    sundays = (state.day - _SUNDAY) // _WEEK_DAYS - (state.previous - _SUNDAY) // _WEEK_DAYS
    return not report.is_weekly or sundays > 0


class Inventories:
    """The worker. `seconds_per_day` is the length of a day, which begins at a multiple of it since the epoch."""

    name = "inventory"

    def __init__(
        self,
        reader: Reader,
        cursors: Cursors,
        reports: Reports,
        lease: Lease,
        *,
        clock: Callable[[], float],
        seconds_per_day: float,
        file_rows: int = FILE_ROWS,
    ) -> None:
        self._reader, self._cursors = reader, cursors
        self._reports, self._lease = reports, lease
        self._clock, self._seconds_per_day = clock, seconds_per_day
        self._file_rows = file_rows

    async def step(self) -> Step:
        """Find the next report that is due, or write one file of it. Errors: those of reading and writing."""
        if not await self._lease.hold():
            return Step(0, is_idle=True)
        today = int(self._clock() // self._seconds_per_day)
        state = unpack_pass(await self._cursors.load(CURSOR), today)
        if state.is_over:
            if today <= state.day:
                return Step(0, is_idle=True)
            state = Pass(today, state.day)
        state = await (self._advance(state) if state.job is None else self._work(state, state.job))
        await self._save(state)
        return Step(1, is_idle=state.is_over)

    async def wait_for_work(self) -> None:
        """Rest until a day may have begun."""
        await asyncio.sleep(min(LOOK_SECONDS, self._seconds_per_day / 4))

    async def _save(self, state: Pass) -> None:
        await self._cursors.save(CURSOR, pack_pass(state))

    async def _advance(self, state: Pass) -> Pass:
        """Go on to the next configuration, over a bounded number of buckets."""
        bucket = await self._reader.find_bucket(state.bucket_name) if state.kind else None
        row = None if bucket is None else await self._next_document(bucket, state.kind)
        if bucket is not None and row is not None:
            return await self._consider(state, bucket, row)
        buckets = await self._reader.list_buckets(state.bucket_name, BUCKETS_A_STEP)
        for bucket in buckets:
            row = await self._next_document(bucket, INVENTORY_PREFIX)
            if row is not None:
                return await self._consider(state, bucket, row)
        if len(buckets) < BUCKETS_A_STEP:
            return Pass(state.day, state.previous, is_over=True)
        return state._replace(bucket_name=buckets[-1].name, kind="")

    async def _next_document(self, bucket: Bucket, after: str) -> BucketDocument | None:
        rows = await self._reader.list_documents(bucket.bucket_id, after, 1)
        return rows[0] if rows and rows[0].kind.startswith(INVENTORY_PREFIX) else None

    async def _consider(self, state: Pass, bucket: Bucket, row: BucketDocument) -> Pass:
        """The pass at this configuration, with a job when its report is due."""
        state = state._replace(bucket_name=bucket.name, kind=row.kind, job=None)
        try:
            report = await self._reports.read(bucket, row.kind, row.document)
        except ReportRefused as error:
            _warn(state, error)
            return state
        if not is_due(report, state):
            return state
        started_ms = int(self._clock() * 1000)
        return state._replace(job=Job(bucket.bucket_id, _digest(row.document), started_ms, Position(report.prefix)))

    async def _work(self, state: Pass, job: Job) -> Pass:
        """The pass after one more file. A configuration that is gone ends its job, one that changed begins anew."""
        bucket = await self._reader.find_bucket(state.bucket_name)
        if bucket is None or bucket.bucket_id != job.bucket_id:
            return state._replace(job=None)
        row = await self._reader.get_row(BUCKET_DOCUMENT, (bucket.bucket_id, state.kind))
        if row is None:
            return state._replace(job=None)
        if _digest(row.document) != job.digest:
            return await self._consider(state, bucket, row)
        try:
            report = await self._reports.read(bucket, state.kind, row.document)
            return state._replace(job=await self._write(report, bucket, job))
        except ReportRefused as error:
            _warn(state, error)
            return state._replace(job=None)
        except StorageError as error:
            if job.attempts + 1 >= ATTEMPTS_MAX:
                _warn(state, error)
                return state._replace(job=None)
            await self._save(state._replace(job=job._replace(attempts=job.attempts + 1)))
            raise

    async def _write(self, report: Report, bucket: Bucket, job: Job) -> Job | None:
        """The job after one more data file, or None after its closing files."""
        if not job.is_walked:
            return await self._write_rows(report, bucket, job)
        for key, content in report.closing(job.started_ms, job.files):
            await report.deposit_bytes(key, content)
        return None

    async def _write_rows(self, report: Report, bucket: Bucket, job: Job) -> Job:
        rows = Rows(self._reader, bucket, report, job.position, self._file_rows)
        body = RowsBody(rows, report.encoder())
        files = job.files
        if await body.prime():
            version = await report.deposit(report.data_key(job.started_ms, len(files)), body)
            files = (*files, DataFile(version.key.decode(), version.size, version.etag))
        return job._replace(position=rows.position, is_walked=rows.is_over, files=files, attempts=0)


def _warn(state: Pass, error: Exception) -> None:
    place = f"{state.bucket_name} {state.kind.removeprefix(INVENTORY_PREFIX)}"
    logger.warning("the inventory report %s is not written: %s", place, error)


def _digest(document: bytes) -> bytes:
    return hashlib.blake2b(document, digest_size=16).digest()


class Rows:
    """The rows of a report from a position on, at most `left` of them. `is_over` says that no more follow at all."""

    def __init__(self, reader: Reader, bucket: Bucket, report: Report, position: Position, left: int) -> None:
        self.position = position
        self.is_over = False
        self._left = left
        self._reader = reader
        self._stop = successor(report.prefix)
        self._is_whole = report.needs_whole_rows
        self._rows = (VersionRows if report.with_all_versions else ObjectRows)(reader, bucket)

    async def next(self) -> Sequence[Version]:
        """The next page; empty when there is no more, or enough. Cost: one statement, or one a row besides."""
        count = min(PAGE_ROWS, self._left)
        if self.is_over or count == 0:
            return ()
        page = await self._rows.fetch(self.position, self._stop, count)
        self._left -= len(page)
        self.is_over = len(page) < count
        if page:
            self.position = self._rows.after(page[-1])
        return [await self._whole(row) for row in page] if self._is_whole else page

    async def _whole(self, row: Version) -> Version:
        """A row with what pages leave out; as it is when it was changed meanwhile."""
        if row.noncurrent_ms or row.is_delete_marker:
            found = await self._reader.get_row(NONCURRENT, (row.bucket_id, row.key, row.sequence))
        else:
            found = await self._reader.get_row(OBJECT, (row.bucket_id, row.key))
        return found if found is not None and found.sequence == row.sequence else row


class RowsBody:
    """Encoded rows as a body of unknown length; holds a page and what it became."""

    def __init__(self, rows: Rows, encoder: Encoder) -> None:
        self.length: int | None = None
        self.digests: frozenset[str] = frozenset()
        self._rows, self._encoder = rows, encoder
        self._page: Sequence[Version] = ()
        self._ready = bytearray()
        self._is_finished = False

    async def prime(self) -> bool:
        """Whether there is any row."""
        self._page = await self._rows.next()
        return bool(self._page)

    async def fill(self, view: memoryview) -> int:
        """See `Body.fill`. Errors: those of reading."""
        while len(self._ready) < len(view) and not self._is_finished:
            self._ready += await self._more()
        taken = min(len(view), len(self._ready))
        view[:taken] = memoryview(self._ready)[:taken]
        del self._ready[:taken]
        return taken

    async def _more(self) -> bytes:
        if not self._page:
            self._is_finished = True
            return await asyncio.to_thread(self._encoder.finish)
        page, self._page = self._page, ()
        encoded = await asyncio.to_thread(self._encoder.add, page)
        self._page = await self._rows.next()
        return encoded

    async def read_all(self, limit: int) -> bytes:
        """See `Body.read_all`."""
        while not self._is_finished:
            self._ready += await self._more()
            assert len(self._ready) <= limit
        content = bytes(self._ready)
        self._ready.clear()
        return content

    def verify(self, digests: Mapping[str, bytes]) -> None:
        """Nothing was declared."""
