"""Which clients are late, and that one timer finds them."""

import asyncio

from gateway.http.deadlines import NEVER, BodyPace, Sweep
from gateway.http.limits import Limits

LIMITS = Limits(body_silence_seconds=10, body_rate_bytes=100)


def test_silence() -> None:
    pace = BodyPace(LIMITS)
    pace.wait(100)
    assert not pace.is_late(109)
    pace.heard(5_000, 109)
    assert not pace.is_late(119)
    assert pace.is_late(119.1)


def test_time_that_the_server_takes_does_not_count() -> None:
    pace = BodyPace(LIMITS)
    pace.wait(100)
    pace.rest(101)
    assert not pace.is_late(10_000)
    pace.wait(10_000)
    assert not pace.is_late(10_008)
    assert pace.is_late(10_009), "ten seconds waited in all"


def test_a_drip_is_late_after_one_window() -> None:
    pace = BodyPace(LIMITS)
    pace.wait(0)
    for second in range(1, 10):
        pace.heard(1, second)
        assert not pace.is_late(second)
    pace.heard(1, 10)
    assert pace.is_late(10)


def test_a_fast_start_buys_one_window_only() -> None:
    pace = BodyPace(LIMITS)
    pace.wait(0)
    pace.heard(10**9, 1)
    for second in range(2, 20):
        pace.heard(1, second)
        assert not pace.is_late(second)
    pace.heard(1, 20)
    assert pace.is_late(20)


def test_a_steady_client_is_never_late() -> None:
    pace = BodyPace(LIMITS)
    pace.wait(0)
    for second in range(1, 1_000):
        pace.heard(101, second)
        assert not pace.is_late(second)


class Watched:
    def __init__(self, due: float) -> None:
        self.due = due
        self.called = asyncio.Event()

    def overdue(self, now: float) -> None:
        assert now >= self.due
        self.due = NEVER
        self.called.set()


def test_sweep_calls_only_the_late_and_rests_without_connections() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        sweep = Sweep(0.001)
        late, early = Watched(loop.time()), Watched(loop.time() + 3_600)
        sweep.add(late, loop)
        sweep.add(early, loop)
        await asyncio.wait_for(late.called.wait(), 5)
        assert not early.called.is_set()
        sweep.discard(late)
        sweep.discard(early)
        sweep.discard(early)
        assert sweep._timer is None

    asyncio.run(main())
