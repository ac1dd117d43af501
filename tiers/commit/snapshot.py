"""Snapshots of the logged tables, stored on the devices: they bound the part of the commit log a rebuild must replay.

A snapshot is *fuzzy*: it notes the chain head, then reads the tables page by page while commits go on. Redo images
are absolute, so replaying the log from the noted head brings every row to its true state, whatever state the page
that held it was read in. Files: `<sequence>.<n>` (rows, compressed) and, last, `<sequence>.manifest`; a snapshot
without an intact manifest does not exist. Each file is stored on as many devices as a pack of the log's tier.
"""

import logging
import zlib
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import msgpack
from awscrt.checksums import crc64nvme

from metadata.contract import Reader
from metadata.tables import BY_CODE, CHAIN, TABLES, Table, stored_row
from tiers.catalogue import Catalogue
from tiers.commit.chain import surveyed
from tiers.devices.contract import Area, Device
from tiers.devices.fleet import Fleet
from tiers.errors import DeviceFailed, DeviceFull, FragmentNotFound, QuorumNotReached

logger = logging.getLogger(__name__)

FORMAT: Final = 1
FIRST_ROWS: Final = 16
PAGE_ROWS: Final = 2_000
PAGE_BYTES: Final = 2 << 20
"""A page of a table begins small and grows to so many rows or bytes: a version of 10,000 parts is a megabyte."""

FILE_BYTES: Final = 8 << 20
"""Rows are compressed in files of about so many bytes before compression: bounds memory on both ways."""

RETAINED: Final = 2
"""Snapshots kept; the log is kept from the older of them on."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a snapshot consists of. `files` are (name, checksum of the stored bytes)."""

    sequence: int
    batch_id: bytes
    created_ms: int
    rows: int
    files: tuple[tuple[str, int], ...]

    @property
    def name(self) -> str:
        """File name of the manifest; sorts in the order of the chain."""
        return f"{self.sequence:020d}.manifest"


def encode_manifest(manifest: Manifest) -> bytes:
    """The manifest as stored: msgpack, then its checksum."""
    body: bytes = msgpack.packb(
        [FORMAT, manifest.sequence, manifest.batch_id, manifest.created_ms, manifest.rows, list(manifest.files)]
    )
    checksum: int = crc64nvme(body)
    return body + checksum.to_bytes(8, "little")


def decode_manifest(raw: bytes) -> Manifest | None:
    """Inverse of `encode_manifest`, or None when the bytes are not an intact manifest of this format."""
    body, checksum = raw[:-8], int.from_bytes(raw[-8:], "little")
    if len(raw) <= 8 or crc64nvme(body) != checksum:
        return None
    version, sequence, batch_id, created_ms, rows, files = msgpack.unpackb(body)
    if version != FORMAT:
        return None
    return Manifest(sequence, batch_id, created_ms, rows, tuple((name, crc) for name, crc in files))


