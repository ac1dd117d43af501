"""The device contract: one suite of plain functions over every implementation and every wrapper."""

import errno
import mmap
import random
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tiers.devices.contract import Area, Device
from tiers.devices.directory import DirectoryDevice
from tiers.devices.interception import InterceptedDevice, Operation
from tiers.devices.memory import MemoryDevice
from tiers.devices.wrappers import FaultyDevice, LimitedDevice, MeteredDevice
from tiers.errors import DeviceFailed, DeviceFull, FragmentNotFound

NAME = "ab" * 16 + ".0.1"
PAGE = 4096
LOG_STEP = 1 << 20


def directory(path: Path) -> Device:
    return DirectoryDevice("d0", path / "d0", log_reserve_bytes=LOG_STEP)


def memory(_path: Path) -> Device:
    return MemoryDevice("d0", lambda: 1_700_000_000.5)


IMPLEMENTATIONS: dict[str, Callable[[Path], Device]] = {
    "directory": directory,
    "memory": memory,
    "intercepted": lambda path: InterceptedDevice(memory(path)),
    "limited": lambda path: LimitedDevice(directory(path), 2 * PAGE),
    "metered": lambda path: MeteredDevice(memory(path), lambda *_observed: None, lambda: 0.0),
    "faulty": lambda path: FaultyDevice(directory(path), random.Random(1)),
    "stack": lambda path: MeteredDevice(
        LimitedDevice(FaultyDevice(memory(path), random.Random(1)), 1 << 20), lambda *_observed: None, lambda: 0.0
    ),
}


@pytest.fixture(params=IMPLEMENTATIONS)
def device(request: pytest.FixtureRequest, tmp_path: Path) -> Device:
    made: Device = IMPLEMENTATIONS[request.param](tmp_path)
    return made


