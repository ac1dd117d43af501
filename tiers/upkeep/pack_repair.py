"""Repair of a sealed pack: a missing or bad copy is copied anew, batch by batch, each verified before it is written.

The pack ends with the batch that its row names as the last one: what lies behind it was never committed.
"""

import logging
from collections.abc import Collection, Generator
from typing import Final

from tiers.commit.log import Batch, ReadAt, read_whole, walk
from tiers.commit.pack import Staging, close_trimmed, pack_file_name
from tiers.datapath.attempts import reason_of
from tiers.devices.contract import Area, Device, LogFile, OpenFile
from tiers.errors import ContentUnreadable, PlacementShort, StorageError
from tiers.upkeep.device_calls import DeviceCalls
from tiers.upkeep.rebuilt import Patient, Rebuilt, Tools, Work

logger = logging.getLogger(__name__)

COPY_BYTES: Final = 4 << 20
"""Appended, and flushed, at once; a larger batch goes alone."""

CORRUPT: Final = "corrupt"


class _Copy:
    """One copy that is read. After a failed read it reads as empty: a sick device is not asked batch by batch."""

    def __init__(self, calls: DeviceCalls, device_id: str, file: OpenFile) -> None:
        self._calls, self.device_id, self.file = calls, device_id, file
        self.failure = ""
        self.lacking: list[Batch] = []

    def read(self, offset: int, length: int) -> bytes:
        """A `ReadAt`."""
        if self.failure:
            return b""
        buffer = bytearray(length)
        try:
            count = self._calls.call(self.device_id, self.file.read_into, offset, memoryview(buffer))
        except StorageError as error:
            self.failure = reason_of(error)
            return b""
        return bytes(buffer[:count])

    @property
    def is_whole(self) -> bool:
        """Whether every batch looked at was intact."""
        return not (self.lacking or self.failure)


class NewCopies:
    """Copies written, by index; the swap of the placement makes them current."""

    def __init__(self, calls: DeviceCalls, patient: Patient) -> None:
        self._calls, self._patient = calls, patient
        self._devices: dict[int, str] = {}

    def add(self, index: int, device_id: str) -> None:
        """Take note of one that is complete."""
        self._devices[index] = device_id

    def devices(self) -> dict[int, str]:
        """See `NewFiles`."""
        return dict(self._devices)

    def publish(self) -> None:
        """A copy is visible under its name from the beginning."""

    def withdraw(self, placed: Collection[tuple[str, str]] = ()) -> None:
        """See `NewFiles`."""
        while self._devices:
            index, device_id = self._devices.popitem()
            if (device_id, pack_file_name(self._patient.blob.blob_id, index)) not in placed:
                self.remove(index, device_id)

    def remove(self, index: int, device_id: str) -> None:
        """Delete a file that this repair wrote; what a failing device keeps is set aside by reclaim later."""
        if self._calls.is_usable(device_id):
            name = pack_file_name(self._patient.blob.blob_id, index)
            try:
                self._calls.call(device_id, self._calls.device(device_id).delete, Area.PACKS, name)
            except StorageError as error:
                logger.warning("pack copy %s stays on %s: %s", name, device_id, error)


