"""Compaction: rewrites what is still referenced of sealed packs that are mostly empty, so that reclaim can take them.

Bytes go through the commit like any small content; owners are swapped one by one, only where they still hold the
extent that was read. A crash between two steps leaves nothing to mend.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple

import msgpack

from metadata.contract import Reader as MetadataReader
from metadata.tables import BLOB, EXTENT, NONCURRENT, OBJECT, PART
from metadata.types import Blob, BlobState, Extent, ExtentReference, Part, Version, unpack_extents
from tiers.commit.contract import Committer
from tiers.datapath.contract import Reader, ReadPlan
from tiers.errors import ContentUnreadable, PlacementMoved
from tiers.namespace.intake import StoredBody
from tiers.upkeep.removal import BuryBlob, RelocateExtent, is_pack
from tiers.worker import Cursors, Step

logger = logging.getLogger(__name__)

LIVE_RATIO_MIN: Final = 0.5
"""Packs with a smaller share of live bytes are rewritten."""

REFERENCES_MAX: Final = 32
"""References a step handles: at most 4 MiB of bodies."""

OWNER_BYTES: Final = 384
"""What an owner costs in the log beside its texts: numbers, its share of the other rows and of two batches' padding."""

BLOBS_MAX: Final = 256
"""Blob rows a step looks at for the next pack."""


class Place(NamedTuple):
    """Where compaction is: the blob looked at last, and the key of the last reference handled in the one after it."""

    blob_id: bytes = b""
    reference: tuple[bytes, int, int] | None = None


class Compaction:
    """The worker. A pass looks at every blob once; a step rewrites a few extents of one pack."""

    name = "compaction"

    def __init__(
        self,
        reader: MetadataReader,
        committer: Committer,
        contents: Reader,
        cursors: Cursors,
        *,
        between_passes_seconds: float = 3600.0,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._reader, self._committer, self._contents = reader, committer, contents
        self._cursors = cursors
        self._between_passes_seconds = between_passes_seconds
        self._sleep = sleep
        self._place: Place | None = None

    async def wait_for_work(self) -> None:
        """The next pass begins a while after the last one ended."""
        await self._sleep(self._between_passes_seconds)

    async def step(self) -> Step:
        """See `Worker`."""
        items, following = await self._advance(self._place or await self._load())
        self._place = following or Place()
        await self._cursors.save(self.name, msgpack.packb(self._place))
        return Step(items, is_idle=following is None)

    async def _load(self) -> Place:
        saved = await self._cursors.load(self.name)
        return Place._make(msgpack.unpackb(saved, use_list=False)) if saved else Place()

    async def _advance(self, place: Place) -> tuple[int, Place | None]:
        blobs = await self._reader.scan(BLOB, (place.blob_id,) if place.blob_id else None, BLOBS_MAX)
        for blob in blobs:
            if not is_wasteful(blob):
                place = Place(blob.blob_id)
            elif blob.live_bytes == 0:
                return int(await self._committer.submit(BuryBlob(blob))), Place(blob.blob_id)
            else:
                after = place.reference or (blob.blob_id, -1, -1)
                return await self._rewrite(blob, place, after)
        return 0, place if len(blobs) == BLOBS_MAX else None

    async def _rewrite(self, blob: Blob, place: Place, after: tuple[bytes, int, int]) -> tuple[int, Place]:
        rows = await self._reader.scan(EXTENT, after, REFERENCES_MAX)
        references = [row for row in rows if row.blob_id == blob.blob_id]
        held, owner_bytes = await self._held(references)
        if place.reference is None and not is_worth(blob, sum(extent.length for extent in held), owner_bytes):
            return 0, Place(blob.blob_id)
        # Together, so that they share a batch: one by one each would cost a page and be no gain.
        moves = [self._relocate(blob, extent, owners) for extent, owners in held.items()]
        moved = 0
        for outcome in await asyncio.gather(*moves, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome
            moved += outcome
        if len(references) < REFERENCES_MAX:
            return moved, Place(blob.blob_id)
        last = references[-1]
        return moved, Place(place.blob_id, (last.blob_id, last.blob_offset, last.owner_sequence))

    async def _relocate(self, blob: Blob, extent: Extent, owners: Sequence[ExtentReference]) -> int:
        try:
            stream = await self._contents.open(ReadPlan((extent,), 0, extent.length))
            try:
                body = await StoredBody(stream, extent.length).read_all(extent.length)
            finally:
                stream.close()
        except ContentUnreadable as error:
            # Not this worker's to mend, and no reason to leave the rest of the pack.
            logger.error("compaction of pack %s: %s", blob.blob_id.hex(), error)
            return 0
        try:
            return await self._committer.submit(RelocateExtent(extent, owners, body, blob.tier))
        except PlacementMoved:
            return 0

    async def _held(self, references: Sequence[ExtentReference]) -> tuple[dict[Extent, list[ExtentReference]], int]:
        """The extents behind references, as their owners have them now, each with its owners; and the rows' bytes."""
        found: dict[Extent, list[ExtentReference]] = {}
        owner_bytes = 0
        for reference in references:
            owner = await self._owner(reference)
            if owner is None:
                continue
            owner_bytes += OWNER_BYTES + sum(len(value) for value in owner if isinstance(value, str | bytes))
            held = {
                extent
                for extent in unpack_extents(owner.extents)
                if (extent.blob_id, extent.offset) == (reference.blob_id, reference.blob_offset)
            }
            for extent in sorted(held):
                found.setdefault(extent, []).append(reference)
        return found, owner_bytes

    async def _owner(self, reference: ExtentReference) -> Version | Part | None:
        reader = self._reader
        if reference.upload_id:
            part = await reader.get_row(PART, (reference.upload_id, reference.part_number))
            return part if part is not None and part.sequence == reference.owner_sequence else None
        current = await reader.get_row(OBJECT, (reference.bucket_id, reference.key))
        if current is not None and current.sequence == reference.owner_sequence:
            return current
        return await reader.get_row(NONCURRENT, (reference.bucket_id, reference.key, reference.owner_sequence))


def is_worth(blob: Blob, body_bytes: int, owner_bytes: int) -> bool:
    """Whether rewriting a pack makes it half as long or less, judged by a sample of its extents; pure.

    What is rewritten brings its owners' rows into the log again. Without this, packs of tiny contents, which are mostly
    log, would be rewritten for ever.
    """
    rewritten = blob.live_bytes * (body_bytes + owner_bytes) // max(body_bytes, 1)
    return rewritten < LIVE_RATIO_MIN * blob.size


def is_wasteful(blob: Blob) -> bool:
    """Whether a blob is a sealed pack worth rewriting; pure."""
    return is_pack(blob) and blob.state == BlobState.SEALED and blob.live_bytes < LIVE_RATIO_MIN * max(blob.size, 1)
