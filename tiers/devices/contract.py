"""The device contract: where fragments and pack files live. Blocking calls, made from threads, never from the loop.

Names are ours (hex blob id, fragment index, generation), never key bytes, and are never used twice. A file is either
*staged* (invisible to `open` and `survey(FRAGMENTS)`), *published*, or gone. One conformance suite runs over every
implementation and every wrapper.
"""

from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple, Protocol


class Area(StrEnum):
    """The parts of a device; names are unique within one."""

    STAGING = "staging"
    FRAGMENTS = "fragments"
    PACKS = "packs"
    SNAPSHOTS = "snapshots"
    QUARANTINE = "quarantine"


class Found(NamedTuple):
    """One file met by a survey."""

    name: str
    size: int
    modified_ms: int


class Capacity(NamedTuple):
    """Space of a device in bytes; `free_bytes` excludes the reserve kept for deletes, log and repair."""

    total_bytes: int
    free_bytes: int


class StagedFile(Protocol):
    """A file being written; invisible until `publish`. Exactly one of `publish` and `discard` ends it.

    Order: any number of `write`, one `flush`, one `publish`. A failed `flush` is final: discard, never flush again.
    """

    def write(self, offset: int, data: memoryview) -> None:
        """Write all of `data` at `offset`. Errors: DeviceFull, DeviceFailed.

        Direct I/O is used where `offset`, `len(data)` and the buffer's address are multiples of 4096.
        """

    def truncate(self, size: int) -> None:
        """Cut the file to `size` bytes (a page-padded last write is longer than the fragment)."""

    def flush(self) -> None:
        """Make all written bytes durable. Errors: DeviceFailed."""

    def publish(self) -> None:
        """Make the file visible under its name, and its name durable. Errors: DeviceFailed, name not visible."""

    def discard(self) -> None:
        """Remove the staged bytes. Idempotent; also after a failed publish."""


class OpenFile(Protocol):
    """A published file, open for reading. The caller closes it."""

    size: int

    def read_into(self, offset: int, view: memoryview, *, wait: bool = True) -> int:
        """Fill `view` from `offset`; return the bytes read, fewer only at the end of the file.

        With `wait` False, raise BlockingIOError instead of waiting for the medium. Errors: DeviceFailed.
        """

    def close(self) -> None: ...


class LogFile(Protocol):
    """One copy of a pack, open for appending by its single writer. `append` is durable when it returns."""

    def append(self, offset: int, data: memoryview) -> None:
        """Write `data` (page-aligned buffer, offset and length) at `offset` and make it durable in one call.

        Errors: DeviceFull, DeviceFailed; the copy is then suspect and must not be appended to again.
        """

    def direct(self, offset: int, data: memoryview) -> int | None:
        """A descriptor by which the kernel may be given this append together with those of other copies.

        None when it has to be `append`. Never waits; the descriptor stays the file's.
        """

    def appended(self, byte_count: int, seconds: float) -> bool:
        """An append by the descriptor of `direct` has ended; for whoever counts. Whether `extend` is due."""

    def extend(self) -> None:
        """Make room behind the end ahead of the appends to come, on any thread but theirs, beside them.

        Errors: DeviceFull, DeviceFailed; nothing is lost then.
        """

    def trim(self, size: int) -> None:
        """Give back space held beyond `size` bytes, when nothing will be appended any more; never lengthens the file.

        Not flushed: after a power cut the space may be held again. Errors: DeviceFailed.
        """

    def close(self) -> None: ...


class Device(Protocol):
    """One place for fragments. `device_id` is stable across restarts and recorded inside the device."""

    device_id: str

    def stage(self, name: str, size_hint: int) -> StagedFile:
        """Begin a fragment; `size_hint` bytes may be reserved ahead, 0 when unknown.

        Errors: DeviceFull, DeviceFailed.
        """

    def open(self, area: Area, name: str) -> OpenFile:
        """Open a published file. Errors: FragmentNotFound, DeviceFailed."""

    def create_log(self, name: str, *, cached: bool = False) -> LogFile:
        """Create a pack copy in PACKS, its name durable on return. Errors: DeviceFull, DeviceFailed.

        A `cached` copy leaves batches of at most 256 KiB in the page cache, where the next read finds them. Space is
        reserved ahead, so the file's size says nothing about where the last batch ends.
        """

    def reopen_log(self, name: str) -> LogFile:
        """Open an existing pack copy to rewrite a batch during recovery. Errors: FragmentNotFound, DeviceFailed."""

    def store(self, area: Area, name: str, data: bytes) -> None:
        """Write a small whole file durably and atomically (snapshots). Errors: DeviceFull, DeviceFailed."""

    def delete(self, area: Area, name: str) -> None:
        """Remove a file; absent is fine. Errors: DeviceFailed."""

    def quarantine(self, area: Area, name: str, reason: str) -> None:
        """Move a suspect file to QUARANTINE with its reason; absent is fine. Errors: DeviceFailed."""

    def survey(self, area: Area, after: str = "") -> Iterator[Found]:
        """Every file of an area with a name greater than `after`, in name order. Cost: follows the files returned.

        Errors: DeviceFailed, also in the middle.
        """

    def capacity(self) -> Capacity: ...

    def describe(self) -> str:
        """The stack of wrappers, outermost first, for logs and `doctor`: `metered(directory(/data/d0))`."""