def pages(data: bytes) -> memoryview:
    """`data` in page-aligned, writable memory of whole pages."""
    area = mmap.mmap(-1, -(-max(len(data), 1) // PAGE) * PAGE)
    area[: len(data)] = data
    return memoryview(area)


def put(device: Device, name: str, data: bytes) -> None:
    staged = device.stage(name, len(data))
    staged.write(0, memoryview(data))
    staged.flush()
    staged.publish()


def get(device: Device, area: Area, name: str) -> bytes:
    opened = device.open(area, name)
    try:
        view = memoryview(bytearray(opened.size))
        assert opened.read_into(0, view) == opened.size
        return bytes(view)
    finally:
        opened.close()


def names(device: Device, area: Area) -> list[str]:
    return [found.name for found in device.survey(area)]


def test_staged_file_is_invisible_until_published(device: Device) -> None:
    staged = device.stage(NAME, 0)
    staged.write(0, memoryview(b"payload"))
    staged.flush()
    assert names(device, Area.FRAGMENTS) == []
    assert names(device, Area.STAGING) == [NAME]
    for area in (Area.FRAGMENTS, Area.STAGING):
        with pytest.raises(FragmentNotFound):
            device.open(area, NAME)
    staged.publish()
    assert get(device, Area.FRAGMENTS, NAME) == b"payload"
    assert names(device, Area.FRAGMENTS) == [NAME]
    assert names(device, Area.STAGING) == []


def test_aligned_and_unaligned_writes_meet_in_one_file(device: Device) -> None:
    rng = random.Random(5)
    model = bytearray(5 * PAGE + 100)
    staged = device.stage(NAME, len(model))
    for offset, size, aligned in (
        (2 * PAGE, 2 * PAGE, True),
        (0, PAGE, True),
        (PAGE, PAGE, False),
        (5 * PAGE, 100, False),
    ):
        data = rng.randbytes(size)
        staged.write(offset, pages(data) if aligned else memoryview(data))
        model[offset : offset + size] = data
    staged.flush()
    staged.publish()
    assert get(device, Area.FRAGMENTS, NAME) == model


def test_reserved_space_is_no_part_of_the_file(device: Device) -> None:
    staged = device.stage(NAME, 1 << 20)
    staged.write(0, pages(b"x" * PAGE))
    staged.flush()
    staged.publish()
    assert get(device, Area.FRAGMENTS, NAME) == b"x" * PAGE


def test_truncate_cuts_a_padded_write(device: Device) -> None:
    staged = device.stage(NAME, 0)
    staged.write(0, pages(b"x" * 5000))
    staged.truncate(5000)
    staged.flush()
    staged.publish()
    assert get(device, Area.FRAGMENTS, NAME) == b"x" * 5000


def test_writes_from_several_threads_land(device: Device) -> None:
    staged = device.stage(NAME, 0)
    blocks = [pages(bytes([number]) * PAGE) for number in range(8)]
    threads = [threading.Thread(target=staged.write, args=(n * PAGE, block)) for n, block in enumerate(blocks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    staged.flush()
    staged.publish()
    assert get(device, Area.FRAGMENTS, NAME) == b"".join(map(bytes, blocks))


def test_discard_removes_and_may_be_repeated(device: Device) -> None:
    staged = device.stage(NAME, 0)
    staged.write(0, memoryview(b"x"))
    staged.discard()
    staged.discard()
    assert names(device, Area.STAGING) == []
    with pytest.raises(FragmentNotFound):
        device.open(Area.FRAGMENTS, NAME)


def test_discard_after_publish_keeps_the_fragment(device: Device) -> None:
    staged = device.stage(NAME, 0)
    staged.flush()
    staged.publish()
    staged.discard()
    assert names(device, Area.FRAGMENTS) == [NAME]


def test_name_in_use_is_refused_and_the_first_bytes_stay(device: Device) -> None:
    put(device, NAME, b"first")
    second = device.stage(NAME, 0)
    second.write(0, memoryview(b"second"))
    second.flush()
    with pytest.raises(DeviceFailed):
        second.publish()
    second.discard()
    assert get(device, Area.FRAGMENTS, NAME) == b"first"
    assert names(device, Area.STAGING) == []


def test_staging_a_name_twice_is_refused(device: Device) -> None:
    device.stage(NAME, 0)
    with pytest.raises(DeviceFailed):
        device.stage(NAME, 0)


def test_publish_needs_a_flush(device: Device) -> None:
    staged = device.stage(NAME, 0)
    staged.write(0, memoryview(b"x"))
    with pytest.raises(DeviceFailed):
        staged.publish()
    assert names(device, Area.FRAGMENTS) == []


def test_a_second_flush_is_refused(device: Device) -> None:
    staged = device.stage(NAME, 0)
    staged.flush()
    with pytest.raises(DeviceFailed):
        staged.flush()


def test_reads_are_positioned_and_short_only_at_the_end(device: Device) -> None:
    put(device, NAME, bytes(range(200)))
    opened = device.open(Area.FRAGMENTS, NAME)
    view = memoryview(bytearray(50))
    assert opened.size == 200
    assert opened.read_into(30, view) == 50
    assert bytes(view) == bytes(range(30, 80))
    assert opened.read_into(180, view, wait=False) == 20
    assert bytes(view[:20]) == bytes(range(180, 200))
    assert opened.read_into(200, view) == 0
    assert opened.read_into(0, memoryview(bytearray())) == 0
    opened.close()


def test_open_file_outlives_its_deletion(device: Device) -> None:
    put(device, NAME, b"still here")
    opened = device.open(Area.FRAGMENTS, NAME)
    device.delete(Area.FRAGMENTS, NAME)
    view = memoryview(bytearray(10))
    assert opened.read_into(0, view) == 10
    assert bytes(view) == b"still here"
    opened.close()


def test_delete_of_an_absent_file_is_fine(device: Device) -> None:
    put(device, NAME, b"x")
    for _ in range(2):
        device.delete(Area.FRAGMENTS, NAME)
    device.quarantine(Area.FRAGMENTS, NAME, "absent")
    assert [names(device, area) for area in Area] == [[], [], [], [], []]


@pytest.mark.parametrize("cached", [False, True])
def test_log_appends_are_read_back_and_reopened(device: Device, cached: bool) -> None:
    log = device.create_log("pack.0", cached=cached)
    batches = [pages(bytes([number]) * size) for number, size in enumerate((PAGE, 80 * PAGE, 2 * PAGE), 1)]
    offset = 0
    for batch in batches:
        log.append(offset, batch)
        offset += len(batch)
    log.close()
    again = device.reopen_log("pack.0")
    again.append(offset - PAGE, pages(b"z" * PAGE))
    again.close()
    written = b"".join(map(bytes, batches))[:-PAGE] + b"z" * PAGE
    assert get(device, Area.PACKS, "pack.0")[:offset] == written
    assert not any(get(device, Area.PACKS, "pack.0")[offset:])


def test_a_log_that_gets_no_more_is_trimmed_and_never_lengthened(device: Device) -> None:
    log = device.create_log("pack.0")
    log.append(0, pages(b"a" * 2 * PAGE))
    log.trim(2 * PAGE)
    assert [found.size for found in device.survey(Area.PACKS)] == [2 * PAGE]
    log.trim(9 * PAGE)
    log.close()
    assert bytes(get(device, Area.PACKS, "pack.0")) == b"a" * 2 * PAGE


def test_log_names_are_not_reused_and_not_invented(device: Device) -> None:
    device.create_log("pack.0").close()
    with pytest.raises(DeviceFailed):
        device.create_log("pack.0")
    with pytest.raises(FragmentNotFound):
        device.reopen_log("pack.1")
    assert names(device, Area.PACKS) == ["pack.0"]


def test_store_replaces_whole_files(device: Device) -> None:
    device.store(Area.SNAPSHOTS, "snapshot.1", b"long old content")
    device.store(Area.SNAPSHOTS, "snapshot.1", b"new")
    assert get(device, Area.SNAPSHOTS, "snapshot.1") == b"new"
    assert names(device, Area.SNAPSHOTS) == ["snapshot.1"]
    assert names(device, Area.STAGING) == []


def test_quarantine_keeps_bytes_and_reason_and_never_overwrites(device: Device) -> None:
    for content in (b"bad one", b"bad two"):
        put(device, NAME, content)
        device.quarantine(Area.FRAGMENTS, NAME, f"found {content.decode()}")
    assert names(device, Area.FRAGMENTS) == []
    assert names(device, Area.QUARANTINE) == [NAME, f"{NAME}.2"]
    assert get(device, Area.QUARANTINE, NAME) == b"bad one"
    assert get(device, Area.QUARANTINE, f"{NAME}.2") == b"bad two"
    assert b"fragments/" + NAME.encode() + b": found bad two" in get(device, Area.QUARANTINE, f"{NAME}.2.reason")
    device.delete(Area.QUARANTINE, NAME)
    with pytest.raises(FragmentNotFound):
        device.open(Area.QUARANTINE, f"{NAME}.reason")


def test_survey_is_in_name_order_with_sizes(device: Device) -> None:
    chosen = [f"{random.Random(n).randbytes(16).hex()}.0.1" for n in range(20)]
    for size, name in enumerate(chosen):
        put(device, name, bytes(size))
    found = list(device.survey(Area.FRAGMENTS))
    assert [one.name for one in found] == sorted(chosen)
    assert {one.name: one.size for one in found} == {name: size for size, name in enumerate(chosen)}
    assert all(one.modified_ms > 1_600_000_000_000 for one in found)
    for at, name in enumerate(sorted(chosen)):
        assert list(device.survey(Area.FRAGMENTS, name)) == found[at + 1 :]
        assert list(device.survey(Area.FRAGMENTS, name[:-1])) == found[at:]


@pytest.mark.parametrize("name", ["", "../ab", "ab/cd", ".ab", "ab\0", "a b", "x" * 300])
@pytest.mark.parametrize("area", list(Area))
def test_names_cannot_leave_their_area(device: Device, area: Area, name: str) -> None:
    for attempt in (device.open, device.delete):
        with pytest.raises(ValueError, match="no name"):
            attempt(area, name)


def test_fragment_names_begin_with_hex(device: Device) -> None:
    with pytest.raises(ValueError, match="hex"):
        device.stage("zz.0.1", 0)


def test_more_than_the_device_holds_is_refused(device: Device) -> None:
    capacity = device.capacity()
    assert 0 < capacity.free_bytes <= capacity.total_bytes
    with pytest.raises(DeviceFull):
        device.stage(NAME, capacity.total_bytes + PAGE)
    assert names(device, Area.STAGING) == []


def test_description_names_every_layer(tmp_path: Path) -> None:
    device = MeteredDevice(LimitedDevice(directory(tmp_path), PAGE), lambda *_observed: None, lambda: 0.0)
    assert device.describe() == f"metered(limited(directory({tmp_path / 'd0'})))"
    assert device.device_id == "d0"


@pytest.mark.parametrize("make", [directory, memory])
def test_failed_flush_is_final_whatever_comes_after(make: Callable[[Path], Device], tmp_path: Path) -> None:
    device = FaultyDevice(make(tmp_path), random.Random(1))
    device.fail([Operation.FLUSH], error_number=errno.EIO)
    staged = device.stage(NAME, 0)
    staged.write(0, memoryview(b"x"))
    for attempt in (staged.flush, staged.flush, staged.publish):
        with pytest.raises(DeviceFailed):
            attempt()
    staged.discard()
    assert names(device, Area.FRAGMENTS) == names(device, Area.STAGING) == []
