"""P10: uploads that are aborted, refused or killed leave nothing behind, and nothing that is referenced is collected.

After the grace every file of every device belongs to a row of the database, and every row has its files; what was set
aside in quarantine is not counted. Replay: ISOTHERM_SEED=<seed> ISOTHERM_UPLOADS=<n> pytest tests/probe/test_leaks.py
"""

import hashlib
import os
import random
import signal
import socket
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import BotoCoreError, ClientError

from tests.live import LiveStore

pytestmark = pytest.mark.probe
UPLOADS = int(os.environ.get("ISOTHERM_UPLOADS", "10000" if os.environ.get("ISOTHERM_NIGHTLY") else "300"))
SEED = int(os.environ.get("ISOTHERM_SEED", "20261130"))
BUCKET = "leaks"
THREADS = 6
GRACE_SECONDS = 5
CLEAN_SECONDS_MAX = 60
SIZES = (0, 3_000, 131_072, 131_073, 700_000, 5_000_000)
HELD_BYTES, HELD_SENT = 12_000_000, 9_000_000
"""An upload that is cut off: longer than two segments, of which more than two arrive."""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LiveStore]:
    short = {
        "ISOTHERM_UPKEEP__RECLAIM_GRACE_SECONDS": str(GRACE_SECONDS),
        "ISOTHERM_UPKEEP__RECLAIM_SECONDS": "0.5",
        "ISOTHERM_UPKEEP__SNAPSHOT_SECONDS": "2",
    }
    with LiveStore(tmp_path / "data", workers=2, **short) as live:
        yield live


class Uploader:
    """One client: most of its uploads stand, the others are cut, refused, aborted or overwritten."""

    def __init__(self, store: LiveStore, number: int) -> None:
        self._store = store
        self._rng = random.Random(f"{SEED}/{number}")
        self._prefix = f"client-{number}"
        self._client = store.client()
        self.contents: dict[str, str] = {}
        self.unknown: set[str] = set()
        self.failed = 0

    def run(self, count: int) -> None:
        """So many uploads."""
        for _ in range(count):
            key = f"{self._prefix}/{self._rng.randrange(15)}"
            act = self._rng.choices([self.put, self.cut, self.refuse, self.join, self.drop], [70, 10, 8, 8, 4])[0]
            try:
                act(key)
            except (BotoCoreError, OSError):
                self.failed += 1  # the store was killed under it
            except ClientError as error:
                if error.response["ResponseMetadata"]["HTTPStatusCode"] < 500:
                    raise
                self.failed += 1

    def _settle(self, key: str, body: bytes | None) -> None:
        self.contents[key] = "" if body is None else hashlib.sha256(body).hexdigest()
        self.unknown.discard(key)

    def put(self, key: str) -> None:
        """An upload that stands."""
        body = self._rng.randbytes(self._rng.choice(SIZES))
        self.unknown.add(key)
        self._client.put_object(Bucket=BUCKET, Key=key, Body=body)
        self._settle(key, body)

    def cut(self, key: str) -> None:
        """The client goes away in the middle."""
        hold_upload(self._client, self._store.port, key).close()
        self.failed += 1

    def refuse(self, key: str) -> None:
        """The body is not what its digest says."""
        body = self._rng.randbytes(self._rng.choice(SIZES[1:]))
        with pytest.raises(ClientError) as refused:
            self._client.put_object(Bucket=BUCKET, Key=key, Body=body, ContentMD5="AAAAAAAAAAAAAAAAAAAAAA==")
        if refused.value.response["ResponseMetadata"]["HTTPStatusCode"] >= 500:
            raise refused.value
        self.failed += 1

    def join(self, key: str) -> None:
        """An upload in parts: one part twice, one left out, and sometimes aborted."""
        upload: dict[str, Any] = {"Bucket": BUCKET, "Key": key}
        upload["UploadId"] = self._client.create_multipart_upload(**upload)["UploadId"]
        bodies = [self._rng.randbytes(size) for size in (200_000, 5_300_000, 90_000, 150_000)]
        parts = [
            {"PartNumber": number, "ETag": self._client.upload_part(**upload, PartNumber=number, Body=body)["ETag"]}
            for number, body in zip((1, 1, 2, 3), bodies, strict=True)
        ]
        if self._rng.random() < 0.5:
            self._client.abort_multipart_upload(**upload)
            self.failed += 1
            return
        self.unknown.add(key)
        self._client.complete_multipart_upload(**upload, MultipartUpload={"Parts": parts[1:3]})
        self._settle(key, bodies[1] + bodies[2])

    def drop(self, key: str) -> None:
        """No upload at all: what was there goes."""
        self.unknown.add(key)
        self._client.delete_object(Bucket=BUCKET, Key=key)
        self._settle(key, None)


