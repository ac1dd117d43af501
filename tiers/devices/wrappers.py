"""Devices around devices: bounded, measured, faulty. Wrap, do not patch."""

import errno
import os
import random
import threading
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final, TypeVar

from tiers.devices.contract import Area, Device, OpenFile
from tiers.devices.interception import InterceptedDevice, Operation
from tiers.devices.posix import translated
from tiers.errors import StorageError

_T = TypeVar("_T")

ALL_OPERATIONS: Final = frozenset(Operation)


class LimitedDevice(InterceptedDevice):
    """Bounds the bytes in flight to and from one device. A call larger than the bound runs alone."""

    label = "limited"

    def __init__(self, inner: Device, bytes_max: int) -> None:
        super().__init__(inner)
        assert bytes_max > 0
        self._bytes_max = bytes_max
        self._bytes_taken = 0
        self._changed = threading.Condition()

    def around(self, operation: Operation, byte_count: int, call: Callable[[], _T], *, wait: bool = True) -> _T:
        """Wait for room, then run. Errors: BlockingIOError instead of waiting, without `wait`."""
        need = min(byte_count, self._bytes_max)
        if not need:
            return call()
        with self._changed:
            while self._bytes_taken + need > self._bytes_max:
                if not wait:
                    raise BlockingIOError(errno.EAGAIN, f"{self.device_id}: too many bytes in flight")
                self._changed.wait()
            self._bytes_taken += need
        try:
            return call()
        finally:
            with self._changed:
                self._bytes_taken -= need
                self._changed.notify_all()


class _MeteredFile:
    """A published file whose reads are reported; without the hook, because every small get passes here."""

    __slots__ = ("_clock", "_inner", "_observe", "_read", "size")

    def __init__(
        self, inner: OpenFile, observe: Callable[[Operation, int, float], None], clock: Callable[[], float]
    ) -> None:
        self._inner, self._observe, self._clock = inner, observe, clock
        self._read = inner.read_into
        self.size = inner.size

    def read_into(self, offset: int, view: memoryview, *, wait: bool = True) -> int:
        """See the contract."""
        began, count = self._clock(), 0
        try:
            count = self._read(offset, view, wait=wait)
            return count
        finally:
            self._observe(Operation.READ, count, self._clock() - began)

    def close(self) -> None:
        """See the contract."""
        self._inner.close()


class MeteredDevice(InterceptedDevice):
    """Reports each call to `observe(operation, bytes, seconds)`, failed ones with 0 bytes.

    `observe` runs on the calling thread, must not raise, and must be thread-safe.
    """

    label = "metered"
    passes_direct = True

    def __init__(
        self, inner: Device, observe: Callable[[Operation, int, float], None], clock: Callable[[], float]
    ) -> None:
        """`clock` gives seconds; only differences matter."""
        super().__init__(inner)
        self._observe, self._clock = observe, clock

    def around(self, operation: Operation, byte_count: int, call: Callable[[], _T], *, wait: bool = True) -> _T:
        """Measure one call."""
        began, moved = self._clock(), 0
        try:
            result = call()
            moved = result if operation is Operation.READ and isinstance(result, int) else byte_count
            return result
        finally:
            self._observe(operation, moved, self._clock() - began)

    def open(self, area: Area, name: str) -> OpenFile:
        """See the contract."""
        inner = self.around(Operation.OPEN, 0, lambda: self._inner.open(area, name))
        return _MeteredFile(inner, self._observe, self._clock)

    def note(self, operation: Operation, byte_count: int, seconds: float) -> None:
        """Report a call that was measured by whoever made it."""
        self._observe(operation, byte_count, seconds)


@dataclass(slots=True)
class Fault:
    """Lets calls of `operations` fail with `error_number`, from the `first`-th matching call on, `times` times."""

    operations: Collection[Operation]
    error_number: int = errno.EIO
    first: int = 1
    times: int | None = 1
    probability: float = 1.0
    seen: int = 0
    failed: int = 0

    def is_due(self, operation: Operation, rng: random.Random) -> bool:
        """Count one call and say whether it fails."""
        if operation not in self.operations or (self.times is not None and self.failed >= self.times):
            return False
        self.seen += 1
        if self.seen < self.first or (self.probability < 1.0 and rng.random() >= self.probability):
            return False
        self.failed += 1
        return True


class FaultyDevice(InterceptedDevice):
    """Fails, hangs and lies as told; the same seed fails the same calls. `calls` counts every call by operation."""

    label = "faulty"

    def __init__(self, inner: Device, rng: random.Random) -> None:
        super().__init__(inner)
        self.calls: Counter[Operation] = Counter()
        self.hang: Callable[[Operation], None] | None = None
        """Called before each call, on its thread; block in it to hang the device."""

        self.corruption = 0.0
        """Probability that a read returns with one bit flipped."""

        self._rng = rng
        self._faults: list[Fault] = []
        self._lock = threading.Lock()

    def fail(
        self,
        operations: Collection[Operation] = ALL_OPERATIONS,
        *,
        error_number: int = errno.EIO,
        first: int = 1,
        times: int | None = 1,
        probability: float = 1.0,
    ) -> Fault:
        """Plan a fault: calls are counted from now on; `times=None` fails for good. ENOSPC arrives as DeviceFull.

        A failed call did not reach the inner device.
        """
        fault = Fault(frozenset(operations), error_number, first, times, probability)
        with self._lock:
            self._faults.append(fault)
        return fault

    def clear_faults(self) -> None:
        """Drop every planned fault, corruption and hang."""
        with self._lock:
            self._faults.clear()
        self.corruption, self.hang = 0.0, None

    def around(self, operation: Operation, byte_count: int, call: Callable[[], _T], *, wait: bool = True) -> _T:
        """Count, hang, fail, or run the call."""
        with self._lock:
            self.calls[operation] += 1
            due = [fault for fault in self._faults if fault.is_due(operation, self._rng)]
        hang = self.hang
        if hang is not None:
            hang(operation)
        if due:
            raise self._failure(operation, due[0].error_number)
        return call()

    def after_read(self, view: memoryview) -> None:
        """Flip one bit of what was read, by chance."""
        with self._lock:
            if not self.corruption or not len(view) or self._rng.random() >= self.corruption:
                return
            bit = self._rng.randrange(8 * len(view))
        view[bit // 8] ^= 1 << bit % 8

    def _failure(self, operation: Operation, error_number: int) -> StorageError:
        error = OSError(error_number, os.strerror(error_number))
        return translated(error, f"{self.device_id}: planned fault of {operation}")
