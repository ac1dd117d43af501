"""Inventory reports of a live store with short days."""

import csv
import gzip
import hashlib
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.live import LiveStore
from tests.protocol.serving import until
from tests.protocol.test_policies import People

pytestmark = pytest.mark.protocol

FIELDS = [
    "Size", "ETag", "StorageClass", "IsMultipartUploaded", "EncryptionStatus", "ChecksumAlgorithm",
    "ObjectAccessControlList", "ObjectOwner", "Tier",
]  # fmt: skip


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveStore]:
    data: Path = tmp_path_factory.mktemp("inventories") / "data"
    with LiveStore(data, workers=1, ISOTHERM_SECONDS_PER_DAY="1") as live:
        yield live


def ask(client: Any, bucket: str, target: str, **changes: Any) -> None:
    destination = {"Bucket": f"arn:aws:s3:::{target}", "Format": "CSV", "Prefix": "reports"}
    configuration = {
        "Destination": {"S3BucketDestination": {**destination, **changes.pop("destination", {})}},
        "IsEnabled": True,
        "Id": "daily",
        "IncludedObjectVersions": "All",
        "OptionalFields": FIELDS,
        "Schedule": {"Frequency": "Daily"},
        **changes,
    }
    client.put_bucket_inventory_configuration(Bucket=bucket, Id="daily", InventoryConfiguration=configuration)


def keys_of(client: Any, bucket: str) -> list[str]:
    return [found["Key"] for found in client.list_objects_v2(Bucket=bucket).get("Contents", [])]


def read(client: Any, bucket: str, key: str) -> bytes:
    content: bytes = client.get_object(Bucket=bucket, Key=key)["Body"].read()
    return content


def test_a_report_as_aws_lays_it_out(store: LiveStore) -> None:
    client = store.client()
    client.create_bucket(Bucket="source")
    client.create_bucket(Bucket="reports")
    client.put_bucket_versioning(Bucket="source", VersioningConfiguration={"Status": "Enabled"})
    client.put_object(Bucket="source", Key="a b", Body=b"four", ServerSideEncryption="AES256")
    client.put_object(Bucket="source", Key="gone", Body=b"x", StorageClass="STANDARD_IA")
    client.delete_object(Bucket="source", Key="gone")
    ask(client, "source", "reports", destination={"Encryption": {"SSES3": {}}})
    until(lambda: any(key.endswith("manifest.checksum") for key in keys_of(client, "reports")))
    client.delete_bucket_inventory_configuration(Bucket="source", Id="daily")

    checksum = next(key for key in keys_of(client, "reports") if key.endswith("manifest.checksum"))
    manifest_key = checksum.replace("manifest.checksum", "manifest.json")
    assert manifest_key.startswith("reports/source/daily/2")
    content = read(client, "reports", manifest_key)
    assert read(client, "reports", checksum).decode() == hashlib.md5(content).hexdigest()
    manifest = json.loads(content)
    assert manifest["sourceBucket"] == "source"
    assert manifest["destinationBucket"] == "arn:aws:s3:::reports"
    columns = manifest["fileSchema"].split(", ")
    assert columns == ["Bucket", "Key", "VersionId", "IsLatest", "IsDeleteMarker", *FIELDS]
    (named,) = manifest["files"]
    answer = client.get_object(Bucket="reports", Key=named["key"])
    assert answer["ServerSideEncryption"] == "AES256"
    packed = answer["Body"].read()
    assert (len(packed), hashlib.md5(packed).hexdigest()) == (named["size"], named["MD5checksum"])
    rows = [dict(zip(columns, row, strict=True)) for row in csv.reader(io.StringIO(gzip.decompress(packed).decode()))]
    owner = client.list_buckets()["Owner"]["ID"]
    first, marker, older = rows
    assert first | {"VersionId": "", "ObjectAccessControlList": ""} == {
        "Bucket": "source", "Key": "a%20b", "VersionId": "", "IsLatest": "true", "IsDeleteMarker": "false", "Size": "4",
        "ETag": hashlib.md5(b"four").hexdigest(), "StorageClass": "STANDARD", "IsMultipartUploaded": "false",
        "EncryptionStatus": "SSE-S3", "ChecksumAlgorithm": "CRC32", "ObjectAccessControlList": "",
        "ObjectOwner": owner, "Tier": first["Tier"],
    }  # fmt: skip
    assert first["Tier"]
    assert first["ObjectAccessControlList"]
    assert (marker["Key"], marker["IsLatest"], marker["IsDeleteMarker"], marker["Size"]) == ("gone", "true", "true", "")
    assert (older["IsLatest"], older["StorageClass"], older["EncryptionStatus"]) == ("false", "STANDARD_IA", "NOT-SSE")
    link = next(key for key in keys_of(client, "reports") if key.endswith("symlink.txt"))
    assert link.startswith("reports/source/daily/hive/dt=2")
    assert read(client, "reports", link).decode().startswith("s3://reports/reports/source/daily/data/")


def test_formats_and_fields_that_are_not_served(store: LiveStore) -> None:
    client = store.client()
    client.create_bucket(Bucket="formats")
    with pytest.raises(ClientError, match="pyarrow"):
        ask(client, "formats", "formats", destination={"Format": "Parquet"})
    with pytest.raises(ClientError, match="ORC"):
        ask(client, "formats", "formats", destination={"Format": "ORC"})


def policy(action: str, resource: str, **principal: str) -> str:
    statement = {"Effect": "Allow", "Principal": principal, "Action": action, "Resource": f"arn:aws:s3:::{resource}"}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


def test_reports_go_only_where_owner_and_caller_may_write(store: LiveStore) -> None:
    people = People(store)
    source, target = people.bucket(), "of-other"
    people.other.create_bucket(Bucket=target)
    with pytest.raises(ClientError, match="AccessDenied"):
        ask(people.owner, source, target)
    delegated = policy("s3:PutInventoryConfiguration", source, AWS=people.other_id)
    people.owner.put_bucket_policy(Bucket=source, Policy=delegated)
    with pytest.raises(ClientError, match="AccessDenied"):  # other may write there, the source's owner may not
        ask(people.other, source, target)
    own = people.bucket()
    with pytest.raises(ClientError, match="AccessDenied"):  # and the other way round
        ask(people.other, source, own)
    people.other.put_bucket_policy(Bucket=target, Policy=policy("s3:PutObject", f"{target}/*", AWS=people.owner_id))
    ask(people.owner, source, target)
    until(lambda: any(key.endswith("manifest.checksum") for key in keys_of(people.other, target)))

    people.other.delete_bucket_policy(Bucket=target)  # the right is asked again at every delivery
    until(lambda: b"may not write into of-other" in store.log.read_bytes())
    for key in keys_of(people.other, target):
        people.other.delete_object(Bucket=target, Key=key)
    refused = store.log.read_bytes().count(b"may not write into of-other")
    until(lambda: store.log.read_bytes().count(b"may not write into of-other") > refused + 1)
    assert keys_of(people.other, target) == []
