"""That the kernel is really asked: flush calls, flags, short writes. Everything above trusts these functions."""

import errno
import mmap
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tiers.devices import posix
from tiers.errors import DeviceFailed, DeviceFull

PAGE = 4096


class Kernel:
    """Records system calls by name and lets them through."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen: list[str] = []
        self.flags: list[int] = []
        self._patch = monkeypatch
        for name in ("fsync", "fdatasync"):
            monkeypatch.setattr(os, name, self._recorded(name, getattr(os, name)))
        self._write = os.pwritev
        monkeypatch.setattr(os, "pwritev", self._pwritev)

    def _recorded(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: object) -> object:
            self.seen.append(name)
            return real(*arguments)

        return call

    def _pwritev(self, descriptor: int, buffers: list[memoryview], offset: int, flags: int = 0) -> int:
        self.flags.append(flags)
        return self._write(descriptor, buffers, offset, flags)


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    return Kernel(monkeypatch)


@pytest.fixture
def descriptor(tmp_path: Path) -> int:
    return os.open(tmp_path / "f", os.O_CREAT | os.O_RDWR)


def test_flushes_reach_the_kernel(kernel: Kernel, descriptor: int, tmp_path: Path) -> None:
    posix.flush_file(descriptor)
    posix.flush_directory(tmp_path)
    posix.write_file(tmp_path / "g", b"x")
    assert kernel.seen == ["fdatasync", "fsync", "fdatasync"]


def test_durable_write_is_one_call_with_the_flag(kernel: Kernel, descriptor: int) -> None:
    posix.write_durably(descriptor, 0, memoryview(bytes(PAGE)))
    assert kernel.flags == [os.RWF_DSYNC]
    assert kernel.seen == []
    assert os.fstat(descriptor).st_size == PAGE


def test_durable_write_flushes_where_the_flag_is_unknown(
    kernel: Kernel, descriptor: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(*_arguments: object) -> int:
        raise OSError(errno.EOPNOTSUPP, "no flags here")

    monkeypatch.setattr(os, "pwritev", unknown)
    posix.write_durably(descriptor, 0, memoryview(bytes(PAGE)))
    assert kernel.seen == ["fdatasync"]
    assert os.fstat(descriptor).st_size == PAGE


@pytest.mark.parametrize("write", [posix.write_all, posix.write_durably])
def test_short_writes_go_on(
    write: Callable[[int, int, memoryview], None], descriptor: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pwrite, pwritev = os.pwrite, os.pwritev
    monkeypatch.setattr(os, "pwrite", lambda fd, data, offset: pwrite(fd, data[:100], offset))
    monkeypatch.setattr(os, "pwritev", lambda fd, data, offset, flags: pwritev(fd, [data[0][:100]], offset, flags))
    data = bytes(range(250)) * 3
    write(descriptor, 7, memoryview(data))
    assert os.pread(descriptor, 1000, 7) == data


@pytest.mark.parametrize("error_number", [errno.ENOSPC, errno.EDQUOT, errno.EOPNOTSUPP])
def test_reserving_is_a_wish(descriptor: int, monkeypatch: pytest.MonkeyPatch, error_number: int) -> None:
    def refuse(*_arguments: object) -> None:
        raise OSError(error_number, "refused")

    assert posix.reserve(descriptor, 0, PAGE)
    monkeypatch.setattr(os, "posix_fallocate", refuse)
    assert not posix.reserve(descriptor, 0, PAGE)


def test_reserving_on_a_broken_device_is_an_error(descriptor: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_arguments: object) -> None:
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(os, "posix_fallocate", fail)
    with pytest.raises(OSError, match="broken"):
        posix.reserve(descriptor, 0, PAGE)


def test_alignment_is_of_offset_length_and_address() -> None:
    page = memoryview(mmap.mmap(-1, 2 * PAGE))
    assert posix.is_aligned(0, page)
    assert posix.is_aligned(PAGE, page[PAGE:])
    assert not posix.is_aligned(1, page)
    assert not posix.is_aligned(0, page[: PAGE - 1])
    assert not posix.is_aligned(0, page[8 : 8 + PAGE])
    assert not posix.is_aligned(0, page.toreadonly())
    assert not posix.is_aligned(0, page[:0])


def test_translation_names_the_file_and_lets_other_errors_pass() -> None:
    with pytest.raises(DeviceFull, match="write x: No space"), posix.Translating("write x"):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with pytest.raises(DeviceFailed, match="write x"), posix.Translating("write x"):
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
    with pytest.raises(KeyError), posix.Translating("write x"):
        raise KeyError
