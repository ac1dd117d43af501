"""Reads contents by extents: the `Reader` of the data path contract.

Joins three things: blob rows (cached, read again when a placement may have moved), extents of packs, ranges of striped
blobs. Hands out nothing that was not verified; a content that cannot be completed is an error, never a short body.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from typing import Final, Protocol

from metadata.types import Blob, BlobKind, Extent
from tiers.datapath.attempts import HEDGE_SECONDS, Attempt, ReadTools, Report
from tiers.datapath.buffers import ReadBuffers
from tiers.datapath.contract import ContentStream, ReadPlan
from tiers.datapath.files import OpenFiles
from tiers.datapath.packs import PackReader, PackStream
from tiers.datapath.striped import StripedStream
from tiers.devices.fleet import Fleet
from tiers.errors import ContentUnreadable

AHEAD_BYTES_MAX: Final = 64 << 20
"""Memory of all reading ahead in this process."""

BLOBS_MAX: Final = 8192
"""Blob rows kept; small contents share a pack's."""

BLOBS_AHEAD: Final = 64
"""Blob rows fetched at once for a content of many extents."""


class BlobSource(Protocol):
    """What the reader needs of the metadata: a part of `metadata.contract.Reader`."""

    async def get_blobs(self, blob_ids: Sequence[bytes]) -> list[Blob]:
        """Rows of the blobs that exist, in any order."""


class BlobRows:
    """Rows of blobs, cached first in first out. A row may be stale in its placement, never in its bytes."""

    def __init__(self, reader: BlobSource, rows_max: int = BLOBS_MAX) -> None:
        self._reader, self._rows_max = reader, rows_max
        self._rows: dict[bytes, Blob] = {}

    def find(self, blob_id: bytes) -> Blob | None:
        """A cached row."""
        return self._rows.get(blob_id)

    async def get(self, blob_ids: Sequence[bytes]) -> Blob:
        """The row of the first blob; the others are fetched with it. Errors: ContentUnreadable when it has no row."""
        row = self._rows.get(blob_ids[0])
        if row is None:
            wanted = [blob_id for blob_id in dict.fromkeys(blob_ids) if blob_id not in self._rows]
            for found in await self._reader.get_blobs(wanted[:BLOBS_AHEAD]):
                self._keep(found)
                row = found if found.blob_id == blob_ids[0] else row
        if row is None:
            raise ContentUnreadable(f"blob {blob_ids[0].hex()} has no row")
        return row

    def forget(self, blob_id: bytes) -> None:
        """Read the row anew when it is next asked for."""
        self._rows.pop(blob_id, None)

    async def refresh(self, seen: Blob) -> Blob | None:
        """The row as it is now, None when it is gone or places the blob as `seen` does."""
        self._rows.pop(seen.blob_id, None)
        for found in await self._reader.get_blobs([seen.blob_id]):
            self._keep(found)
            if (found.placement, found.generation) != (seen.placement, seen.generation):
                return found
        return None

    def _keep(self, row: Blob) -> None:
        if "" in row.placement.split(" "):
            return  # what is missing is being repaired: a row kept would be decoded around for ever
        if len(self._rows) >= self._rows_max:
            del self._rows[next(iter(self._rows))]
        self._rows[row.blob_id] = row


