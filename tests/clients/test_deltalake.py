"""deltalake: concurrent commits by conditional put, none lost."""

import pytest

from tests.clients.environments import LIGHT
from tests.clients.running import run_program
from tests.live import LiveStore

pytestmark = pytest.mark.protocol


def test_program(store: LiveStore) -> None:
    run_program(store, LIGHT, "deltalake_program.py", "client-deltalake")