class SnapshotStore:
    """Snapshots on a fleet's devices. Blocking; called from a thread."""

    def __init__(self, fleet: Fleet, device_ids: list[str], copies: int) -> None:
        assert device_ids
        self._fleet = fleet
        self._device_ids = device_ids
        self._copies = copies

    def store(self, name: str, data: bytes) -> None:
        """Store a file on as many devices as snapshots have copies. Errors: QuorumNotReached below two (or all)."""
        stored = 0
        for device in self._devices():
            if stored == self._copies:
                return
            try:
                device.store(Area.SNAPSHOTS, name, data)
                stored += 1
            except (DeviceFull, DeviceFailed) as error:
                logger.warning("device %s takes no snapshot: %s", device.device_id, error)
        if stored < min(2, self._copies):
            raise QuorumNotReached(f"snapshot {name}: stored on {stored} devices")

    def read(self, name: str, is_intact: Callable[[bytes], bool]) -> bytes | None:
        """A file from the first device that holds it intact."""
        for device in self._devices():
            try:
                file = device.open(Area.SNAPSHOTS, name)
            except (FragmentNotFound, DeviceFailed):
                continue
            try:
                buffer = bytearray(file.size)
                count = file.read_into(0, memoryview(buffer))
            except DeviceFailed:
                continue
            finally:
                file.close()
            if count == len(buffer) and is_intact(bytes(buffer)):
                return bytes(buffer)
        return None

    def holds(self, name: str, checksum: int) -> bool:
        """Whether any device holds the file with this checksum."""
        return self.read(name, _matching(checksum)) is not None

    def manifests(self) -> list[Manifest]:
        """Intact snapshots, newest first."""
        names = {
            found.name
            for device in self._devices()
            for found in surveyed(device, Area.SNAPSHOTS)
            if found.name.endswith(".manifest")
        }
        raws = [self.read(name, lambda raw: bool(decode_manifest(raw))) for name in sorted(names, reverse=True)]
        return [manifest for raw in raws if raw is not None and (manifest := decode_manifest(raw)) is not None]

    def rows(self, manifest: Manifest) -> Iterator[list[tuple[Table[Any], tuple[Any, ...]]]]:
        """The rows of a snapshot, a list for each file. Errors: FragmentNotFound when a file is lost everywhere."""
        for name, checksum in manifest.files:
            raw = self.read(name, _matching(checksum))
            if raw is None:
                raise FragmentNotFound(f"snapshot file {name}")
            yield [
                (BY_CODE[code], stored_row(BY_CODE[code], values))
                for code, *values in msgpack.unpackb(zlib.decompress(raw), raw=False)
            ]

    def remove_older_than(self, sequence: int) -> None:
        """Delete every file of snapshots older than `sequence`, and leftovers of unfinished ones."""
        for device in self._devices():
            for found in surveyed(device, Area.SNAPSHOTS):
                number = found.name.partition(".")[0]
                if number.isdecimal() and int(number) < sequence:
                    _delete(device, found.name)

    def _devices(self) -> Iterator[Device]:
        for device_id in self._device_ids:
            device = self._fleet.get(device_id)
            if device is not None:
                yield device


def _matching(checksum: int) -> Callable[[bytes], bool]:
    return lambda raw: bool(crc64nvme(raw) == checksum)


def _delete(device: Device, name: str) -> None:
    try:
        device.delete(Area.SNAPSHOTS, name)
    except DeviceFailed as error:
        logger.warning("device %s keeps an old snapshot: %s", device.device_id, error)


def log_devices(catalogue: Catalogue, fleet: Fleet) -> SnapshotStore:
    """The store on the devices that hold the commit log."""
    tier = catalogue.tier_of("STANDARD")
    ids = [row.device_id for row in catalogue.devices(tier)]
    return SnapshotStore(fleet, ids, catalogue.pack_copies(tier))


async def take_snapshot(reader: Reader, store: Callable[[str, bytes], None], created_ms: int) -> Manifest:
    """Take a snapshot; `store` is called with each file, the manifest last.

    Memory: a few pages of rows and one file. Errors: what `store` and the reader raise; no manifest exists then.
    """
    head = await reader.get_row(CHAIN, (0,))
    sequence, batch_id = (head.sequence, head.batch_id) if head is not None else (0, b"")
    files: list[tuple[str, int]] = []
    rows = 0
    async for count, raw in _compressed(reader):
        name = f"{sequence:020d}.{len(files):06d}"
        store(name, raw)
        files.append((name, crc64nvme(raw)))
        rows += count
    manifest = Manifest(sequence, batch_id, created_ms, rows, tuple(files))
    store(manifest.name, encode_manifest(manifest))
    return manifest


async def _compressed(reader: Reader) -> AsyncIterator[tuple[int, bytes]]:
    """(rows, compressed file) for file after file."""
    packer = msgpack.Packer(use_bin_type=True, autoreset=True)
    pieces: list[bytes] = []
    size = 0
    for table in (table for table in TABLES if table.is_logged):
        after: tuple[Any, ...] | None = None
        wanted = FIRST_ROWS
        while page := await reader.scan(table, after, wanted):
            packed = [packer.pack((table.code, *row)) for row in page]
            pieces += packed
            page_size = sum(map(len, packed))
            size += page_size
            after = table.key_of(page[-1])
            wanted = max(1, min(PAGE_ROWS, 4 * len(page), PAGE_BYTES * len(page) // page_size))
            if size >= FILE_BYTES:
                yield len(pieces), _compress(pieces)
                pieces, size = [], 0
    if pieces:
        yield len(pieces), _compress(pieces)


def _compress(pieces: list[bytes]) -> bytes:
    header: bytes = msgpack.Packer().pack_array_header(len(pieces))
    return zlib.compress(header + b"".join(pieces), level=1)
