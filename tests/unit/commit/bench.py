"""A commit log over memory devices and SQLite, for the tests of this folder."""

import asyncio
import itertools
import random
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

from metadata.contract import Metadata, Transaction
from metadata.session import open_metadata
from metadata.tables import BLOB, BUCKET, EXTENT, OBJECT, TABLES, USAGE, Table
from metadata.types import Bucket, Version, pack_extents
from tiers.catalogue import Catalogue
from tiers.commit.committer import GroupCommitter
from tiers.commit.contract import Slot
from tiers.commit.recovery import recover
from tiers.commit.references import version_references
from tiers.commit.usage import move_usage
from tiers.devices.contract import Device
from tiers.devices.fleet import Fleet
from tiers.devices.memory import MemoryDevice
from tiers.devices.wrappers import FaultyDevice
from tiers.errors import ConditionFailed

T = TypeVar("T")
ADOPTER = 1000


class CreateBucket:
    """Creates the one bucket of these tests."""

    body = None
    tier = "hot"

    def reads(self) -> Iterable[tuple[Table[Any], tuple[Any, ...]]]:
        return ()

    def apply(self, transaction: Transaction, slot: Slot) -> None:
        transaction.put(BUCKET, Bucket("b", 1, "root", slot.now_ms, 0, "us-east-1", 0, 0, 0, 1))


class Put:
    """A small content under a key; refused when `must_be_new` and the key exists."""

    def __init__(self, key: bytes, body: bytes, *, tier: str = "hot", must_be_new: bool = False) -> None:
        self.key, self.body, self.tier, self.must_be_new = key, body, tier, must_be_new

    def reads(self) -> Iterable[tuple[Table[Any], tuple[Any, ...]]]:
        return ((OBJECT, (1, self.key)), (BUCKET, ("b",)))

    def apply(self, transaction: Transaction, slot: Slot) -> Version:
        bucket = transaction.get(BUCKET, ("b",))
        old = transaction.get(OBJECT, (1, self.key))
        assert bucket is not None
        # Puts before it refuses, so that undoing a step is part of what is tested.
        counted = bucket._replace(object_count=bucket.object_count + (old is None))
        move_usage(transaction, bucket, counted)
        transaction.put(BUCKET, counted)
        if old is not None and self.must_be_new:
            raise ConditionFailed("If-None-Match")
        if old is not None:
            self._drop(transaction, old)
        extents = pack_extents([slot.extent] if slot.extent is not None else [])
        version = Version(
            1, self.key, slot.sequence, "null", 0, len(self.body), "e" * 32, slot.now_ms, "STANDARD", self.tier, "root",
            b"", "", b"", b"", b"", b"", b"", extents, 0,
        )  # fmt: skip
        transaction.put(OBJECT, version)
        for reference in version_references(version):
            transaction.put(EXTENT, reference)
            self._add(transaction, reference.blob_id, reference.length)
        return version

    def _drop(self, transaction: Transaction, old: Version) -> None:
        for reference in version_references(old):
            transaction.delete(EXTENT, EXTENT.key_of(reference))
            self._add(transaction, reference.blob_id, -reference.length)

    @staticmethod
    def _add(transaction: Transaction, blob_id: bytes, length: int) -> None:
        blob = transaction.get(BLOB, (blob_id,))
        assert blob is not None
        transaction.put(BLOB, blob._replace(live_bytes=blob.live_bytes + length))


class Bench:
    """Devices that outlive databases, and as many databases as a test wants."""

    def __init__(self, folder: Path, seed: int = 1) -> None:
        self.folder = folder
        self.rng = random.Random(seed)
        self.now = itertools.count(1_700_000_000)
        self.catalogue = Catalogue(Catalogue.default_tiers(), Catalogue.default_devices(folder))
        ids = [row.device_id for row in Catalogue.default_devices(folder)]
        self.memory = {device_id: MemoryDevice(device_id, self.clock) for device_id in ids}
        self.faulty = {i: FaultyDevice(device, random.Random(seed)) for i, device in self.memory.items()}
        devices: dict[str, Device] = dict(self.faulty)
        self.fleet = Fleet(devices)
        self._databases = itertools.count()

    def clock(self) -> float:
        return float(next(self.now))

    def database(self) -> Metadata:
        metadata = open_metadata(f"sqlite:///{self.folder / f'm{next(self._databases)}.db'}")
        metadata.migrate()
        return metadata

    def committer(self, metadata: Metadata, worker: int = 0) -> GroupCommitter:
        return GroupCommitter(
            metadata, self.catalogue, self.fleet, worker=worker, clock=self.clock,
            new_id=lambda: self.rng.randbytes(16), rng=self.rng,
        )  # fmt: skip

    def run(self, metadata: Metadata, work: Callable[[GroupCommitter], Awaitable[T]], worker: int = 0) -> T:
        """Run `work` with a started committer; stop it afterwards."""

        async def main() -> T:
            committer = self.committer(metadata, worker)
            await committer.start()
            try:
                return await work(committer)
            finally:
                await committer.stop()

        return asyncio.run(main())

    def recover(self, metadata: Metadata) -> int:
        return recover(metadata, self.fleet, adopter=ADOPTER).batches


def dump(metadata: Metadata) -> dict[str, list[tuple[Any, ...]]]:
    """Every row that matters: logged tables, references and usage, less what only a running process decides."""

    async def main() -> dict[str, list[tuple[Any, ...]]]:
        reader = await metadata.open_reader()
        rows: dict[str, list[tuple[Any, ...]]] = {}
        for table in (table for table in TABLES if table.is_logged or table in {EXTENT, USAGE}):
            rows[table.name] = [tuple(row) for row in await reader.scan(table, None, 100_000)]
        await reader.close()
        return rows

    rows = asyncio.run(main())
    rows["blob"] = [row[:12] for row in rows["blob"]]  # the last column is who writes the pack now
    return rows


def body_of(bench: Bench, version: Version) -> bytes:
    """The bytes of a small content, read straight from the first good copy."""
    from awscrt.checksums import crc64nvme

    from metadata.types import unpack_extents
    from tiers.commit.chain import find_packs

    (extent,) = unpack_extents(version.extents)
    for read in find_packs(bench.fleet)[extent.blob_id].readers():
        raw = read(extent.offset, extent.length)
        if crc64nvme(raw) == extent.checksum:
            return raw
    raise AssertionError("no copy holds the body")
