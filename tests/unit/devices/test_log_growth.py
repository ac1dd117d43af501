"""Pack copies that are zeroed ahead beside their appends: nothing appended is lost, and nobody waits for the zeros."""

import mmap
import os
import random
import threading
from pathlib import Path
from typing import Any

import pytest

from metadata.types import BlobId
from tiers.commit.pack import OpenPack, pack_row
from tiers.devices import posix
from tiers.devices.directory import DirectoryDevice
from tiers.devices.directory_files import DirectoryLogFile
from tiers.errors import DeviceFailed

STEP = 4 << 20


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    if not posix.accepts_direct(tmp_path) or not posix.is_local(os.open(tmp_path, os.O_RDONLY)):
        pytest.skip("appends do not go past the page cache here")
    return tmp_path


def pages_of(byte: bytes, byte_count: int = 8192) -> memoryview:
    memory = mmap.mmap(-1, byte_count)
    memory.write(byte * byte_count)
    return memoryview(memory)


def new_log(folder: Path) -> DirectoryLogFile:
    return DirectoryDevice("d0", folder / "d0", log_reserve_bytes=STEP).create_log("ab.0")


def bytes_of(folder: Path, byte_count: int) -> bytes:
    with (folder / "d0" / "packs" / "ab.0").open("rb") as file:
        return file.read(byte_count)


def test_zeros_never_come_to_what_was_appended_by_the_copy_s_own_thread(folder: Path) -> None:
    log = new_log(folder)
    log.append(0, pages_of(b"a"))
    log.extend()
    log.append(8192, pages_of(b"b", 2 << 20))  # over the zeros and beyond them
    log.extend()
    assert bytes_of(folder, 8192 + (2 << 20)) == b"a" * 8192 + b"b" * (2 << 20)
    log.close()


def test_direct_waits_neither_for_zeros_nor_for_space(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The device may hang in both, and an event loop asks."""
    log = new_log(folder)
    is_writing, may_go_on = threading.Event(), threading.Event()
    write_all = posix.write_all

    def hanging(descriptor: int, offset: int, data: memoryview) -> None:
        is_writing.set()
        may_go_on.wait(30)
        write_all(descriptor, offset, data)

    monkeypatch.setattr(posix, "write_all", hanging)
    extending = threading.Thread(target=log.extend)
    extending.start()
    is_writing.wait(30)
    assert log.direct(0, pages_of(b"a")) is None
    may_go_on.set()
    extending.join(30)
    assert log.direct(0, pages_of(b"a")) is not None
    monkeypatch.setattr(posix, "reserve", lambda *_: pytest.fail("space is reserved by whoever asks"))
    assert log.direct(STEP - 8192, pages_of(b"z")) is not None
    assert log.direct(STEP, pages_of(b"z")) is None
    log.close()


def test_a_copy_that_cannot_be_zeroed_is_tried_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tries: list[int] = []

    def full(self: DirectoryLogFile) -> None:
        tries.append(1)
        raise DeviceFailed("full")

    monkeypatch.setattr(DirectoryLogFile, "extend", full)
    pack = new_pack(folder)
    for _ in range(10):
        pack.finish(pack.begin(pages_of(b"x")))
    pack.close()
    for copy in pack._copies:
        copy.thread.join(30)
    if pack._kernel is not None:
        assert len(tries) == 3


def new_pack(folder: Path) -> OpenPack:
    devices = [DirectoryDevice(f"p{n}", folder / f"p{n}", log_reserve_bytes=STEP) for n in range(3)]
    files = [device.create_log(f"{'70' * 4}.{n}", cached=n == 0) for n, device in enumerate(devices)]
    return OpenPack(pack_row(BlobId(b"p" * 16), "hot", ["p0", "p1", "p2"], 0, 0), files, quorum=2)


@pytest.mark.parametrize("seed", range(3))
def test_appends_of_all_sizes_and_ways_beside_the_zeros(folder: Path, seed: int) -> None:
    rng = random.Random(seed)
    pack = new_pack(folder)
    written = bytearray()
    for number in range(120):
        batch = pages_of(bytes([1 + number]), 4096 * rng.choice((1, 2, 2, 4, 12, 30, 33, 70, 300)))
        if rng.random() < 0.2:
            pack._answered = 0.0  # after a pause: by the copies' threads
        pack.finish(pack.begin(batch))
        written += batch
    pack.close()
    for copy in pack._copies:
        copy.thread.join(30)
    for n in range(3):
        (path,) = (folder / f"p{n}" / "packs").iterdir()
        assert path.read_bytes() == written


def test_the_first_append_after_a_pause_is_left_to_the_copies(folder: Path) -> None:
    """To start it may wait for a device that hangs."""
    pack = new_pack(folder)
    if pack._kernel is None:
        pytest.skip("this kernel has no asynchronous direct writes with RWF_DSYNC")
    kinds: list[Any] = []
    for pause in (False, True, False):
        if pause:
            pack._answered -= 10
        append = pack.begin(pages_of(b"x"))
        kinds.append(append._tokens is None)
        pack.finish(append)
    pack.close()
    assert kinds == [False, True, False]