class ContentReader:
    """The `Reader` of the contract; belongs to one event loop.

    `executor` is unused while decoding a unit is cheaper than handing it over. `report` is told of every fragment
    or copy that was missing, corrupt, failed or late. `files` and `buffers` are open for metrics.
    """

    def __init__(
        self,
        fleet: Fleet,
        reader: BlobSource,
        executor: Executor | None = None,
        *,
        report: Report = lambda blob_id, index, reason: None,
        hedge_seconds: float = HEDGE_SECONDS,
        ahead_bytes_max: int = AHEAD_BYTES_MAX,
    ) -> None:
        self.files = OpenFiles(fleet)
        self.buffers = ReadBuffers(ahead_bytes_max)
        self._report = report
        self._tools = ReadTools(fleet, self.files, self.buffers, self._noticed, hedge_seconds)
        self._packs = PackReader(self._tools)
        self._rows = BlobRows(reader)

    async def open(self, plan: ReadPlan) -> ContentStream:
        """See the contract."""
        extents = plan.extents
        if len(extents) == 1 and 0 <= plan.start < plan.stop <= extents[0].length:
            blob = self._rows.find(extents[0].blob_id)
            if blob is not None and blob.kind == BlobKind.PACK:
                landed = self._packs.read_now(blob, extents[0])
                if landed is not None:
                    return PackStream(landed, plan.start, plan.stop)
        stream = _Joined(self, plan)
        try:
            await stream.prime()
        except BaseException:
            stream.close()
            raise
        return stream

    def read_now(self, extent: Extent, start: int, stop: int) -> bytes | None:
        """See the contract."""
        blob = self._rows.find(extent.blob_id)
        if blob is None or blob.kind != BlobKind.PACK:
            return None
        return self._packs.copy_now(blob, extent, start, stop)

    def close_idle(self) -> None:
        """Close files that nobody read since the last call; call it about once a minute, or deletes free no space."""
        self.files.close_idle()

    def close(self) -> None:
        """Close every file. Streams that are open go on and close theirs."""
        self.files.close()

    async def open_extent(self, extents: Sequence[Extent], *, start: int, stop: int) -> StripedStream | PackStream:
        """A source of bytes [start, stop) of the first extent; the rows of the others are fetched with its own.

        Errors: ContentUnreadable.
        """
        extent = extents[0]
        blob = await self._rows.get([one.blob_id for one in extents])
        if blob.kind == BlobKind.STRIPED:
            assert extent.offset + extent.length <= blob.size
            at = extent.offset
            return StripedStream(self._tools, blob, self._rows.refresh, start=at + start, stop=at + stop)
        return PackStream(self._packs.read_now(blob, extent) or await self._read_pack(blob, extent), start, stop)

    def _noticed(self, blob_id: bytes, index: int, reason: str) -> None:
        """A fragment is not well: it may have been repaired to another place, so the next read asks for the row."""
        self._rows.forget(blob_id)
        self._report(blob_id, index, reason)

    async def _read_pack(self, blob: Blob, extent: Extent) -> Attempt:
        try:
            return await self._packs.read(blob, extent)
        except ContentUnreadable:
            moved = await self._rows.refresh(blob)
            if moved is None:
                raise
        return await self._packs.read(moved, extent)


def _cut(plan: ReadPlan) -> Iterator[tuple[int, int, int]]:
    """The parts of a plan: (number of the extent, start, stop) within the extent."""
    assert 0 <= plan.start <= plan.stop
    at = 0
    for number, extent in enumerate(plan.extents):
        start, stop = max(plan.start - at, 0), min(plan.stop - at, extent.length)
        if start < stop:
            yield number, start, stop
        at += extent.length
    assert plan.stop <= at, "plan beyond the content"


class _Joined:
    """The sources of a plan one after the other."""

    def __init__(self, reader: ContentReader, plan: ReadPlan) -> None:
        self._reader, self._extents = reader, plan.extents
        self._parts = _cut(plan)
        self._source: StripedStream | PackStream | None = None
        self._first: memoryview | None = None

    async def prime(self) -> None:
        """Read the first run, so that a lost content fails before anything was answered."""
        self._first = await self.next()

    async def next(self) -> memoryview | None:
        """The next verified run, None at the end. Errors: ContentUnreadable."""
        if self._first is not None:
            first, self._first = self._first, None
            return first
        while True:
            if self._source is None:
                part = next(self._parts, None)
                if part is None:
                    return None
                number, start, stop = part
                extents = self._extents[number : number + BLOBS_AHEAD]
                self._source = await self._reader.open_extent(extents, start=start, stop=stop)
            run = await self._source.next()
            if run is not None:
                return run
            self._source.close()
            self._source = None

    def close(self) -> None:
        """Close the source at hand and end. Idempotent."""
        if self._source is not None:
            self._source.close()
        self._source = self._first = None
        self._parts = iter(())
