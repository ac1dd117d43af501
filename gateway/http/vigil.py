"""Keeps an event loop awake for a moment after bytes of a lone client.

A loop that sleeps between two requests is woken through the scheduler, and on a virtual machine through a halted
processor: about 40 us a request, more than half of what answering a small one takes. A client that sends one request
after the other is back within less. Where several clients are served the loop hardly sleeps, and the processor has
better things to do.
"""

import asyncio
import os
import time
from collections.abc import Callable
from typing import Final

CROWD_SECONDS: Final = 0.01
"""How long two clients side by side keep the loop from being kept awake."""


class Vigil:
    """One a process. Costs at most `seconds` of processor time after each request, given up to whoever wants it."""

    __slots__ = ("_clock", "_crowded_until", "_is_awake", "_last", "_loop", "_seconds", "_until", "turns")

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        """`seconds` 0 switches it off. `clock` gives seconds; only differences matter."""
        self._seconds = seconds
        self._clock = clock
        self._last = 0
        self._crowded_until = self._until = 0.0
        self._is_awake = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self.turns = 0

    def heard(self, connection: object, loop: asyncio.AbstractEventLoop) -> None:
        """Bytes have come from a client."""
        now = self._clock()
        if id(connection) != self._last:
            self._last = id(connection)
            self._crowded_until = now + CROWD_SECONDS
        if now < self._crowded_until or not self._seconds:
            return
        self._until = now + self._seconds
        if not self._is_awake:
            self._is_awake = True
            self._loop = loop
            loop.call_soon(self._watch)

    def _watch(self) -> None:
        self.turns += 1
        if self._clock() < self._until and self._loop is not None:
            os.sched_yield()
            self._loop.call_soon(self._watch)
        else:
            self._is_awake = False
