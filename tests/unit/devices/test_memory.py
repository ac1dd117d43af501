"""What a memory device forgets in a power cut."""

import mmap
import random

import pytest

from tiers.devices.contract import Area
from tiers.devices.memory import MemoryDevice
from tiers.errors import DeviceFailed, DeviceFull

PAGE = 4096
NAME = "ab" * 16 + ".0.1"


def device_of() -> MemoryDevice:
    return MemoryDevice("d0", lambda: 1_700_000_000.0)


def pages(byte: int, count: int = 1) -> memoryview:
    area = mmap.mmap(-1, count * PAGE)
    area[:] = bytes([byte]) * len(area)
    return memoryview(area)


def content(device: MemoryDevice, area: Area, name: str) -> bytes:
    opened = device.open(area, name)
    view = memoryview(bytearray(opened.size))
    opened.read_into(0, view)
    return bytes(view)


def test_what_is_durable_survives_a_cut() -> None:
    device = device_of()
    staged = device.stage(NAME, 0)
    staged.write(0, memoryview(b"fragment"))
    staged.flush()
    staged.publish()
    log = device.create_log("p.0")
    log.append(0, pages(1))
    device.store(Area.SNAPSHOTS, "s", b"snapshot")
    device.power_cut()
    assert content(device, Area.FRAGMENTS, NAME) == b"fragment"
    assert content(device, Area.PACKS, "p.0") == bytes(pages(1))
    assert content(device, Area.SNAPSHOTS, "s") == b"snapshot"


def test_what_was_not_published_is_gone_and_open_files_are_dead() -> None:
    device = device_of()
    staged = device.stage(NAME, 0)
    staged.write(0, memoryview(b"x"))
    log = device.create_log("p.0")
    opened = device.open(Area.PACKS, "p.0")
    device.power_cut()
    assert list(device.survey(Area.STAGING)) == []
    for attempt in (staged.flush, lambda: log.append(0, pages(1)), lambda: opened.read_into(0, pages(0))):
        with pytest.raises(DeviceFailed):
            attempt()
    staged.discard()
    assert device.stage(NAME, 0)


def test_a_delete_may_be_undone_by_a_cut() -> None:
    device = device_of()
    device.store(Area.SNAPSHOTS, "s", b"x")
    device.delete(Area.SNAPSHOTS, "s")
    device.power_cut()
    assert content(device, Area.SNAPSHOTS, "s") == b"x"


def test_chance_keeps_some_pages_and_some_names() -> None:
    outcomes: set[tuple[bytes, ...]] = set()
    for seed in range(40):
        device = device_of()
        staged = device.stage(NAME, 0)
        staged.write(0, pages(1, 3))
        device.power_cut(random.Random(seed))
        found = list(device.survey(Area.STAGING))
        assert len(found) <= 1
        if found:
            left = device._visible[Area.STAGING][NAME].data
            outcomes.add(tuple(bytes(left[at : at + 1]) for at in range(0, len(left), PAGE)))
        else:
            outcomes.add((b"absent",))
    assert (b"absent",) in outcomes
    assert len(outcomes) > 4


def test_a_flush_covers_all_that_was_written_before_it() -> None:
    """Model check: random writes, truncations and flushes of a staged file against a plain model of its bytes."""
    for seed in range(50):
        rng = random.Random(seed)
        device, model = device_of(), bytearray()
        staged = device.stage(NAME, 0)
        for _ in range(rng.randrange(1, 10)):
            if rng.random() < 0.2:
                size = rng.randrange(20)
                staged.truncate(size)
                model = model[:size].ljust(size, b"\0")
            else:
                offset, data = rng.randrange(30), rng.randbytes(rng.randrange(1, 20))
                staged.write(offset, memoryview(data))
                model = model.ljust(offset, b"\0")
                model[offset : offset + len(data)] = data
        staged.flush()
        staged.publish()
        device.power_cut(rng)
        assert content(device, Area.FRAGMENTS, NAME) == model, seed


def test_capacity_follows_files() -> None:
    device = MemoryDevice("d0", lambda: 0.0, capacity_bytes=10 * PAGE, reserve_bytes=2 * PAGE)
    log = device.create_log("p.0")
    log.append(0, pages(1, 4))
    assert device.capacity().free_bytes == 4 * PAGE
    with pytest.raises(DeviceFull):
        log.append(4 * PAGE, pages(1, 7))
    with pytest.raises(DeviceFull):
        device.stage(NAME, 5 * PAGE)
    staged = device.stage(NAME, 4 * PAGE)
    staged.write(0, pages(2, 4))
    staged.truncate(PAGE)
    assert device.capacity().free_bytes == 3 * PAGE
    staged.discard()
    device.delete(Area.PACKS, "p.0")
    assert device.capacity().free_bytes == 8 * PAGE
