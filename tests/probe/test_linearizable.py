"""Keys are linearizable across workers: a history of several clients at two workers has one order that explains it.

Plain and versioned keys; reads, listings, writes and deletes with and without conditions. Nightly also while workers
are killed: what one had under way may have happened or not, but not both.
Replay: ISOTHERM_SEED=<seed> ISOTHERM_OPERATIONS=<n> pytest tests/probe/test_linearizable.py
"""

import hashlib
import os
import random
import re
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Final

import pytest

from tests.live import LiveStore
from tests.probe.linearizability import ABSENT, WRITES, Act, Answer, Entry, Operation, find_faults
from tests.probe.wires import open_wires, worker_of
from tests.protocol import raw
from tests.protocol.raw import Request, Wire

pytestmark = [pytest.mark.probe, pytest.mark.timeout(3000)]
IS_NIGHTLY = bool(os.environ.get("ISOTHERM_NIGHTLY"))
OPERATIONS = int(os.environ.get("ISOTHERM_OPERATIONS", "20000" if IS_NIGHTLY else "2000"))
SEED = int(os.environ.get("ISOTHERM_SEED", "20261130"))
SEEDS = range(SEED, SEED + (10 if IS_NIGHTLY and "ISOTHERM_SEED" not in os.environ else 1))
CLIENTS = 8
KEYS = {"plain": ("a", "b"), "versioned": ("c", "d")}
SIZES = (1, 40, 40, 700, 5000, 140_000)
EMPTY: Final = hashlib.md5(b"", usedforsecurity=False).hexdigest()
ANSWERS = {
    **{200: Answer.DONE, 204: Answer.DONE, 404: Answer.ABSENT, 412: Answer.REFUSED, 409: Answer.CONFLICT},
    405: Answer.DONE,  # a delete marker was named, and is there
}
CURRENT = re.compile(rb"<Contents><Key>([^<]*)</Key>.*?<ETag>&quot;([^&]*)&quot;")
ENTRY = re.compile(rb"<(?:Version|DeleteMarker)>.*?</(?:Version|DeleteMarker)>")
VERSION_ETAG = re.compile(rb"<ETag>&quot;([^&]*)&quot;")
NO_ETAG = (b"", b"")
KILLS = 3


def is_whole(request: Request, answer: raw.Answer) -> bool:
    """Whether the connection was not cut in the middle of the answer."""
    return request.method == "HEAD" or len(answer.body) == int(answer.headers.get("content-length", 0))


class Wires:
    """A client's connections, one to each worker; in place of a worker that died comes whoever accepts."""

    def __init__(self, store: LiveStore, wires: Sequence[Wire], rng: random.Random) -> None:
        self._store, self._wires, self._rng = store, list(wires), rng

    def call(self, request: Request) -> raw.Answer:
        """Status 0 when the connection was cut: the outcome is unknown."""
        number = self._rng.randrange(len(self._wires))
        try:
            answer = self._wires[number].call(request)
        except OSError:
            answer = raw.Answer(0, {}, b"")
        if answer.status and is_whole(request, answer):
            return answer
        self._wires[number].close()
        self._wires[number] = self._opened()
        return raw.Answer(0, {}, b"")

    def _opened(self) -> Wire:
        while True:
            try:
                return Wire(self._store, 60)
            except ConnectionError:
                time.sleep(0.05)

    def close(self) -> None:
        for wire in self._wires:
            wire.close()


