"""A whole store in one process: SQLite in a folder of the test, memory devices, the real committer and data path.

Clock, ids, chance and the faults of every device are the world's. `restart` is a clean stop and a new process over the
same database and devices.
"""

import hashlib
import itertools
import json
import random
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from metadata.contract import Reader
from metadata.session import open_metadata
from metadata.types import Device as DeviceRow
from metadata.types import DeviceState, TierRow, Version
from tiers.catalogue import Catalogue
from tiers.commit.committer import GroupCommitter
from tiers.commit.recovery import recover
from tiers.datapath.reader import ContentReader
from tiers.datapath.stripes import StripePool
from tiers.datapath.writer import BlobWriter
from tiers.devices.contract import Area, Device
from tiers.devices.directory import DirectoryDevice
from tiers.devices.fleet import Fleet
from tiers.devices.memory import MemoryDevice
from tiers.devices.wrappers import FaultyDevice
from tiers.lifecycle.due import timetables
from tiers.lifecycle.engine import LifecycleEngine, Mover, Times
from tiers.namespace.context import Limits
from tiers.namespace.namespace import Namespace
from tiers.namespace.types import Description
from tiers.upkeep.compaction import Compaction
from tiers.upkeep.cursors import MetadataCursors
from tiers.upkeep.leases import HeldLease
from tiers.upkeep.reclaim import Reclaim, ReclaimTimes
from tiers.upkeep.repair import Repair
from tiers.upkeep.reports import FragmentReports
from tiers.upkeep.sweeps import Reach
from tiers.worker import Pace, Runner, Worker

GRACE_SECONDS: Final = 3600.0
DAY_MS: Final = 86_400_000
SMALL_LIMITS: Final = Limits(part_bytes_min=100, copy_read_bytes_max=1 << 20)
OWNER: Final = Description(owner_id="owner")


