"""Where a rebuilt fragment or pack copy goes: the device it was on when that will do, else another of the tier."""

import random
from collections.abc import Collection, Iterable

from metadata.types import Blob
from tiers.catalogue import Catalogue
from tiers.datapath.placement import choose
from tiers.upkeep.device_calls import DeviceCalls


class Aims:
    """Chooses devices. Used by one thread at a time; `catalogue` may be replaced when the topology changes."""

    def __init__(self, catalogue: Catalogue, calls: DeviceCalls, rng: random.Random) -> None:
        self.catalogue = catalogue
        self._calls = calls
        self._rng = rng

    def choose(
        self, blob: Blob, indexes: Iterable[int], refused: Collection[str], *, may_stay: bool = True
    ) -> dict[int, str]:
        """A device for each of `indexes` that can have one: active, usable, not refused, with no other of the blob.

        With `may_stay` False no fragment stays on the device that the placement names.
        """
        placed = blob.placement.split(" ")
        fit = {row.device_id for row in self.catalogue.writable(blob.tier) if self._calls.is_usable(row.device_id)}
        fit -= set(refused)
        wanted = list(indexes)
        aims = {index: placed[index] for index in wanted if may_stay and placed[index] in fit}
        moving = [index for index in wanted if index not in aims]
        taken = set(placed) if not may_stay else {placed[i] for i in range(len(placed)) if i not in moving}
        others = [row for row in self.catalogue.writable(blob.tier) if row.device_id in fit - taken]
        count = min(len(moving), len(others))
        if count:
            held = [row for row in map(self.catalogue.find_device, sorted(taken)) if row is not None]
            spread = self.catalogue.tier(blob.tier).spread
            aims.update(zip(moving, choose(others, count, spread, self._rng, held=held), strict=False))
        return aims
