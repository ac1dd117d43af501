"""A live store for tests: `isotherm serve` as a process on free loopback ports, with its own data directory."""

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Self

import boto3
from botocore.config import Config

ACCESS_KEY = "test-root"
SECRET_KEY = "canary-secret-of-root-0001"
ADMIN_TOKEN = "canary-admin-token-0001"
REGION = "us-east-1"


PORTS = range(20_000, 32_000)
"""Below the ports that outgoing connections take: one of those would be gone again before the store listens."""

_given: set[int] = set()


def free_port() -> int:
    """A port that was free a moment ago, and that this process has not given out before."""
    while True:
        port = PORTS[int.from_bytes(os.urandom(4), "little") % len(PORTS)]
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        if port not in _given:
            _given.add(port)
            return port


def descendants(pid: int) -> list[int]:
    """Process ids below `pid`, children before grandchildren."""
    found: list[int] = []
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in children.read_text().split():
            found += [int(child), *descendants(int(child))]
    return found


class LiveStore:
    """One `isotherm serve`. Use as a context manager; `kill` and `start` may follow each other."""

    def __init__(self, data: Path, *, workers: int = 2, **environment: str) -> None:
        self.data = data
        self.port = free_port()
        self.admin_port = free_port()
        self.log = data.parent / f"{data.name}.log"
        # The tests' own variables (ISOTHERM_SEED and the like) are no settings, and unknown settings are refused.
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("ISOTHERM_")}
        self.environment = {
            **inherited,
            "ISOTHERM_DATA": str(data),
            "ISOTHERM_SERVER__PORT": str(self.port),
            "ISOTHERM_SERVER__ADMIN_PORT": str(self.admin_port),
            "ISOTHERM_SERVER__WORKERS": str(workers),
            "ISOTHERM_ROOT_ACCESS_KEY": ACCESS_KEY,
            "ISOTHERM_ROOT_SECRET_KEY": SECRET_KEY,
            "ISOTHERM_ADMIN_TOKEN": ADMIN_TOKEN,
            **environment,
        }
        self.process: subprocess.Popen[bytes] | None = None
        self._orphans: list[int] = []

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def admin(self) -> str:
        return f"http://127.0.0.1:{self.admin_port}"

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def launch(self) -> None:
        """Start, and do not wait."""
        with self.log.open("ab") as log:
            command = [sys.executable, "-m", "gateway.cli", "serve"]
            self.process = subprocess.Popen(
                command, env=self.environment, stdout=log, stderr=log, start_new_session=True
            )

    def start(self, *, wait_seconds: float = 60) -> Self:
        """Start and wait until every worker is ready."""
        self.launch()
        deadline = time.monotonic() + wait_seconds
        while any(Path(f"/proc/{pid}").exists() for pid in self._orphans):  # they would answer for the new ones
            assert time.monotonic() < deadline, f"processes of the killed supervisor live on: {self._orphans}"
            time.sleep(0.02)
        self._orphans = []
        self.wait_ready(wait_seconds)
        return self

    def wait_ready(self, wait_seconds: float = 60) -> None:
        """Wait for 200 from /health/ready on both ports."""
        deadline = time.monotonic() + wait_seconds
        for url in (f"{self.endpoint}/health/ready", f"{self.admin}/health/ready"):
            while True:
                try:
                    with urllib.request.urlopen(url, timeout=5):
                        break
                except OSError as error:
                    assert self.process is not None
                    if self.process.poll() is not None or time.monotonic() > deadline:
                        raise AssertionError(f"not ready: {error}\n{self.log.read_text()[-4000:]}") from error
                    time.sleep(0.05)

    def processes(self) -> list[int]:
        """Every process of the store: supervisor first."""
        return [self.pid, *descendants(self.pid)]

    def kill(self) -> None:
        """SIGKILL to every process at once: nothing gets to say goodbye."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)  # so that nothing is restarted between two kills
        for pid in reversed(self.processes()):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self.process.wait()
        self.process = None

    def kill_supervisor(self) -> None:
        """SIGKILL to the supervisor alone; the others drain by themselves, and `start` waits for their end."""
        assert self.process is not None
        self._orphans = self.processes()[1:]
        self.process.kill()
        self.process.wait()
        self.process = None

    def stop(self) -> int:
        """SIGTERM; the exit status. Idempotent."""
        if self.process is None:
            return 0
        self.process.terminate()
        try:
            status = self.process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        self.process = None
        return status

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def client(self, service: str = "s3", **config: Any) -> Any:
        """A boto3 client of the root account; configuration as any user has it, but few retries."""
        options = {"retries": {"max_attempts": 1, "mode": "standard"}, "s3": {"addressing_style": "path"}, **config}
        make: Any = boto3.client  # its stubs know the services by literal names
        return make(
            service,
            endpoint_url=self.endpoint,
            aws_access_key_id=ACCESS_KEY,
            aws_secret_access_key=SECRET_KEY,
            region_name=REGION,
            config=Config(**options),
        )

    def tool_environment(self) -> dict[str, str]:
        """Environment for command-line clients."""
        return {
            **os.environ,
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_ENDPOINT_URL": self.endpoint,
            "S3_ENDPOINT_URL": self.endpoint,
        }


def get_json(url: str, token: str = ADMIN_TOKEN) -> tuple[int, bytes]:
    """Status and body of a GET with a bearer token."""
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()
