"""MD5 for ETags: batches and uploads in flight share one vector kernel; without it everything goes to hashlib.

The kernel is the optional extension `_md5.c`, found beside this file and called through ctypes with the GIL released.
It is checked against hashlib when it is loaded and switched off, loudly, when it differs. MD5 is never protection here.
"""

import ctypes
import hashlib
import logging
import queue
import struct
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Final, Protocol, Self

WIDTHS: Final = (16, 8)
"""Kernels of the extension by their lanes, widest first."""

TURN_BLOCKS: Final = (1 << 20) // 64
"""Blocks of 64 bytes between two looks at which other uploads have bytes waiting."""

ALONE_MAX: Final = 4
"""So many uploads under way use hashlib, on the threads of the pool: alone on a lane one runs at 0.65 instead of
0.82 GB/s, and four on two cores were slower in lanes than beside each other. With 16 the lanes win."""

_BLOCK: Final = 64
_INITIAL: Final = (0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476)
_CHECK_SIZES: Final = (0, 1, 55, 56, 63, 64, 65, 119, 120, 127, 128, 1000, 4096)
_log: Final = logging.getLogger(__name__)


class Kernel:
    """One width of the vector kernel. Stateless; may be called from several threads."""

    def __init__(self, library: Path, lanes: int | None = None) -> None:
        """Load it; `lanes` is the widest the CPU runs unless given. Errors: OSError when it cannot be loaded."""
        self._c = ctypes.CDLL(str(library))
        widest = int(self._c.md5_lanes())
        self.lanes = widest if lanes is None else lanes
        assert 0 <= self.lanes <= widest, "the CPU does not run a kernel of that width"
        if widest:
            pointer = ctypes.c_void_p
            self._c.md5_many.argtypes = (ctypes.c_int, ctypes.c_size_t, pointer, pointer, pointer)
            self._c.md5_blocks.argtypes = (ctypes.c_int, pointer, pointer, ctypes.c_size_t)
            self._c.md5_many.restype = self._c.md5_blocks.restype = None

    @property
    def batch_min(self) -> int:
        """Messages from which the kernel is faster than hashlib, one after another."""
        return 4 if self.lanes == 16 else 3

    def many(self, messages: Sequence[bytes]) -> list[bytes]:
        """MD5 of each message, in order."""
        count = len(messages)
        data = (ctypes.c_char_p * count)(*messages)
        sizes = (ctypes.c_size_t * count)(*map(len, messages))
        digests = ctypes.create_string_buffer(16 * count)
        self._c.md5_many(self.lanes, count, data, sizes, digests)
        raw = digests.raw
        return [raw[at : at + 16] for at in range(0, 16 * count, 16)]

    def advance(self, states: Sequence[list[int]], addresses: Sequence[int], blocks: int) -> None:
        """Advance up to `lanes` running hashes (A, B, C, D), each by `blocks` blocks at its address."""
        busy, lanes = len(states), self.lanes
        assert 0 < busy <= lanes
        idle = lanes - busy  # idle lanes repeat the first; their results are dropped
        columns = [*states, *[states[0]] * idle]
        state = (ctypes.c_uint32 * (4 * lanes))(*(column[word] for word in range(4) for column in columns))
        data = (ctypes.c_void_p * lanes)(*addresses, *[addresses[0]] * idle)
        self._c.md5_blocks(lanes, state, data, blocks)
        for lane, running in enumerate(states):
            running[:] = state[lane::lanes]

    def is_right(self) -> bool:
        """Compare one known batch and one running hash with hashlib."""
        batch = [
            bytes(range(256)) * (size // 256) + bytes(range(size % 256)) for size in (*_CHECK_SIZES, *_CHECK_SIZES)
        ]
        if self.many(batch) != [_md5(message) for message in batch]:
            return False
        stream = LaneStream(Md5Lanes(self), self)
        return stream.finish_inline(memoryview(batch[-1])) == _md5(batch[-1])


def load(folder: Path) -> Kernel | None:
    """The widest kernel of the extension in `folder` that agrees with hashlib on this CPU, or None."""
    for library in sorted(folder.glob("_md5*.so")):
        try:
            widest = Kernel(library).lanes
        except (OSError, AttributeError) as error:
            _log.warning("MD5 kernel %s cannot be loaded: %s", library.name, error)
            continue
        for lanes in WIDTHS:
            if lanes > widest:
                continue
            kernel = Kernel(library, lanes)
            if kernel.is_right():
                return kernel
            _log.warning("MD5 kernel of %d lanes differs from hashlib and is switched off", lanes)
    return None


@lru_cache(maxsize=1)
def installed() -> Kernel | None:
    """The kernel beside this module, loaded and checked once."""
    return load(Path(__file__).parent)


def describe() -> str:
    """Which MD5 this process uses, for `doctor`."""
    kernel = installed()
    return "hashlib" if kernel is None else f"{kernel.lanes} lanes"


def many(messages: Sequence[bytes]) -> list[bytes]:
    """MD5 of each message, in order; for a thread, not for the loop. 64 KiB costs 7 us in a batch of 16, else 85."""
    kernel = installed()
    if kernel is None or len(messages) < kernel.batch_min:
        return [_md5(message) for message in messages]
    return kernel.many(messages)


class Md5Stream(Protocol):
    """The MD5 of one upload. One `update` or `submit` at a time; `digest` or `close` ends it, both idempotent."""

    def update(self, view: memoryview) -> None:
        """Take the next bytes; returns when they are hashed. For a thread."""

    def submit(self, view: memoryview, done: Callable[[], None]) -> None:
        """Take the next bytes and call `done` when they are hashed and `view` may be reused.

        Either hashes them on the calling thread or hands them to the shared one; so for a thread, too. `done` may run
        on the shared thread: it must be quick and must not raise.
        """

    def digest(self) -> bytes:
        """The 16 bytes over everything taken so far; ends the stream."""

    def close(self) -> None:
        """Give an unfinished stream up."""


class Md5Lanes:
    """Hands out streams and runs those that share the kernel on one thread. One for a process."""

    def __init__(self, kernel: Kernel | None) -> None:
        """Without a kernel every stream uses hashlib. The thread starts with the first stream that needs it."""
        self._kernel = kernel
        self._inbox: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._active = 0
        self._thread: threading.Thread | None = None

    def open_stream(self) -> Md5Stream:
        """A new stream: hashlib while at most `ALONE_MAX` are under way, a lane beyond."""
        with self._lock:
            self._active += 1
            if self._kernel is None or self._active <= ALONE_MAX:
                return HashlibStream(self)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, args=(self._kernel,), name="md5-lanes", daemon=True)
                self._thread.start()
            return LaneStream(self, self._kernel)

    def release(self) -> None:
        """A stream ended."""
        with self._lock:
            self._active -= 1
            assert self._active >= 0

    def put(self, job: "_Job") -> None:
        """Queue whole blocks of one stream."""
        self._inbox.put(job)

    def close(self) -> None:
        """End the thread once everything queued is hashed. Idempotent."""
        with self._lock:
            thread, self._thread = self._thread, None
        if thread is not None:
            self._inbox.put(None)
            thread.join()

    def _run(self, kernel: Kernel) -> None:
        busy: list[_Job] = []
        is_open = True
        while is_open or busy:
            while not busy or not self._inbox.empty():
                job = self._inbox.get()
                if job is None:
                    is_open = False
                    break
                busy.append(job)
            if busy:
                busy = _turn(kernel, busy)