class Client:
    """One client: does one thing after the other, and notes what it was told and when."""

    def __init__(self, number: int, seed: int, wires: Wires, count: int) -> None:
        self.wires = wires
        self._number, self._count, self._prefix = number, count, f"{seed}."
        self._rng = random.Random(f"{seed}/{number}")
        self._keys = [f"/{bucket}/{seed}.{name}" for bucket, names in KEYS.items() for name in names]
        self._etags = dict.fromkeys(self._keys, EMPTY)
        self._versions: dict[str, list[str]] = {key: [] for key in self._keys}
        self.history: list[Operation] = []

    def run(self) -> None:
        acts: list[Callable[[str], None]] = [
            self.get, self.head, self.list_current, self.get_version, self.list_versions,
            self.put, self.create, self.replace, self.delete, self.delete_if, self.delete_version,
        ]  # fmt: skip
        weights = [26, 12, 8, 5, 4, 12, 10, 11, 6, 3, 3]
        for _ in range(self._count):
            self._rng.choices(acts, weights)[0](self._rng.choice(self._keys))
        self.wires.close()

    def _call(self, act: Act, key: str, request: Request, **told: str) -> tuple[Operation, raw.Answer]:
        """Send and wait; the operation with what the headers tell, and `told`."""
        invoked = time.perf_counter_ns()
        answer = self.wires.call(request)
        returned = time.perf_counter_ns()
        assert answer.status in ANSWERS or answer.status in {0, 500, 503}, (request.method, key, request.query, answer)
        headers: dict[str, Any] = {
            "etag": answer.headers.get("etag", "").strip('"'),
            "version_id": answer.headers.get("x-amz-version-id", ""),
        }
        operation = Operation(
            self._number, key, act, invoked, returned, ANSWERS.get(answer.status, Answer.UNKNOWN),
            is_versioned=key.startswith("/versioned"), **{**headers, **told},
        )  # fmt: skip
        return operation, answer

    def _note(self, operation: Operation) -> None:
        """Keep an operation, and what it shows for conditions and names of versions to come."""
        if operation.answer is Answer.UNKNOWN and operation.act not in WRITES:
            return
        self.history.append(operation)
        if operation.answer is Answer.DONE and operation.act in {Act.READ, Act.PUT, Act.DELETE}:
            if operation.etag:
                self._etags[operation.key] = operation.etag
            if operation.version_id:
                self._versions[operation.key] = [operation.version_id, *self._versions[operation.key][:4]]

    def get(self, key: str) -> None:
        operation, answer = self._call(Act.READ, key, Request("GET", key))
        if answer.status == 200:
            assert hashlib.md5(answer.body, usedforsecurity=False).hexdigest() == operation.etag, key
        self._note(operation)

    def head(self, key: str) -> None:
        self._note(self._call(Act.READ, key, Request("HEAD", key))[0])

    def list_current(self, key: str) -> None:
        """One page of the bucket tells of each of its keys."""
        bucket = key.split("/")[1]
        operation, answer = self._call(
            Act.LIST, key, Request("GET", f"/{bucket}", f"list-type=2&prefix={self._prefix}")
        )
        etags = {name.decode(): etag.decode() for name, etag in CURRENT.findall(answer.body)}
        for name in KEYS[bucket] if answer.status == 200 else ():
            etag = etags.pop(f"{self._prefix}{name}", "")
            told = Answer.DONE if etag else Answer.ABSENT
            self._note(replace(operation, key=f"/{bucket}/{self._prefix}{name}", answer=told, etag=etag))
        assert not etags, f"keys that nobody wrote: {etags}"

    def list_versions(self, key: str) -> None:
        _, bucket, name = key.split("/")
        operation, answer = self._call(Act.READ_ALL, key, Request("GET", f"/{bucket}", f"prefix={name}&versions="))
        if answer.status == 200 and b"<IsTruncated>false" in answer.body:  # two pages are no snapshot
            ids = [found.decode() for found in re.findall(rb"<VersionId>([^<]*)", answer.body)]
            etags = [(VERSION_ETAG.search(piece) or NO_ETAG)[1].decode() for piece in ENTRY.findall(answer.body)]
            stack = [Entry("" if id_ == "null" else id_, etag) for id_, etag in zip(ids, etags, strict=True)]
            self._note(replace(operation, stack=tuple(stack)))

    def get_version(self, key: str) -> None:
        if self._versions[key]:
            version_id = self._rng.choice(self._versions[key])
            request = Request("GET", key, f"versionId={version_id}")
            self._note(self._call(Act.READ_VERSION, key, request, version_id=version_id)[0])

    def _put(self, key: str, condition: str, fields: dict[str, str]) -> None:
        name = f"{self._number}/{len(self.history)}/{self._rng.getrandbits(64)}/"
        body = name.encode().ljust(self._rng.choice(SIZES), b"x")
        etag = hashlib.md5(body, usedforsecurity=False).hexdigest()
        request = Request("PUT", key, headers=fields, body=body)
        operation, answer = self._call(Act.PUT, key, request, etag=etag, condition=condition)
        assert answer.status != 200 or answer.headers["etag"] == f'"{etag}"'
        self._note(operation)

    def put(self, key: str) -> None:
        self._put(key, "", {})

    def create(self, key: str) -> None:
        self._put(key, ABSENT, {"if-none-match": "*"})

    def replace(self, key: str) -> None:
        self._put(key, self._etags[key], {"if-match": f'"{self._etags[key]}"'})

    def delete(self, key: str) -> None:
        self._note(self._call(Act.DELETE, key, Request("DELETE", key))[0])

    def delete_if(self, key: str) -> None:
        condition = self._etags[key]
        request = Request("DELETE", key, headers={"if-match": f'"{condition}"'})
        self._note(self._call(Act.DELETE, key, request, condition=condition)[0])

    def delete_version(self, key: str) -> None:
        if self._versions[key]:
            version_id = self._versions[key].pop(self._rng.randrange(len(self._versions[key])))
            request = Request("DELETE", key, f"versionId={version_id}")
            self._note(self._call(Act.DELETE_VERSION, key, request, version_id=version_id)[0])


