"""Several durable direct writes given to the kernel by one call and awaited by one call.

The copies of a pack lie on different devices and must all be durable before a batch counts. A thread a copy costs two
hand-overs of the interpreter each; the kernel's own asynchronous direct writes (io_submit, with RWF_DSYNC) cost none.
Linux on x86-64 and arm64; elsewhere `open_appender` gives None and the threads do it.
"""

import ctypes
import errno
import itertools
import os
import platform
import struct
import time
from collections.abc import Sequence
from typing import Final

from tiers.devices import posix
from tiers.errors import DeviceFailed, StorageError

_CALLS: Final = {"x86_64": (206, 207, 209, 208), "aarch64": (0, 1, 2, 4)}
"""Numbers of io_setup, io_destroy, io_submit and io_getevents by machine (kernel headers, unistd.h)."""

_WRITE: Final = 1  # IOCB_CMD_PWRITE
_DSYNC: Final[int] = getattr(os, "RWF_DSYNC", 0)
_REFUSALS: Final = frozenset({errno.EAGAIN, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP})

# struct iocb: token, key, flags, opcode, priority, descriptor, address, length, offset, reserved, flags, eventfd.
_CONTROL: Final = struct.Struct("<QIIHhIQQqQII")
_EVENT: Final = struct.Struct("<QQqq")
WRITES_MAX: Final = 16


class _Time(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class KernelAppender:
    """Writes of one thread. A write that was given up on may still be under way: its memory must not be reused.

    `close` waits for such writes, so an appender with late writes is dropped instead of closed.
    """

    def __init__(self, calls: tuple[int, int, int, int]) -> None:
        """Errors: OSError when the kernel gives no context."""
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._setup, self._destroy, self._submit, self._collect = calls
        self._context = ctypes.c_ulong(0)
        if self._libc.syscall(self._setup, ctypes.c_long(WRITES_MAX), ctypes.byref(self._context)) != 0:
            raise OSError(ctypes.get_errno(), "io_setup")
        self._controls = (ctypes.c_char * (_CONTROL.size * WRITES_MAX))()
        first = ctypes.addressof(self._controls)
        self._pointers = (ctypes.c_void_p * WRITES_MAX)(*(first + _CONTROL.size * i for i in range(WRITES_MAX)))
        self._events = (ctypes.c_char * (_EVENT.size * WRITES_MAX))()
        self._tokens = itertools.count(1)

    def submit(self, descriptors: Sequence[int], offset: int, data: memoryview) -> dict[int, int] | None:
        """Start the same write on each descriptor; token to number of the descriptor. None when the kernel refuses.

        `data` is page-aligned and stays untouched until every write has ended. A descriptor that could not be started
        has no token.
        """
        address = ctypes.addressof(ctypes.c_char.from_buffer(data))
        tokens: dict[int, int] = {}
        for number, descriptor in enumerate(descriptors):
            token = next(self._tokens)
            tokens[token] = number
            fields = (token, 0, _DSYNC, _WRITE, 0, descriptor, address, len(data), offset, 0, 0, 0)
            _CONTROL.pack_into(self._controls, _CONTROL.size * number, *fields)
        started: set[int] = set()
        at = 0
        while at < len(descriptors):
            left = ctypes.c_long(len(descriptors) - at)
            count = self._libc.syscall(self._submit, self._context, left, ctypes.byref(self._pointers, 8 * at))
            if count <= 0:
                if not started and ctypes.get_errno() in _REFUSALS:
                    return None
                at += 1  # this one cannot be started; those behind it can
                continue
            started.update(range(at, at + count))
            at += count
        return {token: number for token, number in tokens.items() if number in started}

    def collect(self, seconds: float, byte_count: int, least: int = 1) -> dict[int, StorageError | None]:
        """Wait for `least` writes to end; token to outcome of those that have. Perhaps fewer when `seconds` are over.

        `byte_count` is what a whole write wrote.
        """
        count = self._wait(seconds, least)
        outcomes: dict[int, StorageError | None] = {}
        for index in range(max(0, count)):
            token, _, written, _ = _EVENT.unpack_from(self._events, _EVENT.size * index)
            outcomes[token] = _judge(written, byte_count)
        return outcomes

    def _wait(self, seconds: float, least: int) -> int:
        """Number of writes that ended; a signal to this process is no reason to give a write up."""
        deadline = time.monotonic() + seconds
        while True:
            left = max(0.0, deadline - time.monotonic())
            patience = _Time(int(left), int(left % 1 * 1e9))
            at_least, at_most = ctypes.c_long(least), ctypes.c_long(WRITES_MAX)
            count: int = self._libc.syscall(
                self._collect, self._context, at_least, at_most, self._events, ctypes.byref(patience)
            )
            if count >= 0 or ctypes.get_errno() != errno.EINTR:
                return count

    def close(self) -> None:
        """Give the context back. Idempotent."""
        context, self._context = self._context, ctypes.c_ulong(0)
        if context.value:
            self._libc.syscall(self._destroy, context)


def _judge(written: int, byte_count: int) -> StorageError | None:
    if written == byte_count:
        return None
    if written < 0:
        return posix.translated(OSError(-written, os.strerror(-written)), "append")
    return DeviceFailed(f"append: {written} of {byte_count} bytes written")


def open_appender() -> KernelAppender | None:
    """An appender, or None where the kernel has none."""
    calls = _CALLS.get(platform.machine())
    if calls is None or not _DSYNC or platform.system() != "Linux":
        return None
    try:
        return KernelAppender(calls)
    except OSError:
        return None
