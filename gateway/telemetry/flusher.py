"""The one background task of a process's telemetry: hands counts on and writes the access log, by time."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final

from gateway.telemetry.access_log import AccessLog
from gateway.telemetry.families import Families
from gateway.telemetry.meters import LagMeter

logger = logging.getLogger(__name__)

TICK_SECONDS: Final = 0.25
"""Also the resolution of the event loop lag: a stall shorter than the rest of a tick is seen at its length."""

TICKS_PER_FLUSH: Final = 4


class Flusher:
    """Runs until cancelled; `finish` afterwards writes what is left."""

    def __init__(
        self, families: Families, log: AccessLog, sources: Sequence[Callable[[], None]], monotonic: Callable[[], float]
    ) -> None:
        self._log = log
        self._lag = LagMeter(families, monotonic)
        self._sources = sources  # not copied: more are appended while the process is put together
        self._dropped = families.log_dropped
        self._dropped_seen = 0

    async def run(self) -> None:
        """Flush every second, log every quarter. Ends only by cancellation."""
        ticks = 0
        while True:
            await asyncio.sleep(self._lag.arm(TICK_SECONDS))
            self._lag.fired()
            ticks += 1
            if self._log.is_on:
                await asyncio.to_thread(self._log.flush)
            if ticks % TICKS_PER_FLUSH == 0:
                self.flush()

    def flush(self) -> None:
        """Hand every count on; a source that fails is logged and the others go on."""
        for source in (*self._sources, self._lag.flush):
            try:
                source()
            except Exception:
                logger.exception("telemetry source failed")
        dropped = self._log.dropped
        self._dropped.inc(dropped - self._dropped_seen)
        self._dropped_seen = dropped

    def finish(self) -> None:
        """Write what is left, at the end of the process."""
        self.flush()
        self._log.flush()
        self._log.close()
