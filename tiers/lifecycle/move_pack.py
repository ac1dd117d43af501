"""A pack that moves write: small contents of many versions in one sealed pack of the target tier.

Has the format of every pack (body batches of `tiers.commit.log`), so that reading, repair and compaction know it.
Unlike an open pack it has one writer for its whole life and no record of the commit log: a crash leaves a pending row,
and reclaim takes the files. Every copy must be durable and verified, not only a quorum.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from metadata.types import Blob, BlobId, Extent
from tiers.catalogue import Catalogue
from tiers.commit.log import GENESIS, HEADER_BYTES, Batch, BatchHeader, encode_header, read_whole
from tiers.commit.pack import Staging, close_trimmed, pack_file_name, pack_row
from tiers.datapath.digests import crc64nvme
from tiers.datapath.placement import choose
from tiers.devices.contract import Area, LogFile, OpenFile
from tiers.devices.fleet import Fleet
from tiers.errors import DeviceFailed, FragmentCorrupt
from tiers.lifecycle.move_calls import all_of, on_device, quietly

BATCH_BODY_BYTES: Final = 4 << 20
"""Bodies are collected up to here and then appended together; also what a pack in the making holds in memory."""


def plan_pack(
    catalogue: Catalogue, fleet: Fleet, tier: str, blob_id: BlobId, *, now_ms: int, rng: random.Random
) -> Blob:
    """The row of a pack to come, all its copies on available devices. Errors: PlacementShort."""
    devices = [row for row in catalogue.writable(tier) if fleet.is_available(row.device_id)]
    placement = choose(devices, catalogue.pack_copies(tier), catalogue.tier(tier).spread, rng)
    return pack_row(blob_id, tier, placement, 0, now_ms)


class NewPack:
    """The copies of one pack being written. `add` and `finish` on the event loop, one at a time."""

    def __init__(self, fleet: Fleet, planned: Blob, new_id: Callable[[], bytes]) -> None:
        self._fleet, self._blob, self._new_id = fleet, planned, new_id
        self._copies = list(enumerate(planned.placement.split(" ")))
        self._files: dict[int, LogFile] = {}
        self._staging = Staging(BATCH_BODY_BYTES)
        self._batches: list[Batch] = []
        self._end = 0

    async def add(self, bodies: Sequence[bytes]) -> list[Extent]:
        """Append one batch to every copy, durable on return; where each body lies. Errors: DeviceFull, DeviceFailed."""
        if not self._files:
            await self._create()
        batch, size = self._lay_out(bodies)
        view = self._staging.view[:size]
        await all_of(
            [
                on_device(self._fleet, self._copies[index][1], file.append, self._end, view)
                for index, file in self._files.items()
            ]
        )
        extents: list[Extent] = []
        at = self._end + HEADER_BYTES
        for body in bodies:
            extents.append(Extent(self._blob.blob_id, at, len(body), crc64nvme(body)))
            at += len(body)
        self._batches.append(batch)
        self._end += size
        return extents

    async def finish(self) -> Blob:
        """Close the copies; the row of the pack as it is. It ends with the batch that the row names as the last."""
        await self._close()
        return self._blob._replace(size=self._end, last_sequence=len(self._batches))

    async def verify(self, extents: Sequence[Extent], spend: Callable[[int], Awaitable[None]]) -> None:
        """Read every copy back from end to end, and every extent in it; `spend` is asked before each read.

        Errors: FragmentCorrupt, DeviceFailed, and what `spend` raises.
        """
        ordered = sorted(extents, key=lambda extent: extent.offset)
        await all_of([self._verify_copy(copy, ordered, spend) for copy in self._copies])

    async def discard(self) -> None:
        """Remove the copies; what a failing device keeps is reclaim's. Idempotent."""
        await self._close()
        for index, device_id in self._copies:
            device = self._fleet.get(device_id)
            if device is not None:
                await quietly(on_device(self._fleet, device_id, device.delete, Area.PACKS, self._name(index)))

    def _name(self, index: int) -> str:
        return pack_file_name(self._blob.blob_id, index)

    async def _create(self) -> None:
        for index, device_id in self._copies:
            device = self._fleet.get(device_id)
            if device is None:
                raise DeviceFailed(f"no device {device_id!r} here")
            self._files[index] = await on_device(self._fleet, device_id, device.create_log, self._name(index))

    async def _close(self) -> None:
        while self._files:
            index, file = self._files.popitem()
            await quietly(on_device(self._fleet, self._copies[index][1], close_trimmed, file, self._end))

    def _lay_out(self, bodies: Sequence[bytes]) -> tuple[Batch, int]:
        joined = b"".join(bodies)
        number = len(self._batches) + 1
        header = BatchHeader(
            pack_id=self._blob.blob_id,
            batch_id=self._new_id(),
            predecessor_id=GENESIS,
            first_sequence=number,
            last_sequence=number,
            body_bytes=len(joined),
            record_bytes=0,
            bodies_checksum=crc64nvme(joined),
            record_checksum=crc64nvme(b""),
            is_commit=False,
        )
        size = header.padded_bytes
        view = self._staging.room(size)
        view[:HEADER_BYTES] = encode_header(header)
        view[HEADER_BYTES : HEADER_BYTES + len(joined)] = joined
        view[HEADER_BYTES + len(joined) : size] = bytes(size - HEADER_BYTES - len(joined))
        return Batch(header, self._end), size

    async def _verify_copy(
        self, copy: tuple[int, str], extents: Sequence[Extent], spend: Callable[[int], Awaitable[None]]
    ) -> None:
        index, device_id = copy
        device = self._fleet.get(device_id)
        if device is None:
            raise DeviceFailed(f"no device {device_id!r} here")
        file: OpenFile = await on_device(self._fleet, device_id, device.open, Area.PACKS, self._name(index))
        try:
            for batch in self._batches:
                size = batch.header.padded_bytes
                await spend(size)
                buffer = bytearray(size)
                await on_device(self._fleet, device_id, file.read_into, batch.offset, memoryview(buffer))
                stop = batch.offset + size
                inside = [extent for extent in extents if batch.offset <= extent.offset < stop]
                await asyncio.to_thread(_verify_batch, batch, bytes(buffer), inside)
        finally:
            await quietly(on_device(self._fleet, device_id, file.close))


def _verify_batch(batch: Batch, raw: bytes, extents: Sequence[Extent]) -> None:
    """One batch as it was read: intact as a batch, and each extent the bytes that its row will say. Blocking."""
    start = batch.offset
    if read_whole(lambda at, count: raw[at - start : at - start + count], batch) is None:
        raise FragmentCorrupt(f"the batch at {start} is not what was written")
    view = memoryview(raw)
    for extent in extents:
        if crc64nvme(view[extent.offset - start : extent.offset - start + extent.length]) != extent.checksum:
            raise FragmentCorrupt(f"the extent at {extent.offset} is not what was written")
