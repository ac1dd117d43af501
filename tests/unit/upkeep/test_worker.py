"""The runner: pace, backoff, stop, status; with a clock and a sleep that the test owns."""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from tiers.errors import DeviceFailed
from tiers.worker import BACKOFF_SECONDS_MAX, Pace, Runner, RunState, Step


@dataclass
class Counting:
    """A worker that does what the test scripted: steps, or errors to raise; then it is idle for ever."""

    script: list[Step | Exception]
    cost_seconds: float = 2.0
    now: float = 0.0
    slept: list[float] = field(default_factory=list)
    waits: int = 0
    name: str = "counting"
    on_script_end: Callable[[], None] = lambda: None

    async def step(self) -> Step:
        self.now += self.cost_seconds
        result = self.script.pop(0) if self.script else Step(0, is_idle=True)
        if not self.script:
            self.on_script_end()
        if isinstance(result, Exception):
            raise result
        return result

    async def wait_for_work(self) -> None:
        self.waits += 1

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    def runner(self, calm: float = 0.0) -> Runner:
        runner = Runner(self, Pace(calm, lambda: self.now, self.sleep), random.Random(7))
        self.on_script_end = runner.stop
        return runner


def test_it_rests_calm_times_the_last_step_and_waits_when_idle() -> None:
    worker = Counting([Step(5, is_idle=False), Step(1, is_idle=True), Step(2, is_idle=False)])
    runner = worker.runner(calm=3)
    asyncio.run(runner.run())
    assert worker.slept[:1] == [6.0]
    assert worker.waits == 1
    status = runner.status
    assert (status.steps, status.items, status.passes, status.state) == (3, 8, 1, RunState.STOPPED)
    assert status.last_step_at == 6.0


def test_failures_back_off_with_jitter_to_a_bound_and_a_success_forgets_them() -> None:
    failures = [DeviceFailed(f"try {n}") for n in range(20)]
    worker = Counting([*failures, Step(1, is_idle=False), DeviceFailed("again"), Step(1, is_idle=False)])
    runner = worker.runner()
    asyncio.run(runner.run())
    for doubling, seconds in enumerate(worker.slept[:20]):
        full = min(2.0**doubling, BACKOFF_SECONDS_MAX)
        assert full / 2 <= seconds <= full
    assert len({seconds / min(2.0**n, BACKOFF_SECONDS_MAX) for n, seconds in enumerate(worker.slept[:20])}) > 10
    assert worker.slept[20] <= 1.0
    assert (runner.status.failures, runner.status.last_error) == (0, "DeviceFailed: again")


def test_stop_ends_a_rest_and_a_wait_at_once() -> None:
    class Stuck(Counting):
        async def wait_for_work(self) -> None:
            await asyncio.Event().wait()

        async def sleep(self, seconds: float) -> None:
            await asyncio.Event().wait()

    async def check(script: list[Step | Exception], state: RunState) -> None:
        worker = Stuck([*script, Step(0, is_idle=False)])
        runner = worker.runner(calm=1)
        running = asyncio.ensure_future(runner.run())
        for _ in range(10):
            await asyncio.sleep(0)
        assert runner.status.state == state
        runner.stop()
        await asyncio.wait_for(running, 5)
        assert runner.status.state == RunState.STOPPED

    asyncio.run(check([Step(1, is_idle=True)], RunState.WAITING))
    asyncio.run(check([DeviceFailed("x")], RunState.BACKING_OFF))


def test_a_pass_is_the_same_steps_and_raises_what_they_raise() -> None:
    worker = Counting([Step(2, is_idle=False), Step(3, is_idle=True), DeviceFailed("x")])
    runner = Runner(worker, Pace(1, lambda: worker.now, worker.sleep), random.Random(7))
    assert asyncio.run(runner.run_pass()) == 5
    assert worker.slept == []
    with pytest.raises(DeviceFailed):
        asyncio.run(runner.run_pass())
