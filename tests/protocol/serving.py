"""What tests of a serving store look at: its processes, their sockets, and a load as an SDK makes it."""

import itertools
import threading
import time
from collections.abc import Callable
from pathlib import Path

from tests.live import LiveStore, descendants


def until(holds: Callable[[], bool], seconds: float = 30) -> None:
    """Wait for something that is about to become true."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)


def processes(store: LiveStore) -> list[int]:
    """Every process of the store, supervisor first, also while some come and go."""
    while True:
        try:
            return [store.pid, *descendants(store.pid)]
        except OSError:
            continue


def roles(store: LiveStore) -> dict[str, list[int]]:
    """Process ids by what they listen to."""
    found: dict[str, list[int]] = {"worker": [], "control": []}
    for pid in processes(store)[1:]:
        ports = {port for port, state in sockets(pid) if state == "0A"}
        if store.port in ports:
            found["worker"].append(pid)
        elif store.admin_port in ports:
            found["control"].append(pid)
    return found


def sockets(pid: int) -> list[tuple[int, str]]:
    """(local port, state) of the TCP sockets that a process has open; 0A listens, 01 is established."""
    inodes: set[str] = set()
    try:
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            target = str(descriptor.readlink())
            if target.startswith("socket:["):
                inodes.add(target[8:-1])
        rows = [line.split() for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]]
    except OSError:
        return []
    return [(int(row[1].split(":")[1], 16), row[3]) for row in rows if row[9] in inodes]


def established(pid: int, port: int) -> int:
    """Connections of a port that a process serves."""
    return sockets(pid).count((port, "01"))


_loads = itertools.count()


class Load:
    """Threads that put and get until stopped; `failures` is what a user would see, retries being what SDKs do."""

    def __init__(self, store: LiveStore, threads: int = 4, *, attempts: int = 3) -> None:
        self.failures: list[str] = []
        self.done = 0
        self._bucket = f"load-{next(_loads)}"
        self._stop = threading.Event()
        self._store = store
        self._attempts = attempts
        self._threads = [threading.Thread(target=self._run, args=(number,)) for number in range(threads)]

    def _run(self, number: int) -> None:
        client = self._store.client(retries={"max_attempts": self._attempts, "mode": "standard"})
        turn = 0
        while not self._stop.is_set():
            turn += 1
            key, body = f"{number}/{turn % 10}", f"{number} {turn}".encode() * 50
            try:
                client.put_object(Bucket=self._bucket, Key=key, Body=body)
                got = client.get_object(Bucket=self._bucket, Key=key)["Body"].read()
                if got != body:
                    self.failures.append(f"{key}: other bytes")
            except Exception as error:  # noqa: BLE001  # whatever a user would see
                self.failures.append(repr(error))
            self.done += 1

    def __enter__(self) -> "Load":
        self._store.client().create_bucket(Bucket=self._bucket)
        for thread in self._threads:
            thread.start()
        until(lambda: self.done > 5)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()
