"""Joins the delivery of events: the outbox of the store, the webhooks of the settings, a lease of one process."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from gateway.app.outbound import Outbound
from gateway.app.sources import clock, rng
from gateway.app.store import Store
from gateway.app.webhooks import Webhooks
from gateway.telemetry.meters import EventMeter
from metadata.contract import Reader
from metadata.tables import REVISION
from tiers.namespace.events import OUTBOX
from tiers.upkeep.delivery import LANE_SECONDS, Delivery, DeliveryTimes
from tiers.upkeep.leases import HeldLease

LEASE_SECONDS_MIN: Final = 30.0
"""When a host is lost, the control process of another takes over after so long."""


@asynccontextmanager
async def open_delivery(store: Store, meters: list[Callable[[], None]]) -> AsyncIterator[Delivery]:
    """The delivery worker of this process; its connections are closed at the end."""
    settings = store.settings.notifications
    outbound = Outbound(settings.networks, deadline_seconds=settings.deadline_seconds)
    webhooks = Webhooks(settings, outbound, store.settings.server.region, clock)
    # A step must end within half a lease: the lanes' time, and one post that takes all of its deadline.
    seconds = max(LEASE_SECONDS_MIN, 2 * (LANE_SECONDS + settings.deadline_seconds) + 1)
    holder = f"host-{store.settings.host_number}"  # of a host's control processes one lives: a new one goes right on
    delivery = Delivery(
        store.reader,
        store.committer,
        webhooks.post,
        HeldLease(store.committer, "delivery", holder, seconds=seconds, clock=clock),
        clock=clock,
        rng=rng,
        times=DeliveryTimes(settings.rest_seconds, settings.retention_seconds),
    )
    counts = delivery.counts
    meters.append(
        EventMeter(
            store.families.events,
            lambda: {"delivered": counts.delivered, "failed": counts.failed, "expired": counts.expired},
        ).flush
    )
    try:
        yield delivery
    finally:
        await outbound.close()


async def outbox_count(reader: Reader) -> int:
    """Events that wait for delivery."""
    row = await reader.get_row(REVISION, (OUTBOX,))
    return 0 if row is None else row.value
