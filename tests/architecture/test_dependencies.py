"""The lock, its floors, and the page that says why each dependency is there."""

import re
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.architecture.tree import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
LOCKED_EXTRAS = ("postgres", "dev", "bench")

# Versions below have known advisories or lack what the security review asks for.
SECURITY_FLOORS = {
    "starlette": "1.0.1",
    "h11": "0.16.0",
    "urllib3": "2.0.0",
    "pyeclib": "1.8.0",
    "python-multipart": "0.0.31",
}
OPTIONAL = {"python-multipart"}  # not needed unless a form is parsed; the floor holds if it comes


def locked() -> dict[str, Version]:
    """Every locked package and its version."""
    pairs = (line.split("==") for line in (ROOT / "requirements.lock").read_text().splitlines())
    return {canonicalize_name(name): Version(version) for name, version in pairs}


def requirements(*extras: str) -> list[Requirement]:
    """What `pyproject.toml` asks for."""
    optional = PROJECT["optional-dependencies"]
    lines = [*PROJECT["dependencies"], *(line for extra in extras for line in optional[extra])]
    return [Requirement(line) for line in lines]


def test_lock_is_exact_and_names_no_place() -> None:
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    assert [line for line in lines if not re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.+!]+", line)] == []
    assert not {"isotherm", "pip", "wheel"} & locked().keys()


def below_floor(found: dict[str, Version]) -> list[str]:
    """Packages under the floors of the security review, or missing."""
    return [
        name
        for name, floor in SECURITY_FLOORS.items()
        if (name in found or name not in OPTIONAL) and found.get(name, Version("0")) < Version(floor)
    ]


def test_security_floors_hold() -> None:
    assert below_floor(locked()) == []


def test_floor_check_convicts() -> None:
    assert below_floor({**locked(), "h11": Version("0.14.0")}) == ["h11"]


@pytest.mark.parametrize("requirement", requirements(*LOCKED_EXTRAS), ids=str)
def test_lock_satisfies_the_project(requirement: Requirement) -> None:
    assert requirement.specifier.contains(locked()[canonicalize_name(requirement.name)])


def test_every_dependency_has_a_floor_and_its_reason() -> None:
    page = canonicalize_name((ROOT / "decisions" / "0010-libraries.md").read_text())
    everything = requirements(*PROJECT["optional-dependencies"])
    assert [str(each) for each in everything if not each.specifier] == []
    assert [each.name for each in everything if canonicalize_name(each.name) not in page] == []
