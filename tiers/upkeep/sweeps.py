"""One pass over one kind of leftover each: dead blobs, kept answers of uploads, files that no row knows.

Every sweep goes by bounded steps from a position to the next; None ends a pass. What might still be somebody's is set
aside and never deleted: only staged files, which nothing can refer to, and files of dead blobs are removed.
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future
from itertools import islice
from typing import Final, NamedTuple, Protocol, TypeVar

from metadata.contract import Reader
from metadata.tables import UPLOAD
from metadata.types import Blob, UploadState
from tiers.commit.contract import Committer
from tiers.commit.pack import pack_file_name
from tiers.devices.contract import Area, Device, Found
from tiers.devices.fleet import Fleet
from tiers.erasure.fragment import fragment_name
from tiers.errors import DeviceFailed, DeviceFull, StorageError
from tiers.namespace.upload_mutations import ExpireUpload
from tiers.upkeep.removal import RemoveBlob, is_pack

logger = logging.getLogger(__name__)

STEP_ITEMS_MAX: Final = 256
"""Files, blobs or rows that one step looks at."""

CALL_SECONDS_MAX: Final = 60.0
"""How long a device may take for one step of a sweep."""

BLOCKED_MAX: Final = 4096
"""Dead blobs passed over in one pass because a device failed or a snapshot is missing; beyond it the pass ends."""

T = TypeVar("T")


class Progress(NamedTuple):
    """What a step did: items removed or set aside, and where to go on; None when the pass is over."""

    items: int
    position: bytes | None


class Sweep(Protocol):
    """A pass in bounded steps. `name` is unique and stable: it is part of the persisted position."""

    name: str

    async def step(self, position: bytes) -> Progress:
        """Go on from a position, empty at the beginning. Errors: StorageError; the step may be repeated."""


class Reach(NamedTuple):
    """What sweeps work with. `clock` gives seconds since the epoch; a leftover is left alone for `grace_seconds`."""

    reader: Reader
    committer: Committer
    fleet: Fleet
    clock: Callable[[], float]
    grace_seconds: float

    def graced_ms(self) -> int:
        """What became a leftover before this time may be acted upon."""
        return int((self.clock() - self.grace_seconds) * 1000)


class DeadBlobs:
    """Deletes the files of dead blobs, then their rows.

    A pack is also part of the commit log: it goes only when a snapshot holds everything up to its last batch.
    """

    name = "dead blobs"

    def __init__(self, reach: Reach, snapshot_sequence: Callable[[], int]) -> None:
        self._reach = reach
        self._snapshot_sequence = snapshot_sequence
        self._blocked: set[bytes] = set()

    async def step(self, position: bytes) -> Progress:
        """See `Sweep`."""
        if not position:
            self._blocked.clear()
        limit = STEP_ITEMS_MAX + len(self._blocked)
        dead = await self._reach.reader.list_dead_blobs(self._reach.graced_ms(), limit)
        removed = 0
        for blob in dead:
            if blob.blob_id not in self._blocked:
                if await self._remove(blob):
                    removed += 1
                else:
                    self._blocked.add(blob.blob_id)
        is_over = len(dead) < limit or len(self._blocked) > BLOCKED_MAX
        return Progress(removed, None if is_over else b"on")

    async def _remove(self, blob: Blob) -> bool:
        if is_pack(blob) and self._snapshot_sequence() < blob.last_sequence:
            return False
        is_gone = True
        for device_id, area, name in files_of(blob):
            device = self._reach.fleet.get(device_id)
            if device is None:
                continue  # no longer ours; should it come back, its files are found without a row
            try:
                await on_device(self._reach.fleet.submit(device_id, device.delete, area, name))
            except StorageError as error:
                logger.warning("dead blob %s stays: device %s: %s", blob.blob_id.hex(), device_id, error)
                is_gone = False  # the others give their space back nevertheless
        return is_gone and await self._reach.committer.submit(RemoveBlob(blob))


class CompletedUploads:
    """Forgets the answers kept of completed uploads, `kept_seconds` after they were completed."""

    name = "completed uploads"

    def __init__(self, reach: Reach, kept_seconds: float) -> None:
        self._reach = reach
        self._kept_seconds = kept_seconds

    async def step(self, position: bytes) -> Progress:
        """See `Sweep`."""
        after = (position.decode(),) if position else None
        rows = await self._reach.reader.scan(UPLOAD, after, STEP_ITEMS_MAX)
        before_ms = int((self._reach.clock() - self._kept_seconds) * 1000)
        old = [row for row in rows if row.state == UploadState.COMPLETED and row.completed_ms < before_ms]
        submit = self._reach.committer.submit
        outcomes = await asyncio.gather(*[submit(ExpireUpload(row, completed_before_ms=before_ms)) for row in old])
        is_over = len(rows) < STEP_ITEMS_MAX
        return Progress(sum(outcomes), None if is_over else rows[-1].upload_id.encode())


class DeviceSweep(ABC):
    """A sweep over the files of one device. A device that is away or fails ends the sweep until the next pass."""

    def __init__(self, name: str, reach: Reach, device_id: str) -> None:
        self.name = name
        self._reach = reach
        self._device_id = device_id

    async def step(self, position: bytes) -> Progress:
        """See `Sweep`."""
        device = self._reach.fleet.get(self._device_id)
        if device is None:
            return Progress(0, None)
        try:
            return await self._step(device, position)
        except (DeviceFailed, DeviceFull) as error:
            logger.warning("%s: left out of this pass: %s", self.name, error)
            return Progress(0, None)

    @abstractmethod
    async def _step(self, device: Device, position: bytes) -> Progress: ...


class StagedFiles(DeviceSweep):
    """Deletes what was staged on a device and neither published nor discarded."""

    def __init__(self, reach: Reach, device_id: str) -> None:
        super().__init__(f"staging of {device_id}", reach, device_id)

    async def _step(self, device: Device, position: bytes) -> Progress:
        submit = self._reach.fleet.submit
        found = await on_device(submit(self._device_id, survey_page, device, Area.STAGING, position.decode()))
        names = [file.name for file in found if file.modified_ms < self._reach.graced_ms()]
        await on_device(submit(self._device_id, delete_all, device, Area.STAGING, names))
        return Progress(len(names), next_position(found))


class UnknownFiles(DeviceSweep):
    """Sets aside published files of a device that no blob's row places there, when they are old enough.

    Among them are fragments that a repair has written elsewhere because their device was away.
    """

    def __init__(self, reach: Reach, device_id: str, area: Area) -> None:
        assert area in (Area.FRAGMENTS, Area.PACKS)
        super().__init__(f"{area.value} of {device_id}", reach, device_id)
        self._area = area

    async def _step(self, device: Device, position: bytes) -> Progress:
        submit = self._reach.fleet.submit
        found = await on_device(submit(self._device_id, survey_page, device, self._area, position.decode()))
        old = [file.name for file in found if file.modified_ms < self._reach.graced_ms()]
        # The rows are read after the files were seen: a file seen old has had its commit long ago, or never.
        strangers = await self._strangers(old)
        await on_device(submit(self._device_id, set_aside, device, self._area, strangers))
        return Progress(len(strangers), next_position(found))

    async def _strangers(self, names: Sequence[str]) -> list[tuple[str, str]]:
        """Names that no row places here, each with the reason to set it aside."""
        ids = {name: blob_id_of(name) for name in names}
        asked = {blob_id for blob_id in ids.values() if blob_id is not None}
        rows = await self._reach.reader.get_blobs(sorted(asked)) if asked else []
        placed = {name for row in rows for device_id, _, name in files_of(row) if device_id == self._device_id}
        known: set[bytes] = {row.blob_id for row in rows}
        return [(name, _reason(blob_id, known)) for name, blob_id in ids.items() if name not in placed]


def files_of(blob: Blob) -> Iterator[tuple[str, Area, str]]:
    """Device, area and name of every file that a blob's row places."""
    for index, device_id in enumerate(blob.placement.split(" ")):
        if not device_id:
            continue
        if is_pack(blob):
            yield device_id, Area.PACKS, pack_file_name(blob.blob_id, index)
        else:
            yield device_id, Area.FRAGMENTS, fragment_name(blob.blob_id, index, blob.generation)


