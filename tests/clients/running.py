"""How a test runs a foreign client: as a process, with the environment its users would give it."""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.clients import environments
from tests.live import LiveStore

PROGRAMS = Path(__file__).with_name("programs")
BINARIES = Path(sys.executable).parent
IS_NIGHTLY = bool(os.environ.get("ISOTHERM_NIGHTLY"))


def tool(name: str) -> str:
    """The path of a command-line client; where it is absent the test is skipped, and in the nightly run fails."""
    path = shutil.which(name, path=f"{BINARIES}{os.pathsep}{os.environ['PATH']}")
    if path is None and IS_NIGHTLY:
        pytest.fail(f"{name} is not installed")
    if path is None:
        pytest.skip(f"{name} is not installed")
    return path


def interpreter(environment: str) -> Path:
    """The interpreter of a client's environment; made in the nightly run, elsewhere skipped where nobody made it."""
    if not environments.is_made(environment) and not IS_NIGHTLY:
        pytest.skip(f"the clients' environment {environment} is not there: make clients")
    return environments.made(environment)


def run(store: LiveStore, *command: str | Path, seconds: int = 300, **variables: str) -> str:
    """Standard output of a client that must succeed; what it said is in the failure."""
    words = [str(word) for word in command]
    variables = {**store.tool_environment(), **variables}
    answer = subprocess.run(words, env=variables, capture_output=True, text=True, check=False, timeout=seconds)
    assert answer.returncode == 0, f"{words}: {answer.stdout[-3000:]}{answer.stderr[-3000:]}"
    return answer.stdout


def run_program(store: LiveStore, environment: str, program: str, *words: str | Path, seconds: int = 300) -> str:
    """Run a program of `programs/` under a client's own interpreter."""
    return run(store, interpreter(environment), PROGRAMS / program, *words, seconds=seconds)


def digests(root: Path) -> dict[str, str]:
    """SHA-256 of every file below a folder."""
    return {
        path.relative_to(root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in root.rglob("*")
        if path.is_file()
    }
