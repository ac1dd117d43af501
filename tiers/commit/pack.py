"""One open pack of one worker: r copies, written side by side, each append durable when it returns."""

import logging
import mmap
import queue
import threading
import time
from collections.abc import Sequence
from typing import Final

from metadata.types import Blob, BlobId, BlobKind, BlobState
from tiers.commit.log import PAGE, padded
from tiers.devices.contract import LogFile
from tiers.devices.kernel_append import open_appender
from tiers.errors import DeviceFailed, QuorumNotReached, StorageError

logger = logging.getLogger(__name__)

PACK_BYTES_MAX: Final = 256 << 20
"""A pack is sealed once it is longer; keeps recovery scans and compaction steps short."""

FLUSH_SECONDS_MAX: Final = 10.0
"""A copy that has not answered by then counts as failed (promises.md: operation timeout of a device)."""

LATE_SECONDS: Final = 2.0
"""Once the quorum is durable, a copy that takes so much longer counts as failed: every writer waits for this one."""


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


Outbox = queue.SimpleQueue[tuple[int, Exception | None]]
"""Copy number and outcome of each append as it ends."""


class _Copy:
    """One copy with its own thread: two queues cost less than an executor's futures; a hung one holds no other."""

    def __init__(self, file: LogFile, number: int, outbox: Outbox, name: str) -> None:
        self._file, self._number, self._outbox = file, number, outbox
        self._inbox: queue.SimpleQueue[tuple[int, memoryview] | None] = queue.SimpleQueue()
        self._end = 0
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)
        self.thread.start()

    def begin(self, offset: int, data: memoryview) -> None:
        self._end = offset + len(data)
        self._inbox.put((offset, data))

    def direct(self, offset: int, data: memoryview) -> int | None:
        """See `LogFile.direct`; None also when the file refuses, so that `begin` finds out why."""
        try:
            return self._file.direct(offset, data)
        except StorageError:
            return None

    def reach(self, end: int) -> None:
        """Nothing before `end` is given back when the file is closed, whatever becomes of the append under way."""
        self._end = end

    def appended(self, byte_count: int, seconds: float) -> None:
        self._file.appended(byte_count, seconds)

    def close(self) -> None:
        self._inbox.put(None)

    def _run(self) -> None:
        while (job := self._inbox.get()) is not None:
            try:
                self._file.append(*job)
            except Exception as error:  # noqa: BLE001  # whatever it is: this copy is not durable, and must say so
                self._outbox.put((self._number, error))
            else:
                self._outbox.put((self._number, None))
            del job  # a waiting thread must not keep the last batch's buffer alive
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
        self.is_exposed = False
        """Whether a database commit that names this pack was tried: from then on only its row tells what it holds."""
        self.failed_copies: list[int] = []
        self._quorum = quorum
        self._outbox: Outbox = queue.SimpleQueue()
        self._kernel = open_appender()
        name = f"pack-{blob.blob_id.hex()[:8]}"
        self._copies = [_Copy(file, number, self._outbox, f"{name}-{number}") for number, file in enumerate(files)]

    @property
    def is_full(self) -> bool:
        """Whether the next batch belongs into a new pack."""
        return self.is_suspect or self.end >= PACK_BYTES_MAX

    def append(self, batch: memoryview) -> None:
        """Append to every copy in parallel; returns when the write quorum is durable and no other copy is in time.

        The memory of `batch` is in use for longer when a copy was late: the pack is suspect then.
        Errors: QuorumNotReached; the batch may lie whole on some copies and is on no chain. Either way `end` moves on,
        because the region must never be written again.
        """
        assert len(batch) % PAGE == 0
        assert not self.is_suspect
        offset, self.end = self.end, self.end + len(batch)
        self.is_suspect = True  # until every copy has said that it is durable
        outcomes = self._append_by_kernel(offset, batch)
        if outcomes is None:
            for copy in self._copies:
                copy.begin(offset, batch)
            outcomes = self._outcomes()
        failures = {number: error for number, error in outcomes.items() if error is not None}
        self.failed_copies = sorted(failures)
        self.is_suspect = bool(failures)
        if len(outcomes) - len(failures) < self._quorum:
            raise QuorumNotReached(f"pack {self.blob_id.hex()}: {[str(error) for error in failures.values()]}")

    def _append_by_kernel(self, offset: int, batch: memoryview) -> dict[int, Exception | None] | None:
        """All copies by one call, without a thread; None when a copy has to be appended to by its own."""
        descriptors = [copy.direct(offset, batch) for copy in self._copies] if self._kernel is not None else [None]
        if self._kernel is None or None in descriptors:
            return None
        began = time.monotonic()
        for copy in self._copies:
            copy.reach(self.end)
        tokens = self._kernel.submit([number for number in descriptors if number is not None], offset, batch)
        if tokens is None:
            return None
        outcomes: dict[int, Exception | None] = {
            number: DeviceFailed("the write could not be started") for number in range(len(self._copies))
        }
        missing = set(tokens)
        while missing:
            durable = sum(error is None for error in outcomes.values())
            patience = LATE_SECONDS if durable >= self._quorum else FLUSH_SECONDS_MAX
            ended = self._kernel.collect(patience, len(batch))
            if not ended:
                outcomes |= {tokens[token]: DeviceFailed(f"no answer within {patience} s") for token in missing}
                self._kernel = None  # dropped, not closed: closing waits for the writes that are late
                return outcomes
            outcomes |= {tokens[token]: error for token, error in ended.items() if token in missing}
            missing -= ended.keys()
        seconds = time.monotonic() - began
        for copy in self._copies:
            copy.appended(len(batch), seconds)
        return outcomes

    def _outcomes(self) -> dict[int, Exception | None]:
        """The outcome of the append begun last, by copy; the time of those that are late is up."""
        outcomes: dict[int, Exception | None] = {}
        while len(outcomes) < len(self._copies):
            durable = sum(error is None for error in outcomes.values())
            patience = LATE_SECONDS if durable >= self._quorum else FLUSH_SECONDS_MAX
            try:
                number, outcomes[number] = self._outbox.get(timeout=patience)
            except queue.Empty:
                late: Exception = DeviceFailed(f"no answer within {patience} s")
                return {**dict.fromkeys(range(len(self._copies)), late), **outcomes}
        return outcomes

    def close(self) -> None:
        """Close every copy; whatever was appended stays durable, what was reserved beyond it is given back. Once."""
        if self._kernel is not None:
            self._kernel.close()
        for copy in self._copies:
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
