"""s5cmd: a tree there and back with many transfers at once, and deletes in bulk."""

from pathlib import Path

import pytest

from tests.clients.running import digests, run, tool
from tests.live import LiveStore

pytestmark = pytest.mark.protocol


def test_copies_a_tree(store: LiveStore, tree: Path, tmp_path: Path) -> None:
    s5cmd = tool("s5cmd")
    run(store, s5cmd, "mb", "s3://s5cmd")
    run(store, s5cmd, "cp", f"{tree}/", "s3://s5cmd/tree/")
    run(store, s5cmd, "cp", "s3://s5cmd/tree/*", f"{tmp_path / 'back'}/")
    assert digests(tmp_path / "back") == digests(tree)
    run(store, s5cmd, "sync", "s3://s5cmd/tree/*", "s3://s5cmd/second/")
    assert len(run(store, s5cmd, "ls", "s3://s5cmd/second/*").splitlines()) == len(digests(tree))
    run(store, s5cmd, "rm", "s3://s5cmd/*")
    assert store.client().list_objects_v2(Bucket="s5cmd")["KeyCount"] == 0
    run(store, s5cmd, "rb", "s3://s5cmd")
