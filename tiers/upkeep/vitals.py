"""Whether the store can serve: whether the database answers, and enough devices of each tier."""

import asyncio
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Final

from metadata.contract import Reader
from metadata.tables import CHAIN
from tiers.catalogue import Catalogue
from tiers.devices.contract import Capacity
from tiers.devices.fleet import Fleet
from tiers.erasure.layout import Layout
from tiers.errors import StorageError

ANSWER_SECONDS_MAX: Final = 2.0
"""A device or database that takes longer counts as not answering."""

FRESH_SECONDS: Final = 1.0
"""Answers are kept so long: however many probes there are, devices are asked once a second."""

DEFAULT_CLASS: Final = "STANDARD"


class Vital(StrEnum):
    """What there is to say about the store or a part of it."""

    OK = "ok"
    DEGRADED = "degraded"
    UNAVAILABLE = "unavailable"


class Vitals:
    """Asks devices and database. `clock` gives seconds; only differences matter. Used on one event loop."""

    def __init__(self, reader: Reader, fleet: Fleet, catalogue: Catalogue, clock: Callable[[], float]) -> None:
        self.catalogue = catalogue
        self._reader = reader
        self._fleet = fleet
        self._clock = clock
        self._space: Mapping[str, Capacity | None] = {}
        self._asked = float("-inf")
        self._asking = asyncio.Lock()

    async def ready(self) -> Vital:
        """OK when a small write to the default tier can be acknowledged now, else UNAVAILABLE."""
        if not await self._database_answers():
            return Vital.UNAVAILABLE
        state = self._judge(self.catalogue.tier_of(DEFAULT_CLASS), await self.space())
        return Vital.UNAVAILABLE if state is Vital.UNAVAILABLE else Vital.OK

    async def cluster(self) -> Vital:
        """OK when every device of every tier answers, DEGRADED when each tier still has its write quorum."""
        if not await self._database_answers():
            return Vital.UNAVAILABLE
        space = await self.space()
        states = {self._judge(tier.name, space) for tier in self.catalogue.tiers()}
        repairs = await self._reader.list_repairs(1)
        if Vital.UNAVAILABLE in states:
            return Vital.UNAVAILABLE
        return Vital.DEGRADED if Vital.DEGRADED in states or repairs else Vital.OK

    async def space(self) -> Mapping[str, Capacity | None]:
        """Space of every device by id, None for one that does not answer."""
        async with self._asking:
            if self._clock() - self._asked >= FRESH_SECONDS:
                ids = self._fleet.ids()
                answers = await asyncio.gather(*[self._ask(device_id) for device_id in ids])
                self._space = dict(zip(ids, answers, strict=True))
                self._asked = self._clock()
            return self._space

    async def _ask(self, device_id: str) -> Capacity | None:
        device = self._fleet.get(device_id)
        if device is None:
            return None
        try:
            return await asyncio.wait_for(
                asyncio.wrap_future(self._fleet.submit(device_id, device.capacity)), ANSWER_SECONDS_MAX
            )
        except (StorageError, TimeoutError):
            return None

    async def _database_answers(self) -> bool:
        try:
            await asyncio.wait_for(self._reader.get_row(CHAIN, (0,)), ANSWER_SECONDS_MAX)
        except (StorageError, TimeoutError):
            return False
        return True

    def _judge(self, tier: str, space: Mapping[str, Capacity | None]) -> Vital:
        """A tier by its devices: a write quorum is one fragment more than the data fragments."""
        devices = [device.device_id for device in self.catalogue.devices(tier)]
        answering = sum(1 for device_id in devices if space.get(device_id) is not None)
        layout = Layout.parse(self.catalogue.layout(tier))
        if answering == len(devices):
            return Vital.OK
        return Vital.DEGRADED if answering > layout.data_fragments else Vital.UNAVAILABLE
