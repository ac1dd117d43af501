"""A data path without a store around it: devices, fleet, pool, writer and reader, put together for one test."""

import asyncio
import contextlib
import hashlib
import itertools
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from awscrt.checksums import crc64nvme

from metadata.types import Blob, Extent, TierRow
from metadata.types import Device as DeviceRow
from tiers.catalogue import Catalogue, Durability, Tier
from tiers.datapath.contract import ReadPlan
from tiers.datapath.md5 import Md5Lanes, installed
from tiers.datapath.reader import ContentReader
from tiers.datapath.stripes import StripePool
from tiers.datapath.writer import BlobWriter, StagedFragments
from tiers.devices.contract import Area, Device
from tiers.devices.directory import DirectoryDevice
from tiers.devices.fleet import Fleet
from tiers.devices.interception import InterceptedDevice, Operation
from tiers.devices.memory import MemoryDevice
from tiers.devices.wrappers import FaultyDevice, MeteredDevice
from tiers.erasure.layout import Layout

T = TypeVar("T")
NOW = 1_700_000_000.0


def content(size: int, seed: int = 1) -> bytes:
    return random.Random(seed).randbytes(size)


class BytesBody:
    """A body in memory. `pause` is awaited before every fill; `is_known` announces the length."""

    def __init__(
        self,
        data: bytes,
        *,
        is_known: bool = True,
        step: int | None = None,
        digests: frozenset[str] = frozenset({"MD5", "CRC64NVME"}),
    ) -> None:
        self.data, self.at, self.digests = data, 0, digests
        self.length = len(data) if is_known else None
        self.is_ended = False
        self.verified: Mapping[str, bytes] | None = None
        self.failure: Exception | None = None
        self.fails_at: int | None = None

    async def fill(self, view: memoryview) -> int:
        await asyncio.sleep(0)
        assert not self.is_ended, "filled again after the end"
        if self.fails_at is not None and self.at >= self.fails_at:
            raise ConnectionResetError
        count = min(len(view), len(self.data) - self.at)
        view[:count] = self.data[self.at : self.at + count]
        self.at += count
        self.is_ended = count < len(view)
        return count

    async def read_all(self, limit: int) -> bytes:
        raise NotImplementedError

    def verify(self, digests: Mapping[str, bytes]) -> None:
        assert self.is_ended, "the end of the body, and what may follow it, was never received"
        self.verified = digests
        if self.failure is not None:
            raise self.failure


def digests_of(data: bytes) -> dict[str, bytes]:
    return {"MD5": hashlib.md5(data).digest(), "CRC64NVME": crc64nvme(data).to_bytes(8, "big")}


class ColdDevice(InterceptedDevice):
    """A device whose page cache is empty: whatever must not wait is refused."""

    def around(self, operation: Operation, byte_count: int, call: Callable[[], T], *, wait: bool = True) -> T:
        if operation is Operation.READ and not wait:
            raise BlockingIOError
        return call()


class Rows:
    """Blob rows by id: what the reader asks of the metadata. `asked` counts the calls."""

    def __init__(self) -> None:
        self.rows: dict[bytes, Blob] = {}
        self.asked = 0

    async def get_blobs(self, blob_ids: Sequence[bytes]) -> list[Blob]:
        self.asked += 1
        return [self.rows[blob_id] for blob_id in blob_ids if blob_id in self.rows]


