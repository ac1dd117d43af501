"""The device contract with one hook around every call: what the wrappers are built from."""

from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import TypeVar

from tiers.devices.contract import Area, Capacity, Device, Found, LogFile, OpenFile, StagedFile
from tiers.errors import DeviceFailed

_T = TypeVar("_T")


class Operation(StrEnum):
    """Every call of the contract that reaches the medium."""

    STAGE = "stage"
    WRITE = "write"
    TRUNCATE = "truncate"
    FLUSH = "flush"
    PUBLISH = "publish"
    DISCARD = "discard"
    OPEN = "open"
    READ = "read"
    CREATE_LOG = "create_log"
    REOPEN_LOG = "reopen_log"
    APPEND = "append"
    STORE = "store"
    DELETE = "delete"
    QUARANTINE = "quarantine"
    SURVEY = "survey"
    CAPACITY = "capacity"


class InterceptedDevice:
    """A device whose calls all pass `around`. Subclasses override `around`, and `after_read` where bytes matter."""

    label = "intercepted"
    passes_direct = False
    """Whether appends may go around the hook, by the inner file's descriptor."""

    def __init__(self, inner: Device) -> None:
        self._inner = inner
        self.device_id = inner.device_id

    def around(self, operation: Operation, byte_count: int, call: Callable[[], _T], *, wait: bool = True) -> _T:
        """Run one call. `byte_count` bytes are written, or asked for; without `wait` it must not block."""
        return call()

    def note(self, operation: Operation, byte_count: int, seconds: float) -> None:
        """A call that went around the hook has ended."""

    def after_read(self, view: memoryview) -> None:
        """Look at, or change, the bytes a read is about to return."""

    def stage(self, name: str, size_hint: int) -> StagedFile:
        """See the contract."""
        return _Staged(self, self.around(Operation.STAGE, 0, lambda: self._inner.stage(name, size_hint)))

    def open(self, area: Area, name: str) -> OpenFile:
        """See the contract."""
        return _Open(self, self.around(Operation.OPEN, 0, lambda: self._inner.open(area, name)))

    def create_log(self, name: str, *, cached: bool = False) -> LogFile:
        """See the contract."""
        return _Log(self, self.around(Operation.CREATE_LOG, 0, lambda: self._inner.create_log(name, cached=cached)))

    def reopen_log(self, name: str) -> LogFile:
        """See the contract."""
        return _Log(self, self.around(Operation.REOPEN_LOG, 0, lambda: self._inner.reopen_log(name)))

    def store(self, area: Area, name: str, data: bytes) -> None:
        """See the contract."""
        self.around(Operation.STORE, len(data), lambda: self._inner.store(area, name, data))

    def delete(self, area: Area, name: str) -> None:
        """See the contract."""
        self.around(Operation.DELETE, 0, lambda: self._inner.delete(area, name))

    def quarantine(self, area: Area, name: str, reason: str) -> None:
        """See the contract."""
        self.around(Operation.QUARANTINE, 0, lambda: self._inner.quarantine(area, name, reason))

    def survey(self, area: Area, after: str = "") -> Iterator[Found]:
        """See the contract. The hook runs around the begin, not around each file."""
        return self.around(Operation.SURVEY, 0, lambda: self._inner.survey(area, after))

    def capacity(self) -> Capacity:
        """See the contract."""
        return self.around(Operation.CAPACITY, 0, self._inner.capacity)

    def describe(self) -> str:
        """`label(inner)`."""
        return f"{self.label}({self._inner.describe()})"


class _Staged:
    """A staged file behind the hook. A flush that the hook failed is as final as one of the medium."""

    def __init__(self, device: InterceptedDevice, inner: StagedFile) -> None:
        self._device, self._inner = device, inner
        self._is_flush_failed = False

    def write(self, offset: int, data: memoryview) -> None:
        """See the contract."""
        self._device.around(Operation.WRITE, len(data), lambda: self._inner.write(offset, data))

    def truncate(self, size: int) -> None:
        """See the contract."""
        self._device.around(Operation.TRUNCATE, 0, lambda: self._inner.truncate(size))

    def flush(self) -> None:
        """See the contract."""
        if self._is_flush_failed:
            raise DeviceFailed("a failed flush is final")
        self._is_flush_failed = True
        self._device.around(Operation.FLUSH, 0, self._inner.flush)
        self._is_flush_failed = False

    def publish(self) -> None:
        """See the contract."""
        if self._is_flush_failed:
            raise DeviceFailed("publish after a failed flush")
        self._device.around(Operation.PUBLISH, 0, self._inner.publish)

    def discard(self) -> None:
        """See the contract."""
        self._device.around(Operation.DISCARD, 0, self._inner.discard)


class _Open:
    """A published file behind the hook."""

    def __init__(self, device: InterceptedDevice, inner: OpenFile) -> None:
        self._device, self._inner = device, inner
        self.size = inner.size

    def read_into(self, offset: int, view: memoryview, *, wait: bool = True) -> int:
        """See the contract."""
        count = self._device.around(
            Operation.READ, len(view), lambda: self._inner.read_into(offset, view, wait=wait), wait=wait
        )
        self._device.after_read(view[:count])
        return count

    def close(self) -> None:
        """See the contract."""
        self._inner.close()


class _Log:
    """A pack copy behind the hook."""

    def __init__(self, device: InterceptedDevice, inner: LogFile) -> None:
        self._device, self._inner = device, inner

    def append(self, offset: int, data: memoryview) -> None:
        """See the contract."""
        self._device.around(Operation.APPEND, len(data), lambda: self._inner.append(offset, data))

    def direct(self, offset: int, data: memoryview) -> int | None:
        """See the contract; None where each append has to pass the hook."""
        return self._inner.direct(offset, data) if self._device.passes_direct else None

    def appended(self, byte_count: int, seconds: float) -> bool:
        """See the contract."""
        self._device.note(Operation.APPEND, byte_count, seconds)
        return self._inner.appended(byte_count, seconds)

    def extend(self) -> None:
        """See the contract; not a call that anybody waits for."""
        self._inner.extend()

    def trim(self, size: int) -> None:
        """See the contract."""
        self._device.around(Operation.TRUNCATE, 0, lambda: self._inner.trim(size))

    def close(self) -> None:
        """See the contract."""
        self._inner.close()
