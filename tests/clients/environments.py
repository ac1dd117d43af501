"""Environments of foreign clients: each in a folder of its own, made from an exact lock. `make clients` makes the light
one, which the ordinary suite uses; the heavy ones are made by the nightly tests that need them.

They stand apart from the development environment because their pins contradict it (s3fs wants its own botocore), and
because a client must be tested as its users have it.
"""

import fcntl
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).resolve().parents[2] / ".clients"
LOCKS: Final = Path(__file__).with_name("locks")
LIGHT: Final = "light"


def _python(name: str) -> Path:
    return FOLDER / name / "bin" / "python"


def _digest(name: str) -> str:
    return sha256((LOCKS / f"{name}.txt").read_bytes()).hexdigest()


def is_made(name: str) -> bool:
    """Whether the environment is there as its lock wants it."""
    mark = FOLDER / name / ".complete"
    return mark.exists() and mark.read_text() == _digest(name)


def made(name: str) -> Path:
    """The interpreter of an environment, made if it is not there. Safe between processes.

    Errors: CalledProcessError when pip cannot install it.
    """
    FOLDER.mkdir(exist_ok=True)
    with (FOLDER / f"{name}.guard").open("w") as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)
        if not is_made(name):
            folder = FOLDER / name
            subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
            install = [str(_python(name)), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            subprocess.run([*install, "--requirement", str(LOCKS / f"{name}.txt")], check=True)
            (folder / ".complete").write_text(_digest(name))
    return _python(name)


if __name__ == "__main__":
    for wanted in sys.argv[1:] or [LIGHT]:
        made(wanted)