class Parts:
    """k+m faulty devices of one tier, and everything that reads and writes them."""

    def __init__(
        self,
        layout: str = "4+2:655360",
        *,
        root: Path | None = None,
        spare: int = 0,
        pool_bytes: int = 32 << 20,
        is_cold: bool = False,
        seed: int = 5,
    ) -> None:
        self.layout = Layout.parse(layout)
        self.ids = [f"d{number}" for number in range(self.layout.fragments + spare)]
        durability = Durability.FULL if self.layout.parity_fragments else Durability.NONE
        tier = Tier("hot", 0, layout, max(2, self.layout.parity_fragments + 1), ("STANDARD",), durability=durability)
        rows = [DeviceRow(one, "hot", "memory", "", 0, one, "r", "z", "s", 0) for one in self.ids]
        self.catalogue = Catalogue([TierRow("hot", tier.to_json())], rows)
        self.inner: dict[str, Device] = {
            one: DirectoryDevice(one, root / one) if root else MemoryDevice(one, lambda: NOW) for one in self.ids
        }
        self.devices = {one: FaultyDevice(device, random.Random(seed)) for one, device in self.inner.items()}
        self.bytes_read = 0
        outer = {one: ColdDevice(device) if is_cold else device for one, device in self.devices.items()}
        self.fleet = Fleet({one: MeteredDevice(device, self._observe, lambda: 0.0) for one, device in outer.items()})
        self.executor = ThreadPoolExecutor(2)
        self.stripes = StripePool(pool_bytes)
        self.rows = Rows()
        self.reports: list[tuple[int, str]] = []
        self.lanes = Md5Lanes(installed())
        ids = itertools.count(1)
        self.writer = BlobWriter(
            self.catalogue, self.fleet, self.stripes, self.executor,
            clock=lambda: NOW, new_id=lambda: next(ids).to_bytes(16, "big"), rng=random.Random(seed), lanes=self.lanes,
        )  # fmt: skip
        self.new_reader()

    def _observe(self, operation: Operation, moved: int, seconds: float) -> None:
        self.bytes_read += moved if operation is Operation.READ else 0

    def new_reader(self, hedge_seconds: float = 5.0, ahead_bytes_max: int = 16 << 20) -> None:
        """A reader that remembers nothing."""
        self.reader = ContentReader(
            self.fleet, self.rows, self.executor, hedge_seconds=hedge_seconds, ahead_bytes_max=ahead_bytes_max,
            report=lambda blob_id, index, reason: self.reports.append((index, reason)),
        )  # fmt: skip

    async def put(self, data: bytes, *, is_known: bool = True) -> StagedFragments:
        staged = await self.writer.stage(BytesBody(data, is_known=is_known), "hot")
        await staged.publish()
        self.rows.rows[staged.blob.blob_id] = staged.blob
        return staged

    async def get(self, extents: Sequence[Extent], start: int = 0, stop: int | None = None) -> bytes:
        received = bytearray()
        await self.get_into(received, extents, start, stop)
        return bytes(received)

    async def get_into(
        self, received: bytearray, extents: Sequence[Extent], start: int = 0, stop: int | None = None
    ) -> None:
        """Read into `received`, so that what came before an error can be judged too."""
        end = sum(extent.length for extent in extents) if stop is None else stop
        stream = await self.reader.open(ReadPlan(extents, start, end))
        try:
            while (run := await stream.next()) is not None:
                assert 0 < len(run) <= 256 << 10
                received += run
        finally:
            stream.close()

    def files(self, area: Area) -> list[str]:
        return [found.name for device in self.inner.values() for found in device.survey(area)]

    def fragment(self, staged: StagedFragments, index: int) -> tuple[Device, str]:
        device_id = staged.blob.placement.split(" ")[index]
        return self.inner[device_id], f"{staged.blob.blob_id.hex()}.{index}.{staged.blob.generation}"

    def read_fragment(self, staged: StagedFragments, index: int) -> bytearray:
        device, name = self.fragment(staged, index)
        file = device.open(Area.FRAGMENTS, name)
        data = bytearray(file.size)
        file.read_into(0, memoryview(data))
        file.close()
        return data

    def write_fragment(self, staged: StagedFragments, index: int, data: bytes | None) -> None:
        """Put other bytes in a fragment's place, or nothing."""
        device, name = self.fragment(staged, index)
        device.delete(Area.FRAGMENTS, name)
        if data is not None:
            file = device.stage(name, 0)
            file.write(0, memoryview(data))
            file.flush()
            file.publish()

    def close(self) -> None:
        self.reader.close()
        self.fleet.close()
        self.executor.shutdown()
        self.lanes.close()


@contextlib.contextmanager
def opened(parts: Parts) -> Iterator[Parts]:
    try:
        yield parts
    finally:
        parts.close()
