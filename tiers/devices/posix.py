"""System calls of a directory device: positioned direct writes, flushes, error translation.

The only place of the device that flushes: a test that wants a flush to be forgotten replaces one function here.
"""

import ctypes
import errno
import logging
import mmap
import os
import threading
from pathlib import Path
from types import TracebackType
from typing import Final

from tiers.errors import DeviceFailed, DeviceFull, StorageError

PAGE_BYTES: Final = 4096
DIRECT: Final[int] = getattr(os, "O_DIRECT", 0)
"""Flag of descriptors that bypass the page cache."""

_log: Final = logging.getLogger(__name__)
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_UNSUPPORTED: Final = frozenset({errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL})
_RWF_DSYNC: Final = getattr(os, "RWF_DSYNC", 0)
_RWF_NOWAIT: Final = getattr(os, "RWF_NOWAIT", 0)
_WRITE_BEHIND: Final = 2  # SYNC_FILE_RANGE_WRITE: start writing, wait for nothing
_libc: Final = ctypes.CDLL(None, use_errno=True)


class Translating:
    """Turns OSError into DeviceFull or DeviceFailed inside a `with` block; lets everything else pass."""

    __slots__ = ("_what",)

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        """Nothing to prepare."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, OSError):
            raise translated(error, self._what) from error


_LOCAL: Final = frozenset({0xEF53, 0x58465342})  # ext4, XFS


def translated(error: OSError, what: str) -> StorageError:
    """The storage error that stands for `error`."""
    kind = DeviceFull if error.errno in _FULL else DeviceFailed
    return kind(f"{what}: {error.strerror or error}")


def is_aligned(offset: int, data: memoryview) -> bool:
    """Whether a direct write can take `data` as it lies in memory; the address of read-only memory is unknown."""
    if offset % PAGE_BYTES or len(data) % PAGE_BYTES or data.readonly or not len(data):
        return False
    return not ctypes.addressof(ctypes.c_char.from_buffer(data)) % PAGE_BYTES


def is_local(descriptor: int) -> bool:
    """Whether a file lies on a local file system (ext4, XFS), where starting a direct write does not wait for its end.

    Elsewhere (network, FUSE) the start itself may hang with the device, so a thread of its own has to make it.
    """
    about = (ctypes.c_long * 32)()  # struct statfs: the type comes first
    return _libc.fstatfs(descriptor, about) == 0 and about[0] in _LOCAL


def accepts_direct(folder: Path) -> bool:
    """Whether files in `folder` can be written past the page cache; found out by trying. A refusal is logged.

    Errors: OSError for anything but a refusal.
    """
    probe = folder / f"probe.{os.getpid()}.{threading.get_ident()}"
    page = mmap.mmap(-1, PAGE_BYTES)
    try:
        descriptor = os.open(probe, os.O_CREAT | os.O_TRUNC | os.O_WRONLY | DIRECT, 0o600)
        try:
            write_all(descriptor, 0, memoryview(page))
        finally:
            os.close(descriptor)
    except OSError as error:
        if error.errno == errno.EINVAL:
            _log.warning("%s refuses direct I/O: writing through the page cache", folder)
            return False
        if error.errno in _FULL:  # a full device may still serve reads and deletes
            return False
        raise
    finally:
        probe.unlink(missing_ok=True)
    return bool(DIRECT)


def write_all(descriptor: int, offset: int, data: memoryview) -> None:
    """Write all of `data`; a short write goes on where it stopped. Errors: OSError."""
    done = 0
    while done < len(data):
        done += os.pwrite(descriptor, data[done:], offset + done)


def write_durably(descriptor: int, offset: int, data: memoryview) -> None:
    """Write all of `data` and make it durable, in one system call where the kernel can. Errors: OSError."""
    done = 0
    while done < len(data):
        done += _write_durably_once(descriptor, offset + done, data[done:])


def _write_durably_once(descriptor: int, offset: int, data: memoryview) -> int:
    if _RWF_DSYNC:
        try:
            return os.pwritev(descriptor, [data], offset, _RWF_DSYNC)
        except OSError as error:
            if error.errno not in {errno.EOPNOTSUPP, errno.ENOSYS}:
                raise
    count = os.pwrite(descriptor, data, offset)
    flush_file(descriptor)
    return count


def write_behind(descriptor: int, offset: int, byte_count: int) -> None:
    """Start writing dirty pages out, so that the flush at the end is short. Advice: no error is reported."""
    call = getattr(_libc, "sync_file_range", None)
    if call is not None:
        call(descriptor, ctypes.c_int64(offset), ctypes.c_int64(byte_count), _WRITE_BEHIND)


def read_available(descriptor: int, offset: int, view: memoryview) -> int:
    """Read what the page cache holds. Errors: BlockingIOError when that is nothing, OSError.

    Where the kernel or the file system cannot tell, this waits.
    """
    if _RWF_NOWAIT:
        try:
            return os.preadv(descriptor, [view], offset, _RWF_NOWAIT)
        except BlockingIOError:
            raise
        except OSError as error:
            if error.errno not in _UNSUPPORTED:
                raise
    return os.preadv(descriptor, [view], offset)


def reserve(descriptor: int, offset: int, byte_count: int) -> bool:
    """Allocate space; the file grows to `offset + byte_count`. False where that cannot be had: writing decides then."""
    try:
        os.posix_fallocate(descriptor, offset, byte_count)
    except OSError as error:
        if error.errno in _UNSUPPORTED or error.errno in _FULL:
            return False
        raise
    return True


def flush_file(descriptor: int) -> None:
    """Make written bytes and the size durable. Errors: OSError, which is final for this file."""
    os.fdatasync(descriptor)


def flush_directory(path: Path) -> None:
    """Make the names in a directory durable. Errors: OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_file(path: Path, data: bytes) -> None:
    """Create or replace a small file with durable bytes; its name is not yet durable. Errors: OSError."""
    descriptor = os.open(path, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
    try:
        write_all(descriptor, 0, memoryview(data))
        flush_file(descriptor)
    finally:
        os.close(descriptor)
