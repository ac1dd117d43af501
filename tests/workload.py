"""A crash workload: writers that know what was acknowledged, and a verifier that knows what may be seen afterwards.

Each writer owns its keys. For each key it remembers the last acknowledged state and the operation in flight: after a
crash the key must be in one of the two, whole. A definite refusal (4xx) is never a possible state.
"""

import hashlib
import random
import threading
from dataclasses import dataclass, field
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from tests.live import LiveStore

ABSENT = "absent"
SIZES = (0, 1, 700, 4096, 40_000, 131_072, 131_073, 300_000, 1_500_000)


def content(seed: int, size: int) -> bytes:
    """Bytes that name their origin: the same seed and size always give the same bytes."""
    return random.Random(seed).randbytes(size)


def digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


@dataclass
class KeyState:
    """What a key may hold: `acknowledged` (a digest or ABSENT) or, if an operation was cut, `attempted`."""

    acknowledged: str = ABSENT
    attempted: str | None = None


@dataclass
class Writer:
    """One client thread over its own keys."""

    store: LiveStore
    bucket: str
    number: int
    rng: random.Random
    keys: dict[str, KeyState] = field(default_factory=dict)
    operations: int = 0

    def run(self, stop: threading.Event) -> None:
        """Put and delete until told to stop or the store is gone."""
        client = self.store.client()
        while not stop.is_set():
            key = f"writer-{self.number}/key-{self.rng.randrange(20)}"
            state = self.keys.setdefault(key, KeyState())
            if state.attempted is not None:
                return  # the outcome of the last operation on it is unknown: only the verifier may settle that
            try:
                self._operate(client, key, state)
            except ClientError as error:
                if error.response["ResponseMetadata"]["HTTPStatusCode"] < 500:
                    raise
                return
            except BotoCoreError:
                return
            state.acknowledged, state.attempted = state.attempted or ABSENT, None
            self.operations += 1

    def _operate(self, client: Any, key: str, state: KeyState) -> None:
        if state.acknowledged != ABSENT and self.rng.random() < 0.15:
            state.attempted = ABSENT
            client.delete_object(Bucket=self.bucket, Key=key)
            return
        body = content(self.rng.getrandbits(32), self.rng.choice(SIZES))
        state.attempted = digest(body)
        if len(body) > 1_000_000 and self.rng.random() < 0.3:
            upload = client.create_multipart_upload(Bucket=self.bucket, Key=key)["UploadId"]
            part = client.upload_part(Bucket=self.bucket, Key=key, UploadId=upload, PartNumber=1, Body=body)
            parts = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
            client.complete_multipart_upload(Bucket=self.bucket, Key=key, UploadId=upload, MultipartUpload=parts)
        else:
            client.put_object(Bucket=self.bucket, Key=key, Body=body)


class Crash:
    """Rounds of writing, crashing and verifying against one store."""

    def __init__(self, store: LiveStore, seed: int, writers: int = 8) -> None:
        self.store = store
        self.bucket = "crash"
        self.rng = random.Random(seed)
        self.writers = [Writer(store, self.bucket, n, random.Random(self.rng.getrandbits(64))) for n in range(writers)]

    def write_for(self, seconds: float) -> tuple[threading.Event, list[threading.Thread]]:
        """Start the writers; the caller crashes the store, then joins the threads."""
        stop = threading.Event()
        threads = [threading.Thread(target=writer.run, args=(stop,)) for writer in self.writers]
        for thread in threads:
            thread.start()
        stop.wait(seconds)
        return stop, threads

    @property
    def operations(self) -> int:
        """Operations acknowledged so far."""
        return sum(writer.operations for writer in self.writers)

    def verify(self) -> tuple[list[str], int]:
        """What is wrong (empty when all holds), and the number of keys looked at. Settles unknown outcomes."""
        client = self.store.client(retries={"max_attempts": 3, "mode": "standard"})
        wrong: list[str] = []
        known = {key: state for writer in self.writers for key, state in writer.keys.items()}
        listed = set()
        for page in client.get_paginator("list_objects_v2").paginate(Bucket=self.bucket):
            listed |= {entry["Key"] for entry in page.get("Contents", [])}
        wrong += [f"phantom {key}" for key in sorted(listed - set(known))]
        for key, state in known.items():
            seen = self._see(client, key)
            allowed = {state.acknowledged} | ({state.attempted} if state.attempted is not None else set())
            if seen not in allowed:
                wrong.append(f"{key}: saw {seen[:16]}, allowed {[a[:16] for a in allowed]}")
            if (seen == ABSENT) == (key in listed):
                wrong.append(f"{key}: listing and GET disagree")
            state.acknowledged, state.attempted = seen, None
        return wrong, len(known)

    def _see(self, client: Any, key: str) -> str:
        try:
            answer = client.get_object(Bucket=self.bucket, Key=key)
        except ClientError as error:
            code: str = error.response["Error"]["Code"]
            return ABSENT if code == "NoSuchKey" else f"error {code}"  # never an allowed state
        body = answer["Body"].read()
        assert len(body) == answer["ContentLength"]
        return digest(body)
