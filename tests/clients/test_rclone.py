"""rclone: sync both ways by checksum, and a check that downloads everything."""

from pathlib import Path

import pytest

from tests.clients.running import digests, run, tool
from tests.live import ACCESS_KEY, SECRET_KEY, LiveStore

pytestmark = pytest.mark.protocol


def test_sync_with_checksums(store: LiveStore, tree: Path, tmp_path: Path) -> None:
    rclone = tool("rclone")
    options = f"provider=Other,endpoint='{store.endpoint}',access_key_id={ACCESS_KEY},secret_access_key={SECRET_KEY}"
    remote = f":s3,{options},region=us-east-1:rclone/tree"
    run(store, rclone, "sync", "--checksum", tree, remote)
    run(store, rclone, "sync", "--checksum", remote, tmp_path / "back")
    assert digests(tmp_path / "back") == digests(tree)
    run(store, rclone, "check", "--download", tree, remote)
    (tree / "plus+sign").unlink()
    run(store, rclone, "sync", tree, remote)
    assert "plus+sign" not in run(store, rclone, "lsf", "--recursive", remote)
