"""The main job on real input: a real tree goes up and comes down byte-identical while two devices lose fragments.

The tree is the Python environment that runs the tests: in an ordinary run a part of it, at full size (nightly, or
ISOTHERM_MAIN_JOB=full) all of it, filled up to 1 GB with its largest files, and an object of 2 GiB in parts.
"""

import hashlib
import os
import random
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.live import ACCESS_KEY, SECRET_KEY, LiveStore

pytestmark = pytest.mark.probe
IS_FULL = bool(os.environ.get("ISOTHERM_NIGHTLY")) or os.environ.get("ISOTHERM_MAIN_JOB") == "full"
FILES = 25_000 if IS_FULL else 300
LARGE_FILES = 12
BYTES_MIN = 1_000_000_000 if IS_FULL else 0
OBJECT_BYTES = 2 << 30 if IS_FULL else 48 << 20
SEED = int(os.environ.get("ISOTHERM_SEED", "20261130"))
BINARIES = Path(sys.executable).parent


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copies of real files, with their real names and sizes."""
    root = tmp_path_factory.mktemp("main-job") / "tree"
    environment = Path(sys.prefix)
    files = sorted(path for path in environment.rglob("*") if path.is_file() and not path.is_symlink())
    if not IS_FULL:
        large = [path for path in files if path.stat().st_size > 1_000_000]
        files = random.Random(SEED).sample(files, FILES) + random.Random(SEED).sample(large, LARGE_FILES)
    total = 0
    for path in files[: FILES + LARGE_FILES]:
        target = root / path.relative_to(environment)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
        total += target.stat().st_size
    large = sorted(files, key=lambda path: path.stat().st_size)[-5:]
    small = files[: 20_000 - len(files)] if IS_FULL and len(files) < 20_000 else []
    number = 0
    while total < BYTES_MIN or number < len(small):
        source = small[number] if number < len(small) else large[number % 5]
        target = root / "filled-up" / f"{number}-{source.name}"
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
        total, number = total + target.stat().st_size, number + 1
    return root


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveStore]:
    with LiveStore(tmp_path_factory.mktemp("main-job-store") / "data", workers=2) as live:
        yield live


def digests(root: Path) -> dict[str, str]:
    found = {}
    for path in root.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                found[path.relative_to(root).as_posix()] = hashlib.file_digest(file, "sha256").hexdigest()
    return found


class Eroder:
    """Deletes fragments and pack copies of two devices of the hot tier: half of them at once, more until stopped."""

    def __init__(self, data: Path) -> None:
        self._rng = random.Random(SEED)
        devices = sorted((data / "devices").glob("hot-*"))
        self._devices = self._rng.sample(devices, 2)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.deleted = 0

    def _delete(self, share: float) -> None:
        files = [
            path
            for device in self._devices
            for area in ("fragments", "packs")
            for path in (device / area).rglob("*")
            if path.is_file()
        ]
        for path in self._rng.sample(files, min(len(files), 1 + int(len(files) * share))):
            path.unlink(missing_ok=True)
            self.deleted += 1

    def _run(self) -> None:
        while not self._stop.wait(0.2):
            self._delete(0.1)

    def __enter__(self) -> "Eroder":
        self._delete(0.5)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


def run(store: LiveStore, *command: str) -> None:
    environment = store.tool_environment()
    answer = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, f"{command}: {answer.stdout[-2000:]}{answer.stderr[-2000:]}"


Transfer = Callable[[LiveStore, str, str], None]


def aws(store: LiveStore, source: str, target: str) -> None:
    run(store, str(BINARIES / "aws"), "s3", "sync", "--quiet", source, target)


def rclone(store: LiveStore, source: str, target: str) -> None:
    options = f"provider=Other,endpoint='{store.endpoint}',access_key_id={ACCESS_KEY},secret_access_key={SECRET_KEY}"
    remote = f":s3,{options},region=us-east-1:"
    places = [place.replace("s3://", remote, 1) for place in (source, target)]
    run(store, str(BINARIES / "rclone"), "sync", "--transfers", "8", *places)


def s5cmd(store: LiveStore, source: str, target: str) -> None:
    whole = f"{source}/*" if source.startswith("s3://") else f"{source}/"
    run(store, str(BINARIES / "s5cmd"), "cp", whole, f"{target}/")


@pytest.mark.parametrize("transfer", [aws, rclone, s5cmd], ids=lambda transfer: transfer.__name__)
def test_tree_comes_back_identical(store: LiveStore, tree: Path, tmp_path: Path, transfer: Transfer) -> None:
    if not (BINARIES / transfer.__name__).exists():
        pytest.skip(f"{transfer.__name__} is not installed")
    bucket = f"main-{transfer.__name__}"
    store.client().create_bucket(Bucket=bucket)
    began = time.monotonic()
    transfer(store, str(tree), f"s3://{bucket}/tree")
    up = time.monotonic() - began
    with Eroder(store.data) as eroder:
        transfer(store, f"s3://{bucket}/tree", str(tmp_path / "back"))
    down = time.monotonic() - began - up
    sent = digests(tree)
    assert digests(tmp_path / "back") == sent
    assert eroder.deleted > 0
    size = sum(path.stat().st_size for path in tree.rglob("*") if path.is_file())
    print(f"{transfer.__name__}: {len(sent)} files, {size / 1e6:.0f} MB, up {up:.0f} s, down {down:.0f} s,"
          f" {eroder.deleted} fragments deleted meanwhile")  # fmt: skip
    shutil.rmtree(tmp_path / "back")


def test_object_in_parts_comes_back_identical(store: LiveStore, tmp_path: Path) -> None:
    """boto3 with the default TransferConfig."""
    client = store.client()
    client.create_bucket(Bucket="main-boto3")
    source, target = tmp_path / "source", tmp_path / "target"
    rng = random.Random(SEED)
    with source.open("wb") as file:
        for _ in range(OBJECT_BYTES >> 20):
            file.write(rng.randbytes(1 << 20))
    client.upload_file(str(source), "main-boto3", "big")
    with Eroder(store.data) as eroder:
        client.download_file("main-boto3", "big", str(target))
    with source.open("rb") as a, target.open("rb") as b:
        assert hashlib.file_digest(a, "sha256").digest() == hashlib.file_digest(b, "sha256").digest()
    assert target.stat().st_size == OBJECT_BYTES
    assert eroder.deleted > 0
