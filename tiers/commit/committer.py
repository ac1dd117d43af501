"""Group commit: queued mutations become batches, and a batch one flush and one database commit.

What arrives while a batch flushes is the next batch; there is no timer. Order within a batch, under the database's
write lock: decide every mutation in the transaction, take the predecessor from the database, append bodies and redo
images to the packs, commit the database, release the lock, resolve the futures. Nothing is visible or acknowledged
before all of that happened.

A brief batch is committed on the event loop itself: the interpreter is handed over some forty times in a batch, and
beside a busy loop each time costs a wait, all of them under the lock. A thread does what could hold the loop up: large
batches, packs to be created, a lock that is long in coming, a flush that is late.
"""

import asyncio
import logging
import queue
import random
import threading
from collections import deque
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Final, TypeVar

from metadata.contract import Metadata, Writer
from metadata.errors import TooManyChanges
from tiers.catalogue import Catalogue
from tiers.commit.batch import BatchBuilder, RecordTooLarge
from tiers.commit.contract import Mutation
from tiers.commit.pack import Append
from tiers.commit.packs import PackSet
from tiers.commit.pending import Pending
from tiers.devices.fleet import Fleet
from tiers.errors import MetadataUnavailable, StoreBusy

T = TypeVar("T")
logger = logging.getLogger(__name__)

BATCH_OPERATIONS_MAX: Final = 512
BATCH_BODY_BYTES_MAX: Final = 4 << 20
"""Together they bound a batch's time under the lock."""

BRIEF_OPERATIONS_MAX: Final = 48
BRIEF_BODY_BYTES_MAX: Final = 1 << 20
"""A batch within both may be committed on the event loop: about 2 ms at most."""

BRIEF_CHANGES_MAX: Final = 768
"""Rows put or deleted: an overwrite of a content of 10,000 extents is found out here, and left to the thread."""

FLUSH_PATIENCE_SECONDS: Final = 0.001
"""How long the loop itself waits for a flush; a disk that takes longer gets the thread at once for a while."""

PATIENCE_AFTER_BATCHES: Final = 64
"""Batches after which the loop tries again to wait for a flush itself."""

WATCH_SECONDS: Final = 0.0003
"""How long the loop watches the flush of a lone operation without sleeping; its client is all there is to do."""

LOCK_TRIES_MAX: Final = 4
"""Times that another process may be quicker to take the write lock before the thread queues for it."""

QUEUE_OPERATIONS_MAX: Final = 16_384
QUEUE_BODY_BYTES_MAX: Final = 256 << 20
"""Beyond either, `submit` refuses: memory stays bounded when the devices are slower than the clients."""

Steps = Generator[Append, None, int]


@dataclass(slots=True)
class CommitCounters:
    """What a committer did, for metrics and for tests that assert counts. Written by whoever commits."""

    batches: int = 0
    operations: int = 0
    flushes: int = 0
    body_bytes: int = 0
    failures: int = 0


