"""The open packs of one worker: one a tier in use, opened when first needed, sealed when full or suspect."""

import logging
import random
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from dataclasses import dataclass
from typing import Final

from metadata.contract import Transaction
from metadata.tables import BLOB, REPAIR
from metadata.types import Blob, BlobId, BlobState, Repair
from tiers.catalogue import Catalogue
from tiers.commit.chain import PackCopies
from tiers.commit.pack import FLUSH_SECONDS_MAX, OpenPack, Staging, close_trimmed, pack_file_name, pack_row
from tiers.datapath.placement import choose
from tiers.devices.contract import Area, Device, LogFile
from tiers.devices.fleet import Fleet
from tiers.errors import DeviceFailed, FragmentNotFound, PlacementShort, StorageError

logger = logging.getLogger(__name__)

STAGING_BYTES: Final = 8 << 20
"""A batch of 4 MiB of bodies and its record fit; the buffer grows for larger ones."""

COPIES_QUORUM: Final = 2
"""Copies that must be durable before a batch counts: one may fail and the batch still survives another loss."""


SHUNNED_SECONDS: Final = 60.0
"""A device that failed a pack gets no other for so long, while there are enough without it."""


@dataclass(slots=True)
class Leftover:
    """A pack that an earlier process left open. `end` is where its last batch ends, None when no copy tells."""

    row: Blob
    end: int | None = None


