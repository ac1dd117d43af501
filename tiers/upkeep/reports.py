"""Bad fragments that readers met, entered into the repair queue once each."""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Any, Final

from metadata.contract import Transaction
from metadata.tables import BLOB, REPAIR, Table
from metadata.types import BlobId, Repair
from tiers.commit.contract import Committer, Slot
from tiers.errors import StorageError

logger = logging.getLogger(__name__)

NOTED_MAX: Final = 4096
"""Fragments remembered as reported; beyond it all are forgotten, and some are entered twice in vain."""

NOTED_SECONDS: Final = 60.0
"""A fragment met again after that is reported again: it may have been repaired and gone bad anew."""

IN_FLIGHT_MAX: Final = 64
"""Reports being committed; what comes beyond is met again by the next read of it, or by scrub."""

LATE: Final = "late"
"""A slow device is not a bad fragment."""


class NoteRepair:
    """Enters one fragment, unless its blob is gone or it is entered already."""

    __slots__ = ("_row", "body", "tier")

    def __init__(self, blob_id: bytes, fragment_index: int, reason: str) -> None:
        self._row = Repair(BlobId(blob_id), fragment_index, reason, 0)
        self.body: bytes | None = None
        self.tier = ""

    def reads(self) -> Iterable[tuple[Table[Any], tuple[Any, ...]]]:
        """The blob and the queue's row."""
        yield BLOB, (self._row.blob_id,)
        yield REPAIR, self._row[:2]

    def apply(self, transaction: Transaction, slot: Slot) -> bool:
        """Whether the row was entered."""
        blob = transaction.get(BLOB, (self._row.blob_id,))
        if blob is None or transaction.get(REPAIR, self._row[:2]) is not None:
            return False
        transaction.put(REPAIR, self._row._replace(since_ms=slot.now_ms))
        return True


class FragmentReports:
    """What a content reader reports to, on its event loop; never makes the read wait."""

    def __init__(self, committer: Committer, clock: Callable[[], float]) -> None:
        """`clock` gives seconds; only differences matter."""
        self._committer, self._clock = committer, clock
        self._noted: dict[tuple[bytes, int], float] = {}
        self._in_flight: set[asyncio.Future[Any]] = set()

    def __call__(self, blob_id: bytes, fragment_index: int, reason: str) -> None:
        """Take one report."""
        place, now = (blob_id, fragment_index), self._clock()
        if reason == LATE or len(self._in_flight) >= IN_FLIGHT_MAX:
            return
        if now - self._noted.get(place, float("-inf")) < NOTED_SECONDS:
            return
        if len(self._noted) >= NOTED_MAX:
            self._noted.clear()
        self._noted[place] = now
        logger.warning("fragment %d of blob %s is %s", fragment_index, blob_id.hex(), reason)
        future = self._committer.submit(NoteRepair(blob_id, fragment_index, reason))
        self._in_flight.add(future)
        future.add_done_callback(self._settled)

    def _settled(self, future: "asyncio.Future[Any]") -> None:
        self._in_flight.discard(future)
        error = None if future.cancelled() else future.exception()
        if error is not None:
            self._noted.clear()  # not entered: let the next read report it again
            level = logging.WARNING if isinstance(error, StorageError) else logging.ERROR
            logger.log(level, "a bad fragment could not be entered for repair: %s", error)
