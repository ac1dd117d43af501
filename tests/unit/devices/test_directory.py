"""What only a directory device has: identity, system calls, flush order, file-system errors."""

import errno
import json
import mmap
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tiers.devices import posix
from tiers.devices.contract import Area
from tiers.devices.directory import DirectoryDevice
from tiers.errors import DeviceFailed, DeviceFull

NAME = "ab" * 16 + ".0.1"
PAGE = 4096


class Calls:
    """Records, and may fail, the calls that make things durable. The seam is the module `posix`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen: list[str] = []
        self.failing: dict[str, int] = {}
        for name in ("write_all", "write_durably", "flush_file", "flush_directory", "write_behind"):
            monkeypatch.setattr(posix, name, self._wrapped(name, getattr(posix, name)))
        monkeypatch.setattr(Path, "rename", self._wrapped("rename", Path.rename))

    def _wrapped(self, name: str, inner: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object) -> object:
            self.seen.append(name)
            if name in self.failing:
                raise OSError(self.failing[name], "planted")
            return inner(*arguments)

        return call


@pytest.fixture
def device(tmp_path: Path) -> DirectoryDevice:
    return DirectoryDevice("d0", tmp_path / "d0", log_reserve_bytes=1 << 20)


@pytest.fixture
def calls(device: DirectoryDevice, monkeypatch: pytest.MonkeyPatch) -> Calls:
    assert device  # opened before its calls are recorded
    return Calls(monkeypatch)


def pages(count: int) -> memoryview:
    return memoryview(mmap.mmap(-1, count * PAGE))


def test_publish_flushes_bytes_then_renames_then_flushes_the_directory(device: DirectoryDevice, calls: Calls) -> None:
    staged = device.stage(NAME, 0)
    staged.write(0, pages(1))
    staged.flush()
    staged.publish()
    made = [call for call in calls.seen if call != "write_behind"]
    assert made == ["write_all", "flush_file", "rename", "flush_directory"]


def test_store_and_log_are_durable_on_return(device: DirectoryDevice, calls: Calls) -> None:
    device.store(Area.SNAPSHOTS, "s", b"x")
    assert calls.seen == ["write_all", "flush_file", "flush_directory"]
    calls.seen.clear()
    log = device.create_log("p.0")
    assert calls.seen == ["flush_file", "flush_directory"]
    calls.seen.clear()
    log.append(0, pages(2))
    log.close()
    assert calls.seen == ["write_durably"]


def test_failed_flush_is_final(device: DirectoryDevice, calls: Calls) -> None:
    staged = device.stage(NAME, 0)
    staged.write(0, pages(1))
    calls.failing["flush_file"] = errno.EIO
    with pytest.raises(DeviceFailed):
        staged.flush()
    calls.failing.clear()
    calls.seen.clear()
    for attempt in (staged.flush, staged.publish):
        with pytest.raises(DeviceFailed):
            attempt()
    assert calls.seen == []
    staged.discard()
    assert list(device.survey(Area.STAGING)) == []


def test_failed_directory_flush_leaves_no_name(device: DirectoryDevice, calls: Calls) -> None:
    staged = device.stage(NAME, 0)
    staged.flush()
    calls.failing["flush_directory"] = errno.EIO
    with pytest.raises(DeviceFailed):
        staged.publish()
    assert list(device.survey(Area.FRAGMENTS)) == []
    staged.discard()
    assert list(device.survey(Area.STAGING)) == []


@pytest.mark.parametrize(
    ("error_number", "expected"),
    [(errno.ENOSPC, DeviceFull), (errno.EDQUOT, DeviceFull), (errno.EIO, DeviceFailed), (errno.EROFS, DeviceFailed)],
)
def test_errors_are_translated(
    device: DirectoryDevice, calls: Calls, error_number: int, expected: type[Exception]
) -> None:
    calls.failing = {"write_all": error_number, "write_durably": error_number}
    staged = device.stage(NAME, 0)
    log = device.create_log("p.0")
    with pytest.raises(expected):
        staged.write(0, pages(1))
    with pytest.raises(expected):
        log.append(0, pages(1))
    with pytest.raises(expected):
        device.store(Area.SNAPSHOTS, "s", b"x")
    log.close()
    staged.discard()
    assert list(device.survey(Area.STAGING)) == []


def test_identity_is_kept_and_a_foreign_directory_refused(tmp_path: Path) -> None:
    DirectoryDevice("d0", tmp_path / "d")
    DirectoryDevice("d0", tmp_path / "d")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(DeviceFailed, match="belongs to device 'd0'"):
        DirectoryDevice("d1", tmp_path / "d")
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("identity", [b"", b"[]", b"{}", b'{"device_id": "d0", "format_version": 2}'])
def test_unreadable_identity_is_refused(tmp_path: Path, identity: bytes) -> None:
    DirectoryDevice("d0", tmp_path / "d")
    (tmp_path / "d" / "device.json").write_bytes(identity)
    with pytest.raises(DeviceFailed):
        DirectoryDevice("d0", tmp_path / "d")


def test_set_up_is_complete(device: DirectoryDevice, tmp_path: Path) -> None:
    root = tmp_path / "d0"
    assert json.loads((root / "device.json").read_text()) == {"device_id": "d0", "format_version": 1}
    assert {path.name for path in root.iterdir()} == {area.value for area in Area} | {"device.json"}
    assert len(list((root / "fragments").iterdir())) == 256
    staged = device.stage(NAME, 0)
    staged.flush()
    staged.publish()
    assert (root / "fragments" / "ab" / NAME).is_file()


def test_wiped_device_answers_errors_not_traces(device: DirectoryDevice, tmp_path: Path) -> None:
    (tmp_path / "d0").rename(tmp_path / "gone")
    with pytest.raises(DeviceFailed):
        device.stage(NAME, 0)
    with pytest.raises(DeviceFailed):
        list(device.survey(Area.FRAGMENTS))


def test_reserve_is_kept_free_of_fragments_but_not_of_the_log(tmp_path: Path) -> None:
    device = DirectoryDevice("d0", tmp_path / "d0", reserve_ratio=0.999, log_reserve_bytes=1 << 20)
    assert device.capacity().free_bytes == 0
    with pytest.raises(DeviceFull):
        device.stage(NAME, 0)
    log = device.create_log("p.0")
    log.append(0, pages(1))
    log.close()
    device.store(Area.SNAPSHOTS, "s", b"x")


def test_direct_writes_leave_nothing_in_the_page_cache(tmp_path: Path) -> None:
    """A read that must not wait finds a buffered write, and does not find a direct one."""
    device = DirectoryDevice("d0", tmp_path / "d0")
    if not device._is_direct:
        pytest.skip("the file system of the temporary folder refuses direct I/O")
    for name, data in ((NAME, pages(1)), ("cd" * 16 + ".0.1", memoryview(bytes(PAGE)))):
        staged = device.stage(name, 0)
        staged.write(0, data)
        staged.flush()
        staged.publish()
    cold = device.open(Area.FRAGMENTS, NAME)
    warm = device.open(Area.FRAGMENTS, "cd" * 16 + ".0.1")
    view = memoryview(bytearray(PAGE))
    with pytest.raises(BlockingIOError):
        cold.read_into(0, view, wait=False)
    assert cold.read_into(0, view) == PAGE
    assert warm.read_into(0, view, wait=False) == PAGE
    cold.close()
    warm.close()


@pytest.mark.parametrize("cached", [False, True])
def test_only_a_cached_copy_leaves_small_batches_in_the_cache(tmp_path: Path, cached: bool) -> None:
    device = DirectoryDevice("d0", tmp_path / "d0", log_reserve_bytes=1 << 20)
    if not device._is_direct:
        pytest.skip("the file system of the temporary folder refuses direct I/O")
    log = device.create_log("p.0", cached=cached)
    log.append(0, pages(1))
    log.append(PAGE, pages(65))
    opened = device.open(Area.PACKS, "p.0")
    assert opened.size == 1 << 20
    view = memoryview(bytearray(PAGE))
    if cached:
        assert opened.read_into(0, view, wait=False) == PAGE
    else:
        with pytest.raises(BlockingIOError):
            opened.read_into(0, view, wait=False)
    with pytest.raises(BlockingIOError):
        opened.read_into(60 * PAGE, view, wait=False)
    log.close()
    opened.close()


def test_without_direct_io_everything_still_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system that refuses O_DIRECT: written through the page cache, said once, flushed all the same."""
    real = os.open

    def refuse(path: str, flags: int, mode: int = 0o777) -> int:
        if flags & posix.DIRECT:
            raise OSError(errno.EINVAL, "no direct I/O here")
        return real(path, flags, mode)

    monkeypatch.setattr(os, "open", refuse)
    device = DirectoryDevice("d0", tmp_path / "d0", log_reserve_bytes=0)
    calls = Calls(monkeypatch)
    staged = device.stage(NAME, PAGE)
    staged.write(0, pages(1))
    staged.flush()
    staged.publish()
    log = device.create_log("p.0")
    log.append(0, pages(1))
    log.close()
    assert calls.seen.count("flush_file") == 2
    assert [found.size for found in device.survey(Area.FRAGMENTS)] == [PAGE]


def test_read_that_cannot_tell_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    device = DirectoryDevice("d0", tmp_path / "d0")
    device.store(Area.SNAPSHOTS, "s", b"content")
    real = os.preadv

    def without_flags(descriptor: int, buffers: list[memoryview], offset: int, flags: int = 0) -> int:
        if flags:
            raise OSError(errno.EOPNOTSUPP, "no RWF_NOWAIT here")
        return real(descriptor, buffers, offset)

    monkeypatch.setattr(os, "preadv", without_flags)
    opened = device.open(Area.SNAPSHOTS, "s")
    view = memoryview(bytearray(7))
    assert opened.read_into(0, view, wait=False) == 7
    opened.close()
    assert bytes(view) == b"content"
