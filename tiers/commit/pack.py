"""One open pack of one worker: r copies, written side by side, each append durable when it returns."""

import logging
import mmap
import os
import queue
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from metadata.types import Blob, BlobId, BlobKind, BlobState
from tiers.commit.log import PAGE, padded
from tiers.devices.contract import LogFile
from tiers.devices.kernel_append import KernelAppender, open_appender
from tiers.errors import DeviceFailed, QuorumNotReached, StorageError

logger = logging.getLogger(__name__)

PACK_BYTES_MAX: Final = 256 << 20
"""About the longest a pack becomes; keeps recovery scans and compaction steps short."""

PACK_BYTES_FULL: Final = PACK_BYTES_MAX - (6 << 20)
"""A pack is sealed once it is longer: the last batch still fits the space reserved, so that little is given back."""

FLUSH_SECONDS_MAX: Final = 10.0
"""A copy that has not answered by then counts as failed (promises.md: operation timeout of a device)."""

LATE_SECONDS: Final = 2.0
"""Once the quorum is durable, a copy that takes so much longer counts as failed: every writer waits for this one."""

STEADY_SECONDS: Final = 0.1
"""A pack appended to so recently is on devices that answer: only then an append is started in the caller's thread.

To start a write may wait for a device that hangs (its file system's journal does, after some idle seconds), and the
caller may be an event loop. The first append after a pause is left to the copies' own threads.
"""


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
        self._inbox: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._end = 0
        self._is_extending = False
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)
        self.thread.start()

    def begin(self, offset: int, data: memoryview) -> None:
        self._end = offset + len(data)
        self._inbox.put(partial(self._append, offset, data))

    def direct(self, offset: int, data: memoryview) -> int | None:
        """See `LogFile.direct`."""
        return self._file.direct(offset, data)

    def reach(self, end: int) -> None:
        """Nothing before `end` is given back when the file is closed, whatever becomes of the append under way."""
        self._end = end

    def appended(self, byte_count: int, seconds: float) -> None:
        if self._file.appended(byte_count, seconds) and not self._is_extending:
            self._is_extending = True
            self._inbox.put(self._extend)

    def close(self) -> None:
        self._inbox.put(None)

    def _run(self) -> None:
        while (job := self._inbox.get()) is not None:
            job()
            del job  # a waiting thread must not keep the last batch's buffer alive
        close_trimmed(self._file, self._end)

    def _append(self, offset: int, data: memoryview) -> None:
        try:
            self._file.append(offset, data)
        except Exception as error:  # noqa: BLE001  # whatever it is: this copy is not durable, and must say so
            self._outbox.put((self._number, error))
        else:
            self._outbox.put((self._number, None))

    def _extend(self) -> None:
        try:
            self._file.extend()
        except StorageError as error:  # the next append finds out what is wrong; this one is tried once
            logger.info("a pack copy is not extended ahead any more: %s", error)
        else:
            self._is_extending = False