class HashlibStream:
    """A stream of its own, hashed on the calling thread."""

    def __init__(self, lanes: Md5Lanes) -> None:
        self._lanes: Md5Lanes | None = lanes
        self._md5 = hashlib.md5(usedforsecurity=False)

    def update(self, view: memoryview) -> None:
        """See `Md5Stream`."""
        self._md5.update(view)

    def submit(self, view: memoryview, done: Callable[[], None]) -> None:
        """See `Md5Stream`; `done` runs here."""
        self._md5.update(view)
        done()

    def digest(self) -> bytes:
        """See `Md5Stream`."""
        self.close()
        return self._md5.digest()

    def close(self) -> None:
        """See `Md5Stream`."""
        lanes, self._lanes = self._lanes, None
        if lanes is not None:
            lanes.release()


class LaneStream:
    """A stream that shares the kernel. Bytes short of a block wait here for the next update."""

    def __init__(self, lanes: Md5Lanes, kernel: Kernel) -> None:
        self._lanes, self._kernel = lanes, kernel
        self._state = list(_INITIAL)
        self._rest = b""
        self._size = 0
        self._digest: bytes | None = None
        self._is_released = False

    def update(self, view: memoryview) -> None:
        """See `Md5Stream`."""
        landed = threading.Event()
        self.submit(view, landed.set)
        landed.wait()

    def submit(self, view: memoryview, done: Callable[[], None]) -> None:
        """See `Md5Stream`; `done` runs on the shared thread."""
        job = self._job(view, done)
        if job.pieces:
            self._lanes.put(job)
        else:
            done()

    def digest(self) -> bytes:
        """See `Md5Stream`. The padding is hashed on the calling thread."""
        if self._digest is None:
            padding = b"\x80" + bytes(-(len(self._rest) + 9) % _BLOCK) + struct.pack("<Q", self._size * 8 % (1 << 64))
            tail = _Bytes.of(memoryview(self._rest + padding))
            self._kernel.advance([self._state], [tail.address], tail.size // _BLOCK)
            self._digest = struct.pack("<4I", *self._state)
            self.close()
        return self._digest

    def close(self) -> None:
        """See `Md5Stream`."""
        if not self._is_released:
            self._is_released = True
            self._lanes.release()

    def finish_inline(self, view: memoryview) -> bytes:
        """Hash `view` on the calling thread and end the stream: the self-check, without a thread."""
        self._is_released = True
        job = self._job(view, lambda: None)
        waiting = [job] if job.pieces else []
        while waiting:
            waiting = _turn(self._kernel, waiting)
        return self.digest()

    def _job(self, view: memoryview, done: Callable[[], None]) -> "_Job":
        """Cut `view` into whole blocks: one made of what waited, then those that lie in `view` itself."""
        assert self._digest is None
        self._size += len(view)
        job = _Job(self._state, done)
        if self._rest:
            take = min(len(view), _BLOCK - len(self._rest))
            self._rest += bytes(view[:take])
            view = view[take:]
            if len(self._rest) < _BLOCK:
                return job
            job.add(_Bytes.of(memoryview(self._rest)), 1)
        blocks = len(view) // _BLOCK
        if blocks:
            job.add(_Bytes.of(view), blocks)
        self._rest = bytes(view[blocks * _BLOCK :])
        return job


@dataclass(frozen=True, slots=True)
class _Bytes:
    """Memory with its address, kept alive."""

    kept: object
    address: int
    size: int

    @classmethod
    def of(cls, view: memoryview) -> Self:
        """The memory of `view`; a read-only view is copied, for ctypes gives no address of one."""
        kept = (ctypes.c_char * len(view)).from_buffer(bytearray(view) if view.readonly else view)
        return cls(kept, ctypes.addressof(kept), len(view))


@dataclass(slots=True)
class _Job:
    """Whole blocks of one stream, waiting for their turns."""

    state: list[int]
    done: Callable[[], None]
    pieces: deque[tuple[int, int]] = field(default_factory=deque)
    kept: list[_Bytes] = field(default_factory=list)

    def add(self, memory: _Bytes, blocks: int) -> None:
        self.kept.append(memory)
        self.pieces.append((memory.address, blocks))

    def took(self, blocks: int) -> None:
        """Move on by `blocks` of the first piece."""
        address, left = self.pieces.popleft()
        if left > blocks:
            self.pieces.appendleft((address + blocks * _BLOCK, left - blocks))


def _turn(kernel: Kernel, busy: list[_Job]) -> list[_Job]:
    """Advance the first jobs, one a lane, by as much as all of them have; return who is left, those served last."""
    served, waiting = busy[: kernel.lanes], busy[kernel.lanes :]
    blocks = min(TURN_BLOCKS, *(job.pieces[0][1] for job in served))
    kernel.advance([job.state for job in served], [job.pieces[0][0] for job in served], blocks)
    for job in served:
        job.took(blocks)
        if job.pieces:
            waiting.append(job)
        else:
            job.kept.clear()
            job.done()
    return waiting


def _md5(message: bytes) -> bytes:
    return hashlib.md5(message, usedforsecurity=False).digest()
