"""Appends by the kernel: the bytes land on every copy, one that cannot be written fails alone."""

import ctypes
import errno
import mmap
import os
import platform
from collections.abc import Iterator
from pathlib import Path

import pytest

from metadata.types import BlobId
from tiers.commit.pack import OpenPack, pack_row
from tiers.devices import posix
from tiers.devices.contract import Area
from tiers.devices.directory import DirectoryDevice
from tiers.devices.interception import Operation
from tiers.devices.kernel_append import _CALLS, KernelAppender, open_appender
from tiers.devices.wrappers import MeteredDevice
from tiers.errors import DeviceFailed, StorageError


@pytest.fixture
def appender() -> Iterator[KernelAppender]:
    opened = open_appender()
    if opened is None:
        pytest.skip("this kernel has no asynchronous direct writes with RWF_DSYNC")
    yield opened
    opened.close()
    opened.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    if not posix.accepts_direct(tmp_path):
        pytest.skip("the file system refuses direct I/O")
    return tmp_path


def page_of(byte: bytes, pages: int = 2) -> memoryview:
    memory = mmap.mmap(-1, 4096 * pages)
    memory.write(byte * (4096 * pages))
    return memoryview(memory)


def direct(path: Path, flags: int = os.O_WRONLY) -> int:
    return os.open(path, flags | os.O_CREAT | posix.DIRECT, 0o600)


def finish(appender: KernelAppender, tokens: dict[int, int], byte_count: int) -> dict[int, object]:
    outcomes: dict[int, object] = {}
    while len(outcomes) < len(tokens):
        for token, error in appender.collect(10, byte_count).items():
            outcomes[tokens[token]] = error
    return outcomes


def test_every_copy_is_written(appender: KernelAppender, folder: Path) -> None:
    descriptors = [direct(folder / str(number)) for number in range(3)]
    for offset, byte in ((0, b"a"), (8192, b"b")):
        data = page_of(byte)
        tokens = appender.submit(descriptors, offset, data)
        assert tokens is not None
        assert finish(appender, tokens, len(data)) == {0: None, 1: None, 2: None}
    for number, descriptor in enumerate(descriptors):
        os.close(descriptor)
        assert (folder / str(number)).read_bytes() == b"a" * 8192 + b"b" * 8192


def test_one_that_cannot_be_written_fails_alone(appender: KernelAppender, folder: Path) -> None:
    descriptors = [direct(folder / "0"), direct(folder / "1", os.O_RDONLY), direct(folder / "2")]
    data = page_of(b"x")
    tokens = appender.submit(descriptors, 0, data)
    assert tokens is not None
    outcomes = finish(appender, tokens, len(data))
    assert outcomes[0] is outcomes[2] is None
    assert 1 not in outcomes or isinstance(outcomes[1], DeviceFailed)
    for descriptor in descriptors:
        os.close(descriptor)
    assert (folder / "2").read_bytes() == b"x" * 8192


def test_nothing_ends_before_its_time(appender: KernelAppender) -> None:
    assert appender.collect(0.01, 1) == {}


def test_a_pack_on_directories_is_appended_by_the_kernel(folder: Path) -> None:
    """The same bytes as by threads, counted once a copy, and trimmed to what was appended."""
    seen: list[tuple[Operation, int]] = []
    devices = [
        MeteredDevice(DirectoryDevice(f"d{n}", folder / f"d{n}"), lambda o, b, _: seen.append((o, b)), lambda: 0.0)
        for n in range(3)
    ]
    blob_id = BlobId(b"p" * 16)
    files = [device.create_log(f"{blob_id.hex()}.{n}", cached=n == 0) for n, device in enumerate(devices)]
    pack = OpenPack(pack_row(blob_id, "hot", ["d0", "d1", "d2"], 0, 0), files, quorum=2)
    if pack._kernel is None:
        pytest.skip("this kernel has no asynchronous direct writes with RWF_DSYNC")
    for byte in (b"1", b"2", b"3"):
        pack.finish(pack.begin(page_of(byte)))
    assert not pack.is_suspect
    assert [entry for entry in seen if entry[0] is Operation.APPEND] == [(Operation.APPEND, 8192)] * 9
    for n, device in enumerate(devices):
        file = device.open(Area.PACKS, f"{blob_id.hex()}.{n}")
        buffer = bytearray(3 * 8192)
        assert file.read_into(0, memoryview(buffer)) == len(buffer)
        assert buffer == b"1" * 8192 + b"2" * 8192 + b"3" * 8192
        file.close()
    pack.close()


class LateKernel(KernelAppender):
    """Never hears of the last copy."""

    heard = 0

    def collect(self, seconds: float, byte_count: int, least: int = 1) -> dict[int, StorageError | None]:
        found: dict[int, StorageError | None] = {}
        while not found and self.heard < 2:  # however long a busy disk takes
            found = {token: error for token, error in super().collect(seconds, byte_count, 1).items() if token % 3}
            self.heard += len(found)
        return found


def test_a_late_copy_costs_the_others_nothing(folder: Path) -> None:
    """The batch stands on the copies that answered, also after the pack was closed and trimmed."""
    try:
        kernel = LateKernel(next(iter([calls for calls in [_CALLS.get(platform.machine())] if calls])))
    except (OSError, StopIteration):
        pytest.skip("this kernel has no asynchronous direct writes with RWF_DSYNC")
    devices = [DirectoryDevice(f"d{n}", folder / f"d{n}") for n in range(3)]
    blob_id = BlobId(b"q" * 16)
    files = [device.create_log(f"{blob_id.hex()}.{n}") for n, device in enumerate(devices)]
    if not posix.is_local(os.open(folder, os.O_RDONLY)):
        pytest.skip("not a local file system")
    pack = OpenPack(pack_row(blob_id, "hot", ["d0", "d1", "d2"], 0, 0), files, quorum=2)
    pack._kernel = kernel
    pack.finish(pack.begin(page_of(b"z")))
    assert (pack.is_suspect, pack.failed_copies) == (True, [2])
    pack.close()
    for copy in pack._copies:
        copy.thread.join(10)
    for n in range(2):
        assert (folder / f"d{n}" / "packs" / f"{blob_id.hex()}.{n}").read_bytes() == b"z" * 8192


class Interrupted:
    """libc, whose first wait is interrupted by a signal."""

    def __init__(self, libc: ctypes.CDLL) -> None:
        self._libc, self.calls = libc, 0

    def syscall(self, *arguments: object) -> int:
        self.calls += 1
        if self.calls == 2:  # the first is the submission
            ctypes.set_errno(errno.EINTR)
            return -1
        result: int = self._libc.syscall(*arguments)
        return result


def test_a_signal_is_no_reason_to_give_up(appender: KernelAppender, folder: Path) -> None:
    descriptor = direct(folder / "0")
    libc = appender._libc = Interrupted(appender._libc)  # type: ignore[assignment]  # the one call that is used
    data = page_of(b"s")
    tokens = appender.submit([descriptor], 0, data)
    assert tokens is not None
    assert list(appender.collect(10, len(data)).values()) == [None]
    assert libc.calls >= 3
    os.close(descriptor)