def named(history: Sequence[Operation]) -> list[Operation]:
    """The history with the version ids of writes without an answer, as far as somebody saw them later."""
    seen = {one.etag: one.version_id for one in history if one.etag and one.version_id}
    seen |= {entry.etag: entry.version_id for one in history for entry in one.stack if entry.etag}
    return [
        replace(one, version_id=seen.get(one.etag, "")) if one.act is Act.PUT and not one.is_settled else one
        for one in history
    ]


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.nightly)], scope="module")
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveStore]:
    environment: dict[str, str] = {}
    if request.param == "postgresql":
        environment["ISOTHERM_DATABASE_URL"] = request.getfixturevalue("postgres_server").create_database()
    with LiveStore(tmp_path_factory.mktemp("linearizable") / "data", workers=2, **environment) as live:
        for bucket in KEYS:
            live.client().create_bucket(Bucket=bucket)
        live.client().put_bucket_versioning(Bucket="versioned", VersioningConfiguration={"Status": "Enabled"})
        yield live


def record(store: LiveStore, seed: int, *, kill: bool) -> list[Operation]:
    """What the clients of one run saw; with `kill` workers die on the way."""
    rng = random.Random(seed)
    pairs = zip(*open_wires(store, CLIENTS), strict=True)
    clients = [
        Client(number, seed, Wires(store, pair, random.Random(rng.getrandbits(64))), OPERATIONS // CLIENTS)
        for number, pair in enumerate(pairs)
    ]
    with ThreadPoolExecutor(CLIENTS) as pool:
        running = [pool.submit(client.run) for client in clients]
        for _ in range(KILLS if kill else 0):
            time.sleep(rng.uniform(0.5, 3))
            kill_some_worker(store)
        for client in running:
            client.result()
    return named([operation for client in clients for operation in client.history])


def kill_some_worker(store: LiveStore) -> None:
    """Whoever accepts a connection dies of it."""
    wire = Wire(store, 60)
    os.kill(worker_of(store, wire), signal.SIGKILL)
    wire.close()


def judge(store: LiveStore, seed: int, *, kill: bool) -> Counter[Answer]:
    """Record and check; how many answers of each kind there were."""
    history = record(store, seed, kill=kill)
    began = time.perf_counter()
    faults = find_faults(history)
    seconds = time.perf_counter() - began
    assert not faults, f"seed {seed}: " + "\n".join(map(str, faults))
    told = Counter([operation.answer for operation in history])
    words = ", ".join(f"{count} {answer.name.lower()}" for answer, count in told.most_common())
    print(
        f"seed {seed}{' with kills' if kill else ''}: {len(history)} operations ({words}), an order in {seconds:.1f} s"
    )
    return told


@pytest.mark.parametrize("seed", SEEDS)
def test_what_clients_see_has_one_order(store: LiveStore, seed: int) -> None:
    told = judge(store, seed, kill=False)
    assert told[Answer.UNKNOWN] == 0, "nothing was killed, so nobody may be left without an answer"
    assert min(told[answer] for answer in (Answer.DONE, Answer.ABSENT, Answer.REFUSED)) > OPERATIONS // 100


@pytest.mark.nightly
@pytest.mark.parametrize("seed", [seed + 1000 for seed in SEEDS])
def test_what_clients_see_while_workers_die_has_one_order(store: LiveStore, seed: int) -> None:
    judge(store, seed, kill=True)
    store.wait_ready()


def test_a_version_that_turns_current_and_back_is_always_found(store: LiveStore) -> None:
    """Delete markers come and go on top of it at one worker, while another one reads it by its id."""
    (deleting, *_), (reading, *_) = open_wires(store, 1)
    put = reading.call(Request("PUT", "/versioned/covered", body=b"x"))
    named = Request("GET", "/versioned/covered", f"versionId={put.headers['x-amz-version-id']}")
    stop = threading.Event()

    def cover_and_reveal() -> None:
        while not stop.is_set():
            marker = deleting.call(Request("DELETE", "/versioned/covered")).headers["x-amz-version-id"]
            deleting.call(Request("DELETE", "/versioned/covered", f"versionId={marker}"))

    with ThreadPoolExecutor(1) as pool:
        covering = pool.submit(cover_and_reveal)
        seen = Counter([reading.call(named).status for _ in range(max(1000, OPERATIONS))])
        stop.set()
        covering.result()
    deleting.close()
    reading.close()
    assert set(seen) == {200}, seen
