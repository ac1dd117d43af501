"""Tells the readers of a host whether what they read earlier still stands, without asking the database.

Cells of shared memory, in the lock file of a SQLite database: one for each group of keys and one for each group of
bucket names. A writer makes the cells of what it changes odd before it commits and even again afterwards, each time
higher; all of it under the write lock. So whoever saw an even value, read a row, and sees the same value later has
the row as it stands. A writer that dies in between leaves its cells odd: nothing is remembered by them then, until the
next change makes them even.

Counters of a bucket change with every write into it and are not part of this: a remembered bucket row is true but for
its counters.
"""

import mmap
import os
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from metadata.errors import MetadataUnavailable

HEADER_BYTES: Final = 64
"""The lock file's own part: counter and hint."""

KEY_CELLS: Final = 1 << 14
BUCKET_CELLS: Final = 1 << 10
"""A change of one key makes readers forget the others of its cell, which costs them a look-up each."""

FILE_BYTES: Final = HEADER_BYTES + 8 * (KEY_CELLS + BUCKET_CELLS)


def key_cell(bucket_id: int, key: bytes) -> int:
    """The cell of a key. Not Python's own hash, which is another one in each process."""
    return zlib.crc32(key, bucket_id & 0xFFFFFFFF) % KEY_CELLS


def bucket_cell(name: str) -> int:
    """The cell of a bucket's name."""
    return KEY_CELLS + zlib.crc32(name.encode()) % BUCKET_CELLS


class Freshness:
    """The cells, mapped into this process. `cells[number]` is a cell's value, one aligned word."""

    def __init__(self, path: Path) -> None:
        """Map the lock file, and lengthen it where it is an older program's. Errors: MetadataUnavailable."""
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.posix_fallocate(descriptor, 0, FILE_BYTES)  # never shortens; a hole on a full disk would be fatal
                self._memory = mmap.mmap(descriptor, FILE_BYTES)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise MetadataUnavailable(f"lock file: {error}") from error
        self.cells = memoryview(self._memory)[HEADER_BYTES:].cast("Q")

    def begin(self, numbers: Iterable[int]) -> None:
        """Before a commit, under the write lock: what these cells stand for may change."""
        for number in numbers:
            self.cells[number] |= 1

    def end(self, numbers: Iterable[int]) -> None:
        """After it, whatever became of it."""
        for number in numbers:
            self.cells[number] += 1

    def close(self) -> None:
        """Unmap. Idempotent."""
        self.cells.release()
        self._memory.close()
