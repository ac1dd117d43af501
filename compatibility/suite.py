"""The suite as a process: a checkout, an interpreter that has its requirements, and the report it leaves."""

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

from compatibility.profile import REGION

TESTS: Final = "s3tests/functional"
PLUGINS: Final = ("pytest-xdist>=3.6", "pytest-timeout>=2.3")
TEST_SECONDS_MAX: Final = 300
"""The slowest tests wait for several of the profile's short days, or for a lock of a minute to end."""

_OPTIONS: Final[Sequence[str]] = (
    *("-p", "isotherm_ledger", "-p", "no:cacheprovider", "-q", "-W", "ignore"),
    *("--dist", "worksteal", "--timeout", str(TEST_SECONDS_MAX), "--tb=short", "--show-capture=no"),
    *("-o", "junit_family=xunit1"),
)


@dataclass(frozen=True, slots=True)
class Suite:
    """A checkout of s3-tests and the interpreter that runs it."""

    checkout: Path
    python: Path

    def commit(self) -> str:
        """The checkout's commit; where it is no repository, what its files hash to."""
        if (self.checkout / ".git").exists():
            command = ["git", "-C", str(self.checkout), "rev-parse", "--short=12", "HEAD"]
            return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
        digest = sha256()
        for path in sorted((self.checkout / TESTS).glob("*.py")):
            digest.update(path.name.encode() + path.read_bytes())
        return f"without history, SHA-256 of its files {digest.hexdigest()[:12]}"

    def versions(self) -> dict[str, str]:
        """The clients that the suite speaks through."""
        code = "import boto3, botocore, pytest; print(boto3.__version__, botocore.__version__, pytest.__version__)"
        answer = subprocess.run([str(self.python), "-c", code], capture_output=True, text=True, check=True)
        return dict(zip(("boto3", "botocore", "pytest"), answer.stdout.split(), strict=True))

    def run(self, folder: Path, workers: int) -> str:
        """Run every test that the checkout has; the text of the JUnit report. Tests may fail, running them may not.

        `folder` holds one configuration a worker (`gw0.conf`, `gw1.conf`, ...) and afterwards the report and the
        suite's own output. The tests run with the checkout as their directory, outside this tree. Errors: SystemExit
        when pytest itself failed.
        """
        report, log = folder / "report.xml", folder / "suite.log"
        command = [str(self.python), "-m", "pytest", *_OPTIONS, "-n", str(workers), f"--junitxml={report}"]
        with log.open("wb") as output:
            status = subprocess.run(
                [*command, TESTS],
                cwd=self.checkout,
                env=_environment(folder),
                stdout=output,
                stderr=output,
                check=False,
            )
        if status.returncode not in {0, 1} or not report.exists():
            raise SystemExit(f"the suite did not run: {log.read_text()[-4000:]}")
        return report.read_text()


def _environment(folder: Path) -> dict[str, str]:
    """The caller's environment without what would steer the clients or the gateway."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "ISOTHERM_", "PYTHON"))}
    return {
        **kept,
        "ISOTHERM_LEDGER_FOLDER": str(folder),
        "PYTHONPATH": str(Path(__file__).parent / "plugin"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "AWS_DEFAULT_REGION": REGION,
        "AWS_EC2_METADATA_DISABLED": "true",
    }


def make_interpreter(checkout: Path, folder: Path) -> Path:
    """The interpreter of an environment with the suite's requirements, made once in `folder`."""
    python, complete = folder / "bin" / "python", folder / ".complete"
    if not complete.exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*install, "-r", str(checkout / "requirements.txt"), *PLUGINS], check=True)
        complete.touch()
    return python
