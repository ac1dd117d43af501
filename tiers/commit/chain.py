"""Finding the chain: which batches on the devices were committed, and in which order."""

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from tiers.commit.log import GENESIS, HEADER_BYTES, Batch, ReadAt, decode_header, read_record, read_whole, walk
from tiers.commit.pack import pack_file_name
from tiers.devices.contract import Area, Device, Found, LogFile, OpenFile
from tiers.devices.fleet import Fleet
from tiers.errors import DeviceFailed, FragmentNotFound, LogGap

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class PackCopies:
    """The copies of one pack that were found, each as (copy number, device); `close` closes their files.

    A number may occur twice: a repair that was cut short leaves a part of a copy beside the one that it replaces.
    """

    pack_id: bytes
    places: list[tuple[int, Device]] = field(default_factory=list)
    files: list[tuple[int, Device, OpenFile]] = field(default_factory=list)

    def readers(self) -> list[ReadAt]:
        """A positioned read of each copy; a copy that fails reads as empty."""
        if not self.files:
            for copy, device in sorted(self.places, key=lambda place: place[0]):
                try:
                    self.files.append((copy, device, device.open(Area.PACKS, pack_file_name(self.pack_id, copy))))
                except (FragmentNotFound, DeviceFailed) as error:
                    logger.warning("pack %s copy %d: %s", self.pack_id.hex(), copy, error)
        return [_reader(file) for _, _, file in self.files]

    def record(self, batch: Batch) -> bytes | None:
        """The record of a batch from any copy."""
        return next((raw for read in self.readers() if (raw := read_record(read, batch)) is not None), None)

    def whole(self, batch: Batch) -> bytes | None:
        """All bytes of a batch from any copy on which header, bodies and record are intact."""
        return next((raw for read in self.readers() if (raw := read_whole(read, batch)) is not None), None)

    def end_of(self, offset: int, last_sequence: int) -> int | None:
        """Where the batch at `offset` ends; None when no copy holds the header of one that ends `last_sequence`."""
        headers = (decode_header(read(offset, HEADER_BYTES), self.pack_id) for read in self.readers())
        ends = (offset + h.padded_bytes for h in headers if h is not None and h.last_sequence == last_sequence)
        return next(ends, None)

    def restore(self, batch: Batch, raw: bytes) -> int:
        """Write a batch to every copy that lacks it; the number of copies mended.

        A batch that was never acknowledged may lie on one copy only; once it is taken over it must be as durable as
        any other.
        """
        mended = 0
        for copy, device, file in self.files:
            if read_whole(_reader(file), batch) is None:
                log: LogFile = device.reopen_log(pack_file_name(self.pack_id, copy))
                try:
                    log.append(batch.offset, memoryview(raw))
                finally:
                    log.close()
                mended += 1
        return mended

    def close(self) -> None:
        """Close the files; the copies can be read again afterwards."""
        for _, _, file in self.files:
            file.close()
        self.files.clear()


def _reader(file: OpenFile) -> ReadAt:
    def read(offset: int, length: int) -> bytes:
        buffer = bytearray(length)
        try:
            count = file.read_into(offset, memoryview(buffer))
        except DeviceFailed as error:
            logger.warning("pack read failed: %s", error)
            return b""
        return bytes(buffer[:count])

    return read


def find_packs(fleet: Fleet) -> dict[bytes, PackCopies]:
    """Every pack of which any device holds a copy, by pack id. Files of other names are left alone.

    A device that cannot be surveyed counts as absent: the other copies must do.
    """
    found: dict[bytes, PackCopies] = {}
    for device_id in fleet.ids():
        device = fleet.get(device_id)
        assert device is not None
        for file in surveyed(device, Area.PACKS):
            name, _, copy = file.name.partition(".")
            try:
                pack_id, number = bytes.fromhex(name), int(copy)
            except ValueError:
                continue
            if len(pack_id) == len(GENESIS):
                found.setdefault(pack_id, PackCopies(pack_id)).places.append((number, device))
    return found


def surveyed(device: Device, area: Area) -> list[Found]:
    """The files of an area; none, and a warning, when the device fails."""
    try:
        return list(device.survey(area))
    except DeviceFailed as error:
        logger.warning("device %s is left out: %s", device.device_id, error)
        return []


@dataclass(frozen=True, slots=True)
class Link:
    """One commit batch and the pack that holds it."""

    batch: Batch
    copies: PackCopies


def commit_batches(packs: Iterable[PackCopies], starts: Mapping[bytes, int]) -> Iterator[Link]:
    """Commit batches of packs, each pack scanned from its start offset (0 unless given)."""
    for copies in packs:
        readers = copies.readers()
        for batch in walk(copies.pack_id, readers, starts.get(copies.pack_id, 0)):
            if batch.header.is_commit:
                yield Link(batch, copies)
        copies.close()


def chain_after(links: Iterable[Link], *, head_sequence: int, head_id: bytes) -> list[Link]:
    """The batches committed after the chain head (`head_id`, GENESIS or empty for none), oldest first.

    The newest batch whose bodies are intact is the tip: the write lock spans flush and database commit, so only the
    very last batch can have been torn, and a batch that did not commit is not the predecessor of a later one. From
    the tip the chain is followed back by predecessor.
    Errors: LogGap when a predecessor is missing on every copy.
    """
    newer = {link.batch.header.batch_id: link for link in links if link.batch.header.last_sequence > head_sequence}
    tip = _tip(newer)
    chain: list[Link] = []
    wanted = head_id or GENESIS
    at = tip.batch.header.batch_id if tip is not None else wanted
    while at != wanted:
        link = newer.get(at)
        if link is None:
            raise LogGap(
                f"batch {at.hex()} is missing: {len(chain)} later batches continue it, the database ends at sequence"
                f" {head_sequence}; bring its devices back, or rebuild from the newest snapshot that covers it"
            )
        chain.append(link)
        at = link.batch.header.predecessor_id
    chain.reverse()
    return chain


def _tip(links: dict[bytes, Link]) -> Link | None:
    for link in sorted(links.values(), key=lambda link: link.batch.header.last_sequence, reverse=True):
        if link.copies.whole(link.batch) is not None:
            return link
        logger.warning("batch %s is torn and was never acknowledged", link.batch.header.batch_id.hex())
    return None
