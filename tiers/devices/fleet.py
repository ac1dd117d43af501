"""All devices of this process, each with its own few threads: a sick device blocks its threads and nothing else.

Judges health by what submitted calls report: ten failures in a row suspend a device for a minute, then it is on
probation, where one more failure suspends it again. A call that never returns makes the device unavailable too.
Suspension is advice: `submit` still goes through, for the reader that has no other choice.
"""

import copy
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, Final, ParamSpec, TypeVar

from tiers.devices.contract import Device
from tiers.errors import DeviceFailed

FAILURES_MAX: Final = 10
SUSPENDED_SECONDS: Final = 60.0
STUCK_SECONDS: Final = 10.0
"""A device with a call older than this is not available (the operation timeout of promises.md section 5)."""

BACKLOG_MAX: Final = 1024
"""Calls waiting for one device; beyond it a call fails at once, as on a device that answers with errors."""

_P = ParamSpec("_P")
_T = TypeVar("_T")


class Health:
    """Consecutive failures of one device, and what follows from them. Thread-safe."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._failures = 0
        self._suspended_until = 0.0

    def note_success(self) -> None:
        """The device answered as a healthy one does; ends a suspension."""
        if self._failures:
            with self._lock:
                self._failures, self._suspended_until = 0, 0.0

    def note_failure(self) -> None:
        """The device failed a call."""
        with self._lock:
            self._failures += 1
            if self._failures >= FAILURES_MAX:
                self._suspended_until = self._clock() + SUSPENDED_SECONDS

    @property
    def is_available(self) -> bool:
        """False while suspended. After that the device is on probation until its next success or failure."""
        return self._failures < FAILURES_MAX or self._clock() >= self._suspended_until


class DevicePool:
    """A bounded pool of daemon threads, so that a call that hangs for ever does not keep the process from ending."""

    def __init__(self, name: str, threads_max: int, clock: Callable[[], float]) -> None:
        assert threads_max > 0
        self._name, self._threads_max, self._clock = name, threads_max, clock
        self._waiting: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._changed = threading.Condition()
        self._threads: list[threading.Thread] = []
        self._idle = 0
        self._running: dict[int, float] = {}
        self._is_closed = False

    def submit(self, call: Callable[[], _T]) -> "Future[_T]":
        """Run `call` on a thread of the pool. The future fails with DeviceFailed when the backlog is full or closed."""
        future: Future[_T] = Future()
        with self._changed:
            if self._is_closed or len(self._waiting) >= BACKLOG_MAX:
                future.set_exception(DeviceFailed(f"{self._name}: {len(self._waiting)} calls are waiting already"))
                return future
            self._waiting.append((future, call))
            if self._idle < len(self._waiting) and len(self._threads) < self._threads_max:
                thread = threading.Thread(target=self._run, name=f"{self._name}-{len(self._threads)}", daemon=True)
                self._threads.append(thread)
                thread.start()
            self._changed.notify()
        return future

    @property
    def oldest_seconds(self) -> float:
        """How long the oldest running call has been running; 0 when none is."""
        with self._changed:
            return self._clock() - min(self._running.values()) if self._running else 0.0

    def close(self, timeout_seconds: float) -> None:
        """Take no more calls, finish those waiting, and wait so long for the threads to end."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join(timeout_seconds)

    def _run(self) -> None:
        while (job := self._next()) is not None:
            future, call = job
            if future.set_running_or_notify_cancel():
                _settle(future, call)
            with self._changed:
                self._running.pop(threading.get_ident(), None)
            del job, future, call  # a waiting thread must not keep the last call's buffers alive

    def _next(self) -> tuple[Future[Any], Callable[[], Any]] | None:
        with self._changed:
            while not self._waiting:
                if self._is_closed:
                    return None
                self._idle += 1
                self._changed.wait()
                self._idle -= 1
            self._running[threading.get_ident()] = self._clock()
            return self._waiting.popleft()


class Fleet:
    """Devices by id, each behind its own pool. Does not own the devices' files; close it before the process ends."""

    def __init__(
        self, devices: Mapping[str, Device], threads_per_device: int = 2, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`clock` gives seconds; only differences matter."""
        self._devices = dict(devices)
        self._pools = {id_: DevicePool(f"device-{id_}", threads_per_device, clock) for id_ in devices}
        self._health = {id_: Health(clock) for id_ in devices}

    def get(self, device_id: str) -> Device | None:
        """The device, or None when this process has none of that id."""
        return self._devices.get(device_id)

    def ids(self) -> tuple[str, ...]:
        """Every device id, in the order given."""
        return tuple(self._devices)

    def submit(self, device_id: str, fn: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> "Future[_T]":
        """Run a call on the device's own threads and count its outcome. Never blocks.

        Errors in the future: what `fn` raises; DeviceFailed for an unknown device or one whose backlog is full.
        """
        pool = self._pools.get(device_id)
        if pool is None:
            unknown: Future[_T] = Future()
            unknown.set_exception(DeviceFailed(f"no device {device_id!r} here"))
            return unknown
        return pool.submit(lambda: self._counted(device_id, fn, *args, **kwargs))

    def wrapped(self, wrap: Callable[[Device], Device]) -> "Fleet":
        """The same devices with something more around each; threads and health are shared, and closed with this one."""
        fleet = copy.copy(self)
        fleet._devices = {device_id: wrap(device) for device_id, device in self._devices.items()}
        return fleet

    def is_available(self, device_id: str) -> bool:
        """Whether new work should go to the device: known, not suspended, no call stuck on it."""
        health = self._health.get(device_id)
        if health is None or not health.is_available:
            return False
        return self._pools[device_id].oldest_seconds < STUCK_SECONDS

    def note_failure(self, device_id: str) -> None:
        """Count a failure met outside `submit` (a read on the loop, a pack copy)."""
        if device_id in self._health:
            self._health[device_id].note_failure()

    def note_success(self, device_id: str) -> None:
        """Count a success met outside `submit`."""
        if device_id in self._health:
            self._health[device_id].note_success()

    def close(self, timeout_seconds: float = 5.0) -> None:
        """Finish what was submitted, waiting at most so long for each thread; a hung one is left behind."""
        for pool in self._pools.values():
            pool.close(timeout_seconds)

    def _counted(self, device_id: str, fn: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Only DeviceFailed speaks against a device: a full one or an absent fragment is an orderly answer."""
        try:
            result = fn(*args, **kwargs)
        except DeviceFailed:
            self._health[device_id].note_failure()
            raise
        self._health[device_id].note_success()
        return result


def _settle(future: Future[Any], call: Callable[[], Any]) -> None:
    """Run the call and hand its outcome over, whatever it is."""
    try:
        result = call()
    except BaseException as error:  # noqa: BLE001  # the outcome belongs to the holder of the future
        future.set_exception(error)
    else:
        future.set_result(result)
