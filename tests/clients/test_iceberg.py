"""pyiceberg against a versioned bucket: a condition that is ignored there would lose a commit silently."""

from pathlib import Path

import pytest

from tests.clients.running import run_program
from tests.live import ACCESS_KEY, SECRET_KEY, LiveStore

pytestmark = [pytest.mark.protocol, pytest.mark.nightly]


def test_program(store: LiveStore, tmp_path: Path) -> None:
    client = store.client()
    client.create_bucket(Bucket="client-iceberg")
    client.put_bucket_versioning(Bucket="client-iceberg", VersioningConfiguration={"Status": "Enabled"})
    words = ["client-iceberg", str(tmp_path), store.endpoint, ACCESS_KEY, SECRET_KEY]
    run_program(store, "iceberg", "iceberg_program.py", *words)
