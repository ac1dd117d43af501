"""One open pack of one worker: r copies, written side by side, each append durable when it returns."""

import logging
import mmap
import queue
import threading
from collections.abc import Sequence
from typing import Final

from metadata.types import Blob, BlobId, BlobKind, BlobState
from tiers.commit.log import PAGE, padded
from tiers.devices.contract import LogFile
from tiers.errors import DeviceFailed, QuorumNotReached, StorageError

logger = logging.getLogger(__name__)

PACK_BYTES_MAX: Final = 256 << 20
"""A pack is sealed once it is longer; keeps recovery scans and compaction steps short."""

FLUSH_SECONDS_MAX: Final = 10.0
"""A copy that has not answered by then counts as failed (promises.md: operation timeout of a device)."""


class Staging:
    """A page-aligned buffer that one batch is laid out in; grows, never shrinks, touched once and then warm."""

    def __init__(self, byte_count: int) -> None:
        self._memory = mmap.mmap(-1, byte_count)
        self._memory.write(bytes(byte_count))
        self.view = memoryview(self._memory)

    def room(self, byte_count: int) -> memoryview:
        """The buffer, at least `byte_count` long; what an earlier batch left in it is still there."""
        if byte_count > len(self.view):
            grown = Staging(max(padded(byte_count), 2 * len(self.view)))
            grown.view[: len(self.view)] = self.view
            self._memory, self.view = grown._memory, grown.view
        return self.view


class _Copy:
    """One copy after the first, with its own thread: two queues cost less than an executor's futures."""

    def __init__(self, file: LogFile, name: str) -> None:
        self._file = file
        self._inbox: queue.SimpleQueue[tuple[int, memoryview] | None] = queue.SimpleQueue()
        self._outbox: queue.SimpleQueue[Exception | None] = queue.SimpleQueue()
        self._end = 0
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def begin(self, offset: int, data: memoryview) -> None:
        self._end = offset + len(data)
        self._inbox.put((offset, data))

    def finish(self) -> Exception | None:
        """The outcome of the append begun last."""
        try:
            return self._outbox.get(timeout=FLUSH_SECONDS_MAX)
        except queue.Empty:
            return DeviceFailed(f"no answer within {FLUSH_SECONDS_MAX} s")

    def close(self) -> None:
        self._inbox.put(None)

    def _run(self) -> None:
        while (job := self._inbox.get()) is not None:
            try:
                self._file.append(*job)
            except StorageError as error:
                self._outbox.put(error)
            else:
                self._outbox.put(None)
        close_trimmed(self._file, self._end)


class OpenPack:
    """The pack a worker appends to. Used by the commit thread only.

    A pack is never appended to again after any copy failed: the batch region may hold anything, so the caller seals
    it and opens another (`is_suspect`).
    """

    def __init__(self, blob: Blob, files: Sequence[LogFile], *, quorum: int) -> None:
        assert 1 <= quorum <= len(files)
        self.blob_id: BlobId = blob.blob_id
        self.first_row = blob
        """The row to insert with the first batch; later batches read it from the database."""
        self.end = 0
        self.is_suspect = False
        self.failed_copies: list[int] = []
        self._quorum = quorum
        self._first = files[0]
        self._others = [_Copy(file, f"pack-{blob.blob_id.hex()[:8]}-{i}") for i, file in enumerate(files[1:], 1)]

    @property
    def is_full(self) -> bool:
        """Whether the next batch belongs into a new pack."""
        return self.is_suspect or self.end >= PACK_BYTES_MAX

    def append(self, batch: memoryview) -> None:
        """Append to every copy in parallel; returns when the write quorum is durable.

        Errors: QuorumNotReached; the batch may lie whole on some copies and is on no chain. Either way `end` moves on,
        because the region must never be written again.
        """
        assert len(batch) % PAGE == 0
        offset, self.end = self.end, self.end + len(batch)
        for copy in self._others:
            copy.begin(offset, batch)
        outcomes: list[Exception | None] = [self._append_first(offset, batch)]
        outcomes += [copy.finish() for copy in self._others]
        self.failed_copies = [index for index, outcome in enumerate(outcomes) if outcome is not None]
        if self.failed_copies:
            self.is_suspect = True
            if len(outcomes) - len(self.failed_copies) < self._quorum:
                raise QuorumNotReached(f"pack {self.blob_id.hex()}: {[str(o) for o in outcomes if o is not None]}")

    def _append_first(self, offset: int, batch: memoryview) -> Exception | None:
        try:
            self._first.append(offset, batch)
        except StorageError as error:
            return error
        return None

    def close(self) -> None:
        """Close every copy; whatever was appended stays durable, what was reserved beyond it is given back."""
        close_trimmed(self._first, self.end)
        for copy in self._others:
            copy.close()


def close_trimmed(file: LogFile, size: int) -> None:
    """Give back what one copy holds beyond `size`, and close it. A device that refuses costs space and nothing else."""
    try:
        file.trim(size)
    except StorageError as error:
        logger.warning("space of a pack copy is not given back: %s", error)
    file.close()


def pack_row(blob_id: BlobId, tier: str, placement: Sequence[str], worker: int, created_ms: int) -> Blob:
    """The row of a new, empty pack whose copies lie on the devices `placement`."""
    return Blob(
        blob_id=blob_id,
        tier=tier,
        kind=BlobKind.PACK,
        layout=f"copies:{len(placement)}",
        size=0,
        live_bytes=0,
        state=BlobState.OPEN,
        placement=" ".join(placement),
        generation=0,
        created_ms=created_ms,
        dead_ms=0,
        last_sequence=0,
        worker=worker,
    )


def pack_file_name(blob_id: bytes, copy: int) -> str:
    """Name of one copy of a pack in the PACKS area of its device."""
    return f"{blob_id.hex()}.{copy}"
