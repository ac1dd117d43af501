"""Server access logs as a process collects them: lines of the requests to logged buckets, in bounded memory.

A request to a bucket without logging costs one look at an attribute. Lines wait here until `gateway.s3.log_delivery`
takes them. Delivery is best effort, as on AWS: lines beyond the bound are dropped and counted, and what waits is lost
with its process.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

from gateway.auth.authenticator import Authenticated, Mechanism
from gateway.http.call import Call
from gateway.s3.log_lines import BATCH_DELETE, LogLine, format_line, operation_word
from gateway.s3.log_targets import LogSource, LogTarget, log_day
from metadata.types import Bucket

LINE_OVERHEAD_BYTES: Final = 64
"""What a waiting line costs besides its bytes, about."""

_SIGNATURES: Final = {
    Mechanism.HEADER_V4: ("SigV4", "AuthHeader"),
    Mechanism.QUERY_V4: ("SigV4", "QueryString"),
    Mechanism.FORM_V4: ("SigV4", ""),
    Mechanism.HEADER_V2: ("SigV2", "AuthHeader"),
    Mechanism.QUERY_V2: ("SigV2", "QueryString"),
    Mechanism.FORM_V2: ("SigV2", ""),
}
"""Signature version and where it came, in AWS's words; neither for an anonymous request."""

_WRITES: Final = frozenset({"PutObject", "PostObject", "UploadPart"})
"""Operations whose object size is what they brought."""


class Answered(Protocol):
    """What is read of an answer."""

    status: int
    error_code: str


class Moved(Protocol):
    """What an exchange took."""

    @property
    def ttfb_seconds(self) -> float: ...
    @property
    def total_seconds(self) -> float: ...
    @property
    def bytes_in(self) -> int: ...
    @property
    def bytes_out(self) -> int: ...


class LogLimits(NamedTuple):
    """Bytes that may wait in one process, and the size at which a log object is delivered at once."""

    buffer_bytes: int
    object_bytes: int


@dataclass(slots=True)
class LogCounts:
    """What became of lines, for metrics: delivered, or dropped for want of memory, permission or target."""

    delivered: int = 0
    dropped: int = 0


class LogGroup(NamedTuple):
    """What the lines of one log object share. `day` is that of their events where the target's names tell it."""

    source: LogSource
    target: LogTarget
    day: int


class LogBatch(NamedTuple):
    """Lines of one group that make one log object."""

    group: LogGroup
    content: bytes
    line_count: int


class BatchedDeletion(NamedTuple):
    """What became of one key of a DeleteObjects; `error_code` is empty when it was deleted."""

    key: str
    version_id: str
    status: int
    error_code: str


@dataclass(slots=True)
class Visit:
    """What is known of a request when it reaches its bucket; its line is written at the end of the exchange.

    `size` is that of the object concerned, None where it is unknown or yet to come. `deletions` are told by the handler
    of DeleteObjects.
    """

    log: "ServerLog"
    bucket: Bucket
    target: LogTarget
    call: Call
    caller: Authenticated
    key: str
    version_id: str
    suffix: str
    size: int | None
    deletions: Sequence[BatchedDeletion] = ()

    def finished(self, answer: Answered, transfer: Moved) -> None:
        """Write the lines of the request."""
        self.log.write(self, answer, transfer)


@dataclass(slots=True)
class _Waiting:
    """Lines of a group that wait."""

    lines: list[bytes] = field(default_factory=list)
    byte_count: int = 0


