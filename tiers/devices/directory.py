"""A device that is a directory of a local file system.

    device.json   identity: the device id; a directory of another device is refused
    staging/      fragments being written, and leftovers of crashes
    fragments/    00 .. ff, by the first two hex digits of the name
    packs/  snapshots/  quarantine/

Several processes of one host may use the same directory: names are never used twice, and each log has one writer.
"""

import itertools
import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tiers.devices import posix
from tiers.devices.contract import Area, Capacity, Found
from tiers.devices.directory_files import DirectoryLogFile, DirectoryOpenFile, DirectoryStagedFile
from tiers.devices.names import FAN_OUT, REASON_SUFFIX, check_name
from tiers.errors import DeviceFailed, DeviceFull, FragmentNotFound

LOG_RESERVE_BYTES: Final = 64 << 20
"""Pack space is allocated in such steps: 10-20 % off each flush, free (performance.md PF-23)."""

_IDENTITY: Final = "device.json"
_FORMAT_VERSION: Final = 1


class DirectoryDevice:
    """The device contract over a directory. See `tiers.devices.contract.Device`."""

    def __init__(
        self,
        device_id: str,
        path: Path | str,
        *,
        reserve_ratio: float = 0.01,
        log_reserve_bytes: int = LOG_RESERVE_BYTES,
    ) -> None:
        """Open the directory, or set up an empty one durably.

        `reserve_ratio` of the file system is kept free of fragments. Errors: DeviceFailed, also for a directory that
        carries another device's identity.
        """
        assert 0 <= reserve_ratio < 1
        self.device_id = device_id
        self._path = Path(path)
        self._reserve_ratio = reserve_ratio
        self._log_reserve_bytes = log_reserve_bytes
        self._areas = {area: self._path / area.value for area in Area}
        self._stores = itertools.count()
        self._store_lock = threading.Lock()
        with posix.Translating(f"open {self._path}"):
            self._open()
            self._is_direct = posix.accepts_direct(self._areas[Area.STAGING])

    def stage(self, name: str, size_hint: int) -> DirectoryStagedFile:
        """Begin a fragment in the staging directory. Errors: DeviceFull, DeviceFailed."""
        target = self._file(Area.FRAGMENTS, name)
        with posix.Translating(f"stage {target}"):
            if self.capacity().free_bytes < max(size_hint, 1):
                raise DeviceFull(f"stage {target}: only the reserve is left")
            staging = self._areas[Area.STAGING] / name
            return DirectoryStagedFile(staging, target, size_hint=size_hint, direct=self._is_direct)

    def open(self, area: Area, name: str) -> DirectoryOpenFile:
        """Open a published file. Errors: FragmentNotFound, DeviceFailed."""
        path = self._file(area, name)
        if area is Area.STAGING:
            raise FragmentNotFound(str(path))
        with posix.Translating(f"open {path}"):
            return DirectoryOpenFile(path)

    def create_log(self, name: str, *, cached: bool = False) -> DirectoryLogFile:
        """Create a pack copy, its name durable on return. Errors: DeviceFull, DeviceFailed."""
        path = self._file(Area.PACKS, name)
        with posix.Translating(f"create {path}"):
            log = self._log(path, cached=cached, is_new=True)
            try:
                log.flush()
                posix.flush_directory(path.parent)
            except OSError:
                log.close()
                raise
            return log

    def reopen_log(self, name: str) -> DirectoryLogFile:
        """Open an existing pack copy for recovery. Errors: FragmentNotFound, DeviceFailed."""
        path = self._file(Area.PACKS, name)
        with posix.Translating(f"reopen {path}"):
            return self._log(path, cached=False, is_new=False)

    def store(self, area: Area, name: str, data: bytes) -> None:
        """Write a small whole file durably and atomically. Errors: DeviceFull, DeviceFailed."""
        path = self._file(area, name)
        with posix.Translating(f"store {path}"):
            self._replace(path, data)

    def delete(self, area: Area, name: str) -> None:
        """Remove a file; absent is fine. The removal is not flushed. Errors: DeviceFailed."""
        path = self._file(area, name)
        with posix.Translating(f"delete {path}"):
            path.unlink(missing_ok=True)
            if area is Area.QUARANTINE:
                path.with_name(path.name + REASON_SUFFIX).unlink(missing_ok=True)

    def quarantine(self, area: Area, name: str, reason: str) -> None:
        """Move a suspect file, bytes untouched, and note why. Absent is fine. Errors: DeviceFailed."""
        path = self._file(area, name)
        folder = self._areas[Area.QUARANTINE]
        with posix.Translating(f"quarantine {path}"):
            if area is Area.QUARANTINE or not path.exists():
                return
            target = next(free for free in _candidates(folder, name) if not free.exists())
            self._replace(target.with_name(target.name + REASON_SUFFIX), f"{area.value}/{name}: {reason}\n".encode())
            path.rename(target)
            posix.flush_directory(folder)
            posix.flush_directory(path.parent)

    def survey(self, area: Area, after: str = "") -> Iterator[Found]:
        """Files of an area behind `after`, in name order; one that vanishes meanwhile is left out.

        Errors: DeviceFailed.
        """
        fans = [fan for fan in FAN_OUT if fan >= after[:2]] if area is Area.FRAGMENTS else [""]
        for folder in [self._areas[area] / fan for fan in fans]:
            with posix.Translating(f"survey {folder}"):
                names = [entry.name for entry in os.scandir(folder) if entry.is_file(follow_symlinks=False)]
            for name in sorted(name for name in names if name > after):
                if area is Area.QUARANTINE and name.endswith(REASON_SUFFIX):
                    continue
                found = _found(folder, name)
                if found is not None:
                    yield found

    def capacity(self) -> Capacity:
        """Space of the file system below the directory. Errors: DeviceFailed."""
        with posix.Translating(f"capacity {self._path}"):
            space = os.statvfs(self._path)
        total = space.f_blocks * space.f_frsize
        free = space.f_bavail * space.f_frsize - int(total * self._reserve_ratio)
        return Capacity(total, max(0, free))

    def describe(self) -> str:
        """`directory(<path>)`."""
        return f"directory({self._path})"

    def _file(self, area: Area, name: str) -> Path:
        check_name(area, name)
        folder = self._areas[area]
        return folder / name[:2] / name if area is Area.FRAGMENTS else folder / name

    def _log(self, path: Path, *, cached: bool, is_new: bool) -> DirectoryLogFile:
        step = self._log_reserve_bytes
        return DirectoryLogFile(path, cached=cached, direct=self._is_direct, reserve_bytes=step, is_new=is_new)

    def _open(self) -> None:
        identity = self._path / _IDENTITY
        is_set_up = identity.exists()
        if is_set_up:
            found = _device_id(identity)
            if found != self.device_id:
                raise DeviceFailed(f"{self._path} belongs to device {found!r}, not to {self.device_id!r}")
        self._path.mkdir(parents=True, exist_ok=True)
        # What an earlier start made and did not live to flush is made durable now: the identity comes last.
        if self._make_missing() or not is_set_up:
            for folder in (self._areas[Area.FRAGMENTS], self._path, self._path.parent):
                posix.flush_directory(folder)
        if not is_set_up:
            document = json.dumps({"device_id": self.device_id, "format_version": _FORMAT_VERSION})
            self._replace(identity, document.encode() + b"\n")

    def _make_missing(self) -> bool:
        """Make the folders that are not there; whether there were any."""
        missing = [folder for folder in self._areas.values() if not folder.is_dir()]
        for folder in missing:
            folder.mkdir(exist_ok=True)
        fragments = self._areas[Area.FRAGMENTS]
        fans = set(FAN_OUT).difference(entry.name for entry in os.scandir(fragments))
        for fan in fans:
            (fragments / fan).mkdir(exist_ok=True)
        return bool(missing or fans)

    def _replace(self, path: Path, data: bytes) -> None:
        """Write beside, flush, rename, flush the directory. Errors: OSError; the old file is intact then."""
        with self._store_lock:
            number = next(self._stores)
        beside = self._areas[Area.STAGING] / f"store.{os.getpid()}.{number}"
        try:
            posix.write_file(beside, data)
            beside.replace(path)
        except OSError:
            beside.unlink(missing_ok=True)
            raise
        posix.flush_directory(path.parent)


def _candidates(folder: Path, name: str) -> Iterator[Path]:
    """Names for a quarantined file: nothing that was set aside before is ever overwritten."""
    yield folder / name
    for number in itertools.count(2):
        yield folder / f"{name}.{number}"


def _found(folder: Path, name: str) -> Found | None:
    try:
        status = (folder / name).stat()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise posix.translated(error, f"survey {folder / name}") from error
    return Found(name, status.st_size, status.st_mtime_ns // 1_000_000)


def _device_id(identity: Path) -> str:
    """The id in an identity file. Errors: DeviceFailed when it cannot be read as one."""
    try:
        document = json.loads(identity.read_bytes())
        device_id, version = document["device_id"], document["format_version"]
    except (ValueError, KeyError, TypeError) as error:
        raise DeviceFailed(f"{identity} is no device identity") from error
    if version != _FORMAT_VERSION or not isinstance(device_id, str):
        raise DeviceFailed(f"{identity} has format version {version!r}, known is {_FORMAT_VERSION}")
    return device_id
