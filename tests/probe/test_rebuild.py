"""P13: without the database, `isotherm rebuild` brings back every version, delete marker and tag from the devices."""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.live import LiveStore

pytestmark = pytest.mark.probe
OBJECTS = 20_000 if os.environ.get("ISOTHERM_NIGHTLY") else 1_000


def inventory(client: Any) -> dict[str, list[Any]]:
    """Everything a client can see: versions, delete markers, tags, buckets, uploads."""
    seen: dict[str, list[Any]] = {"buckets": [b["Name"] for b in client.list_buckets()["Buckets"]]}
    for bucket in seen["buckets"]:
        entries: list[Any] = []
        for page in client.get_paginator("list_object_versions").paginate(Bucket=bucket):
            for kind in ("Versions", "DeleteMarkers"):
                for entry in page.get(kind, []):
                    entries.append([kind, *(str(entry.get(f)) for f in ("Key", "VersionId", "IsLatest", "ETag", "Size",
                                                                         "LastModified", "StorageClass"))])  # fmt: skip
        seen[bucket] = entries
        seen[f"{bucket} versioning"] = [client.get_bucket_versioning(Bucket=bucket).get("Status")]
        uploads = client.list_multipart_uploads(Bucket=bucket).get("Uploads", [])
        seen[f"{bucket} uploads"] = [(u["Key"], u["UploadId"]) for u in uploads]
    return seen


def tags_of(client: Any, bucket: str, keys: list[str]) -> list[Any]:
    return [client.get_object_tagging(Bucket=bucket, Key=key)["TagSet"] for key in keys]


def fill(client: Any, count: int) -> None:
    client.create_bucket(Bucket="plain")
    client.create_bucket(Bucket="versioned")
    client.put_bucket_versioning(Bucket="versioned", VersioningConfiguration={"Status": "Enabled"})
    for number in range(count):
        bucket = ("plain", "versioned")[number % 2]
        client.put_object(
            Bucket=bucket, Key=f"k/{number % (count // 2)}", Body=b"x" * (number % 3000), Tagging=f"n={number % 7}",
            StorageClass=("STANDARD", "STANDARD_IA")[number % 5 == 0],
        )  # fmt: skip
        if number % 10 == 3:
            client.delete_object(Bucket=bucket, Key=f"k/{number % (count // 2)}")
    client.put_object(Bucket="plain", Key="large", Body=os.urandom(9_000_000))
    upload = client.create_multipart_upload(Bucket="plain", Key="open")["UploadId"]
    client.upload_part(Bucket="plain", Key="open", UploadId=upload, PartNumber=1, Body=b"p" * 6_000_000)


def test_rebuild_restores_everything(tmp_path: Path) -> None:
    store = LiveStore(tmp_path / "data", workers=2)
    with store:
        client = store.client()
        fill(client, OBJECTS)
        before = inventory(client)
        keys = [entry[1] for entry in before["plain"] if entry[0] == "Versions"][:200]
        tags, body = tags_of(client, "plain", keys), client.get_object(Bucket="plain", Key="large")["Body"].read()
    for path in store.data.glob("metadata.db*"):
        path.unlink()
    began = time.monotonic()
    command = [sys.executable, "-m", "gateway.cli", "rebuild"]
    answer = subprocess.run(command, env=store.environment, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    took = time.monotonic() - began
    with store:
        client = store.client()
        assert inventory(client) == before
        assert tags_of(client, "plain", keys) == tags
        assert client.get_object(Bucket="plain", Key="large")["Body"].read() == body
        client.put_object(Bucket="plain", Key="after", Body=b"y")
    print(f"rebuilt {OBJECTS} operations in {took:.1f} s, interpreter start included")
