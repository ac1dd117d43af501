"""Connections whose worker is known: the kernel spreads them over the workers, and says who has which."""

import threading
import time
from collections import defaultdict
from pathlib import Path
from typing import Self

from tests.live import LiveStore
from tests.protocol.raw import Answer, Request, Wire, build

CONNECTIONS_MAX = 400
"""Tries before it is an error that all connections are one worker's."""

PROBE = b"GET /health/live HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"


def worker_of(store: LiveStore, wire: Wire) -> int:
    """Process id of the worker that answers on a connection."""
    answer = wire.send(PROBE)  # accepted now, for sure
    assert answer.status == 200, answer
    inode = _inode(wire.socket.getsockname()[1], store.port)
    return next(pid for pid in store.processes()[1:] if _has(pid, inode))


def _has(pid: int, inode: str) -> bool:
    """Whether a process has a socket open."""
    try:
        return any(str(found.readlink()) == f"socket:[{inode}]" for found in Path(f"/proc/{pid}/fd").iterdir())
    except FileNotFoundError:
        return False


def _inode(client_port: int, server_port: int) -> str:
    """Inode of the server's end of a loopback connection."""
    here, there = f"0100007F:{server_port:04X}", f"0100007F:{client_port:04X}"
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[1:3] == [here, there]:
            return fields[9]
    raise AssertionError("the kernel does not know the connection")


def open_wires(store: LiveStore, each: int, *, workers: int = 2, timeout: float = 60) -> list[list[Wire]]:
    """`each` connections to every worker, by worker. The caller closes them."""
    found: defaultdict[int, list[Wire]] = defaultdict(list)
    for _ in range(CONNECTIONS_MAX):
        wire = Wire(store, timeout)
        of_worker = found[worker_of(store, wire)]
        if len(of_worker) < each:
            of_worker.append(wire)
        else:
            wire.close()
        if len(found) == workers and all(len(wires) == each for wires in found.values()):
            return list(found.values())
    raise AssertionError(f"{CONNECTIONS_MAX} connections, and these workers have them: {sorted(found)}")


def send(wire: Wire, request: Request) -> None:
    """Send a request without waiting for its answer."""
    wire.socket.sendall(build(request, wire.host))


class Pinger:
    """Asks one worker again and again whether it lives; the longest it took is how long its event loop stood still."""

    def __init__(self, wire: Wire, *, pause_seconds: float = 0.001) -> None:
        self._wire, self._pause = wire, pause_seconds
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.seconds: list[float] = []

    def wait_for_some(self, count: int = 3) -> None:
        """Return when it was answered a few times more."""
        wanted = len(self.seconds) + count
        while len(self.seconds) < wanted:
            assert self._thread.is_alive(), "the worker does not answer"
            time.sleep(0.001)

    def _run(self) -> None:
        while not self._stop.wait(self._pause):
            began = time.perf_counter()
            answer: Answer = self._wire.send(PROBE)
            assert answer.status == 200, answer
            self.seconds.append(time.perf_counter() - began)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


def resident_bytes(pid: int, field: str = "VmRSS") -> int:
    """Memory of a process: VmRSS now, VmHWM at its highest."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) << 10
    raise AssertionError(field)
