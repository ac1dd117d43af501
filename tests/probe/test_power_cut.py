"""P2: a sudden power cut loses nothing that was acknowledged; with the flush planted out, the test convicts.

The cut is ext4's shutdown call without a log flush on a loop-mounted file system: what was not synced is gone. Needs
root and a loop device. Replay: ISOTHERM_SEED=<seed> ISOTHERM_CUTS=<cuts> pytest tests/probe/test_power_cut.py
"""

import fcntl
import os
import random
import struct
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live import LiveStore
from tests.workload import Crash

pytestmark = pytest.mark.probe
CUTS = int(os.environ.get("ISOTHERM_CUTS", "50" if os.environ.get("ISOTHERM_NIGHTLY") else "4"))
SEED = int(os.environ.get("ISOTHERM_SEED", "20261130"))
SHUTDOWN = 0x8004587D
NO_LOG_FLUSH = 2
IMAGE_BYTES = 3 << 30
PLANTED_CUTS = 20


class Volume:
    """An ext4 file system in a file, that can lose its power."""

    def __init__(self, folder: Path) -> None:
        self.image = folder / "volume.img"
        self.mount_point = folder / "volume"
        self.mount_point.mkdir()
        with self.image.open("wb") as file:
            file.truncate(IMAGE_BYTES)
        self._run("mkfs.ext4", "-q", "-F", str(self.image))

    def mount(self) -> None:
        self._run("mount", "-o", "loop", str(self.image), str(self.mount_point))

    def cut(self) -> None:
        """The power goes: from here on nothing reaches the volume, and what was not synced never did."""
        descriptor = os.open(self.mount_point, os.O_RDONLY)
        try:
            fcntl.ioctl(descriptor, SHUTDOWN, struct.pack("I", NO_LOG_FLUSH))
        finally:
            os.close(descriptor)

    def unmount(self) -> None:
        for _ in range(100):
            if subprocess.run(["umount", str(self.mount_point)], capture_output=True, check=False).returncode == 0:
                return
            time.sleep(0.05)
        self._run("umount", "-l", str(self.mount_point))

    def remount(self) -> None:
        """Power is back."""
        self.unmount()
        self.mount()

    def sync(self) -> None:
        """Everything written so far reaches the volume."""
        self._run("sync", "--file-system", str(self.mount_point))

    @staticmethod
    def _run(*command: str) -> None:
        subprocess.run(command, check=True, capture_output=True)


@pytest.fixture
def volume(tmp_path: Path) -> Iterator[Volume]:
    if os.geteuid() != 0:
        pytest.skip("needs root: mounts a loop device and cuts it off")
    made = Volume(tmp_path)
    try:
        made.mount()
    except subprocess.CalledProcessError as error:
        pytest.skip(f"no loop device can be mounted here: {error.stderr.decode().strip()}")
    yield made
    if os.path.ismount(made.mount_point):
        made.unmount()


def begin(store: LiveStore) -> Crash:
    """The store serves, before any cut."""
    store.start()
    crash = Crash(store, SEED)
    store.client().create_bucket(Bucket=crash.bucket)
    return crash


def cut_power(crash: Crash, volume: Volume, cuts: int) -> list[str]:
    """Write, cut, remount, start, verify, `cuts` times; the first violations found."""
    store = crash.store
    rng = random.Random(SEED)
    for number in range(cuts):
        stop, threads = crash.write_for(rng.uniform(0.1, 0.8))
        volume.cut()
        store.kill()
        stop.set()
        for thread in threads:
            thread.join()
        volume.remount()
        if rng.random() < 0.25:  # and once more, while it starts: recovery may itself be cut off
            store.launch()
            time.sleep(rng.uniform(0, 2))
            volume.cut()
            store.kill()
            volume.remount()
        try:
            store.start()
        except AssertionError as error:  # a store that no longer starts has lost what it acknowledged, too
            return [f"seed {SEED}, cut {number}: {error}"]
        wrong, _ = crash.verify()
        if wrong:
            return [f"seed {SEED}, cut {number}: {text}" for text in wrong]
    print(f"{cuts} cuts, seed {SEED}, {crash.operations} acknowledged operations: 0 lost, 0 torn, 0 phantom")
    return []


def test_power_cut_loses_nothing(volume: Volume, tmp_path: Path) -> None:
    store = LiveStore(volume.mount_point / "data", workers=2)
    store.log = tmp_path / "store.log"
    try:
        assert cut_power(begin(store), volume, CUTS) == []
    finally:
        store.stop()


def test_without_flush_the_test_convicts(volume: Volume, tmp_path: Path) -> None:
    plants = Path(__file__).resolve().parents[1] / "plants"
    path = os.pathsep.join([str(plants), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    store = LiveStore(volume.mount_point / "data", workers=2, PYTHONPATH=path, TEST_PLANT="no-fsync")
    store.log = tmp_path / "store.log"
    try:
        crash = begin(store)
        volume.sync()  # the store's own files are there: what can be lost is what it acknowledges from here on
        wrong = cut_power(crash, volume, PLANTED_CUTS)
        assert wrong, f"{PLANTED_CUTS} cuts without a single flush, and nothing is missing: the cut cuts nothing"
        print(f"convicted: {wrong[0][:200]}")
    finally:
        store.stop()
