"""Files of a directory device: staged fragments, published files, pack copies."""

import mmap
import os
import threading
from enum import Enum, auto
from pathlib import Path
from typing import Final

from tiers.devices import posix
from tiers.errors import DeviceFailed, FragmentNotFound

LOG_CACHED_BYTES: Final = 256 << 10
"""Batches of a cached pack copy up to this size go through the page cache (performance.md PF-22)."""

WRITTEN_AHEAD_APPEND_MAX: Final = 128 << 10
"""Appends up to here go over space that was written with zeros before; a flush costs half of one that allocates."""

_ZEROS: Final = memoryview(mmap.mmap(-1, 512 << 10))
"""Page-aligned; written ahead in steps of its length, a quarter of a millisecond each."""


class _Stage(Enum):
    WRITING = auto()
    FLUSHED = auto()
    FAILED = auto()
    ENDED = auto()


class DirectoryStagedFile:
    """A fragment in the staging directory. Aligned writes go past the page cache, others through it.

    Writes may come from several threads at once; all else from one, when they are done.
    """

    def __init__(self, staging: Path, target: Path, *, size_hint: int, direct: bool) -> None:
        """Create the file; `direct` where O_DIRECT is accepted. Errors: OSError, and nothing is left behind."""
        self._path, self._target = staging, target
        self._stage = _Stage.WRITING
        self._lock = threading.Lock()
        self._end = 0
        self._reserved = 0
        self._is_renamed = False
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY
        created = os.open(staging, flags | (posix.DIRECT if direct else 0), 0o600)
        self._direct = created if direct else None
        self._buffered = None if direct else created
        if size_hint:
            self._reserve(size_hint)

    def write(self, offset: int, data: memoryview) -> None:
        """Write all of `data` at `offset`. Errors: DeviceFull, DeviceFailed."""
        assert self._stage is _Stage.WRITING
        with posix.Translating(f"write {self._path}"):
            if self._direct is not None and posix.is_aligned(offset, data):
                posix.write_all(self._direct, offset, data)
            else:
                posix.write_all(self._through_cache(), offset, data)
                if self._direct is None:
                    posix.write_behind(self._through_cache(), offset, len(data))
        with self._lock:
            self._end = max(self._end, offset + len(data))

    def truncate(self, size: int) -> None:
        """Cut the file to `size` bytes."""
        assert self._stage is _Stage.WRITING
        with posix.Translating(f"truncate {self._path}"):
            os.ftruncate(self._first(), size)
        self._end = self._reserved = size

    def flush(self) -> None:
        """Make all written bytes durable, then close the file. A failure is final. Errors: DeviceFailed."""
        if self._stage is not _Stage.WRITING:
            raise DeviceFailed(f"flush {self._path}: a failed flush is final")
        self._stage = _Stage.FAILED
        with posix.Translating(f"flush {self._path}"):
            if self._reserved > self._end:
                os.ftruncate(self._first(), self._end)
            # The descriptor opened first has seen every write-back error of this file.
            posix.flush_file(self._first())
            self._close()
        self._stage = _Stage.FLUSHED

    def publish(self) -> None:
        """Rename into place and flush the directory. Errors: DeviceFailed; the name is not visible then."""
        if self._stage is not _Stage.FLUSHED:
            raise DeviceFailed(f"publish {self._path}: not flushed")
        self._stage = _Stage.FAILED
        with posix.Translating(f"publish {self._target}"):
            if self._target.exists():
                raise DeviceFailed(f"publish {self._target}: the name is in use")
            self._path.rename(self._target)
            self._is_renamed = True
            try:
                posix.flush_directory(self._target.parent)
            except OSError:
                self._target.rename(self._path)
                self._is_renamed = False
                raise
        self._stage = _Stage.ENDED

    def discard(self) -> None:
        """Remove the staged bytes; nothing happens after a publish. Errors: DeviceFailed."""
        if self._stage is _Stage.ENDED:
            return
        self._stage = _Stage.ENDED
        with posix.Translating(f"discard {self._path}"):
            self._close()
            (self._target if self._is_renamed else self._path).unlink(missing_ok=True)

    def _reserve(self, byte_count: int) -> None:
        try:
            if posix.reserve(self._first(), 0, byte_count):
                self._reserved = byte_count
        except OSError:
            self._close()
            self._path.unlink(missing_ok=True)
            raise

    def _first(self) -> int:
        first = self._direct if self._direct is not None else self._buffered
        assert first is not None
        return first

    def _through_cache(self) -> int:
        with self._lock:
            if self._buffered is None:
                self._buffered = os.open(self._path, os.O_WRONLY)
            return self._buffered

    def _close(self) -> None:
        open_ones = [descriptor for descriptor in (self._direct, self._buffered) if descriptor is not None]
        self._direct = self._buffered = None
        for descriptor in open_ones:
            os.close(descriptor)


