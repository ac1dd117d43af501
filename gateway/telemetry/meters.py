"""Counting on the request path in plain Python, and the hand-over to the metric families every so often.

Nothing here looks up a label, formats or locks while a request runs. Every meter belongs to one event loop or is
written by threads with single, atomic list operations.
"""

from bisect import bisect_left
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from prometheus_client import Counter

from gateway.telemetry.families import LATENCY_BOUNDS, Families, Tally

OPERATIONS_MAX: Final = 400
"""Bound of the label sets kept: operations of the table times answer codes in use. More means a bug, and is counted
under `other`."""


class Counts(Protocol):
    """What a committer counts. `tiers.commit.committer.CommitCounters` satisfies it."""

    batches: int
    operations: int
    flushes: int
    body_bytes: int
    failures: int


class _Operation:
    """Counters of one operation."""

    __slots__ = ("codes", "received", "seconds", "sent", "ttfb")

    def __init__(self, families: Families, operation: str) -> None:
        self.codes: dict[int, int] = {}
        self.seconds = Tally(families.request_seconds.labels(operation))
        self.ttfb = Tally(families.ttfb_seconds.labels(operation))
        self.received = 0
        self.sent = 0


class RequestMeter:
    """Counts S3 requests. `observe` on the event loop, `flush` from the same loop."""

    def __init__(self, families: Families) -> None:
        self._families = families
        self._operations: dict[str, _Operation] = {}
        self._refused: dict[int, int] = {}
        self.in_flight = 0

    def observe(self, operation: str, status: int, seconds: float, ttfb_seconds: float) -> "_Operation":
        """Count one answered request; returns its counters, for the bytes. `operation` is of the table or empty."""
        tally = self._operations.get(operation)
        if tally is None:
            tally = self._open(operation)
        tally.codes[status] = tally.codes.get(status, 0) + 1
        long, short = tally.seconds, tally.ttfb
        long.counts[bisect_left(LATENCY_BOUNDS, seconds)] += 1
        long.total += seconds
        short.counts[bisect_left(LATENCY_BOUNDS, ttfb_seconds)] += 1
        short.total += ttfb_seconds
        return tally

    def refuse(self, status: int) -> None:
        """Count a connection that was refused before there was a request."""
        self._refused[status] = self._refused.get(status, 0) + 1

    def _open(self, operation: str) -> "_Operation":
        name = operation or "none"
        if len(self._operations) >= OPERATIONS_MAX:
            operation = name = "other"
        return self._operations.setdefault(operation, _Operation(self._families, name))

    def flush(self) -> None:
        """Hand the counts on."""
        families = self._families
        families.in_flight.set(self.in_flight)
        for operation, tally in self._operations.items():
            name = operation or "none"
            for code, count in tally.codes.items():
                families.requests.labels(name, str(code)).inc(count)
            families.received.labels(name).inc(tally.received)
            families.sent.labels(name).inc(tally.sent)
            tally.codes, tally.received, tally.sent = {}, 0, 0
            tally.seconds.flush()
            tally.ttfb.flush()
        for code, count in self._refused.items():
            families.refused.labels(str(code)).inc(count)
        self._refused = {}


class DeviceMeter:
    """Counts the operations of one device; called from any thread as `observe` of a metered device.

    Two threads may lose a count against each other, which a rate does not show; nothing is ever corrupted.
    """

    __slots__ = ("_families", "_labels", "_tallies", "read_bytes", "written_bytes")

    def __init__(self, families: Families, tier: str, purpose: str) -> None:
        self._families = families
        self._labels = tier, purpose
        self._tallies: dict[str, Tally] = {}
        self.read_bytes = 0
        self.written_bytes = 0

    def __call__(self, operation: str, byte_count: int, seconds: float) -> None:
        """Count one call. `operation` is a name of the device contract."""
        tally = self._tallies.get(operation)
        if tally is None:
            child = self._families.tier_seconds.labels(self._labels[0], str(operation))
            tally = self._tallies.setdefault(operation, Tally(child))
        tally.counts[bisect_left(LATENCY_BOUNDS, seconds)] += 1
        tally.total += seconds
        if operation == "read":
            self.read_bytes += byte_count
        else:
            self.written_bytes += byte_count

    def flush(self) -> None:
        """Hand the counts on."""
        tier, purpose = self._labels
        for tally in list(self._tallies.values()):
            tally.flush()
        read, self.read_bytes = self.read_bytes, 0
        written, self.written_bytes = self.written_bytes, 0
        if read:
            self._families.tier_bytes.labels(tier, "read", purpose).inc(read)
        if written:
            self._families.tier_bytes.labels(tier, "write", purpose).inc(written)


