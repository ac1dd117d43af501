"""restic: init, backup, check with every byte read, forget with prune, restore."""

from pathlib import Path

import pytest

from tests.clients.running import digests, run, tool
from tests.live import LiveStore

pytestmark = pytest.mark.protocol


def test_backup_and_restore(store: LiveStore, tree: Path, tmp_path: Path) -> None:
    words = [tool("restic"), "--repo", f"s3:{store.endpoint}/restic/repository", "--cache-dir", str(tmp_path / "cache")]
    secret = {"RESTIC_PASSWORD": "a password of the test"}
    expected = digests(tree)
    run(store, *words, "init", **secret)
    run(store, *words, "backup", tree, **secret)
    (tree / "plain.txt").write_text("changed")
    run(store, *words, "backup", tree, **secret)
    run(store, *words, "check", "--read-data", **secret)
    run(store, *words, "restore", "latest", "--target", tmp_path / "back", **secret)
    assert digests(tmp_path / "back" / tree.relative_to("/")) == digests(tree) != expected
    run(store, *words, "forget", "--keep-last", "1", "--prune", **secret)
    run(store, *words, "check", "--read-data", **secret)
