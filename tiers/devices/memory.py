"""A device in memory, with what a real one forgets: for tests and simulations.

Every file keeps what is durable apart from what was written since, and every area keeps which names are durable. A
power cut drops the rest, or keeps a random part of it, page by page, as a disk with a write cache would.
"""

import random
import threading
from collections.abc import Callable, Iterator
from typing import Final

from tiers.devices.contract import Area, Capacity, Found
from tiers.devices.memory_files import Content, MemoryLogFile, MemoryOpenFile, MemoryStagedFile, Power
from tiers.devices.names import REASON_SUFFIX, check_name
from tiers.errors import DeviceFailed, DeviceFull, FragmentNotFound

CAPACITY_BYTES: Final = 1 << 40


class MemoryDevice:
    """The device contract in memory. See `tiers.devices.contract.Device`. Thread-safe."""

    def __init__(
        self,
        device_id: str,
        clock: Callable[[], float],
        *,
        capacity_bytes: int = CAPACITY_BYTES,
        reserve_bytes: int = 0,
    ) -> None:
        """An empty device. `clock` gives seconds since the epoch; `reserve_bytes` are kept free of fragments."""
        self.device_id = device_id
        self._clock = clock
        self._capacity_bytes = capacity_bytes
        self._reserve_bytes = reserve_bytes
        self._lock = threading.RLock()
        self._power = Power()
        self._used_bytes = 0
        self._visible: dict[Area, dict[str, Content]] = {area: {} for area in Area}
        self._durable: dict[Area, dict[str, Content]] = {area: {} for area in Area}

    def stage(self, name: str, size_hint: int) -> MemoryStagedFile:
        """Begin a fragment. Errors: DeviceFull, DeviceFailed."""
        check_name(Area.FRAGMENTS, name)
        with self._lock:
            if self.capacity().free_bytes < max(size_hint, 1):
                raise DeviceFull(f"stage {name}: only the reserve is left")
            return MemoryStagedFile(self, self._create(Area.STAGING, name), name, self._power)

    def open(self, area: Area, name: str) -> MemoryOpenFile:
        """Open a published file. Errors: FragmentNotFound."""
        return MemoryOpenFile(self._find(area, name), self._power)

    def create_log(self, name: str, *, cached: bool = False) -> MemoryLogFile:
        """Create a pack copy, its name durable. Errors: DeviceFailed."""
        check_name(Area.PACKS, name)
        with self._lock:
            content = self._create(Area.PACKS, name)
            self.flush_name(Area.PACKS, name)
        return MemoryLogFile(self, content, self._power)

    def reopen_log(self, name: str) -> MemoryLogFile:
        """Open an existing pack copy. Errors: FragmentNotFound."""
        return MemoryLogFile(self, self._find(Area.PACKS, name), self._power)

    def store(self, area: Area, name: str, data: bytes) -> None:
        """Write a small whole file durably and atomically. Errors: DeviceFull."""
        check_name(area, name)
        with self._lock:
            self.require(len(data))
            content = Content(self._now_ms())
            content.write(0, data, self._now_ms())
            content.flush()
            self._remove(area, name)
            self._used_bytes += len(data)
            self._visible[area][name] = content
            self.flush_name(area, name)

    def delete(self, area: Area, name: str) -> None:
        """Remove a file; absent is fine. The removal is not durable."""
        check_name(area, name)
        with self._lock:
            self._remove(area, name)
            if area is Area.QUARANTINE:
                self._remove(area, name + REASON_SUFFIX)

    def quarantine(self, area: Area, name: str, reason: str) -> None:
        """Move a suspect file, durably, and note why. Absent is fine."""
        check_name(area, name)
        with self._lock:
            content = self._visible[area].get(name)
            if content is None or area is Area.QUARANTINE:
                return
            aside, number = name, 1
            while aside in self._visible[Area.QUARANTINE]:
                number += 1
                aside = f"{name}.{number}"
            self.store(Area.QUARANTINE, aside + REASON_SUFFIX, f"{area.value}/{name}: {reason}\n".encode())
            self._visible[Area.QUARANTINE][aside] = content
            del self._visible[area][name]
            self.flush_name(Area.QUARANTINE, aside)
            self.flush_name(area, name)

    def survey(self, area: Area, after: str = "") -> Iterator[Found]:
        """Every file of an area behind `after` as it was when the survey began, in name order."""
        with self._lock:
            files = sorted(self._visible[area].items())
        for name, content in files:
            if name > after and not (area is Area.QUARANTINE and name.endswith(REASON_SUFFIX)):
                yield Found(name, len(content.data), content.modified_ms)

    def capacity(self) -> Capacity:
        """Total and free bytes; the reserve is not free."""
        return Capacity(self._capacity_bytes, max(0, self._capacity_bytes - self._reserve_bytes - self._used_bytes))

    def describe(self) -> str:
        """`memory(<device id>)`."""
        return f"memory({self.device_id})"

    def power_cut(self, rng: random.Random | None = None) -> None:
        """Lose what was not made durable; every open file fails from now on.

        Without `rng` all of it is lost. With it, each page of each unflushed write, each unflushed name and each
        unflushed removal is kept or lost by chance.
        """
        with self._lock:
            self._power.is_on = False
            self._power = Power()
            contents = {id(content): content for names in (*self._visible.values(), *self._durable.values())
                        for content in names.values()}  # fmt: skip
            for content in contents.values():
                content.power_cut(rng)
            for area in Area:
                self._visible[area] = self._names_left(area, rng)
                self._durable[area] = dict(self._visible[area])
            self._used_bytes = sum(len(content.data) for names in self._visible.values() for content in names.values())

    def require(self, byte_count: int) -> None:
        """Refuse what does not fit. Errors: DeviceFull."""
        if self._used_bytes + byte_count > self._capacity_bytes:
            raise DeviceFull(f"{self.device_id}: {byte_count} bytes do not fit")

    def write(self, content: Content, offset: int, data: memoryview) -> None:
        """Put bytes into a file of this device. Errors: DeviceFull."""
        with self._lock:
            growth = max(0, offset + len(data) - len(content.data))
            self.require(growth)
            content.write(offset, bytes(data), self._now_ms())
            self._used_bytes += growth

    def truncate(self, content: Content, size: int) -> None:
        """Cut a file of this device, not yet durable."""
        with self._lock:
            self._used_bytes += size - len(content.data)
            content.truncate(size)

    def publish(self, name: str, content: Content) -> None:
        """Rename a staged file into place, its name durable. Errors: DeviceFailed when the name is in use."""
        with self._lock:
            if name in self._visible[Area.FRAGMENTS]:
                raise DeviceFailed(f"publish {name}: the name is in use")
            del self._visible[Area.STAGING][name]
            self._visible[Area.FRAGMENTS][name] = content
            self.flush_name(Area.STAGING, name)
            self.flush_name(Area.FRAGMENTS, name)

    def delete_staged(self, name: str) -> None:
        """Remove a staged file; the removal is not durable."""
        self.delete(Area.STAGING, name)

    def flush_name(self, area: Area, name: str) -> None:
        """Make the presence or absence of a name durable: the memory's flush of a directory."""
        content = self._visible[area].get(name)
        if content is None:
            self._durable[area].pop(name, None)
        else:
            self._durable[area][name] = content

    def _names_left(self, area: Area, rng: random.Random | None) -> dict[str, Content]:
        visible, durable = self._visible[area], self._durable[area]
        left: dict[str, Content] = {}
        for name in sorted(visible.keys() | durable.keys()):
            before, after = durable.get(name), visible.get(name)
            kept = after if rng is not None and rng.random() < 0.5 else before
            if kept is not None:
                left[name] = kept
        return left

    def _create(self, area: Area, name: str) -> Content:
        if name in self._visible[area]:
            raise DeviceFailed(f"{area.value}/{name}: the name is in use")
        content = self._visible[area][name] = Content(self._now_ms())
        return content

    def _find(self, area: Area, name: str) -> Content:
        check_name(area, name)
        with self._lock:
            content = self._visible[area].get(name) if area is not Area.STAGING else None
        if content is None:
            raise FragmentNotFound(f"{self.device_id}: {area.value}/{name}")
        return content

    def _remove(self, area: Area, name: str) -> None:
        content = self._visible[area].pop(name, None)
        self._used_bytes -= len(content.data) if content is not None else 0

    def _now_ms(self) -> int:
        return int(self._clock() * 1000)
