"""The lock file beside a SQLite database: it orders the writers of a host and counts their sequence numbers.

`flock` and not SQLite's busy handler: that one sleeps and retries, which costs a p99 of 61 ms against 4 ms with two
processes. The counter lies outside the database so that a number outlives the rollback of the transaction that took it.
It is not flushed: after a power cut it may be older than the commit log, whose replay hands in `at_least`.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from metadata.errors import MetadataUnavailable

COUNTER_BYTES: Final = 8


class LockFile:
    """An exclusive lock and the last sequence number handed out. One for each writer, even within one process."""

    def __init__(self, path: Path) -> None:
        """Open or create the file. Errors: MetadataUnavailable."""
        try:
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise MetadataUnavailable(f"lock file: {error}") from error

    @contextmanager
    def held(self) -> Iterator[None]:
        """Wait for the lock, in the calling thread, and hold it for the block. The kernel frees it if we die."""
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX)
        except OSError as error:
            raise MetadataUnavailable(f"lock file: {error}") from error
        try:
            yield
        finally:
            fcntl.flock(self._fd, fcntl.LOCK_UN)

    def next_sequence(self, count: int, at_least: int) -> int:
        """First of `count` numbers greater than `at_least` and than every number handed out before. Under the lock."""
        assert count > 0 <= at_least
        try:
            last = max(int.from_bytes(os.pread(self._fd, COUNTER_BYTES, 0), "little"), at_least)
            written = os.pwrite(self._fd, (last + count).to_bytes(COUNTER_BYTES, "little"), 0)
        except OSError as error:
            raise MetadataUnavailable(f"lock file: {error}") from error
        assert written == COUNTER_BYTES
        return last + 1

    def close(self) -> None:
        """Close the file, which frees the lock. Idempotent."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
