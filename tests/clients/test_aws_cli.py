"""The aws CLI: a tree there and back, nothing to do the second time, a presigned link."""

import json
import urllib.request
from pathlib import Path

import pytest

from tests.clients.running import digests, run, tool
from tests.live import LiveStore

pytestmark = pytest.mark.protocol


def test_sync_and_presign(store: LiveStore, tree: Path, tmp_path: Path) -> None:
    aws = tool("aws")
    run(store, aws, "s3", "mb", "s3://aws-cli")
    run(store, aws, "s3", "sync", "--quiet", tree, "s3://aws-cli/tree")
    run(store, aws, "s3", "sync", "--quiet", "s3://aws-cli/tree", tmp_path / "back")
    assert digests(tmp_path / "back") == digests(tree)
    assert run(store, aws, "s3", "sync", tree, "s3://aws-cli/tree") == ""
    listing = json.loads(run(store, aws, "s3api", "list-objects-v2", "--bucket", "aws-cli", "--prefix", "tree/a/"))
    assert [entry["Key"] for entry in listing["Contents"]] == ["tree/a/b/c/deep"]
    url = run(store, aws, "s3", "presign", "s3://aws-cli/tree/plus+sign").strip()
    with urllib.request.urlopen(url) as answer:
        assert answer.read() == (tree / "plus+sign").read_bytes()


@pytest.mark.nightly
def test_five_gibibytes_in_parts(store: LiveStore, tmp_path: Path) -> None:
    """More than one PUT may carry: `aws s3 cp` sends parts, copies them server-side, and reads them back."""
    aws, source = tool("aws"), tmp_path / "source"
    count, piece = 5 * 1024 + 1, bytes(range(256)) * 4096
    with source.open("wb") as file:
        for number in range(count):
            file.write(number.to_bytes(8, "big") + piece[8:])
    run(store, aws, "s3", "mb", "s3://aws-cli-large")
    run(store, aws, "s3", "cp", "--quiet", source, "s3://aws-cli-large/5g", seconds=1800)
    source.unlink()
    run(store, aws, "s3", "cp", "--quiet", "s3://aws-cli-large/5g", "s3://aws-cli-large/copy", seconds=1800)
    back = tmp_path / "back"
    run(store, aws, "s3", "cp", "--quiet", "s3://aws-cli-large/copy", back, seconds=1800)
    with back.open("rb") as file:
        for number in range(count):
            assert file.read(len(piece)) == number.to_bytes(8, "big") + piece[8:]
        assert file.read(1) == b""
    back.unlink()
