"""Unmodified clients against a live store with two workers: what they upload comes back byte for byte."""

import hashlib
import json
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live import ACCESS_KEY, SECRET_KEY, LiveStore

pytestmark = [pytest.mark.protocol, pytest.mark.xdist_group("clients")]
BINARIES = Path(sys.executable).parent


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveStore]:
    with LiveStore(tmp_path_factory.mktemp("clients") / "data", workers=2) as live:
        yield live


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A small tree with awkward names and every size that takes another path."""
    rng = random.Random(7)
    root = tmp_path / "tree"
    names = ["plain.txt", "with space.bin", "plus+sign", "a/b/c/deep", "\u00fcml\u00e4ut", "per%cent", "semi;colon=x"]
    for number, size in enumerate([0, 1, 4096, 131_072, 131_073, 6_000_000, 20_000_000]):
        path = root / names[number]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(rng.randbytes(size))
    return root


def digests(root: Path) -> dict[str, str]:
    return {
        path.relative_to(root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in root.rglob("*")
        if path.is_file()
    }


def run(store: LiveStore, *command: str) -> str:
    environment = store.tool_environment()
    answer = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert answer.returncode == 0, f"{command}: {answer.stdout[-2000:]}{answer.stderr[-2000:]}"
    return answer.stdout


def test_aws_cli_sync(store: LiveStore, tree: Path, tmp_path: Path) -> None:
    aws = str(BINARIES / "aws")
    run(store, aws, "s3", "mb", "s3://aws-cli")
    run(store, aws, "s3", "sync", "--quiet", str(tree), "s3://aws-cli/tree")
    run(store, aws, "s3", "sync", "--quiet", "s3://aws-cli/tree", str(tmp_path / "back"))
    assert digests(tmp_path / "back") == digests(tree)
    assert run(store, aws, "s3", "sync", str(tree), "s3://aws-cli/tree") == ""
    listing = json.loads(run(store, aws, "s3api", "list-objects-v2", "--bucket", "aws-cli", "--prefix", "tree/a/"))
    assert [entry["Key"] for entry in listing["Contents"]] == ["tree/a/b/c/deep"]
    url = run(store, aws, "s3", "presign", "s3://aws-cli/tree/plain.txt").strip()
    assert "Signature" in url


def test_s5cmd_copies_a_tree(store: LiveStore, tree: Path, tmp_path: Path) -> None:
    s5cmd = BINARIES / "s5cmd"
    if not s5cmd.exists():
        pytest.skip("s5cmd is not installed")
    run(store, str(s5cmd), "mb", "s3://s5cmd")
    run(store, str(s5cmd), "cp", f"{tree}/", "s3://s5cmd/tree/")
    run(store, str(s5cmd), "cp", "s3://s5cmd/tree/*", f"{tmp_path / 'back'}/")
    assert digests(tmp_path / "back") == digests(tree)


def test_rclone_sync_with_checksums(store: LiveStore, tree: Path, tmp_path: Path) -> None:
    rclone = BINARIES / "rclone"
    if not rclone.exists():
        pytest.skip("rclone is not installed")
    options = f"provider=Other,endpoint='{store.endpoint}',access_key_id={ACCESS_KEY},secret_access_key={SECRET_KEY}"
    remote = f":s3,{options},region=us-east-1:rclone/tree"
    run(store, str(rclone), "sync", "--checksum", str(tree), remote)
    run(store, str(rclone), "sync", "--checksum", remote, str(tmp_path / "back"))
    assert digests(tmp_path / "back") == digests(tree)
    run(store, str(rclone), "check", "--download", str(tree), remote)


def test_boto3_transfers_in_parts(store: LiveStore, tmp_path: Path) -> None:
    client = store.client()
    client.create_bucket(Bucket="boto3")
    body = random.Random(3).randbytes(30_000_000)
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(body)
    client.upload_file(str(source), "boto3", "big")
    assert client.head_object(Bucket="boto3", Key="big")["ETag"].endswith('-4"')
    client.download_file("boto3", "big", str(target))
    assert target.read_bytes() == body
    shutil.rmtree(tmp_path, ignore_errors=True)


def test_boto3_default_presigned_urls(store: LiveStore) -> None:
    """boto3 signs URLs with V2 by default in us-east-1."""
    import urllib.request

    import boto3

    client = boto3.client(
        "s3", endpoint_url=store.endpoint, aws_access_key_id=ACCESS_KEY, aws_secret_access_key=SECRET_KEY
    )
    client.create_bucket(Bucket="presigned")
    put = client.generate_presigned_url("put_object", Params={"Bucket": "presigned", "Key": "k e y"})
    request = urllib.request.Request(put, data=b"by url", method="PUT", headers={"Content-Type": ""})
    with urllib.request.urlopen(request) as answer:
        assert answer.status == 200
    url = client.generate_presigned_url("get_object", Params={"Bucket": "presigned", "Key": "k e y"})
    with urllib.request.urlopen(url) as answer:
        assert answer.read() == b"by url"
