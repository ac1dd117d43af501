"""Group commit: one thread a process turns queued mutations into batches, and a batch into one flush and one commit.

What arrives while a batch flushes is the next batch; there is no timer. Order within a batch, under the database's
write lock: decide every mutation in the transaction, take the predecessor from the database, append bodies and redo
images to the packs, commit the database, release the lock, resolve the futures. Nothing is visible or acknowledged
before all of that happened.
"""

import asyncio
import logging
import queue
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from metadata.contract import Metadata
from tiers.catalogue import Catalogue
from tiers.commit.batch import BatchBuilder, RecordTooLarge
from tiers.commit.contract import Mutation
from tiers.commit.packs import PackSet
from tiers.devices.fleet import Fleet
from tiers.errors import MetadataUnavailable, StoreBusy

T = TypeVar("T")
logger = logging.getLogger(__name__)

BATCH_OPERATIONS_MAX: Final = 512
BATCH_BODY_BYTES_MAX: Final = 4 << 20
"""Together they bound a batch's time under the lock."""

QUEUE_OPERATIONS_MAX: Final = 16_384
QUEUE_BODY_BYTES_MAX: Final = 256 << 20
"""Beyond either, `submit` refuses: memory stays bounded when the devices are slower than the clients."""


@dataclass(slots=True)
class Pending:
    """One queued mutation and whom to tell."""

    mutation: Mutation[Any]
    future: asyncio.Future[Any]
    result: Any = None
    error: BaseException | None = None


@dataclass(slots=True)
class CommitCounters:
    """What a committer did, for metrics and for tests that assert counts. Written by the commit thread only."""

    batches: int = 0
    operations: int = 0
    flushes: int = 0
    body_bytes: int = 0
    failures: int = 0


class GroupCommitter:
    """The committer of one process; implements `tiers.commit.contract.Committer`.

    `start` and `stop` on the event loop that submits. `stop` commits what is queued.
    """

    def __init__(
        self,
        metadata: Metadata,
        catalogue: Catalogue,
        fleet: Fleet,
        *,
        worker: int,
        clock: Callable[[], float],
        new_id: Callable[[], bytes],
        rng: random.Random,
    ) -> None:
        self._metadata = metadata
        self._clock = clock
        self._new_id = new_id
        self._packs = PackSet(catalogue, fleet, worker=worker, clock=clock, new_id=new_id, rng=rng)
        self._queue: queue.SimpleQueue[Pending | None] = queue.SimpleQueue()
        self._queued = 0
        self._queued_bytes = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self.counters = CommitCounters()

    async def start(self) -> None:
        """Open the writer, and seal what an earlier process of this worker number left open.

        The batch that seals also continues the chain: what that process flushed without committing is void from then
        on, so that no later recovery brings a write back that was never answered and has been read past since.
        Errors: what opening the database raises.
        """
        self._loop = asyncio.get_running_loop()
        started: asyncio.Future[None] = self._loop.create_future()
        self._thread = threading.Thread(target=self._run, args=(started,), name="commit", daemon=True)
        self._thread.start()
        await started

    async def stop(self) -> None:
        """Commit everything queued, close the packs, end the thread. Idempotent."""
        if self._thread is None:
            return
        self._queue.put(None)
        thread, self._thread = self._thread, None
        await asyncio.to_thread(thread.join)

    def submit(self, mutation: Mutation[T]) -> "asyncio.Future[T]":
        """See `tiers.commit.contract.Committer`."""
        assert self._loop is not None, "start() comes first"
        future: asyncio.Future[T] = self._loop.create_future()
        size = len(mutation.body) if mutation.body is not None else 0
        if self._thread is None:
            future.set_exception(StoreBusy("the committer has stopped"))
            return future
        if self._queued >= QUEUE_OPERATIONS_MAX or self._queued_bytes + size > QUEUE_BODY_BYTES_MAX:
            future.set_exception(StoreBusy("commit queue is full"))
            return future
        self._queued += 1
        self._queued_bytes += size
        self._queue.put(Pending(mutation, future))
        return future

    # the commit thread

    def _run(self, started: "asyncio.Future[None]") -> None:
        loop = self._loop
        assert loop is not None
        try:
            writer = self._metadata.open_writer()
            with writer.transaction() as transaction:
                self._packs.find_leftovers(transaction)
            self._packs.measure_leftovers()
        except BaseException as error:  # noqa: BLE001  # handed to whoever awaits start()
            loop.call_soon_threadsafe(started.set_exception, error)
            return
        builder = BatchBuilder(writer, self._packs, self._clock, self._new_id)
        if self._packs.has_leftovers:
            self._commit(builder, [])  # on failure the first batch that stands does it
        loop.call_soon_threadsafe(started.set_result, None)
        is_open = True
        while is_open:
            batch, is_open = self._take()
            if batch:
                self._commit_all(builder, batch)
        self._packs.close()
        writer.close()

    def _take(self) -> tuple[list[Pending], bool]:
        """The next batch, and whether more may follow."""
        batch: list[Pending] = []
        size = 0
        first = self._queue.get()
        while first is not None:
            batch.append(first)
            body = first.mutation.body
            size += len(body) if body is not None else 0
            if len(batch) >= BATCH_OPERATIONS_MAX or size >= BATCH_BODY_BYTES_MAX:
                return batch, True
            try:
                first = self._queue.get_nowait()
            except queue.Empty:
                return batch, True
        return batch, False

    def _commit_all(self, builder: BatchBuilder, batch: list[Pending]) -> None:
        """Commit a batch in as many pieces as its rows need, and tell the waiters of each."""
        assert self._loop is not None
        size = len(batch)
        while batch:
            try:
                taken = self._commit(builder, batch[:size])
            except RecordTooLarge as error:
                if size > 1:
                    size //= 2
                    continue
                batch[0].error, taken = StoreBusy(f"one change alone needs {error}"), 1
            self._loop.call_soon_threadsafe(self._resolve, batch[:taken])
            batch = batch[taken:]
            size = len(batch)

    def _commit(self, builder: BatchBuilder, batch: list[Pending]) -> int:
        """Commit from the first on; how many of them have their result or error. Errors: RecordTooLarge."""
        counters = self.counters
        try:
            taken = builder.commit(batch)
        except RecordTooLarge:
            raise
        except BaseException as error:  # every failure must reach every waiter, and the thread lives on
            logger.exception("batch of %d operations failed", len(batch))
            counters.failures += 1
            taken = len(batch)
            for pending in batch:
                pending.error = error if isinstance(error, Exception) else MetadataUnavailable(repr(error))
        counters.batches += 1
        counters.operations += taken
        counters.flushes, counters.body_bytes = builder.flushes, builder.body_bytes
        return taken

    def _resolve(self, batch: list[Pending]) -> None:
        for pending in batch:
            self._queued -= 1
            body = pending.mutation.body
            self._queued_bytes -= len(body) if body is not None else 0
            if pending.future.done():  # cancelled by a client that went away; the commit stands
                continue
            if pending.error is not None:
                pending.future.set_exception(pending.error)
            else:
                pending.future.set_result(pending.result)
