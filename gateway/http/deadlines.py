"""Absolute deadlines of connections, by one timer a worker instead of one timer an event.

A connection writes the loop time of its next deadline into `due`; a sweep a few times a second calls those that are
late. Setting and clearing a deadline is one attribute store, so a request pays nothing for having one.
"""

import asyncio
from typing import Protocol

from gateway.http.limits import Limits

NEVER = float("inf")


class Watched(Protocol):
    """A connection with a deadline."""

    due: float

    def overdue(self, now: float) -> None:
        """The deadline has passed; set the next one or end the connection."""


class Sweep:
    """Looks at every connection of one worker. Runs only while there are connections."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._watched: set[Watched] = set()
        self._timer: asyncio.TimerHandle | None = None

    def add(self, connection: Watched, loop: asyncio.AbstractEventLoop) -> None:
        """Watch `connection` from now on."""
        self._watched.add(connection)
        if self._timer is None:
            self._timer = loop.call_later(self._seconds, self._look, loop)

    def discard(self, connection: Watched) -> None:
        """Watch it no more; idempotent."""
        self._watched.discard(connection)
        if not self._watched and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = loop.call_later(self._seconds, self._look, loop)
        now = loop.time()
        for connection in [connection for connection in self._watched if connection.due <= now]:
            connection.overdue(now)


class BodyPace:
    """How well a client keeps sending while the server waits for it; time the server takes itself does not count.

    Late: no byte for `body_silence_seconds`, or less than `body_rate_bytes` a second over a window of that length. A
    window and not the whole body, or a fast start would buy hours of dripping.
    """

    __slots__ = ("_bytes", "_heard", "_rate", "_silence", "_since", "_waited")

    def __init__(self, limits: Limits) -> None:
        self._silence = limits.body_silence_seconds
        self._rate = limits.body_rate_bytes
        self._bytes = 0
        self._waited = 0.0
        self._since = NEVER
        self._heard = NEVER

    def wait(self, now: float) -> None:
        """The server waits for bytes from now on."""
        if self._since == NEVER:
            self._since = self._heard = now

    def rest(self, now: float) -> None:
        """The server has what it asked for."""
        if self._since != NEVER:
            self._waited += now - self._since
            self._since = self._heard = NEVER

    @property
    def is_waiting(self) -> bool:
        """Whether the server waits for the client now."""
        return self._since != NEVER

    def heard(self, byte_count: int, now: float) -> None:
        """Bytes have come."""
        self._bytes += byte_count
        if self._since != NEVER:
            self._heard = now

    def is_late(self, now: float) -> bool:
        """Judge the client; opens a new window when the last one was good."""
        if self._since == NEVER:
            return False
        if now - self._heard > self._silence:
            return True
        waited = self._waited + now - self._since
        if waited < self._silence:
            return False
        if self._bytes < self._rate * waited:
            return True
        self._bytes, self._waited, self._since = 0, 0.0, now
        return False
