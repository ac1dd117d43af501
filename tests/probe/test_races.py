"""Of two conditional writers exactly one wins, whichever workers they are at; and no update is lost.

Replay: ISOTHERM_SEED=<seed> ISOTHERM_RACES=<rounds of each kind> pytest tests/probe/test_races.py
"""

import hashlib
import os
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import pytest

from tests.live import LiveStore
from tests.probe.wires import open_wires, send
from tests.protocol.raw import Answer, Request, Wire

pytestmark = [pytest.mark.probe, pytest.mark.timeout(3000)]
IS_NIGHTLY = bool(os.environ.get("ISOTHERM_NIGHTLY"))
RACES = int(os.environ.get("ISOTHERM_RACES", "1000" if IS_NIGHTLY else "100"))
SEED = int(os.environ.get("ISOTHERM_SEED", "20261130"))
CROWD = 64
COUNTERS, INCREMENTS = 4, 100 if IS_NIGHTLY else 12
BUCKETS = ("plain", "versioned")
LOST = {409, 412}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveStore]:
    with LiveStore(tmp_path_factory.mktemp("races") / "data", workers=2) as live:
        client = live.client()
        for bucket in BUCKETS:
            client.create_bucket(Bucket=bucket)
        client.put_bucket_versioning(Bucket="versioned", VersioningConfiguration={"Status": "Enabled"})
        yield live


@pytest.fixture
def wires(store: LiveStore) -> Iterator[list[list[Wire]]]:
    """Connections by worker."""
    yield from opened(store, COUNTERS)


