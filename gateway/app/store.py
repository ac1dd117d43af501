"""What every process of a store has open: database, devices, committer, metrics."""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gateway.app.sources import clock, new_id, rng, ticks
from gateway.settings.tree import Settings
from gateway.telemetry.access_log import AccessLog
from gateway.telemetry.families import Families
from gateway.telemetry.flusher import Flusher
from gateway.telemetry.meters import CommitMeter, DeviceMeter
from metadata.contract import Metadata, Reader
from metadata.session import open_metadata
from metadata.types import Device
from tiers.catalogue import Catalogue, read_catalogue
from tiers.commit.committer import GroupCommitter
from tiers.commit.recovery import WORKER_BITS
from tiers.datapath import md5
from tiers.datapath.reader import ContentReader
from tiers.datapath.stripes import StripePool
from tiers.datapath.writer import BlobWriter
from tiers.devices import contract
from tiers.devices.directory import DirectoryDevice
from tiers.devices.fleet import Fleet
from tiers.devices.wrappers import MeteredDevice
from tiers.errors import DeviceFailed
from tiers.lifecycle.due import day_ms_of, timetables
from tiers.namespace.namespace import Namespace
from tiers.upkeep.reports import FragmentReports

logger = logging.getLogger(__name__)

CONTROL_INDEX: Final = 1000
PREPARE_INDEX: Final = 1001
"""Worker numbers on a host of the processes that are no data workers; those count from 0."""

IDENTITY: Final = "device.json"
OPENING_THREADS: Final = 8
IDLE_SECONDS: Final = 60.0
"""Files that nobody read for so long are closed."""


@dataclass(frozen=True, slots=True)
class Store:
    """The open parts that processes share the shape of. `fleet` counts what it moves, `bare` does not."""

    settings: Settings
    metadata: Metadata
    reader: Reader
    catalogue: Catalogue
    fleet: Fleet
    bare: Fleet
    families: Families
    committer: GroupCommitter
    executor: Executor
    access_log: AccessLog


def metrics_folder(settings: Settings) -> Path:
    """Where the processes of this host share their metrics."""
    return settings.data / "run" / "metrics"


def open_store_metadata(settings: Settings) -> Metadata:
    """The metadata database; connects to nothing yet. Errors: MetadataRefused."""
    return open_metadata(settings.metadata_url)


def worker_number(settings: Settings, index: int) -> int:
    """Number of a process among all hosts that share the database."""
    return (settings.host_number << WORKER_BITS) + index


async def stored_catalogue(settings: Settings, reader: Reader) -> tuple[Catalogue, bool]:
    """The catalogue of the database, or the default one; and whether it is the default one."""
    catalogue = await read_catalogue(reader)
    if catalogue.tiers():
        return catalogue, False
    return default_catalogue(settings), True


def default_catalogue(settings: Settings) -> Catalogue:
    """The catalogue that a first start enters."""
    devices = Catalogue.default_devices(settings.data.absolute(), int(clock() * 1000))
    return Catalogue(Catalogue.default_tiers(), devices)


def open_fleet(settings: Settings, catalogue: Catalogue) -> Fleet:
    """Every device that can be opened; the others are logged and left out.

    A directory outside the data directory must carry its identity: an empty mount point is no device.
    """
    own = settings.data.absolute() / "devices"
    rows = [row for tier in catalogue.tiers() for row in catalogue.devices(tier.name)]
    with ThreadPoolExecutor(OPENING_THREADS, "open") as threads:  # side by side: each one flushes and tries itself out
        opened = list(threads.map(lambda row: _opened(row, own), rows))
    return Fleet({device.device_id: device for device in opened if device is not None})


def _opened(row: Device, own: Path) -> contract.Device | None:
    try:
        return _open_device(row, own)
    except DeviceFailed as error:
        logger.error("device %s is left out: %s", row.device_id, error)
        return None


def _open_device(row: Device, own: Path) -> contract.Device:
    if row.kind != "directory":
        raise DeviceFailed(f"devices of kind {row.kind} are not served yet")
    path = Path(row.location)
    if not path.is_relative_to(own) and not (path / IDENTITY).exists():
        raise DeviceFailed(f"{path} carries no identity: is it mounted?")
    return DirectoryDevice(row.device_id, path)


