"""Bounded, measured and faulty devices, and that each effect really arrives."""

import errno
import random
import threading

import pytest

from tiers.devices.contract import Area
from tiers.devices.interception import Operation
from tiers.devices.memory import MemoryDevice
from tiers.devices.wrappers import FaultyDevice, LimitedDevice, MeteredDevice
from tiers.errors import DeviceFailed, DeviceFull

NAME = "ab" * 16 + ".0.1"


def memory() -> MemoryDevice:
    return MemoryDevice("d0", lambda: 0.0)


def test_limit_bounds_bytes_in_flight() -> None:
    inner = FaultyDevice(memory(), random.Random(1))
    device = LimitedDevice(inner, 100)
    entered, leave = threading.Semaphore(0), threading.Event()

    def hang(operation: Operation) -> None:
        if operation is Operation.WRITE:
            entered.release()
            leave.wait()

    inner.hang = hang
    staged = device.stage(NAME, 0)
    writers = [threading.Thread(target=staged.write, args=(n * 60, memoryview(bytes(60)))) for n in range(3)]
    for writer in writers:
        writer.start()
    assert entered.acquire(timeout=5)
    inner.store(Area.SNAPSHOTS, "s", bytes(60))
    opened = device.open(Area.SNAPSHOTS, "s")
    with pytest.raises(BlockingIOError):
        opened.read_into(0, memoryview(bytearray(60)), wait=False)
    assert opened.read_into(0, memoryview(bytearray(40)), wait=False) == 40
    assert inner.calls[Operation.WRITE] == 1
    leave.set()
    for writer in writers:
        writer.join(5)
    assert inner.calls[Operation.WRITE] == 3


def test_limit_lets_a_larger_call_run_alone() -> None:
    device = LimitedDevice(memory(), 10)
    device.store(Area.SNAPSHOTS, "s", bytes(1000))
    device.store(Area.SNAPSHOTS, "t", bytes(1000))


def test_meter_reports_bytes_and_seconds() -> None:
    seen: list[tuple[Operation, int, float]] = []
    ticks = iter(range(1000))
    inner = FaultyDevice(memory(), random.Random(1))
    device = MeteredDevice(inner, lambda *observed: seen.append(observed), lambda: float(next(ticks)))
    device.store(Area.SNAPSHOTS, "s", bytes(70))
    opened = device.open(Area.SNAPSHOTS, "s")
    opened.read_into(0, memoryview(bytearray(100)))
    inner.fail([Operation.STORE])
    with pytest.raises(DeviceFailed):
        device.store(Area.SNAPSHOTS, "s", bytes(70))
    assert seen == [
        (Operation.STORE, 70, 1.0),
        (Operation.OPEN, 0, 1.0),
        (Operation.READ, 70, 1.0),
        (Operation.STORE, 0, 1.0),
    ]


def test_the_nth_call_fails_and_only_it() -> None:
    device = FaultyDevice(memory(), random.Random(1))
    device.fail([Operation.STORE], error_number=errno.ENOSPC, first=3)
    outcomes = []
    for number in range(5):
        try:
            device.store(Area.SNAPSHOTS, f"s{number}", b"x")
        except DeviceFull:
            outcomes.append(number)
    assert outcomes == [2]
    assert [found.name for found in device.survey(Area.SNAPSHOTS)] == ["s0", "s1", "s3", "s4"]


def test_chance_is_replayed_by_its_seed_and_healed() -> None:
    def run(seed: int) -> list[int]:
        device = FaultyDevice(memory(), random.Random(seed))
        device.fail(times=None, probability=0.3)
        failed = []
        for number in range(50):
            try:
                device.delete(Area.PACKS, "p")
            except DeviceFailed:
                failed.append(number)
        device.clear_faults()
        device.delete(Area.PACKS, "p")
        return failed

    assert run(1) == run(1) != run(2)
    assert 3 < len(run(1)) < 30


def test_corruption_flips_one_bit_of_a_read_and_nothing_on_the_medium() -> None:
    device = FaultyDevice(memory(), random.Random(1))
    device.store(Area.SNAPSHOTS, "s", bytes(64))
    device.corruption = 1.0
    opened, view = device.open(Area.SNAPSHOTS, "s"), memoryview(bytearray(64))
    opened.read_into(0, view)
    assert sum(byte.bit_count() for byte in view) == 1
    device.clear_faults()
    opened.read_into(0, view)
    assert not any(view)