class Clock:
    """Seconds since the epoch; stands still unless the test moves it."""

    def __init__(self, now: float = 1_700_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds


class BytesBody:
    """A request's body in memory. `length` may be hidden; `declared` digests are compared by `verify`."""

    def __init__(
        self, content: bytes, *, declared: Mapping[str, bytes] | None = None, is_length_known: bool = True
    ) -> None:
        self._rest = memoryview(content)
        self._declared = declared or {}
        self.length = len(content) if is_length_known else None
        self.digests = frozenset(self._declared)

    async def fill(self, view: memoryview) -> int:
        taken = min(len(view), len(self._rest))
        view[:taken] = self._rest[:taken]
        self._rest = self._rest[taken:]
        return taken

    async def read_all(self, limit: int) -> bytes:
        assert len(self._rest) <= limit
        content, self._rest = bytes(self._rest), self._rest[:0]
        return content

    def verify(self, digests: Mapping[str, bytes]) -> None:
        for name, value in self._declared.items():
            if digests[name] != value:
                raise BodyRefused(name)


class BodyRefused(Exception):
    """What was declared is not what came."""


class World:
    """The parts of one store, joined as the composition root joins them."""

    def __init__(
        self, path: Path, *, seed: int = 0, limits: Limits = SMALL_LIMITS, devices: Mapping[str, Device] | None = None
    ) -> None:
        self.path = path
        self.clock = Clock()
        self.rng = random.Random(seed)
        self.day_ms = DAY_MS
        self._ids = itertools.count()
        self._seed = seed
        self._limits = limits
        self.tiers, self.device_rows = small_topology()
        inner = devices or {id_: MemoryDevice(id_, self.clock) for id_, *_ in self.device_rows}
        self.devices = {id_: FaultyDevice(device, self.rng) for id_, device in inner.items()}
        self.metadata = open_metadata(f"sqlite:///{path / 'index.db'}")
        self.metadata.migrate()

    def new_id(self) -> bytes:
        """The next id; never twice, and the same ones for the same seed."""
        return hashlib.blake2b(b"%d/%d" % (self._seed, next(self._ids)), digest_size=16).digest()

    async def start(self) -> None:
        """Recover and open everything, as a process does."""
        self.catalogue = Catalogue(self.tiers, self.device_rows)
        self.fleet = Fleet(self.devices)
        recover(self.metadata, self.fleet, adopter=0)
        self.executor = ThreadPoolExecutor(2)
        self.reader: Reader = await self.metadata.open_reader()
        self.committer = GroupCommitter(
            self.metadata, self.catalogue, self.fleet, worker=0, clock=self.clock, new_id=self.new_id, rng=self.rng
        )
        await self.committer.start()
        self.writer = BlobWriter(
            self.catalogue,
            self.fleet,
            StripePool(64 << 20),
            self.executor,
            clock=self.clock,
            new_id=self.new_id,
            rng=self.rng,
        )
        report = FragmentReports(self.committer, self.clock)
        self.contents = ContentReader(self.fleet, self.reader, self.executor, report=report)
        self.namespace = self.namespace_over(self.reader)
        self.cursors = MetadataCursors(self.reader, self.committer)

    def namespace_over(self, reader: Reader) -> Namespace:
        """Another namespace over the same store, reading through `reader`."""
        return Namespace(
            reader,
            self.committer,
            self.writer,
            self.contents,
            self.catalogue,
            self.clock,
            self.new_id,
            compile_schedule=timetables(self.day_ms),
            limits=self._limits,
        )

    async def stop(self) -> None:
        """End the process cleanly."""
        await self.committer.stop()
        self.contents.close()
        await self.reader.close()
        self.fleet.close()
        self.executor.shutdown()

    async def restart(self) -> None:
        """A new process over the same database and devices; its first commit seals the packs left open."""
        await self.stop()
        await self.start()

    def reclaim(self, *, snapshot_sequence: int = 1 << 62, grace_seconds: float = GRACE_SECONDS) -> Reclaim:
        """A reclaim worker; by default every pack is in a snapshot."""
        reach = Reach(self.reader, self.committer, self.fleet, self.clock, grace_seconds)
        times = ReclaimTimes(kept_answer_seconds=GRACE_SECONDS)
        return Reclaim(reach, self.cursors, lambda: snapshot_sequence, times=times)

    def repair(self) -> Repair:
        """A repair worker."""
        reach = Reach(self.reader, self.committer, self.fleet, self.clock, GRACE_SECONDS)
        return Repair(reach, self.catalogue, rng=self.rng)

    def compaction(self) -> Compaction:
        """A compaction worker."""
        return Compaction(self.reader, self.committer, self.contents, self.cursors)

    def lifecycle(self, mover: Mover | None = None, *, holder: str = "engine") -> LifecycleEngine:
        """A lifecycle engine; the database's clock is the world's."""
        lease = HeldLease(self.committer, "lifecycle", holder, seconds=60, clock=self.clock)
        times = Times(self.clock, self.database_ms, self.day_ms)
        return LifecycleEngine(self.namespace.due_times, lease, times, mover=mover)

    async def database_ms(self) -> int:
        """The time as the database tells it."""
        return int(self.clock() * 1000)

    async def read(self, version: Version, start: int = 0, stop: int | None = None) -> bytes:
        """Bytes [start, stop) of a version, through the verified stream."""
        stream = await self.namespace.objects.open(version, start, version.size if stop is None else stop)
        try:
            runs = []
            while (run := await stream.next()) is not None:
                runs.append(bytes(run))
            return b"".join(runs)
        finally:
            stream.close()

    async def put(self, bucket: str, key: str, content: bytes) -> Version:
        """Put a content with nothing special about it."""
        outcome = await self.namespace.objects.put(bucket, key, BytesBody(content), OWNER)
        return outcome.version

    def files(self, *areas: Area) -> set[tuple[str, str]]:
        """(device, name) of every file of the areas."""
        return {
            (device_id, found.name)
            for device_id, device in self.devices.items()
            for area in areas
            for found in device.survey(area)
        }


async def run_pass(make: Callable[[], Worker]) -> int:
    """One whole pass of a worker, as its runner makes it; the items it handled."""
    return await Runner(make(), Pace(0, lambda: 0.0), random.Random(0)).run_pass()


def small_topology() -> tuple[list[TierRow], list[DeviceRow]]:
    """Two tiers with short segments, 2+1 and 2+2: everything large crosses stripes, everything is quick."""
    shapes = {
        "hot": {"rank": 0, "layout": "2+1:131072", "pack_copies": 2, "storage_classes": ["STANDARD"]},
        "warm": {"rank": 1, "layout": "2+2:131072", "pack_copies": 3, "storage_classes": ["STANDARD_IA"]},
    }
    tiers = [TierRow(name, json.dumps(shape)) for name, shape in shapes.items()]
    rows = [
        DeviceRow(f"{tier}-{n}", tier, "memory", "", DeviceState.ACTIVE, f"host-{n}", "rack", "zone", "site", 0)
        for tier, count in (("hot", 3), ("warm", 4))
        for n in range(count)
    ]
    return tiers, rows


def directory_devices(path: Path) -> dict[str, Device]:
    """The same topology on directories, for tests that want real files."""
    devices: dict[str, Device] = {}
    for row in small_topology()[1]:
        (path / row.device_id).mkdir(parents=True)
        devices[row.device_id] = DirectoryDevice(row.device_id, path / row.device_id)
    return devices


@asynccontextmanager
async def open_world(path: Path, *, seed: int = 0, limits: Limits = SMALL_LIMITS) -> AsyncIterator[World]:
    """A started world with one bucket called `bucket`; stopped at the end."""
    world = World(path, seed=seed, limits=limits)
    await world.start()
    try:
        await world.namespace.buckets.create("bucket", "owner", "us-east-1")
        yield world
    finally:
        await world.stop()
