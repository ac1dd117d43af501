"""Files of a memory device, each with its durable bytes apart from what was written since the last flush."""

import random
from typing import Final, Protocol

from tiers.errors import DeviceFailed

PAGE_BYTES: Final = 4096


class Power:
    """Shared by all open files of one power-on: off after a cut."""

    __slots__ = ("is_on",)

    def __init__(self) -> None:
        self.is_on = True

    def require(self) -> None:
        """Errors: DeviceFailed after a power cut."""
        if not self.is_on:
            raise DeviceFailed("opened before a power cut")


class Content:
    """Bytes of one file: `data` as readers see it, and what a power cut would leave."""

    __slots__ = ("_durable", "_pending", "data", "modified_ms")

    def __init__(self, modified_ms: int) -> None:
        self.data = bytearray()
        self.modified_ms = modified_ms
        self._durable = bytearray()
        self._pending: list[tuple[int, bytes | None]] = []  # in order; None is a truncation to that size

    def write(self, offset: int, data: bytes, modified_ms: int) -> None:
        """Write bytes, not yet durable."""
        _patch(self.data, offset, data)
        self.modified_ms = modified_ms
        self._pending.append((offset, data))

    def truncate(self, size: int) -> None:
        """Cut or extend the file, not yet durable."""
        _resize(self.data, size)
        self._pending.append((size, None))

    def flush(self) -> None:
        """Make everything written so far durable."""
        for offset, data in self._pending:
            if data is None:
                _resize(self._durable, offset)
            else:
                _patch(self._durable, offset, data)
        assert len(self._durable) == len(self.data)
        self._pending.clear()

    def power_cut(self, rng: random.Random | None) -> None:
        """Go back to the durable bytes; with `rng`, plus a random choice of the pages written since."""
        left = bytearray(self._durable)
        if rng is not None:
            for offset, data in self._pending:
                if data is None:
                    _resize(left, offset if rng.random() < 0.5 else len(left))
                    continue
                for at in range(0, len(data), PAGE_BYTES):
                    if rng.random() < 0.5:
                        _patch(left, offset + at, data[at : at + PAGE_BYTES])
        self.data, self._durable = left, bytearray(left)
        self._pending.clear()


def _patch(target: bytearray, offset: int, data: bytes) -> None:
    """Write into `target` as into a file: a gap before `offset` reads as zeros."""
    _resize(target, max(len(target), offset))
    target[offset : offset + len(data)] = data


def _resize(target: bytearray, size: int) -> None:
    del target[size:]
    target.extend(bytes(size - len(target)))


class Owner(Protocol):
    """What a file asks of its device."""

    def write(self, content: Content, offset: int, data: memoryview) -> None:
        """Put bytes into a file. Errors: DeviceFull."""

    def truncate(self, content: Content, size: int) -> None:
        """Cut a file."""

    def publish(self, name: str, content: Content) -> None:
        """Rename a staged file into place, durably. Errors: DeviceFailed."""

    def delete_staged(self, name: str) -> None:
        """Remove a staged file."""


class MemoryStagedFile:
    """A fragment being written."""

    def __init__(self, owner: Owner, content: Content, name: str, power: Power) -> None:
        self._owner, self._content, self._name, self._power = owner, content, name, power
        self._is_flushed = self._is_flush_failed = self._is_ended = False

    def write(self, offset: int, data: memoryview) -> None:
        """Write all of `data`. Errors: DeviceFull, DeviceFailed."""
        self._require_writing()
        self._power.require()
        self._owner.write(self._content, offset, data)

    def truncate(self, size: int) -> None:
        """Cut the file to `size` bytes."""
        self._require_writing()
        self._power.require()
        self._owner.truncate(self._content, size)

    def flush(self) -> None:
        """Make the bytes durable. A failure is final. Errors: DeviceFailed."""
        if self._is_flushed or self._is_flush_failed or self._is_ended:
            raise DeviceFailed(f"flush {self._name}: a failed flush is final")
        self._is_flush_failed = True
        self._power.require()
        self._content.flush()
        self._is_flushed, self._is_flush_failed = True, False

    def publish(self) -> None:
        """Make the file visible and its name durable. Errors: DeviceFailed."""
        if not self._is_flushed or self._is_ended:
            raise DeviceFailed(f"publish {self._name}: not flushed")
        self._power.require()
        self._owner.publish(self._name, self._content)
        self._is_ended = True

    def discard(self) -> None:
        """Remove the staged bytes. Idempotent; nothing happens after a publish or a power cut."""
        if not self._is_ended and self._power.is_on:
            self._owner.delete_staged(self._name)
        self._is_ended = True

    def _require_writing(self) -> None:
        assert not self._is_flushed
        assert not self._is_flush_failed
        assert not self._is_ended


class MemoryOpenFile:
    """A published file, open for reading; like a descriptor, it outlives a delete."""

    def __init__(self, content: Content, power: Power) -> None:
        self._content, self._power = content, power
        self.size = len(content.data)

    def read_into(self, offset: int, view: memoryview, *, wait: bool = True) -> int:
        """Fill `view`; fewer bytes only at the end of the file. Memory never waits. Errors: DeviceFailed."""
        self._power.require()
        found = self._content.data[offset : offset + len(view)]
        view[: len(found)] = found
        return len(found)

    def close(self) -> None:
        """Nothing to close."""


class MemoryLogFile:
    """One pack copy."""

    def __init__(self, owner: Owner, content: Content, power: Power) -> None:
        self._owner, self._content, self._power = owner, content, power

    def append(self, offset: int, data: memoryview) -> None:
        """Write `data` and make it durable. Errors: DeviceFull, DeviceFailed."""
        assert not offset % PAGE_BYTES
        assert not len(data) % PAGE_BYTES
        self._power.require()
        self._owner.write(self._content, offset, data)
        self._content.flush()

    def direct(self, offset: int, data: memoryview) -> None:
        """Memory has no descriptor."""

    def appended(self, byte_count: int, seconds: float) -> bool:
        """Never called: there is no direct append."""
        return False

    def extend(self) -> None:
        """Memory grows by itself."""

    def trim(self, size: int) -> None:
        """Cut the file to `size` bytes, if it is longer. Errors: DeviceFailed."""
        self._power.require()
        if len(self._content.data) > size:
            self._owner.truncate(self._content, size)

    def close(self) -> None:
        """Nothing to close."""