class PackSet:
    """The packs a worker appends to. Used by its commit thread only."""

    def __init__(
        self,
        catalogue: Catalogue,
        fleet: Fleet,
        *,
        worker: int,
        clock: Callable[[], float],
        new_id: Callable[[], bytes],
        rng: random.Random,
    ) -> None:
        self._catalogue = catalogue
        self._fleet = fleet
        self._worker = worker
        self._clock = clock
        self._new_id = new_id
        self._rng = rng
        self._open: dict[str, OpenPack] = {}
        self._stagings: dict[str, Staging] = {}
        self._unknown: set[BlobId] = set()  # packs whose row no committed batch has inserted yet
        self._sealing: list[OpenPack] = []
        self._shunned: dict[str, float] = {}  # device id to the time it may be chosen again
        self._leftovers: list[Leftover] = []
        self._sealed: list[Leftover] = []
        self.log_tier = catalogue.tier_of("STANDARD")

    def get(self, tier: str) -> OpenPack:
        """The tier's open pack; `rotate` has made sure that there is one."""
        return self._open[tier]

    def staging(self, tier: str) -> Staging:
        """The buffer that batches of this tier are laid out in."""
        staging = self._stagings.get(tier)
        if staging is None:
            staging = self._stagings[tier] = Staging(STAGING_BYTES)
        return staging

    def is_ready(self, tiers: set[str]) -> bool:
        """Whether `rotate` would have nothing to do, and each tier has its buffer."""
        wanted = (self.log_tier, *tiers)
        packs = [self._open.get(tier) for tier in wanted if tier in self._stagings]  # a new buffer takes milliseconds
        return len(packs) == len(wanted) and all(pack is not None and not pack.is_full for pack in packs)

    def rotate(self, tiers: set[str]) -> None:
        """Before the lock: make sure that the log's tier and `tiers` have a pack that takes another batch.

        Errors: PlacementShort, DeviceFull, DeviceFailed.
        """
        for tier in (self.log_tier, *tiers):
            pack = self._open.get(tier)
            if pack is not None and not pack.is_full:
                continue
            if pack is not None:
                self._retire(self._open.pop(tier), tier)
            self._open[tier] = self._create(tier)

    def _retire(self, pack: OpenPack, tier: str) -> None:
        """Append no more to a pack. One that no database commit can know goes at once: failures must not pile up."""
        pack.close()
        placement = pack.first_row.placement.split(" ")
        if pack.is_suspect:
            self._stagings.pop(tier, None)  # a late copy may still be reading it
            for copy in pack.failed_copies:
                self._shun(placement[copy])
                self._fleet.note_failure(placement[copy])
        if pack.blob_id in self._unknown and not pack.is_exposed:
            self._unknown.discard(pack.blob_id)
            self._remove(pack.blob_id, placement)
        else:
            self._sealing.append(pack)

    def _shun(self, device_id: str) -> None:
        self._shunned[device_id] = self._clock() + SHUNNED_SECONDS

    def settle(self, transaction: Transaction, now_ms: int) -> None:
        """First step of a batch: insert the rows of new packs and seal the ones that were rotated out."""
        transaction.begin_step()
        for pack in self._open.values():
            if pack.blob_id in self._unknown and transaction.get(BLOB, (pack.blob_id,)) is None:
                transaction.put(BLOB, pack.first_row)
        for pack in self._sealing:
            row = transaction.get(BLOB, (pack.blob_id,)) or pack.first_row
            _seal(transaction, row._replace(size=max(pack.end, row.size)), now_ms)
            for copy in pack.failed_copies:
                transaction.put(REPAIR, Repair(pack.blob_id, copy, "append failed", now_ms))
        self._sealed.clear()
        for leftover in self._leftovers:
            found = transaction.get(BLOB, (leftover.row.blob_id,))
            if found is not None and found.state == BlobState.OPEN and found.worker == self._worker:
                _seal(transaction, found._replace(size=found.size if leftover.end is None else leftover.end), now_ms)
                self._sealed.append(leftover)

    def advance(self, transaction: Transaction, pack: OpenPack, last_sequence: int) -> None:
        """Record in the pack's row that the batch about to be appended is its last."""
        row = transaction.get(BLOB, (pack.blob_id,))
        assert row is not None, "settle has inserted the row"
        assert row.state == BlobState.OPEN, "a pack is sealed by its own worker only"
        transaction.put(BLOB, row._replace(size=pack.end, last_sequence=last_sequence))

    def expose(self) -> None:
        """The database commit is about to be tried: from now on it may know these packs, whatever it answers."""
        for pack in self._open.values():
            pack.is_exposed = True

    def committed(self) -> None:
        """The batch stands: new rows are known, rotated packs are sealed."""
        self._unknown.clear()
        self._sealing.clear()
        for leftover in self._sealed:
            self._trim(leftover)
        self._sealed.clear()
        self._leftovers.clear()
        for tier in [tier for tier, staging in self._stagings.items() if len(staging.view) > STAGING_BYTES]:
            del self._stagings[tier]  # one large batch must not hold its memory for ever

    def find_leftovers(self, transaction: Transaction) -> None:
        """Remember packs that an earlier process of this worker number left open; the next batch seals them.

        With a batch and not at once: what a dead process flushed without committing must lie in packs that recovery
        still scans, until a later batch stands in the log.
        """
        transaction.begin_step()
        mine = [row for row in transaction.select_open_packs() if row.worker == self._worker]
        self._leftovers = [Leftover(row) for row in mine]

    def measure_leftovers(self) -> None:
        """Find where they end; without the lock, as it asks devices."""
        for leftover in self._leftovers:
            leftover.end = self._end_of(leftover.row)

    @property
    def has_leftovers(self) -> bool:
        """Whether the next batch seals a pack of an earlier process."""
        return bool(self._leftovers)

    def close(self) -> None:
        """Close every open pack (the next process of this worker seals them); remove those never used."""
        removals: list[Future[None]] = []
        for pack in self._open.values():
            pack.close()
            if pack.blob_id in self._unknown and not pack.is_exposed:
                removals += self._remove(pack.blob_id, pack.first_row.placement.split(" "))
        self._open.clear()
        self._sealing.clear()
        wait_for(removals, FLUSH_SECONDS_MAX)

    def _remove(self, blob_id: BlobId, placement: Sequence[str]) -> list["Future[None]"]:
        """Delete the files of a pack that nothing refers to; what a device keeps, reclaim's survey sets aside."""
        removals: list[Future[None]] = []
        for copy, device_id in enumerate(placement):
            device = self._fleet.get(device_id)
            if device is not None:
                name = pack_file_name(blob_id, copy)
                removals.append(self._fleet.submit(device_id, device.delete, Area.PACKS, name))
        return removals

    def _end_of(self, row: Blob) -> int | None:
        """The row of an open pack says where its last batch begins; the batch says where it ends."""
        if not row.last_sequence:
            return 0
        for copy, device_id in enumerate(row.placement.split(" ")):
            device = self._fleet.get(device_id)
            if device is None:
                continue
            copies = PackCopies(row.blob_id, [(copy, device)])
            found = self._fleet.submit(device_id, copies.end_of, row.size, row.last_sequence)
            try:
                end = found.result(FLUSH_SECONDS_MAX)
            except (StorageError, TimeoutError) as error:
                logger.warning("device %s does not tell where a pack ends: %s", device_id, error)
                continue
            copies.close()
            if end is not None:
                return end
        return None

    def _trim(self, leftover: Leftover) -> None:
        """What a dead process had reserved, or appended without committing, goes; on the devices' own threads."""
        if leftover.end is None:
            return
        for copy, device_id in enumerate(leftover.row.placement.split(" ")):
            device = self._fleet.get(device_id)
            if device is not None:
                name = pack_file_name(leftover.row.blob_id, copy)
                self._fleet.submit(device_id, _trim_copy, device, name, leftover.end)

    def _create(self, tier: str) -> OpenPack:
        copies = self._catalogue.pack_copies(tier)
        rows = [row for row in self._catalogue.writable(tier) if self._fleet.is_available(row.device_id)]
        now = self._clock()
        steady = [row for row in rows if self._shunned.get(row.device_id, now) <= now]
        rows = steady if len(steady) >= copies else rows
        spread = self._catalogue.tier(tier).spread
        failed: set[str] = set()
        while True:
            blob_id = BlobId(self._new_id())
            placement = choose(rows, copies, spread, self._rng, unavailable=failed)
            files = self._create_files(blob_id, placement, failed)
            if len(files) == copies:
                break
            for file in files:
                file.close()
            self._remove(blob_id, placement)
            if len(rows) - len(failed) < copies:
                raise PlacementShort(f"tier {tier}: fewer than {copies} devices take a new pack")
        self._unknown.add(blob_id)
        row = pack_row(blob_id, tier, placement, self._worker, int(self._clock() * 1000))
        return OpenPack(row, files, quorum=min(COPIES_QUORUM, copies))

    def _create_files(self, blob_id: BlobId, placement: list[str], failed: set[str]) -> list[LogFile]:
        """Create the copies side by side, each in its device's pool: a hung device costs time once and no more."""
        begun = [
            self._fleet.submit(device_id, self._create_file, device_id, pack_file_name(blob_id, copy), cached=copy == 0)
            for copy, device_id in enumerate(placement)
        ]
        files: list[LogFile] = []
        for device_id, file in zip(placement, begun, strict=True):
            try:
                files.append(file.result(FLUSH_SECONDS_MAX))
            except (StorageError, TimeoutError) as error:
                logger.warning("device %s takes no pack: %s", device_id, error or "no answer")
                failed.add(device_id)
                self._shun(device_id)
                file.add_done_callback(_close_late)
        return files

    def _create_file(self, device_id: str, name: str, *, cached: bool) -> LogFile:
        device = self._fleet.get(device_id)
        if device is None:
            raise DeviceFailed(f"no device {device_id!r} here")
        return device.create_log(name, cached=cached)


def _close_late(file: "Future[LogFile]") -> None:
    """A copy that was created after its time: nobody uses it, and reclaim's survey finds the file."""
    if not file.cancelled() and file.exception() is None:
        file.result().close()


def _trim_copy(device: Device, name: str, size: int) -> None:
    try:
        file = device.reopen_log(name)
    except FragmentNotFound:
        return  # repair will bring it back, without the tail
    close_trimmed(file, size)


def _seal(transaction: Transaction, row: Blob, now_ms: int) -> None:
    is_dead = row.live_bytes == 0
    state = BlobState.DEAD if is_dead else BlobState.SEALED
    transaction.put(BLOB, row._replace(state=int(state), dead_ms=now_ms if is_dead else 0))