class Append:
    """One append under way on every copy of a pack; `finish` must be called, by whichever thread."""

    def __init__(self, copies: Sequence[_Copy], outbox: Outbox, kernel: KernelAppender | None, *, quorum: int) -> None:
        self._copies, self._outbox, self._kernel, self._quorum = copies, outbox, kernel, quorum
        self._outcomes: dict[int, Exception | None] = {}
        self._tokens: dict[int, int] | None = None
        self._began = time.monotonic()
        self._byte_count = 0
        self.has_late_writes = False
        """Whether the kernel may still be writing when `finish` has returned: its appender must not be closed then."""

    def start(self, offset: int, batch: memoryview) -> None:
        """All copies by one call to the kernel, without a thread; by their own threads where that cannot be."""
        self._byte_count = len(batch)
        descriptors = [copy.direct(offset, batch) for copy in self._copies] if self._kernel is not None else [None]
        if self._kernel is not None and None not in descriptors:
            for copy in self._copies:
                copy.reach(offset + len(batch))
            self._tokens = self._kernel.submit([n for n in descriptors if n is not None], offset, batch)
        if self._tokens is None:
            for copy in self._copies:
                copy.begin(offset, batch)
        else:
            for number in set(range(len(self._copies))).difference(self._tokens.values()):
                self._outcomes[number] = DeviceFailed("the write could not be started")

    def poll(self, seconds: float) -> bool:
        """Wait for at most so long; whether every copy has ended."""
        deadline = time.monotonic() + seconds
        while len(self._outcomes) < len(self._copies):
            missing = len(self._copies) - len(self._outcomes)
            if not self._collect(max(0.0, deadline - time.monotonic()), missing):
                return False
        return True

    def watch(self, seconds: float) -> bool:
        """The same without sleeping: being woken takes a virtual machine a good part of what a flush takes.

        Only where the kernel writes: a copy's own thread needs the interpreter that watching would keep from it.
        """
        if self._tokens is None:
            return False
        deadline = time.monotonic() + seconds
        while len(self._outcomes) < len(self._copies):
            if not self._collect(0.0, 1):
                if time.monotonic() > deadline:
                    return False
                os.sched_yield()
        return True

    def _collect(self, seconds: float, least: int) -> bool:
        """Wait for `least` copies to end, where several can be waited for; False when none did in time."""
        if self._tokens is None:
            try:
                number, outcome = self._outbox.get(timeout=seconds) if seconds else self._outbox.get_nowait()
            except queue.Empty:
                return False
            self._outcomes[number] = outcome
            return True
        assert self._kernel is not None
        ended = self._kernel.collect(seconds, self._byte_count, least)
        for token, outcome in ended.items():
            if token in self._tokens:
                self._outcomes[self._tokens[token]] = outcome
        return bool(ended)

    def finish(self) -> dict[int, Exception | None]:
        """The outcome by copy; a copy that the write quorum has long waited for counts as failed."""
        while len(self._outcomes) < len(self._copies):
            durable = sum(error is None for error in self._outcomes.values())
            patience = LATE_SECONDS if durable >= self._quorum else FLUSH_SECONDS_MAX
            if not self._collect(patience, 1):
                late = DeviceFailed(f"no answer within {patience} s")
                self.has_late_writes = self._tokens is not None
                return {**dict.fromkeys(range(len(self._copies)), late), **self._outcomes}
        if self._tokens is not None:
            seconds = time.monotonic() - self._began
            for copy in self._copies:
                copy.appended(self._byte_count, seconds)
        return self._outcomes


class OpenPack:
    """The pack a worker appends to. Used by whoever commits, one batch at a time.

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
        self._answered = time.monotonic()
        self._outbox: Outbox = queue.SimpleQueue()
        self._kernel = open_appender()
        name = f"pack-{blob.blob_id.hex()[:8]}"
        self._copies = [_Copy(file, number, self._outbox, f"{name}-{number}") for number, file in enumerate(files)]

    @property
    def is_full(self) -> bool:
        """Whether the next batch belongs into a new pack."""
        return self.is_suspect or self.end >= PACK_BYTES_FULL

    def begin(self, batch: memoryview) -> Append:
        """Start to append to every copy in parallel; `finish` comes next, and before it no other append.

        `end` moves on at once, because the region must never be written again whatever becomes of it.
        """
        assert len(batch) % PAGE == 0
        assert not self.is_suspect
        offset, self.end = self.end, self.end + len(batch)
        self.is_suspect = True  # until every copy has said that it is durable
        is_steady = time.monotonic() - self._answered < STEADY_SECONDS
        append = Append(self._copies, self._outbox, self._kernel if is_steady else None, quorum=self._quorum)
        append.start(offset, batch)
        return append

    def finish(self, append: Append) -> None:
        """Wait until the write quorum is durable and no other copy is in time.

        The memory of the batch is in use for longer when a copy was late: the pack is suspect then.
        Errors: QuorumNotReached; the batch may lie whole on some copies and is on no chain.
        """
        outcomes = append.finish()
        if append.has_late_writes:
            self._kernel = None  # dropped, not closed: closing waits for the writes that are late
        failures = {number: error for number, error in outcomes.items() if error is not None}
        self.failed_copies = sorted(failures)
        self.is_suspect = bool(failures)
        self._answered = time.monotonic()
        if len(outcomes) - len(failures) < self._quorum:
            raise QuorumNotReached(f"pack {self.blob_id.hex()}: {[str(error) for error in failures.values()]}")

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