class ServerLog:
    """The lines of one process; used on its event loop. `has_full` is set while some group fills a log object."""

    def __init__(self, limits: LogLimits, region: str, host_id: str, clock: Callable[[], float]) -> None:
        assert 0 < limits.object_bytes <= limits.buffer_bytes
        self.counts = LogCounts()
        self.has_full = asyncio.Event()
        self._limits = limits
        self._region, self._host_id, self._clock = region, host_id, clock
        self._waiting: dict[LogGroup, _Waiting] = {}
        self._bytes = 0

    def write(self, visit: Visit, answer: Answered, transfer: Moved) -> None:
        """Take the lines of a finished request; never fails."""
        line = self._line(visit, answer, transfer)
        source = LogSource(line.bucket, line.owner_id, self._region)
        group = LogGroup(source, visit.target, log_day(visit.target, line.seconds))
        self._add(group, format_line(line))
        for deletion in visit.deletions:
            of_key = line._replace(
                operation=BATCH_DELETE,
                key=deletion.key,
                version_id=deletion.version_id,
                status=deletion.status,
                error_code=deletion.error_code,
                sent_bytes=0,
            )
            self._add(group, format_line(of_key))

    def _line(self, visit: Visit, answer: Answered, transfer: Moved) -> LogLine:
        call, fields = visit.call, visit.call.fields
        size = visit.size
        if size is None and call.operation in _WRITES and answer.status == 200:
            decoded = fields.get(b"x-amz-decoded-content-length", b"")
            size = int(decoded) if decoded.isdigit() else transfer.bytes_in
        signature, authentication = _SIGNATURES.get(visit.caller.mechanism, ("", ""))
        return LogLine(
            owner_id=visit.bucket.owner_id,
            bucket=visit.bucket.name,
            seconds=self._clock() - transfer.total_seconds,
            peer=call.peer,
            requester=visit.caller.principal.principal_id,
            request_id=call.request_id,
            operation=operation_word(call.operation, call.method, visit.suffix),
            key=visit.key,
            method=call.method,
            raw_path=call.raw_path,
            query=call.query,
            status=answer.status,
            error_code=answer.error_code,
            sent_bytes=transfer.bytes_out,
            size=size,
            total_seconds=transfer.total_seconds,
            turnaround_seconds=transfer.ttfb_seconds,
            referer=fields.get(b"referer", b""),
            user_agent=fields.get(b"user-agent", b""),
            version_id=visit.version_id,
            host_id=self._host_id,
            signature=signature,
            authentication=authentication,
            host=fields.get(b"host", b""),
        )

    def _add(self, group: LogGroup, line: bytes) -> None:
        cost = len(line) + LINE_OVERHEAD_BYTES
        if self._bytes + cost > self._limits.buffer_bytes:
            self.counts.dropped += 1
            return
        waiting = self._waiting.setdefault(group, _Waiting())
        waiting.lines.append(line)
        waiting.byte_count += cost
        self._bytes += cost
        if waiting.byte_count >= self._limits.object_bytes:
            self.has_full.set()

    def take(self) -> list[LogBatch]:
        """Everything that waits, each batch at most one log object of a group; it waits no longer.

        It counts against the bound until `settle` or `give_back` says what became of it.
        """
        self.has_full.clear()
        taken: list[LogBatch] = []
        for group, waiting in self._waiting.items():
            lines = waiting.lines
            while lines:
                count = _fitting(lines, self._limits.object_bytes)
                taken.append(LogBatch(group, b"".join(lines[:count]), count))
                lines = lines[count:]
        self._waiting = {}
        return taken

    def settle(self, batch: LogBatch, *, is_delivered: bool) -> None:
        """Lines that were taken are delivered, or given up."""
        self._bytes -= len(batch.content) + batch.line_count * LINE_OVERHEAD_BYTES
        assert self._bytes >= 0
        if is_delivered:
            self.counts.delivered += batch.line_count
        else:
            self.counts.dropped += batch.line_count

    def give_back(self, batch: LogBatch) -> None:
        """Lines that were taken wait again, for another try."""
        waiting = self._waiting.setdefault(batch.group, _Waiting())
        waiting.lines[:0] = batch.content.splitlines(keepends=True)
        waiting.byte_count += len(batch.content) + batch.line_count * LINE_OVERHEAD_BYTES


def _fitting(lines: Sequence[bytes], byte_count: int) -> int:
    """How many lines, at least one, make an object of about `byte_count` bytes."""
    size = 0
    for count, line in enumerate(lines, 1):
        size += len(line) + LINE_OVERHEAD_BYTES
        if size >= byte_count:
            return count
    return len(lines)
