"""s3cmd: V4 signatures, parts, sync by MD5, location and ACL reads, copies."""

from pathlib import Path

import pytest

from tests.clients.running import digests, run, tool
from tests.live import ACCESS_KEY, SECRET_KEY, LiveStore

pytestmark = pytest.mark.protocol


def s3cmd(store: LiveStore) -> list[str]:
    host = f"127.0.0.1:{store.port}"
    words = [tool("s3cmd"), "--config", "/dev/null", "--no-ssl", f"--host={host}", f"--host-bucket={host}"]
    return [*words, "--no-progress", f"--access_key={ACCESS_KEY}", f"--secret_key={SECRET_KEY}", "--region=us-east-1"]


def test_tree_there_and_back(store: LiveStore, tree: Path, tmp_path: Path) -> None:
    words = s3cmd(store)
    run(store, *words, "mb", "s3://s3cmd")
    run(store, *words, "--multipart-chunk-size-mb=5", "sync", f"{tree}/", "s3://s3cmd/tree/")
    run(store, *words, "sync", "s3://s3cmd/tree/", f"{tmp_path / 'back'}/")
    assert digests(tmp_path / "back") == digests(tree)
    assert "upload" not in run(store, *words, "sync", f"{tree}/", "s3://s3cmd/tree/")
    assert "us-east-1" in run(store, *words, "info", "s3://s3cmd")
    assert "MD5" in run(store, *words, "info", "s3://s3cmd/tree/plus+sign")
    run(store, *words, "get", "s3://s3cmd/tree/plus+sign", tmp_path / "got")
    assert (tmp_path / "got").read_bytes() == (tree / "plus+sign").read_bytes()
    run(store, *words, "del", "--recursive", "--force", "s3://s3cmd")
    run(store, *words, "rb", "s3://s3cmd")


@pytest.mark.xfail(
    reason="s3cmd puts the source's ACL on a copy without Content-MD5 or checksum, which PutObjectAcl requires"
)
def test_copies_and_moves(store: LiveStore, tree: Path, tmp_path: Path) -> None:
    words = s3cmd(store)
    run(store, *words, "mb", "s3://s3cmd-copies")
    run(store, *words, "put", tree / "plus+sign", "s3://s3cmd-copies/plus+sign")
    run(store, *words, "cp", "s3://s3cmd-copies/plus+sign", "s3://s3cmd-copies/copy")
    run(store, *words, "mv", "s3://s3cmd-copies/copy", "s3://s3cmd-copies/moved")
    run(store, *words, "get", "s3://s3cmd-copies/moved", tmp_path / "moved")
    assert (tmp_path / "moved").read_bytes() == (tree / "plus+sign").read_bytes()
