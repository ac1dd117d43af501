"""Start and stop the servers under test on loopback: Isotherm and the peers that PyPI carries as binaries."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

ACCESS_KEY, SECRET_KEY = "bench-access", "bench-secret-key"
BINARIES = Path(sys.executable).parent


@dataclass
class Server:
    """One running server. `protection` says what it does before it answers a PUT, with its default settings."""

    name: str
    port: int
    process: subprocess.Popen[bytes]
    protection: str
    version: str
    flushes: str = "not traced"
    results: dict[str, list[dict[str, float]]] = field(default_factory=dict)

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"


def free_ports(count: int) -> int:
    """First of `count` consecutive ports that were all free a moment ago."""
    for start in range(21000 + os.getpid() % 2000, 60000, count):
        try:
            for port in range(start, start + count):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", port))
        except OSError:
            continue
        return start
    raise SystemExit("no free ports")


Launch = tuple[list[str], dict[str, str]]


def isotherm(data: Path, port: int) -> Launch:
    environment = {
        "ISOTHERM_DATA": str(data / "store"),
        "ISOTHERM_SERVER__PORT": str(port),
        "ISOTHERM_SERVER__ADMIN_PORT": str(port + 1),
        "ISOTHERM_ROOT_ACCESS_KEY": ACCESS_KEY,
        "ISOTHERM_ROOT_SECRET_KEY": SECRET_KEY,
        "ISOTHERM_ADMIN_TOKEN": "bench-admin-token-0001",
        "ISOTHERM_SERVER__WORKERS": os.environ.get("BENCH_WORKERS", "2"),
    }
    return [str(BINARIES / "isotherm"), "serve"], environment


def rclone(data: Path, port: int) -> Launch:
    (data / "files").mkdir(exist_ok=True)
    keys = f"{ACCESS_KEY},{SECRET_KEY}"
    command = [str(BINARIES / "rclone"), "serve", "s3", "--addr", f"127.0.0.1:{port}", "--auth-key", keys]
    return [*command, str(data / "files")], {}


def seaweedfs(data: Path, port: int) -> Launch:
    (data / "volumes").mkdir(exist_ok=True)
    credentials = [{"accessKey": ACCESS_KEY, "secretKey": SECRET_KEY}]
    identity = {"name": "bench", "credentials": credentials, "actions": ["Admin", "Read", "Write", "List", "Tagging"]}
    (data / "s3.json").write_text(json.dumps({"identities": [identity]}))
    kinds = ["s3.port", "s3.port.grpc", "master.port", "master.port.grpc"]
    kinds += ["volume.port", "volume.port.grpc", "filer.port", "filer.port.grpc"]
    flags = [f"-{kind}={port + i}" for i, kind in enumerate(kinds)]
    fixed = ["-ip=127.0.0.1", "-ip.bind=127.0.0.1", f"-dir={data / 'volumes'}", "-s3", f"-s3.config={data / 's3.json'}"]
    limits = ["-s3.port.iceberg=0", "-s3.port.lance=0", "-volume.max=20", "-master.volumeSizeLimitMB=1024"]
    return [str(BINARIES / "weed"), "server", *fixed, *flags, *limits], {}


def juicefs(data: Path, port: int) -> Launch:
    metadata = f"sqlite3://{data / 'metadata.db'}"
    if not (data / "metadata.db").exists():
        form = [str(BINARIES / "juicefs"), "format", "--storage", "file", "--bucket", str(data / "blocks")]
        subprocess.run([*form, "--trash-days", "0", metadata, "bench"], check=True, capture_output=True)
    command = [str(BINARIES / "juicefs"), "gateway", "--no-usage-report", "--multi-buckets"]
    cache = ["--cache-dir", str(data / "cache")]
    keys = {"MINIO_ROOT_USER": ACCESS_KEY, "MINIO_ROOT_PASSWORD": SECRET_KEY}
    return [*command, *cache, metadata, f"127.0.0.1:{port}"], keys


KINDS: dict[str, tuple[Callable[[Path, int], Launch], str, tuple[str, ...]]] = {
    "isotherm": (isotherm, "small: 3 flushed copies; large: 4+2 flushed; every read verified", ("version",)),
    "seaweedfs": (seaweedfs, "one copy, no flush an object", ("version",)),
    "rclone": (rclone, "one file on the local file system, no flush", ("version",)),
    "juicefs": (juicefs, "one copy in blocks, metadata in SQLite, no flush an object", ("version",)),
}
EXECUTABLE = {"seaweedfs": "weed"}


def version_of(name: str) -> str:
    command = [str(BINARIES / EXECUTABLE.get(name, name)), *KINDS[name][2]]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    return (answer.stdout or answer.stderr).strip().splitlines()[0][:60] if answer.stdout or answer.stderr else "?"


def answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=2) as connection:
            connection.sendall(f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n".encode())
            return connection.recv(5) == b"HTTP/"
    except OSError:
        return False


@contextlib.contextmanager
def running(name: str, folder: Path) -> Iterator[Server]:
    """One server for the length of a with block."""
    data = folder / name
    data.mkdir(parents=True)
    port = free_ports(8)
    launch, protection, _ = KINDS[name]
    command, environment = launch(data, port)
    with (data / "server.log").open("ab") as log:
        process = subprocess.Popen(
            command, env={**os.environ, **environment}, stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=data,
            start_new_session=True,
        )  # fmt: skip
    server = Server(name, port, process, protection, version_of(name))
    try:
        _wait(server, data)
        yield server
    finally:
        _stop(process)


def _wait(server: Server, data: Path) -> None:
    deadline = time.monotonic() + 90
    while not answers(server.port):
        if server.process.poll() is not None or time.monotonic() > deadline:
            raise SystemExit(f"{server.name} did not start: {(data / 'server.log').read_text()[-2000:]}")
        time.sleep(0.1)
    time.sleep(4)  # seaweedfs answers before its volumes are assigned; the others get the same time


def _stop(process: subprocess.Popen[bytes]) -> None:
    for number, patience in ((signal.SIGTERM, 40), (signal.SIGKILL, 10)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=patience)
            return


def process_tree(pid: int) -> list[int]:
    """A process and all its live descendants."""
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        children = [int(child) for task in tasks for child in (task / "children").read_text().split()]
    except FileNotFoundError:
        return []
    return [pid, *(each for child in children for each in process_tree(child))]


def cpu_seconds(pid: int) -> float:
    """User and system time of a process tree so far, in seconds (ticks of 10 ms)."""
    ticks = 0
    for each in process_tree(pid):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            fields = Path(f"/proc/{each}/stat").read_text().rsplit(")", 1)[1].split()
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def resident_bytes(pid: int) -> int:
    """Greatest resident memory of any process of the tree, in bytes."""
    found = [0]
    for each in process_tree(pid):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            found.append(int(Path(f"/proc/{each}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE"))
    return max(found)
