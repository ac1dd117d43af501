"""Joins the inventory worker of a control process: the reports of the S3 side, a namespace, a lease of one process."""

from typing import Final

from gateway.app.encryption_keys import new_content_keys
from gateway.app.sources import clock, ticks
from gateway.app.store import Store, new_namespace
from gateway.s3.deposits import Deposits
from gateway.s3.inventory_reports import Reporting
from tiers.datapath.reader import ContentReader
from tiers.upkeep.cursors import MetadataCursors
from tiers.upkeep.inventory import Inventories
from tiers.upkeep.leases import HeldLease

LEASE_SECONDS: Final = 300.0
"""A step, one data file, ends well within half of it; when a host is lost, another takes over after so long."""


def new_inventories(store: Store, contents: ContentReader) -> Inventories:
    """The inventory worker of this process. Errors: SecretsRefused."""
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
    deposits = Deposits(namespace, new_content_keys(settings, ticks))
    day_ms = max(1, round(settings.seconds_per_day * 1000))
    return Inventories(
        store.reader,
        MetadataCursors(store.reader, store.committer),
        Reporting(deposits, settings.server.region, clock, day_ms),
        HeldLease(store.committer, "inventory", f"host-{settings.host_number}", seconds=LEASE_SECONDS, clock=clock),
        clock=clock,
        seconds_per_day=settings.seconds_per_day,
    )
