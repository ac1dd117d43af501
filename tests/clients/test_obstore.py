"""obstore: conditional puts, joined ranges, parts, listings."""

import pytest

from tests.clients.environments import LIGHT
from tests.clients.running import run_program
from tests.live import LiveStore

pytestmark = pytest.mark.protocol


def test_program(store: LiveStore) -> None:
    run_program(store, LIGHT, "obstore_program.py", "client-obstore")
