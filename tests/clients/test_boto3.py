"""boto3, the newest and one from before the default checksums."""

import random
import urllib.request
from pathlib import Path

import boto3
import pytest

from tests.clients.running import run_program
from tests.live import ACCESS_KEY, SECRET_KEY, LiveStore

pytestmark = pytest.mark.protocol


def test_transfers_in_parts(store: LiveStore, tmp_path: Path) -> None:
    client = store.client()
    client.create_bucket(Bucket="boto3")
    body = random.Random(3).randbytes(30_000_000)
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(body)
    client.upload_file(str(source), "boto3", "big")
    assert client.head_object(Bucket="boto3", Key="big")["ETag"].endswith('-4"')
    client.download_file("boto3", "big", str(target))
    assert target.read_bytes() == body


def test_default_presigned_urls(store: LiveStore) -> None:
    """boto3 signs URLs with V2 by default in us-east-1."""
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


@pytest.mark.nightly
def test_before_the_default_checksums(store: LiveStore) -> None:
    """1.35: Content-MD5 on deletes, no aws-chunked bodies."""
    run_program(store, "boto3-1.35", "boto3_before_checksums.py", "boto3-old")
