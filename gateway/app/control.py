"""The control process: admin API, metrics and health on the admin port, and the background workers."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from secrets import token_bytes

from gateway.admin.access import Gatekeeper, Scope, Token
from gateway.admin.application import admin_application
from gateway.admin.paging import Cursors
from gateway.admin.replays import Replays
from gateway.admin.services import Services
from gateway.app.credentials import derived_key, load_master
from gateway.app.events import open_delivery, outbox_count
from gateway.app.inventories import new_inventories
from gateway.app.lifecycle import new_lifecycle
from gateway.app.moves import new_moves
from gateway.app.process import Process, connection_limits
from gateway.app.sources import clock, new_id, new_request_id, rng, ticks
from gateway.app.store import (
    CONTROL_INDEX,
    IDLE_SECONDS,
    Store,
    close_idle,
    every,
    metered,
    metrics_folder,
    new_contents,
    open_store,
    running,
)
from gateway.auth.secrets import SecretBox
from gateway.http.call import Answer, Call
from gateway.http.letterhead import Letterhead
from gateway.http.protocol import protocol_class
from gateway.settings.first_start import load_secrets
from gateway.settings.tree import Settings
from gateway.settings.version import package_version
from gateway.telemetry.exposition import render
from tiers.commit.snapshot import log_devices
from tiers.datapath.reader import ContentReader
from tiers.lifecycle.mover import Mover
from tiers.upkeep.accounting import Accounting
from tiers.upkeep.compaction import Compaction
from tiers.upkeep.cursors import MetadataCursors
from tiers.upkeep.reclaim import Reclaim, ReclaimTimes
from tiers.upkeep.repair import Repair
from tiers.upkeep.snapshots import Snapshots
from tiers.upkeep.sweeps import Reach
from tiers.upkeep.vitals import Vitals
from tiers.worker import Pace, Runner, Worker

CALM = 2.0
"""Background work rests twice as long as it worked."""

GAUGE_SECONDS = 5.0
ACCOUNTING_SECONDS = 30.0
REPAIRS_COUNTED_MAX = 10_000
MARGIN_MAX = 5
"""What a queued blob may still lose is counted up to here: a label has few values, and more is no cause for worry."""


class AdminOnly:
    """The plane of the admin port: there is none, every request is the application's."""

    def takes(self, call: Call) -> bool:
        """Never."""
        del call
        return False

    async def answer(self, call: Call) -> Answer:
        """Not reached."""
        raise AssertionError(f"{call.method} reached the plane of the admin port")


async def run_control(process: Process) -> None:
    """Serve the admin API and run the background work until told to stop."""
    process.hear()
    settings = process.settings
    meters: list[Callable[[], None]] = []
    async with AsyncExitStack() as undo:
        store = await undo.enter_async_context(
            open_store(settings, "control", CONTROL_INDEX, purpose="migration", meters=meters)
        )
        vitals = Vitals(store.reader, store.fleet, store.catalogue, ticks)
        contents = new_contents(store)
        await undo.enter_async_context(running(every(IDLE_SECONDS, lambda: close_idle(contents))))
        repair = _repair(store, meters)
        undo.push_async_callback(repair.close)
        moves = new_moves(store, contents)
        undo.push_async_callback(moves.worker.close)
        workers = [
            *_workers(store, contents),
            repair,
            moves.worker,
            new_lifecycle(store, contents, moves.mover, meters),
            new_inventories(store, contents),
            await undo.enter_async_context(open_delivery(store, meters)),
        ]
        runners = [Runner(worker, Pace(CALM, ticks), rng) for worker in workers]
        for runner in runners:
            await undo.enter_async_context(_run(runner))
        await undo.enter_async_context(running(every(GAUGE_SECONDS, lambda: _set_gauges(store, vitals))))
        await undo.enter_async_context(running(every(settings.upkeep.checkpoint_seconds, lambda: _checkpoint(store))))
        services = _services(store, vitals, moves.mover)
        application = admin_application(services, _gatekeeper(settings), vitals, package_version())
        letterhead = Letterhead(clock, new_request_id, "admin")
        http_class = protocol_class(AdminOnly(), connection_limits(settings), letterhead=letterhead, is_lane_open=False)
        await process.serve(application, http_class, is_data=False)


