"""Loaded by pytest inside the suite's own interpreter: one set of accounts a process, and markers in the report.

Knows nothing of Isotherm: it must import in an environment where only the suite's requirements are.
"""

import os
from collections.abc import Sequence

import pytest

IGNORED = {"parametrize", "usefixtures", "filterwarnings"}


def pytest_configure(config: pytest.Config) -> None:
    """Give every worker the configuration of its own accounts: bucket listings and roles are an account's."""
    folder = os.environ["ISOTHERM_LEDGER_FOLDER"]
    worker = os.environ.get("PYTEST_XDIST_WORKER", "gw0")
    os.environ["S3TEST_CONF"] = f"{folder}/{worker}.conf"


def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    """Write every test's markers into the JUnit report, where the ledger reads them."""
    for item in items:
        names = sorted({marker.name for marker in item.iter_markers()} - IGNORED)
        item.user_properties.append(("markers", " ".join(names)))
