"""One store, one `serve`: the data directory is held by a lock that lives as long as any process of the store.

Start-up takes over and trims the packs that dead processes left open, so none of them may still be appending. Workers
outlive a supervisor that was killed by the length of their drain; they keep the lock's descriptor open until they end.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from time import sleep
from typing import Final

from gateway.app.sources import ticks
from gateway.settings.tree import Settings
from metadata.errors import StorageError

LOCK_FILE: Final = "serving.lock"
WAIT_SECONDS_MAX: Final = 10.0
"""So long are processes of an earlier `serve` waited for."""

_RETRY_SECONDS: Final = 0.05


class StoreInUse(StorageError):
    """Another process serves, or rebuilds, this data directory."""


@contextmanager
def held(settings: Settings) -> Iterator[int]:
    """Hold the data directory for the block; the descriptor is for child processes to inherit.

    Waits a little for an earlier holder. Errors: StoreInUse, OSError.
    """
    folder = settings.data / "run"
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        deadline = ticks() + WAIT_SECONDS_MAX
        while not _is_taken(descriptor):
            if ticks() > deadline:
                raise StoreInUse(f"another process serves {settings.data.absolute()}: stop it first")
            sleep(_RETRY_SECONDS)
        yield descriptor
    finally:
        os.close(descriptor)


def _is_taken(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
