"""s3fs with fsspec: files, ranges, directories, bulk deletes."""

import pytest

from tests.clients.environments import LIGHT
from tests.clients.running import run_program
from tests.live import LiveStore

pytestmark = pytest.mark.protocol


def test_program(store: LiveStore) -> None:
    run_program(store, LIGHT, "s3fs_program.py", "client-s3fs")
