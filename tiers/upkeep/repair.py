"""Repair: works the queue of missing and bad fragments off, the most endangered blob first.

One step moves a bounded number of bytes of one blob in a thread; the runner rests between steps. The new files are
durable before the placement is swapped, in one step of the commit log with the end of the queue's entries: a crash
anywhere leaves the blob readable and the entries in place.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from metadata.types import Blob
from tiers.catalogue import Catalogue
from tiers.errors import ContentUnreadable, PlacementMoved, StorageError
from tiers.upkeep.device_calls import DeviceCalls
from tiers.upkeep.fragment_repair import FragmentRepair
from tiers.upkeep.pack_repair import PackRepair
from tiers.upkeep.rebuilt import Patient, Rebuilt, Tools
from tiers.upkeep.removal import is_pack
from tiers.upkeep.repair_aims import Aims
from tiers.upkeep.repair_mutations import ForgetRepairs, SwapPlacement, is_placed_as
from tiers.upkeep.repair_queue import RepairQueue
from tiers.upkeep.reports import NoteRepair
from tiers.upkeep.sweeps import Reach, files_of
from tiers.worker import Step

logger = logging.getLogger(__name__)

STEP_BYTES: Final = 64 << 20
"""Bytes read and written after which a step ends, wherever in a blob it is."""

REST_SECONDS: Final = 30.0


class _Job:
    """The repair of one blob under way."""

    def __init__(self, tools: Tools, patient: Patient) -> None:
        kind = PackRepair if is_pack(patient.blob) else FragmentRepair
        self.patient, self._work = patient, kind(tools, patient).work()
        self._refused = len(patient.refused)

    @property
    def is_refused(self) -> bool:
        """Whether a device took no new file in this try, so that another try may go to another."""
        return len(self.patient.refused) > self._refused

    def advance(self, bytes_max: int) -> Rebuilt | None:
        """Go on until so many bytes were moved; the result at the end. Blocking. Errors: those of the work."""
        moved = 0
        while moved < bytes_max:
            try:
                moved += next(self._work)
            except StopIteration as end:
                result: Rebuilt = end.value
                return result
        return None

    def close(self) -> None:
        """Give up and remove what was staged. Blocking."""
        self._work.close()


class Repair:
    """The worker. `observe` is told, at every look at the queue, how many blobs have how much margin left.

    `reach.fleet` may count what repair moves by itself. Has no cursor: the queue is the position.
    """

    name = "repair"

    def __init__(
        self,
        reach: Reach,
        catalogue: Catalogue,
        *,
        rng: random.Random,
        rest_seconds: float = REST_SECONDS,
        observe: Callable[[Mapping[int, int]], None] = lambda margins: None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._reader, self._committer, self._observe = reach.reader, reach.committer, observe
        self._queue = RepairQueue(reach.reader, reach.clock)
        calls = DeviceCalls(reach.fleet)
        self._tools = Tools(calls, Aims(catalogue, calls, rng))
        self._rest_seconds, self._sleep = rest_seconds, sleep
        self._job: _Job | None = None

    async def wait_for_work(self) -> None:
        """The queue is looked at again after a while."""
        await self._sleep(self._rest_seconds)

    async def step(self) -> Step:
        """See `Worker`. What fails for one blob sets that blob aside; an error of the commit ends the step."""
        job, self._job = self._job or await self._next(), None
        if job is None:
            return Step(0, is_idle=True)
        try:
            rebuilt = await asyncio.to_thread(job.advance, STEP_BYTES)
            if rebuilt is None:
                self._job = job
                return Step(0, is_idle=False)
        except StorageError as error:
            await self._note_failure(job, error)
            return Step(0, is_idle=False)
        except BaseException:
            self._queue.rest(job.patient.blob.blob_id)  # a bug met in one blob must not hold up the others
            raise
        return Step(await self._settle(job, rebuilt), is_idle=False)

    async def close(self) -> None:
        """Give up the blob in hand; call when no step runs any more."""
        job, self._job = self._job, None
        if job is not None:
            await asyncio.to_thread(job.close)

    async def _next(self) -> _Job | None:
        while True:
            due = await self._queue.next()
            self._observe(self._queue.margins)
            if due is None:
                return None
            if due.blob is None or due.is_over:
                await self._committer.submit(ForgetRepairs(due.blob_id, due.indexes))
                self._queue.end(due.blob_id)
                continue
            return _Job(self._tools, Patient(due.blob, due.indexes))

    async def _settle(self, job: _Job, rebuilt: Rebuilt) -> int:
        """Publish, swap, and end what is repaired; the number of entries ended."""
        patient, blob = job.patient, job.patient.blob
        await self._enter(patient)
        if rebuilt.files is not None:
            rows = await self._reader.get_blobs([blob.blob_id])
            if not rows or not is_placed_as(rows[0], blob):
                await self._withdraw(blob, rebuilt)
                return 0
            # What its own publish could take away is a bad file of this very placement.
            try:
                await asyncio.to_thread(rebuilt.files.publish)
            except StorageError as error:
                await self._note_failure(job, error)
                return 0
        settled = rebuilt.good | rebuilt.written.keys()
        try:
            await self._committer.submit(
                SwapPlacement(blob, rebuilt.placement(blob), rebuilt.generation, sorted(settled))
            )
        except PlacementMoved:
            await self._withdraw(blob, rebuilt)
            return 0
        if settled:
            logger.info("repaired %s of blob %s: %s", sorted(settled), blob.blob_id.hex(), rebuilt.written)
            self._queue.end(blob.blob_id)
        if set(patient.queued) - settled:
            self._queue.rest(blob.blob_id)
        return len(settled)

    async def _note_failure(self, job: _Job, error: StorageError) -> None:
        """Nothing of this blob was repaired: go to other devices, or say so and try the other blobs first."""
        is_lost = isinstance(error, ContentUnreadable)
        blob_id = job.patient.blob.blob_id
        level = logging.ERROR if is_lost else logging.WARNING
        logger.log(level, "blob %s is not repaired: %s: %s", blob_id.hex(), type(error).__name__, error)
        if job.is_refused and not is_lost:
            self._job = _Job(self._tools, job.patient)
        else:
            self._queue.rest(blob_id, is_lost=is_lost)
        await self._enter(job.patient)

    async def _enter(self, patient: Patient) -> None:
        """Enter what was found bad besides, before anything is done about it."""
        for index, reason in sorted(patient.found.items()):
            await self._committer.submit(NoteRepair(patient.blob.blob_id, index, reason))

    async def _withdraw(self, blob: Blob, rebuilt: Rebuilt) -> None:
        """The blob died or moved meanwhile: remove the new files, except where its row places them."""
        logger.info("blob %s died or moved while it was repaired", blob.blob_id.hex())
        if rebuilt.files is not None:
            rows = await self._reader.get_blobs([blob.blob_id])
            placed = {(device_id, name) for row in rows for device_id, _, name in files_of(row)}
            await asyncio.to_thread(rebuilt.files.withdraw, placed)