@asynccontextmanager
async def _run(runner: Runner) -> AsyncIterator[None]:
    """Run a background worker beside the block; it ends its step before the block is left."""
    task = asyncio.ensure_future(runner.run())
    try:
        yield
    finally:
        runner.stop()
        await task


def _workers(store: Store, contents: ContentReader) -> Sequence[Worker]:
    upkeep = store.settings.upkeep
    reader, committer, fleet = store.reader, store.committer, store.fleet
    cursors = MetadataCursors(reader, committer)
    snapshots = Snapshots(
        store.metadata, reader, log_devices(store.catalogue, fleet), clock=clock, rest_seconds=upkeep.snapshot_seconds
    )
    return (
        snapshots,
        Reclaim(
            Reach(reader, committer, fleet, clock, upkeep.reclaim_grace_seconds),
            cursors,
            lambda: snapshots.sequence,
            times=ReclaimTimes(store.settings.seconds_per_day, upkeep.reclaim_seconds),
        ),
        Compaction(reader, committer, contents, cursors, between_passes_seconds=upkeep.compaction_seconds),
        Accounting(reader, lambda counts: _set_objects(store, counts), ACCOUNTING_SECONDS),
    )


def _repair(store: Store, meters: list[Callable[[], None]]) -> Repair:
    """The repair worker, over devices that count what it moves as its own."""
    upkeep = store.settings.upkeep
    fleet = metered(store.bare, store.catalogue, store.families, "repair", meters)
    reach = Reach(store.reader, store.committer, fleet, clock, upkeep.reclaim_grace_seconds)
    return Repair(
        reach,
        store.catalogue,
        rng=rng,
        rest_seconds=upkeep.repair_seconds,
        observe=lambda margins: _set_redundancy(store, margins),
    )


def _services(store: Store, vitals: Vitals, mover: Mover) -> Services:
    settings = store.settings
    master_key = load_master(settings)
    box = SecretBox(master_key, token_bytes)
    return Services(
        reader=store.reader,
        committer=store.committer,
        cursors=Cursors(derived_key(master_key, "admin cursors"), settings.admin.page_max),
        replays=Replays(settings.admin.replays_max, clock),
        seal=lambda principal, key, secret: box.seal(secret, principal_id=principal, access_key_id=key),
        new_id=new_id,
        space=vitals.space,
        mover=mover,
        expose=lambda: render(metrics_folder(settings)),
        facts={
            "version": package_version(),
            "region": settings.server.region,
            "workers": settings.server.worker_count,
            "database": store.metadata.dialect,
            "host_number": settings.host_number,
        },
    )


def _gatekeeper(settings: Settings) -> Gatekeeper:
    """The gate with the tokens of the settings and the root token."""
    root = Token("root", load_secrets(settings).admin_token_sha256, frozenset({Scope.ADMIN}))
    others = [
        Token(token.name, token.sha256, frozenset(map(Scope, token.scopes)), float(token.expires))
        for token in settings.admin.tokens
    ]
    return Gatekeeper([root, *others], failures_per_minute=settings.admin.failures_per_minute, clock=clock)


async def _checkpoint(store: Store) -> None:
    await asyncio.to_thread(store.metadata.checkpoint)


async def _set_gauges(store: Store, vitals: Vitals) -> None:
    space = await vitals.space()
    for tier in store.catalogue.tiers():
        answers = [space.get(device.device_id) for device in store.catalogue.devices(tier.name)]
        total = sum(answer.total_bytes for answer in answers if answer is not None)
        free = sum(answer.free_bytes for answer in answers if answer is not None)
        store.families.tier_capacity.labels(tier.name, "total").set(total)
        store.families.tier_capacity.labels(tier.name, "free").set(free)
        store.families.tier_capacity.labels(tier.name, "used").set(total - free)
    store.families.event_outbox.set(await outbox_count(store.reader))
    store.families.repair_queue.set(len(await store.reader.list_repairs(REPAIRS_COUNTED_MAX)))


def _set_redundancy(store: Store, margins: Mapping[int, int]) -> None:
    for margin in range(-1, MARGIN_MAX + 1):
        label = "lost" if margin < 0 else str(margin)
        store.families.redundancy_blobs.labels(label).set(margins.get(margin, 0))


def _set_objects(store: Store, counts: Mapping[str, int]) -> None:
    for tier in store.catalogue.tiers():
        store.families.tier_objects.labels(tier.name).set(counts.get(tier.name, 0))