def hold_upload(client: Any, port: int, key: str) -> socket.socket:
    """An upload that has sent most of its body and goes no further."""
    url = client.generate_presigned_url("put_object", Params={"Bucket": BUCKET, "Key": key})
    target = url.split(str(port), 1)[1]
    connection = socket.create_connection(("127.0.0.1", port))
    head = f"PUT {target} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: {HELD_BYTES}\r\n\r\n"
    connection.sendall(head.encode() + bytes(HELD_SENT))
    return connection


def files_on_devices(data: Path) -> dict[str, int]:
    """Bytes by `<device>/<area>/<name>`, quarantine aside."""
    found: dict[str, int] = {}
    for device in sorted((data / "devices").iterdir()):
        for area in ("staging", "fragments", "packs"):
            for path in (device / area).rglob("*"):
                try:
                    if path.is_file():
                        found[f"{device.name}/{area}/{path.name}"] = path.stat().st_size
                except FileNotFoundError:
                    continue
    return found


def files_of_rows(data: Path) -> set[str]:
    """The same names, as the rows of the database say."""
    named: set[str] = set()
    with closing(sqlite3.connect(f"file:{data / 'metadata.db'}?mode=ro", uri=True)) as database:
        rows = database.execute("select lower(hex(blob_id)), layout, placement, generation from blob").fetchall()
    for blob_id, layout, placement, generation in rows:
        for index, device in enumerate(placement.split(" ")):
            if layout.startswith("copies:"):
                named.add(f"{device}/packs/{blob_id}.{index}")
            elif device:
                named.add(f"{device}/fragments/{blob_id}.{index}.{generation}")
    return named


def strangers(store: LiveStore) -> tuple[dict[str, int], set[str]]:
    """Files without a row with their bytes, and rows' files that are not there.

    Reclaim works meanwhile, files before rows: rows are read before and after, as it may remove both in between.
    """
    before, files, after = files_of_rows(store.data), files_on_devices(store.data), files_of_rows(store.data)
    orphans = {name: size for name, size in files.items() if name not in before | after}
    return orphans, (before & after) - set(files)


def wait_until_clean(store: LiveStore) -> tuple[dict[str, int], set[str]]:
    """The first look that finds no strangers; after the deadline the last one."""
    deadline = time.monotonic() + CLEAN_SECONDS_MAX
    while True:
        orphans, missing = strangers(store)
        if not (orphans or missing) or time.monotonic() > deadline:
            return orphans, missing
        time.sleep(0.5)


def upload_all(store: LiveStore, uploaders: list[Uploader], count: int, *, kill_worker: bool) -> None:
    """`count` uploads over all clients; on demand a worker dies in the middle."""
    threads = [threading.Thread(target=uploader.run, args=(count // THREADS,)) for uploader in uploaders]
    for thread in threads:
        thread.start()
    if kill_worker:
        time.sleep(1)
        os.kill(store.processes()[1], signal.SIGKILL)
    for thread in threads:
        thread.join()


def test_nothing_leaks_and_nothing_referenced_is_collected(store: LiveStore) -> None:
    client = store.client()
    client.create_bucket(Bucket=BUCKET)
    uploaders = [Uploader(store, number) for number in range(THREADS)]
    upload_all(store, uploaders, UPLOADS // 2, kill_worker=True)
    held = [hold_upload(client, store.port, f"held-{number}") for number in range(4)]
    time.sleep(0.5)
    store.kill()
    for connection in held:
        connection.close()
    left, _ = strangers(store)
    assert any("/staging/" in name for name in left), "nothing was being staged: the kill came too early to show much"
    store.start()
    upload_all(store, uploaders, UPLOADS // 2, kill_worker=False)

    orphans, missing = wait_until_clean(store)
    assert not orphans, f"seed {SEED}: {sum(orphans.values())} orphan bytes: {sorted(orphans)[:5]}"
    assert not missing, f"seed {SEED}: {len(missing)} referenced files are gone: {sorted(missing)[:5]}"
    for uploader in uploaders:
        for key in (key for key, digest in uploader.contents.items() if digest and key not in uploader.unknown):
            body = client.get_object(Bucket=BUCKET, Key=key)["Body"].read()
            assert hashlib.sha256(body).hexdigest() == uploader.contents[key], key
    failed = sum(uploader.failed for uploader in uploaders)
    print(f"{UPLOADS} uploads, seed {SEED}, {failed} of them aborted, refused or killed, {sum(left.values())} bytes"
          " left by the kill: 0 orphan bytes, 0 referenced files missing")  # fmt: skip
