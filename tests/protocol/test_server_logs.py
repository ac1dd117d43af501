"""Server access logs of a live store: set by boto3, written by its workers, read from the target bucket."""

import json
import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.live import LiveStore
from tests.protocol.serving import until

pytestmark = pytest.mark.protocol

FIELDS = re.compile(r'\[[^\]]*\]|"[^"]*"|[^ ]+')
NAME = re.compile(r"log/\d{4}(-\d\d){5}-[0-9A-F]{16}")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveStore]:
    data: Path = tmp_path_factory.mktemp("logs") / "data"
    with LiveStore(data, ISOTHERM_SERVER_LOG__FLUSH_SECONDS="0.2") as live:
        client = live.client()
        client.create_bucket(Bucket="target")
        statement = {
            "Effect": "Allow",
            "Principal": {"Service": "logging.s3.amazonaws.com"},
            "Action": "s3:PutObject",
            "Resource": "arn:aws:s3:::target/log/*",
            "Condition": {"ArnLike": {"aws:SourceArn": "arn:aws:s3:::logged-*"}},
        }
        client.put_bucket_policy(
            Bucket="target", Policy=json.dumps({"Version": "2012-10-17", "Statement": [statement]})
        )
        yield live


def begin(client: Any, bucket: str, prefix: str = "log/", target: str = "target") -> None:
    client.create_bucket(Bucket=bucket)
    status = {"LoggingEnabled": {"TargetBucket": target, "TargetPrefix": prefix}}
    client.put_bucket_logging(Bucket=bucket, BucketLoggingStatus=status)


def lines_of(client: Any, bucket: str, target: str = "target") -> list[list[str]]:
    """The fields of every line about a bucket that was delivered."""
    names = [found["Key"] for found in client.list_objects_v2(Bucket=target).get("Contents", [])]
    contents = [client.get_object(Bucket=target, Key=name)["Body"].read().decode() for name in names]
    lines = [FIELDS.findall(line) for content in contents for line in content.splitlines()]
    return [line for line in lines if line[1] == bucket]


def test_every_request_of_a_logged_bucket_becomes_a_line(store: LiveStore) -> None:
    client = store.client()
    begin(client, "logged-all")
    client.put_object(Bucket="logged-all", Key="a b", Body=b"x" * 300_000)
    client.get_object(Bucket="logged-all", Key="a b", Range="bytes=0-9")["Body"].read()
    with pytest.raises(ClientError):
        client.get_object(Bucket="logged-all", Key="absent")
    client.copy_object(Bucket="logged-all", Key="copy", CopySource="logged-all/a b")
    client.delete_objects(Bucket="logged-all", Delete={"Objects": [{"Key": "a b"}, {"Key": "copy"}]})
    with pytest.raises(urllib.error.HTTPError):
        urllib.request.urlopen(f"{store.endpoint}/logged-all/secret", timeout=10)
    until(lambda: len(lines_of(client, "logged-all")) >= 9)
    lines = {(line[6], line[7]): line for line in lines_of(client, "logged-all")}
    assert lines.keys() == {
        ("REST.PUT.OBJECT", "a%20b"),
        ("REST.GET.OBJECT", "a%20b"),
        ("REST.GET.OBJECT", "absent"),
        ("REST.GET.OBJECT", "secret"),
        ("REST.COPY.OBJECT", "copy"),
        ("REST.COPY.OBJECT_GET", "a%20b"),
        ("REST.POST.MULTI_OBJECT_DELETE", "-"),
        ("BATCH.DELETE.OBJECT", "a%20b"),
        ("BATCH.DELETE.OBJECT", "copy"),
    }
    assert all(len(line) == 26 for line in lines.values())
    put, got = lines["REST.PUT.OBJECT", "a%20b"], lines["REST.GET.OBJECT", "a%20b"]
    assert (put[9], put[10], put[12]) == ("200", "-", "300000")
    assert (got[9], got[10], got[11], got[12]) == ("206", "-", "10", "300000")
    assert (got[18] != "-", got[19], got[21]) == (True, "SigV4", "AuthHeader")
    absent, secret = lines["REST.GET.OBJECT", "absent"], lines["REST.GET.OBJECT", "secret"]
    assert (absent[9], absent[10]) == ("404", "NoSuchKey")
    assert (secret[4], secret[9], secret[10], secret[19], secret[21]) == ("-", "403", "AccessDenied", "-", "-")
    assert lines["BATCH.DELETE.OBJECT", "copy"][9] == "204"
    names = [found["Key"] for found in client.list_objects_v2(Bucket="target")["Contents"]]
    assert all(NAME.fullmatch(name) for name in names), names


def test_presigned_requests_leave_no_signature_behind(store: LiveStore) -> None:
    client = store.client()
    begin(client, "logged-presigned")
    client.put_object(Bucket="logged-presigned", Key="k", Body=b"x")
    url = client.generate_presigned_url("get_object", Params={"Bucket": "logged-presigned", "Key": "k"})
    with urllib.request.urlopen(url, timeout=10) as answer:
        assert answer.read() == b"x"
    until(lambda: any(line[21] == "QueryString" for line in lines_of(client, "logged-presigned")))
    (line,) = (line for line in lines_of(client, "logged-presigned") if line[21] == "QueryString")
    assert "ignature=[redacted]" in line[8]


def test_the_list_of_the_target_lets_logs_in(store: LiveStore) -> None:
    client = store.client()
    client.create_bucket(Bucket="listed", ObjectOwnership="ObjectWriter")
    with pytest.raises(ClientError, match="AccessDenied"):
        begin(client, "logged-listed", "", "listed")
    client.put_bucket_acl(Bucket="listed", ACL="log-delivery-write")
    begin(client, "logged-listed", "", "listed")
    client.head_bucket(Bucket="logged-listed")
    until(lambda: any(line[6] == "REST.HEAD.BUCKET" for line in lines_of(client, "logged-listed", "listed")))


def test_what_waits_is_delivered_when_the_store_stops(tmp_path: Path) -> None:
    with LiveStore(tmp_path / "data", workers=1) as store:  # every five minutes
        client = store.client()
        client.create_bucket(Bucket="listed", ObjectOwnership="ObjectWriter")
        client.put_bucket_acl(Bucket="listed", ACL="log-delivery-write")
        begin(client, "logged", "p-", "listed")
        client.head_bucket(Bucket="logged")
        assert lines_of(client, "logged", "listed") == []
        assert store.stop() == 0
        store.start()
        assert [line[6] for line in lines_of(store.client(), "logged", "listed")][-1] == "REST.HEAD.BUCKET"
