"""DuckDB httpfs: Parquet out and in, more than one page of keys."""

import pytest

from tests.clients.environments import LIGHT
from tests.clients.running import run_program
from tests.live import LiveStore

pytestmark = pytest.mark.protocol


def test_program(store: LiveStore) -> None:
    run_program(store, LIGHT, "duckdb_program.py", "client-duckdb")
