"""What the HTTP layer tells about requests, turned into counts and access log records."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from gateway.telemetry.access_log import AccessLog, AccessRecord
from gateway.telemetry.meters import RequestMeter


class Asked(Protocol):
    """What is read of a request; `gateway.http.call.Call` satisfies it."""

    method: str
    raw_path: bytes
    query: bytes
    request_id: str
    peer: str
    operation: str
    access_key_id: str
    bucket: str

    @property
    def fields(self) -> Mapping[bytes, bytes]: ...
    @property
    def followers(self) -> Sequence[Callable[[Any, Any], None]]: ...


class Answered(Protocol):
    """What is read of an answer; `gateway.http.call.Answer` satisfies it."""

    status: int
    error_code: str


class Moved(Protocol):
    """What an exchange took; `gateway.http.observer.Transfer` satisfies it."""

    @property
    def ttfb_seconds(self) -> float: ...
    @property
    def total_seconds(self) -> float: ...
    @property
    def bytes_in(self) -> int: ...
    @property
    def bytes_out(self) -> int: ...


class RequestObserver:
    """Satisfies `gateway.http.observer.Observer`: a few additions a request, nothing is formatted here."""

    def __init__(self, meter: RequestMeter, log: AccessLog, clock: Callable[[], float]) -> None:
        self._meter = meter
        self._log = log if log.is_on else None
        self._clock = clock

    def started(self, call: Asked) -> None:
        """A request's head is complete."""
        del call
        self._meter.in_flight += 1

    def finished(self, call: Asked, answer: Answered, transfer: Moved) -> None:
        """The answer is out, or cut."""
        self._meter.in_flight -= 1
        tally = self._meter.observe(call.operation, answer.status, transfer.total_seconds, transfer.ttfb_seconds)
        tally.received += transfer.bytes_in
        tally.sent += transfer.bytes_out
        for follow in call.followers:
            follow(answer, transfer)
        if self._log is not None:
            self._log.append(
                AccessRecord(
                    self._clock(),
                    call.request_id,
                    call.peer,
                    call.method,
                    call.raw_path,
                    call.query,
                    call.operation,
                    call.bucket,
                    call.access_key_id,
                    call.fields.get(b"user-agent", b""),
                    answer.status,
                    answer.error_code,
                    transfer.bytes_in,
                    transfer.bytes_out,
                    transfer.total_seconds,
                    transfer.ttfb_seconds,
                )
            )

    def refused(self, status: int, reason: str, peer: str) -> None:
        """A connection was closed before there was a request."""
        del reason, peer
        self._meter.refuse(status)
