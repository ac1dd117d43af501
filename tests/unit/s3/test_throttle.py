"""Rates: the greedy are refused or wait, the modest notice nothing, and nobody is cut."""

import asyncio

import pytest

from gateway.http.call import Answer, Call
from gateway.s3.errors import S3Code, S3Error
from gateway.s3.throttle import Flow, PacedBody, Throttle
from tests.world import Clock
from tiers.namespace.quotas import NO_RATE, Rate

MEBIBYTE = 1 << 20


class Time(Clock):
    """A clock that sleeping moves."""

    def __init__(self) -> None:
        super().__init__(100.0)
        self.slept = 0.0

    async def sleep(self, seconds: float) -> None:
        self.slept += seconds
        self.now += seconds


class Raw:
    """A body that is all there."""

    def __init__(self, content: bytes) -> None:
        self._rest = content

    async def fill(self, view: memoryview) -> int:
        taken = self._rest[: len(view)]
        view[: len(taken)] = taken
        self._rest = self._rest[len(taken) :]
        return len(taken)

    async def read_all(self, limit: int) -> bytes:
        assert len(self._rest) <= limit
        return self._rest


class Stream:
    """An answer's body in runs."""

    def __init__(self, *runs: bytes) -> None:
        self._runs = list(runs)
        self.is_closed = False

    async def next(self) -> bytes | None:
        return self._runs.pop(0) if self._runs else None

    def close(self) -> None:
        self.is_closed = True


def call(key: str = "KEY") -> Call:
    return Call("GET", b"/", b"", [], Raw(b""), "1", "127.0.0.1", access_key_id=key)


def throttle(time: Time, shares: int = 1) -> Throttle:
    return Throttle(shares, time, time.sleep)


def refused(made: Throttle, key: str = "KEY", user: str = "user", bucket: Rate = NO_RATE) -> bool:
    try:
        made.admit(call(key), user, 1, bucket)
    except S3Error as error:
        return error.code is S3Code.SlowDown
    return False


def test_without_limits_nothing_is_kept() -> None:
    made = throttle(Time())
    assert made.admit(call(), "user", 1, NO_RATE) is None
    assert made.admit(call(), "user", 1, Rate(0, 0)) is None


@pytest.mark.parametrize("whose", ["key", "user", "bucket"])
def test_requests_beyond_the_rate_are_refused(whose: str) -> None:
    time = Time()
    made = throttle(time)
    rate = Rate(requests=100)
    made.use_rates({"user": rate} if whose == "user" else {}, {"KEY": rate} if whose == "key" else {})
    bucket = rate if whose == "bucket" else NO_RATE
    answers = [refused(made, bucket=bucket) for _ in range(150)]
    assert answers == [False] * 100 + [True] * 50
    time.advance(0.125)
    assert [refused(made, bucket=bucket) for _ in range(13)] == [False] * 12 + [True]
    time.advance(1000)
    assert sum(not refused(made, bucket=bucket) for _ in range(150)) == 100


def test_the_modest_are_unaffected() -> None:
    made = throttle(Time())
    made.use_rates({}, {"GREEDY": Rate(requests=1)})
    assert [refused(made, "GREEDY") for _ in range(3)] == [False, True, True]
    assert not refused(made, "MODEST")


def test_each_process_grants_its_share() -> None:
    made = throttle(Time(), shares=4)
    made.use_rates({}, {"KEY": Rate(requests=100)})
    assert sum(not refused(made) for _ in range(100)) == 25


def test_a_rate_below_one_for_each_process_still_lets_one_in() -> None:
    time = Time()
    made = throttle(time, shares=8)
    made.use_rates({}, {"KEY": Rate(requests=2)})
    assert [refused(made) for _ in range(2)] == [False, True]
    time.advance(4)
    assert not refused(made)


def test_a_rate_that_stays_keeps_its_state_and_a_new_one_starts_anew() -> None:
    made = throttle(Time())
    made.use_rates({}, {"KEY": Rate(requests=1)})
    assert [refused(made) for _ in range(2)] == [False, True]
    made.use_rates({}, {"KEY": Rate(requests=1)})
    assert refused(made)
    made.use_rates({}, {"KEY": Rate(requests=2)})
    assert not refused(made)
    made.use_rates({}, {})
    assert not any(refused(made) for _ in range(9))


def test_bodies_are_slowed_down_and_whole() -> None:
    time = Time()
    passage = throttle(time).admit(call(), "user", 1, Rate(bytes=MEBIBYTE))
    assert passage is not None
    content = bytes(range(256)) * 40_960
    view = memoryview(bytearray(len(content)))

    async def read() -> int:
        return await PacedBody(Raw(content), passage).fill(view)

    assert asyncio.run(read()) == len(content)
    assert bytes(view) == content
    assert time.slept == pytest.approx(9.0, abs=0.01)


def test_answers_are_slowed_down_and_whole() -> None:
    time = Time()
    passage = throttle(time).admit(call(), "user", 1, Rate(bytes=MEBIBYTE))
    assert passage is not None
    inner = Stream(b"a" * MEBIBYTE, b"b" * MEBIBYTE, b"c" * 5)

    async def read() -> list[bytes]:
        answer = await passage.pace(Answer(200, body=inner))
        stream = answer.body
        assert stream is not None
        assert not isinstance(stream, bytes)
        pieces: list[bytes] = []
        while (piece := await stream.next()) is not None:
            pieces.append(bytes(piece))
        stream.close()
        return pieces

    pieces = asyncio.run(read())
    assert b"".join(pieces) == b"a" * MEBIBYTE + b"b" * MEBIBYTE + b"c" * 5
    assert max(map(len, pieces)) <= MEBIBYTE // 8
    assert time.slept == pytest.approx(1.0, abs=0.01)
    assert inner.is_closed


def test_who_owes_more_than_a_second_is_refused_until_it_is_paid() -> None:
    time = Time()
    made = throttle(time)
    rate = Rate(bytes=MEBIBYTE)
    passage = made.admit(call(), "user", 1, rate)
    assert passage is not None
    made._buckets[1].bytes.charge(3 * MEBIBYTE)  # type: ignore[union-attr]  # the rate has bytes
    assert refused(made, bucket=rate)
    time.advance(1.1)
    assert not refused(made, bucket=rate)


def test_the_slowest_of_several_rates_decides() -> None:
    time = Time()
    made = throttle(time)
    made.use_rates({"user": Rate(bytes=4 * MEBIBYTE)}, {"KEY": Rate(bytes=MEBIBYTE)})
    passage = made.admit(call(), "user", 1, Rate(bytes=2 * MEBIBYTE))
    assert passage is not None
    asyncio.run(passage.pay(3 * MEBIBYTE))
    assert time.slept == pytest.approx(2.0)


def test_a_clock_that_goes_back_gives_and_takes_nothing() -> None:
    time = Time()
    flow = Flow(10.0, time)
    assert all(flow.take() for _ in range(10))
    time.now -= 50
    assert not flow.take()