def blob_id_of(name: str) -> bytes | None:
    """The blob that a fragment's or a pack copy's name begins with; None for a name of another form."""
    hexadecimal, _, rest = name.partition(".")
    if len(hexadecimal) != 32 or not rest.replace(".", "").isdecimal():
        return None
    try:
        return bytes.fromhex(hexadecimal)
    except ValueError:
        return None


def _reason(blob_id: bytes | None, known: Collection[bytes]) -> str:
    """Why a file without a place is set aside."""
    if blob_id is None:
        return "not a name of ours"
    return "its blob is placed elsewhere" if blob_id in known else "no blob of this id"


async def on_device(future: "Future[T]") -> T:
    """Await a call that a device's own threads run. Errors: its own; DeviceFailed when it hangs."""
    try:
        return await asyncio.wait_for(asyncio.wrap_future(future), CALL_SECONDS_MAX)
    except TimeoutError as error:
        raise DeviceFailed(f"no answer within {CALL_SECONDS_MAX} s") from error


def survey_page(device: Device, area: Area, after: str) -> list[Found]:
    """The next files of an area, in name order. Blocking."""
    return list(islice(device.survey(area, after), STEP_ITEMS_MAX))


def next_position(found: Sequence[Found]) -> bytes | None:
    """Where a survey goes on after a page; None after a short one, which is the last."""
    return found[-1].name.encode() if len(found) == STEP_ITEMS_MAX else None


def delete_all(device: Device, area: Area, names: Sequence[str]) -> None:
    """Delete files one by one. Blocking."""
    for name in names:
        device.delete(area, name)


def set_aside(device: Device, area: Area, strangers: Sequence[tuple[str, str]]) -> None:
    """Quarantine files, each with its reason. Blocking."""
    for name, reason in strangers:
        logger.warning("quarantined %s of %s: %s", name, device.device_id, reason)
        device.quarantine(area, name, reason)
