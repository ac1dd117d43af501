"""Background work: a worker advances one kind of job by bounded steps; its runner owns pace, backoff, stop and status.

A worker keeps its place in a cursor that survives a restart, and every step may be repeated. Running once and running
for ever are the same step.
"""

import asyncio
import contextlib
import logging
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple, Protocol, TypeVar

logger = logging.getLogger(__name__)

T = TypeVar("T")

BACKOFF_SECONDS_MIN: Final = 1.0
BACKOFF_SECONDS_MAX: Final = 300.0
"""Rest after the first failure in a row, and the most it doubles to."""


class Step(NamedTuple):
    """What one step did. `items` counts what it handled; `is_idle` says that a pass is over and nothing waits."""

    items: int
    is_idle: bool


class Worker(Protocol):
    """Advances one kind of job by one bounded step at a time. Steps are idempotent and never overlap."""

    name: str

    async def step(self) -> Step:
        """Do a bounded amount of work and persist the place reached. Errors: any StorageError; the step is repeated."""

    async def wait_for_work(self) -> None:
        """Return when the next pass is due. Cancelled when the runner stops."""


class Cursors(Protocol):
    """Persisted positions of workers, by name."""

    async def load(self, name: str) -> bytes:
        """The position saved last, empty when there is none: the worker starts over."""

    async def save(self, name: str, position: bytes) -> None:
        """Persist a position. Errors: those of a commit."""


class RunState(StrEnum):
    """What a runner is doing."""

    WAITING = "waiting"
    WORKING = "working"
    BACKING_OFF = "backing off"
    STOPPED = "stopped"


@dataclass(slots=True)
class Status:
    """What operators are shown of a worker. `failures` counts the failures in a row that the runner backs off for."""

    name: str
    state: RunState = RunState.STOPPED
    steps: int = 0
    items: int = 0
    passes: int = 0
    failures: int = 0
    last_error: str = ""
    last_step_at: float = 0.0


class Pace(NamedTuple):
    """How a runner spends time: it rests `calm` times as long as the last step took. Both functions are in seconds."""

    calm: float
    clock: Callable[[], float]
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep


class Runner:
    """Runs one worker until it is stopped; nothing the worker raises ends it."""

    def __init__(self, worker: Worker, pace: Pace, rng: random.Random) -> None:
        self._worker = worker
        self._pace = pace
        self._rng = rng
        self._stopping = asyncio.Event()
        self.status = Status(worker.name)

    def stop(self) -> None:
        """Ask `run` to return: at once from a rest, else after the step in hand."""
        self._stopping.set()

    async def run(self) -> None:
        """Step, rest, wait for work, until `stop`."""
        while not self._stopping.is_set():
            began = self._pace.clock()
            step = await self._try_step()
            if step is None:
                await self._rest(self._backoff_seconds())
            elif step.is_idle:
                self.status.state = RunState.WAITING
                await self._until_stopped(self._worker.wait_for_work())
            else:
                await self._rest(self._pace.calm * (self._pace.clock() - began))
        self.status.state = RunState.STOPPED

    async def run_pass(self) -> int:
        """Step until the pass is over, without rests; return the items handled. Errors: those of the steps."""
        items = 0
        while True:
            step = await self._worker.step()
            self._note(step)
            items += step.items
            if step.is_idle:
                return items

    async def _try_step(self) -> Step | None:
        """One step, or None when it failed."""
        self.status.state = RunState.WORKING
        try:
            step = await self._worker.step()
        except Exception as error:  # noqa: BLE001  # the runner is where a worker's failures end (style.md P9)
            self.status.failures += 1
            self.status.last_error = f"{type(error).__name__}: {error}"
            self.status.state = RunState.BACKING_OFF
            logger.warning("worker %s failed: %s", self._worker.name, self.status.last_error)
            return None
        self._note(step)
        return step

    def _note(self, step: Step) -> None:
        status = self.status
        status.steps += 1
        status.items += step.items
        status.passes += step.is_idle
        status.failures = 0
        status.last_step_at = self._pace.clock()

    def _backoff_seconds(self) -> float:
        """Doubles with every failure in a row up to the maximum, then between half and all of it."""
        doublings = min(self.status.failures - 1, 16)
        seconds = min(BACKOFF_SECONDS_MIN * 2.0**doublings, BACKOFF_SECONDS_MAX)
        return seconds * (1 + self._rng.random()) / 2

    async def _rest(self, seconds: float) -> None:
        if seconds > 0:
            await self._until_stopped(self._pace.sleep(seconds))
        else:
            await asyncio.sleep(0)

    async def _until_stopped(self, wait: Awaitable[None]) -> None:
        """Await `wait`, but no longer than until `stop`."""
        waiting = asyncio.ensure_future(wait)
        stopping = asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait((waiting, stopping), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (waiting, stopping):
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
