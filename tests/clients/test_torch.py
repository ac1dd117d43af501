"""torch: s3torchconnector with distributed checkpoints, checkpoints through s3fs, webdataset over the aws CLI."""

import pytest

from tests.clients.running import run_program, tool
from tests.live import LiveStore

pytestmark = [pytest.mark.protocol, pytest.mark.nightly]


def test_program(store: LiveStore) -> None:
    run_program(store, "torch", "torch_program.py", "client-torch", tool("aws"), seconds=600)