class GroupCommitter:
    """The committer of one process; implements `tiers.commit.contract.Committer`.

    `start` and `stop` on the event loop that submits. `stop` commits what is queued. While `_is_busy` a batch is under
    way, or the thread has work: then the thread alone touches writer, builder and `_batch`, else the loop alone.
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
        self._queue: deque[Pending] = deque()
        self._queued = 0
        self._queued_bytes = 0
        self._batch: list[Pending] = []  # taken from the queue, not yet committed
        self._is_busy = True
        self._is_planned = False
        self._lock_tries = 0
        self._until_patient = 0
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._drained: asyncio.Future[None] | None = None
        self._writer: Writer
        self._builder: BatchBuilder
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
        try:
            await started
        except BaseException:
            self._thread = None  # nothing is taken any more; a thread that is still opening ends by itself
            self._jobs.put(None)
            raise
        self._ended([])

    async def stop(self) -> None:
        """Commit everything queued, close the packs, end the thread. Idempotent."""
        if self._thread is None:
            return
        assert self._loop is not None
        thread, self._thread = self._thread, None
        while self._is_busy or self._batch or self._queue:
            self._drained = self._loop.create_future()
            await self._drained
        self._jobs.put(None)
        await asyncio.to_thread(thread.join)

    def submit(self, mutation: Mutation[T]) -> "asyncio.Future[T]":
        """See `tiers.commit.contract.Committer`."""
        assert self._loop is not None, "start() comes first"
        future: asyncio.Future[T] = self._loop.create_future()
        pending = Pending(mutation, future)
        size = pending.size
        if self._thread is None:
            future.set_exception(StoreBusy("the committer has stopped"))
            return future
        if self._queued >= QUEUE_OPERATIONS_MAX or self._queued_bytes + size > QUEUE_BODY_BYTES_MAX:
            future.set_exception(StoreBusy("commit queue is full"))
            return future
        self._queued += 1
        self._queued_bytes += size
        self._queue.append(pending)
        if not (self._is_busy or self._is_planned):
            self._is_planned = True
            self._loop.call_soon(self._turn)  # whatever this turn of the loop still submits joins the batch
        return future

    # on the event loop

    def _turn(self) -> None:
        """Commit what is there, here or by the thread."""
        self._is_planned = False
        if self._is_busy:
            return
        self._take()
        if not self._batch:
            if self._drained is not None and not self._drained.done():
                self._drained.set_result(None)
        elif not self._is_brief() or self._lock_tries >= LOCK_TRIES_MAX:
            self._give(self._commit_there)
        else:
            try:
                self._builder.prepare(self._batch)
                is_ours = self._writer.try_lock()
            except Exception as error:  # noqa: BLE001  # the thread meets it again, and knows whom to tell
                logger.warning("a batch is left to the thread: %r", error)
                self._give(self._commit_there)
                return
            if is_ours:
                self._commit_here()
            else:
                self._lock_tries += 1
                self._give(self._wait_free)

    def _commit_here(self) -> None:
        steps = self._builder.commit(self._batch, BRIEF_CHANGES_MAX)
        is_patient = not self._until_patient
        watched = WATCH_SECONDS if is_patient and len(self._batch) == 1 else 0.0
        try:
            taken = _go_on(steps, FLUSH_PATIENCE_SECONDS if is_patient else 0.0, watched)
        except (RecordTooLarge, TooManyChanges):
            self._give(self._commit_there)  # nothing happened yet; it may take its time, and knows how to halve
            return
        except BaseException as error:  # noqa: BLE001  # every failure must reach every waiter
            taken = self._failed(self._batch, error)
        self._until_patient = max(0, self._until_patient - 1)
        if taken is None:
            if is_patient:
                self._until_patient = PATIENCE_AFTER_BATCHES
            self._give(lambda: self._finish_there(steps))
            return
        self._count(taken)
        self._ended(self._split(taken))

    def _ended(self, batch: list[Pending]) -> None:
        """Tell the waiters of a batch and go on with the next one."""
        self._is_busy = False
        self._lock_tries = 0
        self._resolve(batch)
        if not self._is_planned:
            self._is_planned = True
            assert self._loop is not None
            self._loop.call_soon(self._turn)

    def _lock_is_free(self) -> None:
        self._is_busy = False
        self._turn()

    def _resolve(self, batch: list[Pending]) -> None:
        for pending in batch:
            self._queued -= 1
            self._queued_bytes -= pending.size
            if pending.future.done():  # cancelled by a client that went away; the commit stands
                continue
            if pending.error is not None:
                pending.future.set_exception(pending.error)
            else:
                pending.future.set_result(pending.result)

    def _give(self, job: Callable[[], None]) -> None:
        self._is_busy = True
        self._jobs.put(job)

    # on the commit thread

    def _run(self, started: "asyncio.Future[None]") -> None:
        loop = self._loop
        assert loop is not None
        try:
            self._writer = self._metadata.open_writer()
            with self._writer.transaction() as transaction:
                self._packs.find_leftovers(transaction)
            self._packs.measure_leftovers()
        except BaseException as error:  # noqa: BLE001  # handed to whoever awaits start()
            loop.call_soon_threadsafe(_settle, started, error)
            return
        self._builder = BatchBuilder(self._writer, self._packs, self._clock, self._new_id)
        if self._packs.has_leftovers:
            self._commit([])  # on failure the first batch that stands does it
        loop.call_soon_threadsafe(_settle, started, None)
        while (job := self._jobs.get()) is not None:
            job()
        self._packs.close()
        self._writer.close()

    def _wait_free(self) -> None:
        try:
            self._writer.wait_free()
        except MetadataUnavailable as error:
            logger.warning("the write lock cannot be waited for: %s", error)
        self._tell(self._lock_is_free)

    def _finish_there(self, steps: Steps) -> None:
        try:
            taken = _go_on(steps, None)
            assert taken is not None
        except BaseException as error:  # noqa: BLE001  # every failure must reach every waiter
            taken = self._failed(self._batch, error)
        self._count(taken)
        self._tell(self._ended, self._split(taken))

    def _commit_there(self) -> None:
        """Commit batch after batch, until the next one may be committed on the loop or there is none."""
        while True:
            batch = self._commit_some()
            self._take()
            if not self._batch or self._is_brief():
                self._tell(self._ended, batch)
                return
            self._tell(self._resolve, batch)

    def _commit_some(self) -> list[Pending]:
        """Commit the first of the batch, as many as the rows of one record hold; those that have their answer now."""
        size = len(self._batch)
        while True:
            try:
                taken = self._commit(self._batch[:size])
            except RecordTooLarge as error:
                if size > 1:
                    size //= 2
                    continue
                self._batch[0].error, taken = StoreBusy(f"one change alone needs {error}"), 1
            return self._split(taken)

    def _commit(self, batch: list[Pending]) -> int:
        """Commit from the first on; how many of them have their result or error. Errors: RecordTooLarge."""
        try:
            self._builder.prepare(batch)
            taken = _go_on(self._builder.commit(batch), None)
            assert taken is not None
        except RecordTooLarge:
            raise
        except BaseException as error:  # noqa: BLE001  # every failure must reach every waiter, and the thread lives on
            taken = self._failed(batch, error)
        self._count(taken)
        return taken

    def _tell(self, act: Callable[..., None], *arguments: list[Pending]) -> None:
        assert self._loop is not None
        self._loop.call_soon_threadsafe(act, *arguments)

    # wherever the batch is

    def _take(self) -> None:
        """Move what is queued into the batch, up to its limits."""
        batch, waiting = self._batch, self._queue
        size = sum(pending.size for pending in batch)
        while waiting and len(batch) < BATCH_OPERATIONS_MAX and size < BATCH_BODY_BYTES_MAX:
            pending = waiting.popleft()
            size += pending.size
            batch.append(pending)

    def _is_brief(self) -> bool:
        """Whether the batch may be committed on the loop."""
        batch = self._batch
        return (
            self._writer.is_inline
            and len(batch) <= BRIEF_OPERATIONS_MAX
            and sum(pending.size for pending in batch) <= BRIEF_BODY_BYTES_MAX
            and all(getattr(pending.mutation, "is_brief", False) for pending in batch)
            and self._builder.is_ready(batch)
            and not self._packs.has_leftovers
        )

    def _split(self, taken: int) -> list[Pending]:
        """Take the first ones out of the batch."""
        done, self._batch = self._batch[:taken], self._batch[taken:]
        return done

    def _count(self, taken: int) -> None:
        counters = self.counters
        counters.batches += 1
        counters.operations += taken
        counters.flushes, counters.body_bytes = self._builder.flushes, self._builder.body_bytes

    def _failed(self, batch: list[Pending], error: BaseException) -> int:
        """A batch as a whole failed: none of it may be acknowledged."""
        logger.error("batch of %d operations failed", len(batch), exc_info=error)
        self.counters.failures += 1
        for pending in batch:
            pending.error = error if isinstance(error, Exception) else MetadataUnavailable(repr(error))
        return len(batch)


def _settle(started: "asyncio.Future[None]", error: BaseException | None) -> None:
    if started.done():  # nobody waits any more
        return
    if error is not None:
        started.set_exception(error)
    else:
        started.set_result(None)


def _go_on(steps: Steps, patience: float | None, watched: float = 0.0) -> int | None:
    """Go on with a batch; its result, or None when a flush is not over within `patience` seconds (None: waits).

    Before it sleeps, it watches each flush for `watched` seconds.
    """
    try:
        while True:
            append = next(steps)
            if watched and append.watch(watched):
                continue
            if patience is not None and not append.poll(patience):
                return None
    except StopIteration as ended:
        taken: int = ended.value
        return taken
