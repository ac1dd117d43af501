"""P1: `kill -9` of every process at random times during uploads loses nothing that was acknowledged.

Replay: ISOTHERM_SEED=<seed> ISOTHERM_ROUNDS=<rounds> pytest tests/probe/test_kill.py
"""

import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.databases import PostgresServer
from tests.live import LiveStore
from tests.workload import Crash

pytestmark = pytest.mark.probe
ROUNDS = int(os.environ.get("ISOTHERM_ROUNDS", "50" if os.environ.get("ISOTHERM_NIGHTLY") else "4"))
CRASHES = max(2, ROUNDS // 5)
SEED = int(os.environ.get("ISOTHERM_SEED", "20261130"))


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LiveStore]:
    environment: dict[str, str] = {}
    if request.param == "postgresql":
        environment["ISOTHERM_DATABASE_URL"] = request.getfixturevalue("postgres_url")
    live = LiveStore(tmp_path / "data", workers=2, **environment)
    yield live
    live.stop()


def test_nothing_acknowledged_is_lost(store: LiveStore) -> None:
    rng = random.Random(SEED)
    store.start()
    crash = Crash(store, SEED)
    store.client().create_bucket(Bucket=crash.bucket)
    for number in range(ROUNDS):
        stop, threads = crash.write_for(rng.uniform(0.05, 1.5))
        chance = rng.random()
        if chance < 0.65:
            store.kill()
        elif chance < 0.75:  # its workers end on their own, and the next start waits for that
            store.kill_supervisor()
        else:  # one process only; the supervisor replaces it
            os.kill(rng.choice(store.processes()[1:]), signal.SIGKILL)
            stop.wait(0.3)
        stop.set()
        for thread in threads:
            thread.join()
        if store.process is not None:
            store.wait_ready()
        else:
            if rng.random() < 0.25:  # and once more, while it starts: recovery may itself be killed
                store.launch()
                time.sleep(rng.uniform(0, 2))
                store.kill()
            store.start()
        wrong, keys = crash.verify()
        assert wrong == [], f"seed {SEED}, round {number}: {wrong}"
    print(f"{ROUNDS} rounds, seed {SEED}, {crash.operations} acknowledged operations, {keys} keys:"
          " 0 lost, 0 torn, 0 phantom")  # fmt: skip


def test_a_crash_of_the_database_server_loses_nothing(postgres_server: PostgresServer, tmp_path: Path) -> None:
    """The store lives on: it refuses while the server is away and serves again, without a restart, when it is back."""
    if not postgres_server.is_ours:
        pytest.skip("the server is not ours to crash")
    rng = random.Random(SEED)
    url = postgres_server.create_database()
    with LiveStore(tmp_path / "data", workers=2, ISOTHERM_DATABASE_URL=url) as store:
        crash = Crash(store, SEED)
        store.client().create_bucket(Bucket=crash.bucket)
        processes = store.processes()
        for number in range(CRASHES):
            stop, threads = crash.write_for(rng.uniform(0.2, 1))
            postgres_server.crash()
            stop.set()
            for thread in threads:
                thread.join()
            store.wait_ready()
            wrong, _ = crash.verify()
            assert wrong == [], f"seed {SEED}, crash {number}: {wrong}"
        assert store.processes() == processes
    print(f"{CRASHES} crashes of the server, seed {SEED}, {crash.operations} acknowledged operations: 0 lost")
