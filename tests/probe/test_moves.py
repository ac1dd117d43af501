"""P19: `kill -9` of the control process at any moment of live moves loses and doubles nothing.

Objects of every kind go down and up between tiers, slowly, while their mover is killed again and again; clients read
all the while. At the end every move has ended, every content is what it was, and no file is without a row.
Replay: ISOTHERM_SEED=<seed> ISOTHERM_ROUNDS=<kills> pytest tests/probe/test_moves.py
"""

import hashlib
import json
import os
import random
import signal
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.live import ADMIN_TOKEN, LiveStore
from tests.probe.test_leaks import wait_until_clean
from tests.protocol.serving import roles

pytestmark = pytest.mark.probe
KILLS = int(os.environ.get("ISOTHERM_ROUNDS", "60" if os.environ.get("ISOTHERM_NIGHTLY") else "3"))
SEED = int(os.environ.get("ISOTHERM_SEED", "20261130"))
SIZES = (0, 10, 4_000, 100_000, 131_073, 3_000_000, 9_000_000)
PART_BYTES = 5 << 20
ENDED_SECONDS_MAX = 90.0


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LiveStore]:
    slow = {
        "ISOTHERM_MOVES__BYTES_PER_SECOND": str(12 << 20),
        "ISOTHERM_UPKEEP__RECLAIM_GRACE_SECONDS": "5",
        "ISOTHERM_UPKEEP__RECLAIM_SECONDS": "0.5",
        "ISOTHERM_UPKEEP__SNAPSHOT_SECONDS": "2",
    }
    with LiveStore(tmp_path / "data", workers=1, **slow) as live:
        yield live


def call(store: LiveStore, method: str, path: str, document: object = None) -> Any:
    body = None if document is None else json.dumps(document).encode()
    headers = {"Authorization": f"Bearer {ADMIN_TOKEN}", "Content-Type": "application/json"}
    request = urllib.request.Request(f"{store.admin}/admin/v1{path}", body, headers, method=method)
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.load(answer)


def patiently(store: LiveStore, method: str, path: str, document: object = None) -> Any:
    """A call that goes on when the control process was just killed: its successor answers."""
    deadline = time.monotonic() + 30
    while True:
        try:
            return call(store, method, path, document)
        except OSError:
            assert time.monotonic() < deadline, store.log.read_text()[-3000:]
            time.sleep(0.1)


class Readers:
    """A client that reads objects all the while and notes what is not as it was put."""

    def __init__(self, store: LiveStore, expected: dict[str, str]) -> None:
        self.wrong: list[str] = []
        self.reads = 0
        self._store, self._expected = store, expected
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        client = self._store.client()
        while not self._stop.is_set():
            for key, digest in self._expected.items():
                found = hashlib.sha256(client.get_object(Bucket="moves", Key=key)["Body"].read()).hexdigest()
                self.reads += 1
                if found != digest:
                    self.wrong.append(key)

    def __enter__(self) -> "Readers":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


def fill(client: Any, rng: random.Random) -> dict[str, str]:
    """Objects of every kind; the digest of each by key."""
    contents = {f"plain-{size}": rng.randbytes(size) for size in SIZES}
    for key, content in contents.items():
        client.put_object(Bucket="moves", Key=key, Body=content, Metadata={"k": key}, Tagging="a=b")
    parts = [rng.randbytes(PART_BYTES), rng.randbytes(1000)]
    upload = client.create_multipart_upload(Bucket="moves", Key="parts")["UploadId"]
    named = []
    for number, part in enumerate(parts, 1):
        put = client.upload_part(Bucket="moves", Key="parts", UploadId=upload, PartNumber=number, Body=part)
        named.append({"PartNumber": number, "ETag": put["ETag"]})
    client.complete_multipart_upload(Bucket="moves", Key="parts", UploadId=upload, MultipartUpload={"Parts": named})
    contents["parts"] = b"".join(parts)
    sealed = rng.randbytes(200_000)
    client.put_object(Bucket="moves", Key="sealed", Body=sealed, ServerSideEncryption="AES256")
    return {key: hashlib.sha256(content).hexdigest() for key, content in {**contents, "sealed": sealed}.items()}


def wait_until_ended(store: LiveStore) -> list[dict[str, Any]]:
    deadline = time.monotonic() + ENDED_SECONDS_MAX
    while True:
        moves: list[dict[str, Any]] = patiently(store, "GET", "/moves?limit=1000")["moves"]
        if all(move["state"] == "ended" for move in moves):
            return moves
        assert time.monotonic() < deadline, moves
        time.sleep(0.2)


def headers_of(client: Any, key: str) -> dict[str, Any]:
    head = client.head_object(Bucket="moves", Key=key, ChecksumMode="ENABLED")
    kept = {name: value for name, value in head.items() if name not in {"ResponseMetadata", "StorageClass"}}
    return {
        **kept,
        "parts": head.get("PartsCount"),
        "tags": client.get_object_tagging(Bucket="moves", Key=key)["TagSet"],
    }


def test_a_mover_that_is_killed_again_and_again_loses_nothing(store: LiveStore) -> None:
    rng = random.Random(SEED)
    client = store.client()
    client.create_bucket(Bucket="moves")
    expected = fill(client, rng)
    before = {key: headers_of(client, key) for key in expected}
    targets = [("warm", "STANDARD_IA"), ("cold", None), ("hot", "STANDARD")]
    with Readers(store, expected) as readers:
        for number in range(KILLS):
            to, storage_class = targets[number % len(targets)]
            for key in expected:
                wish = {"bucket": "moves", "key": key, "to": to, "storage_class": storage_class}
                patiently(store, "POST", "/moves", wish)
            time.sleep(rng.uniform(0.0, 2.5))
            os.kill(roles(store)["control"][0], signal.SIGKILL)
            moves = wait_until_ended(store)
            assert {move["result"] for move in moves} == {"moved"}, f"seed {SEED}, kill {number}: {moves}"
            assert {move["to"] for move in moves} == {to}
    assert readers.wrong == []
    for key in expected:
        assert headers_of(client, key) == before[key], key
    orphans, missing = wait_until_clean(store)
    assert not orphans, f"seed {SEED}: {sorted(orphans)[:5]}"
    assert not missing, f"seed {SEED}: {sorted(missing)[:5]}"
    print(f"{KILLS} kills, seed {SEED}, {readers.reads} reads beside them: 0 lost, 0 changed")
