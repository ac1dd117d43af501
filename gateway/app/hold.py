"""One store, one `serve`: the data directory is held by a lock that lives as long as any process of the store.

Start-up takes over and trims the packs that dead processes left open, so none of them may still be appending. Workers
outlive a supervisor that was killed by the length of their drain; they keep the lock's descriptor open until they end.
"""

import fcntl
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from time import sleep
from typing import Final

from gateway.app.sources import ticks
from gateway.settings.tree import Settings

logger = logging.getLogger(__name__)

LOCK_FILE: Final = "serving.lock"
_RETRY_SECONDS: Final = 0.05


class StoreInUse(OSError):
    """Another process serves, or rebuilds, this data directory."""


@contextmanager
def held(settings: Settings, *, wait_seconds: float = 0.0) -> Iterator[int]:
    """Hold the data directory for the block; the descriptor is for child processes to inherit.

    Waits at most so long for earlier holders to end. Errors: StoreInUse, OSError.
    """
    folder = settings.data / "run"
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        _take(descriptor, settings, wait_seconds)
        yield descriptor
    finally:
        os.close(descriptor)


def _take(descriptor: int, settings: Settings, wait_seconds: float) -> None:
    deadline = ticks() + wait_seconds
    is_told = False
    while not _is_taken(descriptor):
        if ticks() >= deadline:
            raise StoreInUse(f"another process serves {settings.data.absolute()}: stop it first")
        if not is_told:
            logger.warning("processes of another serve hold %s: waiting for their end", settings.data.absolute())
            is_told = True
        sleep(_RETRY_SECONDS)


def _is_taken(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
