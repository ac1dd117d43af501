"""Joins the server access logs of one worker: collection, delivery, counts."""

from collections.abc import Callable

from gateway.app.sources import clock
from gateway.app.store import Store
from gateway.s3.deposits import Deposits
from gateway.s3.log_delivery import LogDelivery
from gateway.s3.request import Services
from gateway.s3.server_log import LogLimits, ServerLog
from gateway.settings.tree import Settings
from gateway.telemetry.meters import EventMeter


def new_server_log(settings: Settings, host_id: str) -> ServerLog:
    """The lines of one worker."""
    chosen = settings.server_log
    return ServerLog(LogLimits(chosen.buffer_bytes, chosen.object_bytes), settings.server.region, host_id, clock)


def open_server_log(store: Store, services: Services, meters: list[Callable[[], None]]) -> LogDelivery:
    """The delivery of what the worker's services collect; the caller runs it, and flushes it at the end."""
    log = services.server_log
    assert log is not None
    counts = log.counts
    meters.append(
        EventMeter(
            store.families.server_log_lines, lambda: {"delivered": counts.delivered, "dropped": counts.dropped}
        ).flush
    )
    deposits = Deposits(services.namespace, services.content_keys, services.configurations)
    return LogDelivery(log, deposits, clock, store.settings.server_log.flush_seconds)
