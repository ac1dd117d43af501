"""Published files kept open for reading: fragments with their verified checksum tables, and pack copies.

Bounded, least recently used out first. A file in use is closed by its last user. All bookkeeping happens on one event
loop; opening and closing happen in the device's pool.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, NamedTuple

from tiers.devices.contract import Area, Device, OpenFile
from tiers.devices.fleet import Fleet
from tiers.erasure.fragment import ChecksumTable, Identity, decode_trailer
from tiers.erasure.layout import PAGE_BYTES
from tiers.errors import DeviceFailed, FragmentCorrupt

FILES_MAX: Final = 512
TABLE_BYTES_MAX: Final = 32 << 20
"""Memory of all checksum tables kept: 8 bytes for each 64 KiB of a fragment, so 256 GiB of fragments."""


class FileKey(NamedTuple):
    """Names one fragment or pack copy in one placement; cheaper to build than its file name."""

    blob_id: bytes
    fragment_index: int
    generation: int
    device_id: str


class Handle:
    """One open file; `table` is None for a pack copy. Whoever keeps it over a suspension retains it."""

    __slots__ = ("file", "is_dropped", "is_recent", "key", "table", "table_bytes", "users")

    def __init__(self, key: FileKey, file: OpenFile, table: ChecksumTable | None, table_bytes: int) -> None:
        self.key, self.file, self.table, self.table_bytes = key, file, table, table_bytes
        self.users = 0
        self.is_dropped = False
        self.is_recent = True


Opened = tuple[OpenFile, ChecksumTable | None, int]


class OpenFiles:
    """The open files of one process. `len()` is how many are kept."""

    def __init__(self, fleet: Fleet, *, files_max: int = FILES_MAX, table_bytes_max: int = TABLE_BYTES_MAX) -> None:
        self._fleet, self._files_max, self._table_bytes_max = fleet, files_max, table_bytes_max
        self._handles: OrderedDict[FileKey, Handle] = OrderedDict()
        self._opening: dict[FileKey, asyncio.Task[Handle]] = {}
        self._table_bytes = 0

    def __len__(self) -> int:
        return len(self._handles)

    def find(self, key: FileKey) -> Handle | None:
        """A file that is open already; usable until the next suspension unless retained."""
        handle = self._handles.get(key)
        if handle is not None:
            handle.is_recent = True
            self._handles.move_to_end(key)
        return handle

    def begin(self, key: FileKey, opener: Callable[[Device], Opened]) -> "asyncio.Task[Handle]":
        """Start to open a file, or join whoever has; never cancelled. The handle may be dropped again when it is met.

        Errors of the task: DeviceFailed, and what `opener` raises in the device's thread.
        """
        flight = self._opening.get(key)
        if flight is None:
            flight = self._opening[key] = asyncio.ensure_future(self._open(key, opener))
            flight.add_done_callback(lambda done: self._opened(key, done))
        return flight

    async def open(self, key: FileKey, opener: Callable[[Device], Opened]) -> Handle:
        """The open file, retained for the caller. Errors: as of `begin`."""
        while True:
            handle = self.find(key)
            if handle is None:
                handle = await asyncio.shield(self.begin(key, opener))
            if not handle.is_dropped:  # it may have been the least recently used before we came to run
                self.retain(handle)
                return handle

    def retain(self, handle: Handle) -> None:
        """Keep the file open until `release`."""
        handle.users += 1

    def release(self, handle: Handle) -> None:
        """End one use."""
        handle.users -= 1
        assert handle.users >= 0
        if handle.is_dropped and not handle.users:
            self._close(handle)

    def drop(self, key: FileKey) -> None:
        """Forget a file, so that the next use opens it anew."""
        handle = self._handles.pop(key, None)
        if handle is not None:
            self._table_bytes -= handle.table_bytes
            handle.is_dropped = True
            if not handle.users:
                self._close(handle)

    def close_idle(self) -> None:
        """Drop what nobody used since the last call: an open file keeps the space of a deleted one."""
        for key in [key for key, handle in self._handles.items() if not (handle.is_recent or handle.users)]:
            self.drop(key)
        for handle in self._handles.values():
            handle.is_recent = False

    def close(self) -> None:
        """Drop everything; files in use are closed by their users."""
        for key in list(self._handles):
            self.drop(key)

    async def _open(self, key: FileKey, opener: Callable[[Device], Opened]) -> Handle:
        device = self._fleet.get(key.device_id)
        if device is None:
            raise DeviceFailed(f"no device {key.device_id!r} here")
        handle = Handle(key, *await asyncio.wrap_future(self._fleet.submit(key.device_id, opener, device)))
        self._handles[key] = handle
        self._table_bytes += handle.table_bytes
        while len(self._handles) > self._files_max or (
            self._table_bytes > self._table_bytes_max and len(self._handles) > 1
        ):
            self.drop(next(iter(self._handles)))
        return handle

    def _opened(self, key: FileKey, flight: "asyncio.Task[Handle]") -> None:
        del self._opening[key]
        if not flight.cancelled():
            flight.exception()  # retrieved: all who asked may be gone

    def _close(self, handle: Handle) -> None:
        self._fleet.submit(handle.key.device_id, handle.file.close)


def open_fragment(device: Device, identity: Identity, size: int) -> Opened:
    """Open a fragment of a blob of `size` bytes and verify its trailer and checksum table. Blocking.

    Errors: FragmentNotFound, FragmentCorrupt (damaged, or not the fragment it should be), DeviceFailed.
    """
    layout = identity.layout
    file = device.open(Area.FRAGMENTS, identity.name)
    try:
        tail = memoryview(bytearray(layout.table_bytes(size) + PAGE_BYTES))
        if file.read_into(layout.table_offset(size), tail) != len(tail):
            raise FragmentCorrupt(f"{identity.name} ends within its tail")
        trailer = decode_trailer(tail[-PAGE_BYTES:], file_size=file.size, expected=identity)
        if trailer.size != size:
            raise FragmentCorrupt(f"{identity.name} belongs to a blob of {trailer.size} bytes, not {size}")
        return file, ChecksumTable(trailer, tail[:-PAGE_BYTES]), layout.table_bytes(size)
    except BaseException:
        file.close()
        raise


def open_pack(device: Device, blob_id: bytes, index: int) -> Opened:
    """Open one copy of a pack. Blocking. Errors: FragmentNotFound, DeviceFailed."""
    return device.open(Area.PACKS, pack_name(blob_id, index)), None, 0


def pack_name(blob_id: bytes, index: int) -> str:
    """File name of copy `index` of a pack: `<hex blob id>.<copy>`."""
    return f"{blob_id.hex()}.{index}"
