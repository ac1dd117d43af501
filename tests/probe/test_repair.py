"""A live store loses fragments and pack copies on two devices, serves everything meanwhile, and brings them back."""

import random
import shutil
import sqlite3
import time
from pathlib import Path

import pytest

from metadata.types import BlobKind
from tests.live import LiveStore, get_json

pytestmark = [pytest.mark.probe, pytest.mark.timeout(180)]

LARGE, SMALL = 12, 30
SECONDS_MAX = 60


def contents() -> dict[str, bytes]:
    rng = random.Random(20261130)
    large = {f"large-{n}": rng.randbytes(300_000 + n * 700_000) for n in range(LARGE)}
    return {**large, **{f"small-{n}": rng.randbytes(1000 + n) for n in range(SMALL)}}


def ask(data: Path, statement: str) -> list[tuple[object, ...]]:
    database = sqlite3.connect(f"file:{data / 'metadata.db'}?mode=ro", uri=True)
    try:
        return database.execute(statement).fetchall()
    finally:
        database.close()


def placed_files(data: Path) -> list[Path]:
    """Every file that a blob's row places, open packs aside."""
    found = []
    for blob_id, kind, placement, generation in ask(
        data, "SELECT blob_id, kind, placement, generation FROM blob WHERE state = 1"
    ):
        assert isinstance(blob_id, bytes)
        name = blob_id.hex()
        for index, device in enumerate(str(placement).split(" ")):
            area = data / "devices" / device
            if kind == BlobKind.PACK:
                found.append(area / "packs" / f"{name}.{index}")
            else:
                found.append(area / "fragments" / name[:2] / f"{name}.{index}.{generation}")
    return found


def erode(data: Path, devices: tuple[str, str]) -> dict[Path, bytes]:
    """Delete what two devices hold of every blob that a GET will notice: one whose data or first copy is among it."""
    files = [path for path in placed_files(data) if path.relative_to(data).parts[1] in devices]
    first = {"packs": 1, "fragments": 4}  # what a GET asks for: copy 0, fragments 0 to 3
    noticed = {
        path.name.split(".")[0]
        for path in files
        if int(path.name.split(".")[1]) < first[path.relative_to(data).parts[2]]
    }
    lost = {path: path.read_bytes() for path in files if path.name.split(".")[0] in noticed}
    for path in lost:
        path.unlink()
    return lost


def test_what_two_devices_lost_is_served_and_rebuilt(tmp_path: Path) -> None:
    expected = contents()
    store = LiveStore(tmp_path / "data", workers=2, ISOTHERM_UPKEEP__REPAIR_SECONDS="0.3")
    with store:
        client = store.client()
        client.create_bucket(Bucket="eroded")
        for key, body in expected.items():
            client.put_object(Bucket="eroded", Key=key, Body=body)
    with store:  # the packs of the processes before are sealed now
        client = store.client()
        # Nothing was read yet: a file that is open outlives its name, and nobody would notice.
        lost = erode(store.data, ("hot-1", "hot-4"))
        assert len([path for path in lost if path.parts[-2] != "packs"]) >= LARGE
        deadline = time.monotonic() + SECONDS_MAX
        while not all(path.exists() for path in lost) or ask(store.data, "SELECT * FROM repair"):
            for key, body in expected.items():
                assert client.get_object(Bucket="eroded", Key=key)["Body"].read() == body
            assert time.monotonic() < deadline, [str(path) for path in lost if not path.exists()]
        time.sleep(2)  # counts are handed on every second
        exposed = get_json(f"{store.admin}/metrics")[1].decode()
        assert 'isotherm_tier_bytes_total{direction="write",purpose="repair",tier="hot"}' in exposed
    assert [path for path in placed_files(store.data) if not path.exists()] == []
    for path, content in lost.items():
        assert path.read_bytes().rstrip(b"\0") == content.rstrip(b"\0"), path
    shutil.rmtree(store.data)
