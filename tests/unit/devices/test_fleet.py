"""Pools and health of devices, with a clock of our own."""

import threading
from concurrent.futures import wait

import pytest

from tiers.devices.fleet import BACKLOG_MAX, FAILURES_MAX, STUCK_SECONDS, SUSPENDED_SECONDS, Fleet
from tiers.devices.memory import MemoryDevice
from tiers.errors import DeviceFailed, DeviceFull, FragmentNotFound


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def fleet(clock: Clock) -> Fleet:
    return Fleet({id_: MemoryDevice(id_, clock) for id_ in ("a", "b")}, clock=clock)


def fail(error: Exception) -> None:
    raise error


def outcome(fleet: Fleet, device_id: str, error: Exception | None) -> None:
    if error is None:
        fleet.submit(device_id, int).result(5)
        return
    with pytest.raises(type(error)):
        fleet.submit(device_id, fail, error).result(5)


def test_results_and_errors_come_through_the_future(fleet: Fleet) -> None:
    assert fleet.submit("a", divmod, 7, 2).result(5) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        fleet.submit("a", divmod, 7, 0).result(5)
    with pytest.raises(DeviceFailed):
        fleet.submit("nowhere", int).result(5)
    assert fleet.ids() == ("a", "b")
    assert fleet.get("nowhere") is None
    assert not fleet.is_available("nowhere")


def test_a_hung_device_holds_up_no_other_and_is_noticed(fleet: Fleet, clock: Clock) -> None:
    leave = threading.Event()
    hung = [fleet.submit("a", leave.wait, 30) for _ in range(5)]
    assert fleet.submit("b", int).result(5) == 0
    entered = threading.Event()
    fleet.submit("b", entered.set).result(5)
    assert fleet.is_available("a")
    clock.now += STUCK_SECONDS
    assert not fleet.is_available("a")
    assert fleet.is_available("b")
    leave.set()
    wait(hung, 5)
    fleet.close()
    assert fleet.is_available("a")


def test_the_backlog_is_bounded(fleet: Fleet) -> None:
    leave = threading.Event()
    calls = [fleet.submit("a", leave.wait, 30) for _ in range(BACKLOG_MAX + 10)]
    refused = [call for call in calls if call.done()]
    assert 8 <= len(refused) <= 10
    for call in refused:
        with pytest.raises(DeviceFailed):
            call.result()
    leave.set()
    assert not wait(calls, 10).not_done


def test_failures_in_a_row_suspend_then_probation(fleet: Fleet, clock: Clock) -> None:
    for _ in range(FAILURES_MAX - 1):
        outcome(fleet, "a", DeviceFailed("x"))
    outcome(fleet, "a", None)
    outcome(fleet, "a", DeviceFailed("x"))
    assert fleet.is_available("a")
    for _ in range(FAILURES_MAX - 1):
        outcome(fleet, "a", DeviceFailed("x"))
    assert not fleet.is_available("a")
    assert fleet.is_available("b")
    clock.now += SUSPENDED_SECONDS
    assert fleet.is_available("a")
    outcome(fleet, "a", DeviceFailed("x"))
    assert not fleet.is_available("a")
    clock.now += SUSPENDED_SECONDS
    outcome(fleet, "a", None)
    outcome(fleet, "a", DeviceFailed("x"))
    assert fleet.is_available("a")


def test_orderly_answers_do_not_count(fleet: Fleet) -> None:
    for error in (DeviceFull("x"), FragmentNotFound("x"), ValueError("x")):
        for _ in range(FAILURES_MAX):
            outcome(fleet, "a", error)
    assert fleet.is_available("a")
    for _ in range(FAILURES_MAX):
        fleet.note_failure("a")
    assert not fleet.is_available("a")
    fleet.note_success("a")
    assert fleet.is_available("a")


def test_close_finishes_what_waits_and_takes_no_more(fleet: Fleet) -> None:
    calls = [fleet.submit("a", int) for _ in range(50)]
    fleet.close()
    assert all(call.result(5) == 0 for call in calls)
    with pytest.raises(DeviceFailed):
        fleet.submit("a", int).result(5)
