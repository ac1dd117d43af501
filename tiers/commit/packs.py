"""The open packs of one worker: one a tier in use, opened when first needed, sealed when full or suspect."""

import logging
import random
from collections.abc import Callable
from typing import Final

from metadata.contract import Transaction
from metadata.tables import BLOB, REPAIR
from metadata.types import Blob, BlobId, BlobState, Repair
from tiers.catalogue import Catalogue
from tiers.commit.chain import PackCopies
from tiers.commit.pack import OpenPack, Staging, close_trimmed, pack_file_name, pack_row
from tiers.datapath.placement import choose
from tiers.devices.contract import Area, Device, LogFile
from tiers.devices.fleet import Fleet
from tiers.errors import FragmentNotFound, PlacementShort, StorageError

logger = logging.getLogger(__name__)

STAGING_BYTES: Final = 8 << 20
"""A batch of 4 MiB of bodies and its record fit; the buffer grows for larger ones."""

COPIES_QUORUM: Final = 2
"""Copies that must be durable before a batch counts: one may fail and the batch still survives another loss."""


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
        self._leftovers: dict[BlobId, PackCopies] = {}
        self._sealed: list[tuple[PackCopies, int]] = []
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

    def rotate(self, tiers: set[str]) -> None:
        """Before the lock: make sure that the log's tier and `tiers` have a pack that takes another batch.

        Errors: PlacementShort, DeviceFull, DeviceFailed.
        """
        for tier in (self.log_tier, *tiers):
            pack = self._open.get(tier)
            if pack is not None and not pack.is_full:
                continue
            if pack is not None:
                self._sealing.append(self._open.pop(tier))
            self._open[tier] = self._create(tier)

    def settle(self, transaction: Transaction, now_ms: int) -> None:
        """First step of a batch: insert the rows of new packs and seal the ones that were rotated out."""
        transaction.begin_step()
        for pack in self._open.values():
            if pack.blob_id in self._unknown:
                transaction.put(BLOB, pack.first_row)
        for pack in self._sealing:
            row = transaction.get(BLOB, (pack.blob_id,)) or pack.first_row
            _seal(transaction, row._replace(size=max(pack.end, row.size)), now_ms)
            for copy in pack.failed_copies:
                transaction.put(REPAIR, Repair(pack.blob_id, copy, "append failed", now_ms))
        self._sealed.clear()
        for blob_id, copies in self._leftovers.items():
            leftover = transaction.get(BLOB, (blob_id,))
            if leftover is not None and leftover.state == BlobState.OPEN and leftover.worker == self._worker:
                self._seal_leftover(transaction, leftover, copies, now_ms)

    def advance(self, transaction: Transaction, pack: OpenPack, last_sequence: int) -> None:
        """Record in the pack's row that the batch about to be appended is its last."""
        row = transaction.get(BLOB, (pack.blob_id,))
        assert row is not None, "settle has inserted the row"
        assert row.state == BlobState.OPEN, "a pack is sealed by its own worker only"
        transaction.put(BLOB, row._replace(size=pack.end, last_sequence=last_sequence))

    def committed(self) -> None:
        """The batch stands: new rows are known, rotated packs are sealed."""
        self._unknown.difference_update(pack.blob_id for pack in self._open.values())
        for pack in self._sealing:
            self._unknown.discard(pack.blob_id)
            pack.close()
        self._sealing.clear()
        for copies, end in self._sealed:
            self._trim(copies, end)
        self._sealed.clear()
        self._leftovers.clear()

    def suspect_all(self) -> None:
        """After a failed batch: its regions may hold anything, so nothing is appended to these packs again."""
        for pack in self._open.values():
            pack.is_suspect = True

    def find_leftovers(self, transaction: Transaction) -> None:
        """Remember packs that an earlier process of this worker number left open; the next batch seals them.

        With a batch and not at once: what a dead process flushed without committing must lie in packs that recovery
        still scans, until a later batch stands in the log.
        """
        transaction.begin_step()
        mine = [row for row in transaction.select_open_packs() if row.worker == self._worker]
        self._leftovers = {row.blob_id: self._copies_of(row) for row in mine}

    @property
    def has_leftovers(self) -> bool:
        """Whether the next batch seals a pack of an earlier process."""
        return bool(self._leftovers)

    def close(self) -> None:
        """Close every open pack (the next process of this worker seals them); remove those never used."""
        for pack in (*self._open.values(), *self._sealing):
            pack.close()
            if pack.blob_id in self._unknown:
                self._remove(pack.blob_id, pack.first_row.placement.split(" "))
        self._open.clear()
        self._sealing.clear()

    def _remove(self, blob_id: BlobId, placement: list[str]) -> None:
        for copy, device_id in enumerate(placement):
            device = self._fleet.get(device_id)
            if device is not None:
                device.delete(Area.PACKS, pack_file_name(blob_id, copy))

    def _copies_of(self, row: Blob) -> PackCopies:
        devices = [self._fleet.get(device_id) for device_id in row.placement.split(" ")]
        return PackCopies(row.blob_id, {copy: device for copy, device in enumerate(devices) if device is not None})

    def _seal_leftover(self, transaction: Transaction, row: Blob, copies: PackCopies, now_ms: int) -> None:
        """The row of an open pack says where its last batch begins; the batch says where it ends."""
        end = copies.end_of(row.size, row.last_sequence) if row.last_sequence else 0
        copies.close()
        _seal(transaction, row._replace(size=row.size if end is None else end), now_ms)
        if end is not None:
            self._sealed.append((copies, end))

    def _trim(self, copies: PackCopies, end: int) -> None:
        """What a dead process had reserved, or appended without committing, goes; on the devices' own threads."""
        for copy, device in copies.devices.items():
            self._fleet.submit(device.device_id, _trim_copy, device, pack_file_name(copies.pack_id, copy), end)

    def _create(self, tier: str) -> OpenPack:
        copies = self._catalogue.pack_copies(tier)
        rows = [row for row in self._catalogue.writable(tier) if self._fleet.is_available(row.device_id)]
        spread = self._catalogue.tier(tier).spread
        blob_id = BlobId(self._new_id())
        failed: set[str] = set()
        while True:
            placement = choose(rows, copies, spread, self._rng, unavailable=failed)
            files = self._create_files(blob_id, placement, failed)
            if len(files) == copies:
                break
            for file in files:
                file.close()
            self._remove(blob_id, placement)
            if len(rows) - len(failed) < copies:
                raise PlacementShort(f"tier {tier}: fewer than {copies} devices take a new pack")
            blob_id = BlobId(self._new_id())
        self._unknown.add(blob_id)
        row = pack_row(blob_id, tier, placement, self._worker, int(self._clock() * 1000))
        return OpenPack(row, files, quorum=min(COPIES_QUORUM, copies))

    def _create_files(self, blob_id: BlobId, placement: list[str], failed: set[str]) -> list[LogFile]:
        files: list[LogFile] = []
        for copy, device_id in enumerate(placement):
            device = self._fleet.get(device_id)
            try:
                if device is None:
                    raise PlacementShort(device_id)
                files.append(device.create_log(pack_file_name(blob_id, copy), cached=copy == 0))
            except StorageError as error:
                logger.warning("device %s takes no pack: %s", device_id, error)
                failed.add(device_id)
        return files


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