@asynccontextmanager
async def open_store(
    settings: Settings, process: str, index: int, *, purpose: str, meters: list[Callable[[], None]]
) -> AsyncIterator[Store]:
    """Open everything, run the process's telemetry, and close in the opposite order.

    `purpose` labels the bytes this process moves. `meters` are flushed with the store's own; more may be appended
    while the store is open. Errors: what opening database and devices raises.
    """
    async with AsyncExitStack() as undo:
        metadata = open_store_metadata(settings)
        metadata.check()
        reader = await metadata.open_reader()
        undo.push_async_callback(reader.close)
        catalogue, _ = await stored_catalogue(settings, reader)
        families = Families(metrics_folder(settings), process)

        bare = open_fleet(settings, catalogue)
        fleet = metered(bare, catalogue, families, purpose, meters)
        undo.callback(bare.close)
        executor = ThreadPoolExecutor(max(4, len(os.sched_getaffinity(0)) + 2), "work")
        undo.callback(executor.shutdown, wait=False, cancel_futures=True)
        committer = new_committer(settings, metadata, catalogue, fleet, index)
        await committer.start()
        undo.push_async_callback(committer.stop)
        meters.append(CommitMeter(families, committer.counters).flush)
        access_log = AccessLog(settings.access_log)
        flusher = Flusher(families, access_log, meters, ticks)
        undo.callback(flusher.finish)
        await undo.enter_async_context(running(flusher.run()))
        yield Store(settings, metadata, reader, catalogue, fleet, bare, families, committer, executor, access_log)


def metered(
    bare: Fleet, catalogue: Catalogue, families: Families, purpose: str, meters: list[Callable[[], None]]
) -> Fleet:
    """The devices of `bare`, what they move counted under `purpose` by meters that are appended to `meters`."""

    def wrap(device: contract.Device) -> contract.Device:
        row = catalogue.find_device(device.device_id)
        meter = DeviceMeter(families, row.tier if row is not None else "", purpose)
        meters.append(meter.flush)
        return MeteredDevice(device, meter, ticks)

    return bare.wrapped(wrap)


def new_committer(
    settings: Settings, metadata: Metadata, catalogue: Catalogue, fleet: Fleet, index: int
) -> GroupCommitter:
    """The committer of one process."""
    number = worker_number(settings, index)
    return GroupCommitter(metadata, catalogue, fleet, worker=number, clock=clock, new_id=new_id, rng=rng)


def new_contents(store: Store) -> ContentReader:
    """A reader of contents that enters what it finds bad into the repair queue."""
    return ContentReader(store.fleet, store.reader, store.executor, report=FragmentReports(store.committer, ticks))


def new_namespace(
    settings: Settings,
    reader: Reader,
    catalogue: Catalogue,
    fleet: Fleet,
    *,
    committer: GroupCommitter,
    executor: Executor | None = None,
    contents: ContentReader | None = None,
) -> Namespace:
    """The namespace of one process with its writer."""
    executor = executor or ThreadPoolExecutor(1)
    stripes = StripePool(settings.limits.stripe_bytes_max)
    lanes = md5.Md5Lanes(md5.installed())
    writer = BlobWriter(catalogue, fleet, stripes, executor, clock=clock, new_id=new_id, rng=rng, lanes=lanes)
    contents = contents or ContentReader(fleet, reader)
    rules = timetables(day_ms_of(settings.seconds_per_day))
    return Namespace(reader, committer, writer, contents, catalogue, clock, new_id, compile_schedule=rules)


async def close_idle(contents: ContentReader) -> None:
    """Give back files that nobody reads any more; a deleted file that is open frees no space."""
    contents.close_idle()


@asynccontextmanager
async def running(work: Awaitable[object]) -> AsyncIterator[None]:
    """Run something beside the block; it is cancelled, and awaited, when the block ends."""
    task = asyncio.ensure_future(work)
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def every(seconds: float, act: Callable[[], Awaitable[None]]) -> None:
    """Do something again and again; a failure is logged and the next round comes. Ends by cancellation."""
    while True:
        await asyncio.sleep(seconds)
        try:
            await act()
        except Exception as error:  # noqa: BLE001  # a background round of the process itself; nobody else sees it
            logger.warning("background work failed: %s", error)
