"""Reading one extent of a pack: one positioned read, one checksum, the next copy when either fails.

Copy i of a pack is the file `<hex blob id>.<i>` on placement device i; an extent's offset is an offset in that file.
An extent is read and verified whole, whatever part of it is wanted: its checksum covers exactly its bytes.
"""

import asyncio
from collections.abc import Sequence
from typing import Protocol

from metadata.types import Blob, Extent
from tiers.datapath.attempts import Attempt, ReadTools, reason_of
from tiers.datapath.buffers import UNIT_BYTES, ReadBuffers
from tiers.datapath.digests import crc64nvme
from tiers.datapath.files import FileKey, open_pack
from tiers.datapath.stripes import Stripe
from tiers.errors import ContentUnreadable, FragmentCorrupt, StorageError


class Landed(Protocol):
    """A verified extent in memory that whoever got it releases."""

    view: memoryview

    def release(self) -> None: ...


class _Now:
    """A landed extent that never had to wait."""

    __slots__ = ("_buffer", "_buffers", "view")

    def __init__(self, buffers: ReadBuffers, buffer: Stripe, view: memoryview) -> None:
        self._buffers, self._buffer, self.view = buffers, buffer, view

    def release(self) -> None:
        """Give the buffer back; once."""
        self._buffers.give_back(self._buffer)


class PackStream:
    """Bytes [start, stop) of a landed extent, in runs; a `ContentStream`."""

    __slots__ = ("_at", "_landed", "_stop")

    def __init__(self, landed: Landed, start: int, stop: int) -> None:
        self._landed: Landed | None = landed
        self._at, self._stop = start, stop

    async def next(self) -> memoryview | None:
        """The next run, None at the end. Never suspends."""
        if self._landed is None or self._at == self._stop:
            return None
        start, self._at = self._at, min(self._at + UNIT_BYTES, self._stop)
        return self._landed.view[start : self._at]

    def close(self) -> None:
        """Release the extent. Idempotent."""
        landed, self._landed = self._landed, None
        if landed is not None:
            landed.release()


class PackReader:
    """Reads extents of packs. `read_now` is the usual way, `read` the way around everything else."""

    def __init__(self, tools: ReadTools) -> None:
        self._tools = tools

    def read_now(self, blob: Blob, extent: Extent) -> "Landed | None":
        """The verified extent from the first copy, without waiting.

        None when the file is not open, the page cache lacks the bytes, or they are not good: `read` tells which.
        """
        buffer = self._land(blob, extent)
        return None if buffer is None else _Now(self._tools.buffers, buffer, buffer.view[: extent.length])

    def copy_now(self, blob: Blob, extent: Extent, start: int, stop: int) -> bytes | None:
        """Bytes [start, stop) of the verified extent, where `read_now` would have it."""
        buffer = self._land(blob, extent)
        if buffer is None:
            return None
        copied = bytes(buffer.view[start:stop])
        self._tools.buffers.give_back(buffer)
        return copied

    def _land(self, blob: Blob, extent: Extent) -> Stripe | None:
        """The verified extent in a buffer that the caller gives back; None as `read_now` says."""
        handle = self._tools.files.find(_key(blob, 0, blob.placement.partition(" ")[0]))
        if handle is None:
            return None
        buffer = self._tools.buffers.take(extent.length)
        view = buffer.view[: extent.length]
        try:
            count = handle.file.read_into(extent.offset, view, wait=False)
        except (BlockingIOError, StorageError):
            count = -1
        if count == extent.length and crc64nvme(view) == extent.checksum:
            return buffer
        self._tools.buffers.give_back(buffer)
        return None

    async def read(self, blob: Blob, extent: Extent) -> Attempt:
        """The verified extent from any good copy, as a landed read that the caller releases.

        Copies on suspended devices come last; a late copy is left running while the next is asked.
        Errors: ContentUnreadable when no copy is good.
        """
        waiting = self._order(blob.placement.split(" "))
        running: list[Attempt] = []
        failure: StorageError | None = None
        try:
            while waiting or running:
                if waiting:
                    running.append(self._start(blob, extent, *waiting.pop(0)))
                patience = self._tools.hedge_seconds if waiting else self._tools.timeout_seconds
                done, _ = await asyncio.wait(
                    [attempt.task for attempt in running], timeout=patience, return_when=asyncio.FIRST_COMPLETED
                )
                if not done:
                    self._tools.report(blob.blob_id, running[-1].index, "late")
                    if not waiting:
                        break
                for attempt in [attempt for attempt in running if attempt.task in done]:
                    running.remove(attempt)
                    try:
                        attempt.task.result()
                    except StorageError as error:
                        failure = error
                        attempt.release()
                        self._tools.report(blob.blob_id, attempt.index, reason_of(error))
                    else:
                        return attempt
            raise ContentUnreadable(f"pack {blob.blob_id.hex()}, offset {extent.offset}: {failure or 'late'}")
        finally:
            for attempt in running:
                attempt.release()

    def _order(self, device_ids: Sequence[str]) -> list[tuple[int, str]]:
        copies = [(index, device_id) for index, device_id in enumerate(device_ids) if device_id]
        return sorted(copies, key=lambda copy: not self._tools.fleet.is_available(copy[1]))

    def _start(self, blob: Blob, extent: Extent, index: int, device_id: str) -> Attempt:
        async def read(view: memoryview) -> None:
            key = _key(blob, index, device_id)
            handle = await self._tools.files.open(key, lambda device: open_pack(device, blob.blob_id, index))
            try:
                reading = self._tools.fleet.submit(device_id, handle.file.read_into, extent.offset, view)
                count = await asyncio.wrap_future(reading)
            finally:
                self._tools.files.release(handle)
            if count != extent.length or crc64nvme(view) != extent.checksum:
                self._tools.files.drop(key)  # a repaired copy is another file under the same name
                raise FragmentCorrupt(f"extent at {extent.offset} of copy {index}")

        return Attempt(self._tools.buffers, index, extent.length, read)


def _key(blob: Blob, index: int, device_id: str) -> FileKey:
    return FileKey(blob.blob_id, index, blob.generation, device_id)