class DirectoryOpenFile:
    """A published file, open for positioned reads through the page cache."""

    def __init__(self, path: Path) -> None:
        """Open it. Errors: FragmentNotFound, OSError."""
        try:
            self._descriptor = os.open(path, os.O_RDONLY)
        except FileNotFoundError as error:
            raise FragmentNotFound(str(path)) from error
        self.size = os.fstat(self._descriptor).st_size
        self._path = path

    def read_into(self, offset: int, view: memoryview, *, wait: bool = True) -> int:
        """Fill `view`; fewer bytes only at the end of the file. Errors: BlockingIOError unless `wait`, DeviceFailed."""
        done = 0
        try:
            while done < len(view):
                rest = view[done:] if done else view
                if wait:
                    count = os.preadv(self._descriptor, [rest], offset + done)
                else:
                    count = posix.read_available(self._descriptor, offset + done, rest)
                if not count:
                    break
                done += count
        except BlockingIOError:
            raise
        except OSError as error:
            raise posix.translated(error, f"read {self._path}") from error
        return done

    def close(self) -> None:
        """Close the descriptor. Idempotent."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class DirectoryLogFile:
    """One pack copy, appended by its single writer; each append is one durable write past the page cache."""

    def __init__(self, path: Path, *, cached: bool, direct: bool, reserve_bytes: int, is_new: bool) -> None:
        """Create or open the file. Errors: FragmentNotFound, FileExistsError, OSError."""
        self._path, self._cached, self._step = path, cached, reserve_bytes
        flags = os.O_WRONLY | (os.O_CREAT | os.O_EXCL if is_new else 0)
        try:
            self._buffered = os.open(path, flags, 0o600)
        except FileNotFoundError as error:
            raise FragmentNotFound(str(path)) from error
        try:
            self._direct = os.open(path, os.O_WRONLY | posix.DIRECT) if direct else None
            self._reserved = os.fstat(self._buffered).st_size
            self._end = self._written = 0
            self._growing = threading.Lock()
            self._is_local = posix.is_local(self._buffered)
        except OSError:
            os.close(self._buffered)
            raise

    def append(self, offset: int, data: memoryview) -> None:
        """Write `data` at `offset` and make it durable. Errors: DeviceFull, DeviceFailed."""
        assert not offset % posix.PAGE_BYTES
        assert not len(data) % posix.PAGE_BYTES
        with posix.Translating(f"append {self._path}"):
            with self._growing:
                self._end = offset + len(data)
                self._reserve_to(self._end)
                self._written = max(self._written, self._end)  # `extend` must never come to what is written here
            posix.write_durably(self._descriptor_for(offset, data), offset, data)

    def direct(self, offset: int, data: memoryview) -> int | None:
        """The direct descriptor, when `data` can go past the page cache into space that is there and not being zeroed.

        Waits for nothing and asks the device nothing: an event loop calls this, and the device may hang.
        """
        if self._direct is None or not self._is_local or not posix.is_aligned(offset, data):
            return None
        end = offset + len(data)
        if end > self._written:
            if (self._step and end > self._reserved) or not self._growing.acquire(blocking=False):
                return None
            self._written = max(self._written, end)
            self._growing.release()
        self._end = end
        return self._direct

    def appended(self, byte_count: int, seconds: float) -> bool:
        """Whether `extend` is due."""
        is_small = byte_count <= WRITTEN_AHEAD_APPEND_MAX
        return is_small and self._written - self._end < len(_ZEROS) // 2

    def extend(self) -> None:
        """Zeros behind the end: an append over written space need not commit the file system's journal.

        Only for small appends: for large ones the zeros would cost more than the journal does.
        Errors: DeviceFull, DeviceFailed; nothing is lost then.
        """
        with self._growing, posix.Translating(f"extend {self._path}"):
            self._reserve_to(self._written + len(_ZEROS))
            until = min(self._written + len(_ZEROS), self._reserved)
            if self._direct is not None and until > self._written:
                posix.write_all(self._direct, self._written, _ZEROS[: until - self._written])
                self._written = until

    def trim(self, size: int) -> None:
        """Give back what is reserved beyond `size`. Errors: DeviceFailed."""
        with posix.Translating(f"trim {self._path}"):
            if os.fstat(self._buffered).st_size > size:
                os.ftruncate(self._buffered, size)

    def flush(self) -> None:
        """Reserve the first space and make the file itself durable, once, after it was created. Errors: OSError."""
        self._reserve_to(1)
        posix.flush_file(self._buffered)

    def close(self) -> None:
        """Close the descriptors. Idempotent."""
        for descriptor in (self._buffered, self._direct):
            if descriptor is not None and descriptor >= 0:
                os.close(descriptor)
        self._buffered, self._direct = -1, None

    def _descriptor_for(self, offset: int, data: memoryview) -> int:
        through_cache = self._cached and len(data) <= LOG_CACHED_BYTES
        if self._direct is None or through_cache or not posix.is_aligned(offset, data):
            return self._buffered
        return self._direct

    def _reserve_to(self, end: int) -> None:
        """Allocate the next step ahead. When there is no room for it, the write itself decides whether it fits."""
        if end <= self._reserved or not self._step:
            return
        until = -(-end // self._step) * self._step
        posix.reserve(self._buffered, self._reserved, until - self._reserved)
        self._reserved = until
