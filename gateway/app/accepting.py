"""Takes connections from a listening socket that several processes share, so that each process gets its turn.

An event loop that finds a shared socket readable takes everything that waits: of 64 connections one worker got all 64
and the others idled (measured, uvloop, 2 workers). A blocking `accept` is different: the kernel wakes exactly one of
those who wait, the longest waiting first. So one thread a process waits in `accept`, hands the connection to the loop,
and comes back only when the loop has taken it: connections go round, and a busy process comes back later.
"""

import asyncio
import logging
import socket
import struct
import threading
from collections.abc import Callable
from typing import Final

logger = logging.getLogger(__name__)

LOOK_MILLISECONDS: Final = 250
"""How often a waiting thread looks whether it should end."""

FAILURE_SECONDS: Final = 0.1
"""Rest after a failed accept: out of descriptors, most likely."""

TAKEN_SECONDS_MAX: Final = 5.0
"""A loop that has not taken a connection after so long is stalled; the thread goes on nevertheless."""


class Acceptor:
    """The accepting thread of one process. `take` gets each connection on the loop and owns it."""

    def __init__(self, listener: socket.socket, take: Callable[[socket.socket], None]) -> None:
        self._listener = listener
        self._take = take
        self._stopping = threading.Event()
        self._taken = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin; call on the loop that takes the connections."""
        seconds, milliseconds = divmod(LOOK_MILLISECONDS, 1000)
        timeout = struct.pack("ll", seconds, milliseconds * 1000)
        # A blocking socket with a receive timeout: Python's own timeouts would poll, and all pollers wake together.
        self._listener.settimeout(None)
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, timeout)
        loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, args=(loop,), name="accept", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Accept nothing more; blocks until the thread has ended, and what it took is with the loop."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        while not self._stopping.is_set():
            try:
                connection, _ = self._listener.accept()
            except BlockingIOError:  # the receive timeout
                continue
            except OSError as error:
                logger.warning("accept failed: %s", error)
                self._stopping.wait(FAILURE_SECONDS)
                continue
            self._taken.clear()
            try:
                loop.call_soon_threadsafe(self._hand_over, connection)
            except RuntimeError:  # the loop is closed: the process ends
                connection.close()
                return
            self._taken.wait(TAKEN_SECONDS_MAX)

    def _hand_over(self, connection: socket.socket) -> None:
        self._taken.set()
        self._take(connection)