@pytest.fixture
def crowd(store: LiveStore) -> Iterator[list[list[Wire]]]:
    """Many of them."""
    yield from opened(store, CROWD // 2)


def opened(store: LiveStore, each: int) -> Iterator[list[list[Wire]]]:
    by_worker = open_wires(store, each)
    yield by_worker
    for wire in (wire for of_worker in by_worker for wire in of_worker):
        wire.close()


def tag_of(answer: Answer) -> str:
    """The ETag of an answer, in its header or in the document of a Complete."""
    found = re.search(rb"<ETag>(?:&quot;)?([^&<]*)", answer.body)
    return found[1].decode() if found else answer.headers.get("etag", "").strip('"')


def done(wire: Wire, request: Request) -> Answer:
    answer = wire.call(request)
    assert answer.status in {200, 204}, (request.method, request.path, answer)
    return answer


class Put:
    """A conditional PUT of a small content, or of one that is striped."""

    @staticmethod
    def prepare(_wire: Wire, path: str, body: bytes, condition: dict[str, str]) -> Request:
        return Request("PUT", path, headers=condition, body=body)


class Complete:
    """The conditional end of an upload in one part, which is there already."""

    @staticmethod
    def prepare(wire: Wire, path: str, body: bytes, condition: dict[str, str]) -> Request:
        created = done(wire, Request("POST", path, "uploads=")).body
        found = re.search(rb"<UploadId>([^<]*)", created)
        assert found is not None
        upload = found[1].decode()
        part = done(wire, Request("PUT", path, f"partNumber=1&uploadId={upload}", body=body)).headers["etag"]
        listed = f"<Part><PartNumber>1</PartNumber><ETag>{part}</ETag></Part>"
        document = f"<CompleteMultipartUpload>{listed}</CompleteMultipartUpload>"
        return Request("POST", path, f"uploadId={upload}", headers=condition, body=document.encode())


WRITES: dict[str, Callable[[Wire, str, bytes, dict[str, str]], Request]] = {
    "put": Put.prepare,
    "complete": Complete.prepare,
}


@dataclass
class Race:
    """Two writers of one key. The winners by number of the writer, for the end."""

    wires: list[list[Wire]]
    rng: random.Random
    kinds: tuple[str, str]
    is_match: bool
    wins: Counter[int]

    def run(self, bucket: str, number: int) -> None:
        path = f"/{bucket}/{'-'.join(self.kinds)}-{self.is_match}-{number}"
        one = self.rng.randrange(2)
        other = one if self.rng.random() < 0.2 else 1 - one  # also both in one batch of one worker
        pair = [self.wires[one][0], self.wires[other][1]]
        condition = {"if-none-match": "*"}
        if self.is_match:
            condition = {"if-match": f'"{tag_of(done(pair[0], Request("PUT", path, body=b"first")))}"'}
        size = self.rng.choice([10, 10, 4096, 200_000])
        bodies = [self.rng.randbytes(size) for _ in pair]
        ready = zip(pair, self.kinds, bodies, strict=True)
        requests = [WRITES[kind](wire, path, body, condition) for wire, kind, body in ready]
        order = self.rng.sample([0, 1], 2)
        for index in order:
            send(pair[index], requests[index])
        answers = {index: pair[index].receive() for index in order}
        won = [index for index, answer in answers.items() if answer.status == 200]
        lost = [answer.status for answer in answers.values() if answer.status in LOST]
        assert len(won) == 1, f"seed {SEED}, {path}: {answers}"
        assert len(lost) == 1, f"seed {SEED}, {path}: {answers}"
        for wire in pair:
            seen = done(wire, Request("GET", path))
            assert seen.body == bodies[won[0]], f"seed {SEED}, {path}: the winner's content is not there"
            assert tag_of(replace(seen, body=b"")) == tag_of(answers[won[0]]), path
        self.wins[order.index(won[0])] += 1


@pytest.mark.parametrize("bucket", BUCKETS)
@pytest.mark.parametrize("is_match", [False, True], ids=["none-match", "match"])
@pytest.mark.parametrize("kinds", [("put", "put"), ("complete", "complete"), ("put", "complete")], ids="-".join)
def test_of_two_conditional_writers_one_wins(
    store: LiveStore, wires: list[list[Wire]], bucket: str, *, is_match: bool, kinds: tuple[str, str]
) -> None:
    race = Race(wires, random.Random(f"{SEED}/{bucket}/{is_match}/{kinds}"), kinds, is_match, Counter())
    rounds = RACES if kinds[0] == kinds[1] else RACES // 4
    for number in range(rounds):
        race.run(bucket, number)
    prefix = f"{'-'.join(kinds)}-{is_match}-"
    made = 0
    for page in store.client().get_paginator("list_object_versions").paginate(Bucket=bucket, Prefix=prefix):
        made += len(page.get("Versions", []))
    assert made == rounds * (2 if is_match and bucket == "versioned" else 1), "a loser left a version"
    print(f"{rounds} races {bucket} {prefix} seed {SEED}: one winner each; first to be sent won {race.wins[0]}")


@pytest.mark.parametrize("bucket", BUCKETS)
def test_of_a_crowd_one_wins(crowd: list[list[Wire]], bucket: str) -> None:
    """More than a brief batch holds, so that the commit thread has its turn."""
    rng = random.Random(f"{SEED}/{bucket}")
    wires = [wire for of_worker in crowd for wire in of_worker]
    for number in range(max(4, RACES // 20)):
        path = f"/{bucket}/crowd-{number}"
        rng.shuffle(wires)
        bodies = [rng.randbytes(rng.choice([5, 100_000])) for _ in wires]
        for wire, body in zip(wires, bodies, strict=True):
            send(wire, Request("PUT", path, headers={"if-none-match": "*"}, body=body))
        answers = [wire.receive() for wire in wires]
        won = [index for index, answer in enumerate(answers) if answer.status == 200]
        assert len(won) == 1, f"seed {SEED}, {path}: {Counter([answer.status for answer in answers])}"
        assert {answer.status for answer in answers} <= {200, *LOST}
        assert done(wires[0], Request("GET", path)).body == bodies[won[0]]


class Client:
    """Counts up under If-Match, as a client with a lock-free counter does; at a worker of its own choice each time."""

    def __init__(self, path: str, wires: tuple[Wire, Wire], seed: str) -> None:
        self._path, self._wires, self._rng = path, wires, random.Random(seed)
        self.retries = 0

    def run(self) -> None:
        for _ in range(INCREMENTS):
            while not self._increment():
                self.retries += 1

    def _increment(self) -> bool:
        seen = done(self._rng.choice(self._wires), Request("GET", self._path))
        condition = {"if-match": seen.headers["etag"]}
        body = b"%d" % (int(seen.body) + 1) + b" " * self._rng.choice([0, 0, 3000, 140_000])
        answer = self._rng.choice(self._wires).call(Request("PUT", self._path, headers=condition, body=body))
        assert answer.status in {200, *LOST}, answer
        if answer.status == 200:
            assert tag_of(answer) == hashlib.md5(body, usedforsecurity=False).hexdigest()
        return answer.status == 200


@pytest.mark.parametrize("bucket", BUCKETS)
def test_no_increment_is_lost(wires: list[list[Wire]], bucket: str) -> None:
    path = f"/{bucket}/counter"
    done(wires[0][0], Request("PUT", path, body=b"0"))
    clients = [
        Client(path, (wires[0][number], wires[1][number]), f"{SEED}/{bucket}/{number}") for number in range(COUNTERS)
    ]
    with ThreadPoolExecutor(COUNTERS) as pool:
        for running in [pool.submit(client.run) for client in clients]:
            running.result()
    for of_worker in wires:
        assert int(done(of_worker[0], Request("GET", path)).body) == COUNTERS * INCREMENTS
    retries = sum(client.retries for client in clients)
    print(f"{COUNTERS * INCREMENTS} increments in {bucket}, seed {SEED}: none lost, {retries} refused and repeated")
