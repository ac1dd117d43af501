"""Device calls of a background thread: each on the device's own threads, none waited for longer than a timeout."""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final, ParamSpec, TypeVar

from tiers.devices.contract import Device
from tiers.devices.fleet import Fleet
from tiers.errors import DeviceFailed

TIMEOUT_SECONDS: Final = 10.0
"""How long a device may take for one call (promises.md section 5)."""

_P = ParamSpec("_P")
_T = TypeVar("_T")


class DeviceCalls:
    """Blocking; used by one thread at a time, never on an event loop.

    A call that was given up may still end: its device is not usable until it has.
    """

    def __init__(self, fleet: Fleet, timeout_seconds: float = TIMEOUT_SECONDS) -> None:
        self._fleet = fleet
        self._timeout_seconds = timeout_seconds
        self._given_up: dict[str, list[Future[Any]]] = {}

    def is_usable(self, device_id: str) -> bool:
        """Whether new work may go to the device."""
        left = [future for future in self._given_up.pop(device_id, []) if not future.done()]
        if left:
            self._given_up[device_id] = left
        return not left and self._fleet.get(device_id) is not None and self._fleet.is_available(device_id)

    def device(self, device_id: str) -> Device:
        """The device itself, to name a call of it. Errors: DeviceFailed when there is none."""
        device = self._fleet.get(device_id)
        if device is None:
            raise DeviceFailed(f"no device {device_id!r} here")
        return device

    def start(self, device_id: str, fn: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> "Future[_T]":
        """Begin a call; `finish` waits for it."""
        return self._fleet.submit(device_id, fn, *args, **kwargs)

    def finish(self, device_id: str, future: "Future[_T]") -> _T:
        """The outcome of a call. Errors: what it raises; DeviceFailed when it does not end in time."""
        try:
            return future.result(self._timeout_seconds)
        except TimeoutError as error:
            self._given_up.setdefault(device_id, []).append(future)
            raise DeviceFailed(f"{device_id} did not answer within {self._timeout_seconds} s") from error

    def call(self, device_id: str, fn: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """`start` and `finish`."""
        return self.finish(device_id, self.start(device_id, fn, *args, **kwargs))
