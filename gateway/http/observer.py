"""Who is told about requests: metrics, access log, heat. Called on the event loop, so implementations only append."""

from typing import NamedTuple, Protocol

from gateway.http.call import Answer, Call


class Transfer(NamedTuple):
    """What one exchange took: seconds from the complete head, payload bytes without framing and headers."""

    ttfb_seconds: float
    total_seconds: float
    bytes_in: int
    bytes_out: int
    is_cut: bool = False
    """The answer did not reach its end: the client went away, or the content could not be read on."""


class Observer(Protocol):
    """Told once at the start and once at the end of every exchange, lane and ASGI alike. Must not raise."""

    def started(self, call: Call) -> None: ...
    def finished(self, call: Call, answer: Answer, transfer: Transfer) -> None: ...

    def refused(self, status: int, reason: str, peer: str) -> None:
        """The header guard or a deadline closed a connection; there was no call."""


class SilentObserver:
    """Tells nobody."""

    def started(self, call: Call) -> None:
        """Nothing."""

    def finished(self, call: Call, answer: Answer, transfer: Transfer) -> None:
        """Nothing."""

    def refused(self, status: int, reason: str, peer: str) -> None:
        """Nothing."""