class CommitMeter:
    """Follows the counters of a committer."""

    def __init__(self, families: Families, counts: Counts) -> None:
        self._counts = counts
        self._targets = {
            "batches": families.commit_batches,
            "operations": families.commit_operations,
            "flushes": families.commit_flushes,
            "body_bytes": families.commit_bytes,
            "failures": families.commit_failures,
        }
        self._seen = dict.fromkeys(self._targets, 0)

    def flush(self) -> None:
        """Hand on what the counters gained since the last call."""
        for name, target in self._targets.items():
            value = int(getattr(self._counts, name))
            if value > self._seen[name]:
                target.inc(value - self._seen[name])
                self._seen[name] = value


class EventMeter:
    """Follows counts that something keeps; `read` gives them by the label of `counter` they are counted under."""

    def __init__(self, counter: Counter, read: Callable[[], Mapping[str, int]]) -> None:
        self._counter = counter
        self._read = read
        self._seen = dict.fromkeys(read(), 0)
        for result in self._seen:  # an increase over nothing would alert nobody
            self._counter.labels(result)

    def flush(self) -> None:
        """Hand on what the counts gained since the last call."""
        for result, count in self._read().items():
            gained = count - self._seen[result]
            if gained:
                self._counter.labels(result).inc(gained)
            self._seen[result] = count


class LifecycleCounted(Protocol):
    """What a lifecycle engine counts. `tiers.lifecycle.engine.LifecycleCounts` satisfies it."""

    @property
    def fired(self) -> Mapping[tuple[str, str], int]:
        """Entries by action and result."""

    lag_seconds: float
    outdated: int
    moves_waiting: int


class LifecycleMeter:
    """Follows the counts of a lifecycle engine."""

    def __init__(self, families: Families, counts: LifecycleCounted) -> None:
        self._families, self._counts = families, counts
        self._seen: dict[tuple[str, str], int] = {}
        for action in ("expire", "remove", "abort"):
            families.lifecycle_actions.labels(action, "done")
        families.lifecycle_actions.labels("none", "failed")  # an increase over nothing would alert nobody

    def flush(self) -> None:
        """Hand on what the counts gained since the last call."""
        families, counts = self._families, self._counts
        for (action, result), count in counts.fired.items():
            gained = count - self._seen.get((action, result), 0)
            if gained:
                families.lifecycle_actions.labels(str(action), result).inc(gained)
            self._seen[action, result] = count
        families.lifecycle_lag.set(counts.lag_seconds)
        families.lifecycle_backlog.labels("move").set(counts.moves_waiting)
        families.lifecycle_backlog.labels("bucket").set(counts.outdated)


class LagMeter:
    """Measures how late the event loop runs a timer; the longest delay of a period is the figure."""

    def __init__(self, families: Families, monotonic: Callable[[], float]) -> None:
        self._gauge = families.loop_lag
        self._monotonic = monotonic
        self._due = 0.0
        self._longest = 0.0

    def arm(self, delay: float) -> float:
        """Note when a timer of `delay` seconds is due; returns `delay`."""
        self._due = self._monotonic() + delay
        return delay

    def fired(self) -> None:
        """The timer ran."""
        self._longest = max(self._longest, self._monotonic() - self._due)

    def flush(self) -> None:
        """Publish the longest delay since the last flush."""
        self._gauge.set(max(0.0, self._longest))
        self._longest = 0.0
