"""Joins the lifecycle engine of a control process: a namespace, the mover, a lease of one process."""

from collections.abc import Callable
from typing import Final

from gateway.app.sources import clock
from gateway.app.store import Store, new_namespace
from gateway.telemetry.meters import LifecycleMeter
from tiers.datapath.reader import ContentReader
from tiers.lifecycle.due import day_ms_of
from tiers.lifecycle.engine import LifecycleEngine, Mover, Times
from tiers.upkeep.leases import HeldLease

LEASE_SECONDS: Final = 60.0
"""A step, two pages of entries, ends well within half of it; when a host is lost, another takes over after so long."""


def new_lifecycle(
    store: Store, contents: ContentReader, mover: Mover, meters: list[Callable[[], None]]
) -> LifecycleEngine:
    """The lifecycle engine of this process."""
    settings = store.settings
    namespace = new_namespace(
        settings,
        store.reader,
        store.catalogue,
        store.fleet,
        committer=store.committer,
        executor=store.executor,
        contents=contents,
    )
    day_ms = day_ms_of(settings.seconds_per_day)
    engine = LifecycleEngine(
        namespace.due_times,
        HeldLease(store.committer, "lifecycle", f"host-{settings.host_number}", seconds=LEASE_SECONDS, clock=clock),
        Times(clock, store.reader.now_ms, day_ms, settings.upkeep.lifecycle_seconds),
        mover=mover,
    )
    meters.append(LifecycleMeter(store.families, engine.counts).flush)
    return engine
