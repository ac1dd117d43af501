"""Fixtures of the S3 tests."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.s3.gateway import Gateway


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    """A plane over a whole store; a fault that no table translates fails the test."""
    opened = Gateway(tmp_path)
    yield opened
    opened.close()
    assert opened.faults == []


@pytest.fixture
def s3(gateway: Gateway) -> Any:
    """A client of the owner of `bucket`."""
    return gateway.client()
