"""The metric families of the design, registered once a process.

In multiprocess mode each process writes its values into files of `folder` that are named by its role and not by its
process id: a data worker that was restarted goes on counting where its predecessor stopped, counters survive restarts,
and the number of files stays that of the processes. `gateway.telemetry.exposition` adds them up.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, values

LATENCY_BOUNDS: Final = (
    50e-6, 100e-6, 200e-6, 500e-6, 1e-3, 2e-3, 5e-3, 10e-3, 20e-3, 50e-3, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0,
)  # fmt: skip
"""Seconds. From 50 us, where a read from the page cache lies, to 30 s, where clients give up."""

BATCH_BOUNDS: Final = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0)
"""Mutations of one commit batch; 512 is the committer's bound."""

MULTIPROCESS_FOLDER: Final = "PROMETHEUS_MULTIPROC_DIR"


_Mode = Literal["livesum", "livemax", "livemin", "livemostrecent"]
"""How values of several processes become one; `live`: those of processes that ended do not count."""


class Families:
    """Every family this process writes. Labels come from closed sets only."""

    def __init__(self, folder: Path | None = None, process: str = "") -> None:
        """Without `folder` values live in this object (tests); with it they go to the files of `process`."""
        assert "_" not in process, "the file name is split at underscores"
        if folder is not None:
            os.environ[MULTIPROCESS_FOLDER] = str(folder)
            values.ValueClass = values.MultiProcessValue(lambda: process)  # type: ignore[no-untyped-call]  # untyped library
        else:
            values.ValueClass = values.MutexValue
        self.registry = CollectorRegistry()
        self.requests = self._counter("isotherm_s3_requests", "S3 requests answered.", ("operation", "code"))
        self.request_seconds = self._histogram(
            "isotherm_s3_request_seconds",
            "From the end of the header block to the last byte handed on.",
            ("operation",),
        )
        self.ttfb_seconds = self._histogram(
            "isotherm_s3_ttfb_seconds", "From the end of the header block to the head of the answer.", ("operation",)
        )
        self.received = self._counter("isotherm_s3_received_bytes", "Bytes of request bodies.", ("operation",))
        self.sent = self._counter("isotherm_s3_sent_bytes", "Bytes of answer bodies.", ("operation",))
        self.in_flight = self._gauge("isotherm_s3_requests_in_flight", "S3 requests being served.", (), "livesum")
        self.refused = self._counter(
            "isotherm_s3_refused", "Connections refused before a request was read: bad head or deadline.", ("code",)
        )
        self._add_tiers()
        self.loop_lag = self._gauge(
            "isotherm_event_loop_lag_seconds", "Longest delay of the event loop in the last period.", (), "livemax"
        )
        self.fast_lane = self._gauge(
            "isotherm_fast_lane_enabled", "1 when the data worker serves plain requests itself.", ("worker",), "livemin"
        )
        self.commit_batches = self._counter("isotherm_commit_batches", "Batches of the group commit.", ())
        self.commit_operations = self._counter("isotherm_commit_operations", "Mutations committed or refused.", ())
        self.commit_flushes = self._counter("isotherm_commit_flushes", "Parallel flushes of pack copies.", ())
        self.commit_bytes = self._counter("isotherm_commit_body_bytes", "Bytes of small contents in batches.", ())
        self.commit_failures = self._counter("isotherm_commit_failures", "Batches that failed as a whole.", ())
        self.log_dropped = self._counter(
            "isotherm_access_log_dropped", "Access log records dropped because the sink was too slow.", ()
        )
        self.process_restarts = self._counter(
            "isotherm_process_restarts", "Processes that died and were replaced.", ("role",)
        )

    def _add_tiers(self) -> None:
        """Families of devices, tiers and redundancy."""
        self.tier_bytes = self._counter(
            "isotherm_tier_bytes", "Bytes moved to and from the devices.", ("tier", "direction", "purpose")
        )
        self.tier_seconds = self._histogram(
            "isotherm_tier_operation_seconds", "Time of one device operation.", ("tier", "operation")
        )
        self.tier_capacity = self._gauge(
            "isotherm_tier_capacity_bytes", "Space of a tier's devices.", ("tier", "state"), "livemostrecent"
        )
        self.tier_objects = self._gauge(
            "isotherm_tier_objects", "Current versions whose home is the tier.", ("tier",), "livemostrecent"
        )
        self.repair_queue = self._gauge(
            "isotherm_repair_queue", "Fragments known to be missing or bad.", (), "livemostrecent"
        )
        self.event_outbox = self._gauge(
            "isotherm_event_outbox", "Events of buckets that wait for delivery.", (), "livemostrecent"
        )
        self.events = self._counter(
            "isotherm_events",
            "Events taken by their target, tries that failed, events given up and events the outbox had no room for.",
            ("result",),
        )
        self.server_log_lines = self._counter(
            "isotherm_server_log_lines", "Lines of server access logs by what became of them.", ("result",)
        )
        self.moves = self._counter(
            "isotherm_moves", "Moves of versions between tiers that ended.", ("from", "to", "reason", "result")
        )
        self.move_bytes = self._counter(
            "isotherm_move_bytes", "Bytes of moved versions, as written in their new tier.", ("from", "to", "reason")
        )
        self.lifecycle_actions = self._counter(
            "isotherm_lifecycle_actions",
            "Entries of lifecycle rules that were due, by what became of them.",
            ("action", "result"),
        )
        self.lifecycle_lag = self._gauge(
            "isotherm_lifecycle_cursor_lag_seconds", "How long the oldest expiration has been due.", (), "livemax"
        )
        self.lifecycle_backlog = self._gauge(
            "isotherm_lifecycle_backlog",
            "Moves that are due and wait for their mover, and buckets whose changed rules are being followed.",
            ("kind",),
            "livemax",
        )
        self.redundancy_blobs = self._gauge(
            "isotherm_redundancy_blobs",
            "Blobs of the repair queue by how many more fragments they may lose; lost when too few are left.",
            ("margin",),
            "livemostrecent",
        )

    def _counter(self, name: str, text: str, labels: Sequence[str]) -> Counter:
        return Counter(name, text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str, labels: Sequence[str], mode: _Mode) -> Gauge:
        return Gauge(name, text, labels, registry=self.registry, multiprocess_mode=mode)

    def _histogram(self, name: str, text: str, labels: Sequence[str]) -> Histogram:
        return Histogram(name, text, labels, registry=self.registry, buckets=LATENCY_BOUNDS)


class Tally:
    """Observations of one histogram child, counted in plain lists and handed on in bulk.

    `Histogram.observe` costs microseconds in multiprocess mode; a look-up of the bucket and one addition do not.
    """

    __slots__ = ("_child", "counts", "total")

    def __init__(self, child: Histogram) -> None:
        self._child = child
        self.counts = [0] * (len(LATENCY_BOUNDS) + 1)
        self.total = 0.0

    def flush(self) -> None:
        """Add what was counted since the last flush to the child."""
        if not any(self.counts):
            return
        counts, total = self.counts, self.total
        self.counts, self.total = [0] * len(counts), 0.0
        # The library has no call to add many observations; both names are touched by a test.
        for bucket, count in zip(self._child._buckets, counts, strict=True):
            if count:
                bucket.inc(count)
        self._child._sum.inc(total)