class PackRepair:
    """One repair of one sealed pack. `work` runs once, in a thread."""

    def __init__(self, tools: Tools, patient: Patient) -> None:
        self._calls, self._aims, self._patient = tools.calls, tools.aims, patient
        self._blob = patient.blob
        self._copies: dict[int, _Copy] = {}
        self._absent: dict[int, str] = {}
        self._batches: list[Batch] = []
        self._new = NewCopies(tools.calls, patient)

    def work(self) -> Work:
        """Judge every copy, write the queued bad ones anew.

        Errors: ContentUnreadable, PlacementShort, DeviceFull, DeviceFailed; copies written by then are removed.
        """
        try:
            self._open_all()
            yield from self._judge()
            whole = {index for index, copy in self._copies.items() if copy.is_whole}
            bad = sorted(set(self._patient.queued) - whole)
            good = set(self._patient.queued) & whole
            for index in set(range(len(self._blob.placement.split(" ")))) - whole - set(self._patient.queued):
                self._patient.found[index] = self._absent.get(index) or self._copies[index].failure or CORRUPT
            failure: StorageError | None = None
            for index in bad:
                try:
                    if (yield from self._rebuild(index, may_stay=bool(whole))):
                        good.add(index)
                except StorageError as error:
                    failure = error
            if failure is not None and not good and not self._new.devices():
                raise failure
            return Rebuilt(self._blob.generation, good, self._new if self._new.devices() else None)
        except BaseException:
            self._new.withdraw()
            raise
        finally:
            for copy in self._copies.values():
                self._calls.start(copy.device_id, copy.file.close)

    def _open_all(self) -> None:
        for index, device_id in enumerate(self._blob.placement.split(" ")):
            try:
                if not self._calls.is_usable(device_id):
                    raise PlacementShort(f"device {device_id!r} is not available")
                device = self._calls.device(device_id)
                file = self._calls.call(device_id, device.open, Area.PACKS, pack_file_name(self._blob.blob_id, index))
                self._copies[index] = _Copy(self._calls, device_id, file)
            except StorageError as error:
                self._absent[index] = reason_of(error)

    def _judge(self) -> Generator[int, None, None]:
        """Read every batch of every copy. Errors: ContentUnreadable when one is whole on none."""
        readers: list[ReadAt] = [copy.read for copy in self._copies.values()]
        for batch in walk(self._blob.blob_id, readers, 0):
            if batch.header.last_sequence > self._blob.last_sequence:
                break
            self._batches.append(batch)
            for copy in self._copies.values():
                if read_whole(copy.read, batch) is None:
                    copy.lacking.append(batch)
            self._require(batch)
            yield batch.header.padded_bytes * len(readers)
        reached = self._batches[-1].header.last_sequence if self._batches else 0
        if reached != self._blob.last_sequence:
            raise self._unreadable(f"ends at sequence {reached} instead of {self._blob.last_sequence}")

    def _require(self, batch: Batch) -> None:
        if all(batch in copy.lacking[-1:] for copy in self._copies.values()):
            raise self._unreadable(f"the batch at {batch.offset} is whole on no copy")

    def _unreadable(self, text: str) -> ContentUnreadable:
        return ContentUnreadable(f"pack {self._blob.blob_id.hex()}: {text}")

    def _rebuild(self, index: int, *, may_stay: bool) -> Generator[int, None, bool]:
        """Write one copy anew; True when it was mended in its place instead.

        That is the last resort: with no copy whole and no other device, setting this one aside would take batches
        away that no other copy has.
        """
        aims = self._aims.choose(self._blob, [index], self._patient.refused, may_stay=may_stay)
        if aims:
            yield from self._copy(index, aims[index])
            return False
        copy = self._copies.get(index)
        if may_stay or copy is None or copy.failure:
            raise PlacementShort(f"no device takes copy {index} of pack {self._blob.blob_id.hex()}")
        device = self._calls.device(copy.device_id)
        log = self._calls.call(copy.device_id, device.reopen_log, pack_file_name(self._blob.blob_id, index))
        try:
            yield from self._append(log, copy.device_id, copy.lacking)
        finally:
            self._calls.start(copy.device_id, log.close)
        return True

    def _copy(self, index: int, device_id: str) -> Generator[int, None, None]:
        name = pack_file_name(self._blob.blob_id, index)
        device = self._calls.device(device_id)
        log: LogFile | None = None
        try:
            log = self._calls.call(device_id, _begin, device, name, is_first=index == 0)
            yield from self._append(log, device_id, self._batches)
        except BaseException as error:
            if log is not None:
                self._calls.start(device_id, log.close)
                self._new.remove(index, device_id)
            if isinstance(error, StorageError):
                self._patient.refused.add(device_id)
            raise
        end = self._batches[-1].offset + self._batches[-1].header.padded_bytes if self._batches else 0
        self._calls.start(device_id, close_trimmed, log, end)
        self._new.add(index, device_id)

    def _append(self, log: LogFile, device_id: str, batches: list[Batch]) -> Generator[int, None, None]:
        """Write batches at their places, adjoining ones together."""
        staging = Staging(COPY_BYTES)
        start = fill = 0

        def flush() -> None:
            if fill:
                self._calls.call(device_id, log.append, start, staging.view[:fill])

        for batch in batches:
            raw = self._whole(batch)
            if batch.offset != start + fill or fill + len(raw) > COPY_BYTES:
                flush()
                start, fill = batch.offset, 0
            staging.room(fill + len(raw))[fill : fill + len(raw)] = raw
            fill += len(raw)
            yield 2 * len(raw)
        flush()

    def _whole(self, batch: Batch) -> bytes:
        """The verified bytes of a batch, from a copy that is whole where there is one."""
        for copy in sorted(self._copies.values(), key=lambda copy: not copy.is_whole):
            raw = read_whole(copy.read, batch)
            if raw is not None:
                return raw
        raise self._unreadable(f"the batch at {batch.offset} is whole on no copy any more")


def _begin(device: Device, name: str, *, is_first: bool) -> LogFile:
    """Set aside what bears the name and begin the copy."""
    device.quarantine(Area.PACKS, name, "replaced by repair")
    return device.create_log(name, cached=is_first)
