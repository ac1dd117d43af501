"""Reclaim: gives back the space of what no committed version references, after its grace.

Owns the order of the sweeps and the position between them; what each of them may touch stands in `tiers.upkeep.sweeps`.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

import msgpack

from tiers.devices.contract import Area
from tiers.upkeep.sweeps import CompletedUploads, DeadBlobs, Reach, StagedFiles, Sweep, UnknownFiles
from tiers.worker import Cursors, Step

DAY_SECONDS: Final = 24 * 3600.0


@dataclass(frozen=True, slots=True)
class ReclaimTimes:
    """Seconds. The grace of a leftover is longer than the longest upload or read (promises.md section 5)."""

    kept_answer_seconds: float = DAY_SECONDS
    between_passes_seconds: float = 3600.0


class Reclaim:
    """The worker. One step is one step of one sweep; a pass is every sweep once.

    `snapshot_sequence` gives the commit sequence that the newest complete snapshot of the metadata holds everything up
    to: packs whose batches are younger are still needed to rebuild it.
    """

    name = "reclaim"

    def __init__(
        self,
        reach: Reach,
        cursors: Cursors,
        snapshot_sequence: Callable[[], int],
        *,
        times: ReclaimTimes | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._times = times or ReclaimTimes()
        self._cursors = cursors
        self._sleep = sleep
        self._place: tuple[int, bytes] | None = None
        self._sweeps: list[Sweep] = [
            DeadBlobs(reach, snapshot_sequence),
            CompletedUploads(reach, self._times.kept_answer_seconds),
        ]
        for device_id in reach.fleet.ids():
            self._sweeps.append(StagedFiles(reach, device_id))
            self._sweeps += [UnknownFiles(reach, device_id, area) for area in (Area.FRAGMENTS, Area.PACKS)]

    async def step(self) -> Step:
        """See `Worker`. A sweep that fails is repeated; the runner backs off."""
        index, position = self._place or await self._load()
        progress = await self._sweeps[index].step(position)
        following = index if progress.position is not None else index + 1
        is_over = following == len(self._sweeps)
        self._place = (0 if is_over else following, progress.position or b"")
        await self._save(*self._place)
        return Step(progress.items, is_idle=is_over)

    async def wait_for_work(self) -> None:
        """The next pass begins a while after the last one ended."""
        await self._sleep(self._times.between_passes_seconds)

    async def _load(self) -> tuple[int, bytes]:
        """Sweep and position to go on with; the first one when the sweep named there is no longer ours."""
        saved = await self._cursors.load(self.name)
        name, position = msgpack.unpackb(saved) if saved else ("", b"")
        names = [sweep.name for sweep in self._sweeps]
        return (names.index(name), position) if name in names else (0, b"")

    async def _save(self, index: int, position: bytes) -> None:
        await self._cursors.save(self.name, msgpack.packb((self._sweeps[index].name, position)))
