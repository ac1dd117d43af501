"""Reads that wait for a device: started, hedged, and survived by their memory until the device lets go of it."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Final

from tiers.datapath.buffers import ReadBuffers
from tiers.datapath.files import OpenFiles
from tiers.datapath.stripes import Stripe
from tiers.devices.fleet import Fleet
from tiers.errors import FragmentCorrupt, FragmentNotFound, StorageError

HEDGE_SECONDS: Final = 0.5
"""How long a device may take for a read before another fragment or copy is asked."""

TIMEOUT_SECONDS: Final = 10.0
"""How long the last devices that could serve are waited for (promises.md section 5)."""

Report = Callable[[bytes, int, str], None]
"""Told (blob id, fragment index, reason): `missing`, `corrupt`, `failed` or `late`. Called on the event loop."""


@dataclass(slots=True)
class ReadTools:
    """What every read of one process shares. `decoding` joins readers of one lost range in one decode."""

    fleet: Fleet
    files: OpenFiles
    buffers: ReadBuffers
    report: Report
    hedge_seconds: float = HEDGE_SECONDS
    timeout_seconds: float = TIMEOUT_SECONDS
    decoding: "dict[tuple[Any, ...], asyncio.Task[memoryview]]" = field(default_factory=dict)


def reason_of(error: StorageError) -> str:
    """The word that a failure is reported with."""
    if isinstance(error, FragmentNotFound):
        return "missing"
    return "corrupt" if isinstance(error, FragmentCorrupt) else "failed"


class Attempt:
    """One read under way into one buffer. Whoever starts it releases it, finished or not.

    It is never cancelled: a thread may be writing into the buffer, which goes back when that has ended.
    """

    __slots__ = ("_buffer", "_buffers", "_is_released", "index", "task", "view")

    def __init__(
        self,
        buffers: ReadBuffers,
        index: int,
        length: int,
        read: Callable[[memoryview], Coroutine[Any, Any, None]],
        *,
        buffer: Stripe | None = None,
    ) -> None:
        self._buffers = buffers
        self._buffer = buffer or buffers.take(length)
        self._is_released = False
        self.index = index
        self.view = self._buffer.view[:length]
        assert len(self.view) == length
        self.task = asyncio.ensure_future(read(self.view))

    def release(self) -> None:
        """Give the buffer back as soon as no thread writes into it. Idempotent."""
        if self._is_released:
            return
        self._is_released = True
        if self.task.done():
            self._give_back(self.task)
        else:
            self.task.add_done_callback(self._give_back)

    def _give_back(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled():
            task.exception()  # retrieved: nobody waits for this read any more
        self._buffers.give_back(self._buffer)
