"""The import contracts hold, and each of them convicts a forbidden import."""

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.architecture.tree import ROOT

PLANTS = {
    "packages import downwards only": ("metadata/errors.py", "import tiers.errors"),
    "order inside tiers": ("tiers/errors.py", "import tiers.datapath.body"),
    "order inside gateway": ("gateway/http/call.py", "import gateway.s3.errors"),
    "only metadata knows SQLAlchemy": ("tiers/errors.py", "import sqlalchemy"),
    "the data plane knows no framework": ("gateway/s3/errors.py", "import fastapi"),
    "the gateway sees no disk": ("gateway/s3/errors.py", "import tiers.devices.directory"),
}


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_every_contract_has_its_plant() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    assert sorted(PLANTS) == sorted(contract["name"] for contract in contracts)


@pytest.mark.parametrize("contract", sorted(PLANTS))
def test_contract_convicts(contract: str, tmp_path: Path) -> None:
    for package in ("gateway", "tiers", "metadata"):
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    name, line = PLANTS[contract]
    target = tmp_path / name
    target.write_text(target.read_text() + f"\n{line}\n")
    result = lint(tmp_path)
    assert result.returncode == 1
    assert f"{contract} BROKEN" in result.stdout
