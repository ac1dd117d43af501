"""Notifications of a live store to a real receiver."""

import hmac
import json
import re
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.live import ADMIN_TOKEN, LiveStore
from tests.protocol.receiver import Receiver

pytestmark = pytest.mark.protocol

ARN = "arn:isotherm:sqs:us-east-1:hook:webhook"
SECRET = "canary-secret-of-webhook-0001"
EVERYTHING = ["s3:ObjectCreated:*", "s3:ObjectRemoved:*", "s3:ObjectTagging:*"]


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    with Receiver() as made:
        yield made


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory, receiver: Receiver) -> Iterator[LiveStore]:
    targets = [
        {"name": "hook", "url": receiver.url, "secret": SECRET},
        {"name": "dead", "url": "http://127.0.0.1:9/"},
    ]
    data: Path = tmp_path_factory.mktemp("notify") / "data"
    environment = {
        "ISOTHERM_NOTIFICATIONS__TARGETS": json.dumps(targets),
        "ISOTHERM_NOTIFICATIONS__REST_SECONDS": "0.05",
    }
    with LiveStore(data, **environment) as live:
        yield live


@pytest.fixture
def bucket(store: LiveStore, receiver: Receiver, request: pytest.FixtureRequest) -> str:
    name = re.sub("[^a-z0-9]", "-", request.node.name.lower())[:60].strip("-")
    store.client().create_bucket(Bucket=name)
    with receiver._lock:
        receiver.posts.clear()
        receiver.status = 200
    return name


def ask(client: Any, bucket: str, events: list[str] = EVERYTHING, arn: str = ARN, **rest: Any) -> None:
    configuration = {"QueueConfigurations": [{"Id": "all", "QueueArn": arn, "Events": events, **rest}]}
    client.put_bucket_notification_configuration(Bucket=bucket, NotificationConfiguration=configuration)


def test_a_configuration_is_read_back_as_put(store: LiveStore, bucket: str) -> None:
    client = store.client()
    unset = client.get_bucket_notification_configuration(Bucket=bucket)
    assert "QueueConfigurations" not in unset
    rules = {"Key": {"FilterRules": [{"Name": "Prefix", "Value": "in/"}, {"Name": "Suffix", "Value": ".jpg"}]}}
    ask(client, bucket, Filter=rules)
    (read,) = client.get_bucket_notification_configuration(Bucket=bucket)["QueueConfigurations"]
    assert read == {"Id": "all", "QueueArn": ARN, "Events": EVERYTHING, "Filter": rules}
    client.put_bucket_notification_configuration(Bucket=bucket, NotificationConfiguration={})
    assert "QueueConfigurations" not in client.get_bucket_notification_configuration(Bucket=bucket)


@pytest.mark.parametrize(
    "change",
    [{"events": ["s3:ObjectCreated:Nothing"]}, {"arn": "arn:isotherm:sqs:us-east-1:absent:webhook"}],
    ids=["event", "target"],
)
def test_what_does_not_exist_is_refused(store: LiveStore, bucket: str, change: dict[str, Any]) -> None:
    client = store.client()
    with pytest.raises(ClientError) as caught:
        ask(client, bucket, **change)
    assert caught.value.response["Error"]["Code"] == "InvalidArgument"
    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 400
    assert "QueueConfigurations" not in client.get_bucket_notification_configuration(Bucket=bucket)


def test_validation_may_be_skipped(store: LiveStore, bucket: str) -> None:
    later = "arn:minio:sqs::later:webhook"
    store.client().put_bucket_notification_configuration(
        Bucket=bucket,
        NotificationConfiguration={"TopicConfigurations": [{"TopicArn": later, "Events": EVERYTHING}]},
        SkipDestinationValidation=True,
    )


def test_every_change_is_told(store: LiveStore, receiver: Receiver, bucket: str) -> None:
    client = store.client()
    client.put_object(Bucket=bucket, Key="before", Body=b"1")
    ask(client, bucket)
    etag = client.put_object(Bucket=bucket, Key="a b/ü", Body=b"12345")["ETag"].strip('"')
    client.copy_object(Bucket=bucket, Key="copy", CopySource={"Bucket": bucket, "Key": "a b/ü"})
    client.put_object_tagging(Bucket=bucket, Key="copy", Tagging={"TagSet": [{"Key": "a", "Value": "b"}]})
    upload = client.create_multipart_upload(Bucket=bucket, Key="big")["UploadId"]
    part = client.upload_part(Bucket=bucket, Key="big", UploadId=upload, PartNumber=1, Body=b"1234567")
    client.complete_multipart_upload(
        Bucket=bucket, Key="big", UploadId=upload, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
    )
    client.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": "copy"}, {"Key": "absent"}]})
    answer = client.delete_object(Bucket=bucket, Key="a b/ü")
    records = receiver.wait(6)
    told = [(record["eventName"], record["s3"]["object"]["key"], record["s3"]["object"]["size"]) for record in records]
    assert told == [
        ("ObjectCreated:Put", "a+b/%C3%BC", 5),
        ("ObjectCreated:Copy", "copy", 5),
        ("ObjectTagging:Put", "copy", 5),
        ("ObjectCreated:CompleteMultipartUpload", "big", 7),
        ("ObjectRemoved:Delete", "copy", 5),
        ("ObjectRemoved:Delete", "a+b/%C3%BC", 5),
    ]
    assert records[0]["s3"]["object"]["eTag"] == etag
    assert records[0]["s3"]["bucket"]["name"] == bucket
    assert records[-1]["responseElements"]["x-amz-request-id"] == answer["ResponseMetadata"]["RequestId"]
    assert records[-1]["requestParameters"]["sourceIPAddress"] == "127.0.0.1"
    assert len(records[-1]["userIdentity"]["principalId"]) == 64
    sequencers = [record["s3"]["object"]["sequencer"] for record in records]
    assert sequencers == sorted(sequencers)
    headers, first = receiver.posts[0]
    assert json.loads(first)["Event"] == "s3:TestEvent"
    found = re.fullmatch(r"t=(\d+),v1=([0-9a-f]{64})", headers["X-Isotherm-Signature"])
    assert found is not None
    expected = hmac.new(SECRET.encode(), found[1].encode() + b"." + first, "sha256").hexdigest()
    assert hmac.compare_digest(found[2], expected)


def test_a_form_is_told_as_one(store: LiveStore, receiver: Receiver, bucket: str) -> None:
    client = store.client()
    ask(client, bucket)
    form = client.generate_presigned_post(bucket, "from-a-form")
    fields = {**form["fields"], "file": "content"}
    parts = [
        f'--line\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}' for name, value in fields.items()
    ]
    body = "\r\n".join([*parts, "--line--", ""]).encode()
    headers = {"Content-Type": "multipart/form-data; boundary=line"}
    with urllib.request.urlopen(urllib.request.Request(form["url"], body, headers), timeout=30) as answer:
        assert answer.status == 204
    (record,) = receiver.wait(1)
    assert (record["eventName"], record["s3"]["object"]["size"]) == ("ObjectCreated:Post", 7)


def test_a_filter_chooses_keys(store: LiveStore, receiver: Receiver, bucket: str) -> None:
    client = store.client()
    rules = {"Key": {"FilterRules": [{"Name": "prefix", "Value": "in/"}, {"Name": "suffix", "Value": ".jpg"}]}}
    ask(client, bucket, Filter=rules)
    for key in ("in/a.png", "out/a.jpg", "in/a.jpg"):
        client.put_object(Bucket=bucket, Key=key, Body=b"1")
    assert [record["s3"]["object"]["key"] for record in receiver.wait(1)] == ["in/a.jpg"]


def outbox(store: LiveStore) -> float:
    request = urllib.request.Request(f"{store.admin}/metrics", headers={"Authorization": f"Bearer {ADMIN_TOKEN}"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        text = answer.read().decode()
    found = re.search(r"^isotherm_event_outbox(?:\{.*?\})? (\S+)$", text, re.M)
    return 0.0 if found is None else float(found[1])


def test_nothing_is_lost_while_the_receiver_is_down_and_the_store_is_killed(
    store: LiveStore, receiver: Receiver, bucket: str
) -> None:
    client = store.client()
    ask(client, bucket)
    receiver.status = 503
    keys = [f"k{number % 4}" for number in range(40)]
    for number, key in enumerate(keys):
        if number % 5 == 4:
            client.delete_object(Bucket=bucket, Key=key)
        else:
            client.put_object(Bucket=bucket, Key=key, Body=b"x" * (number + 1))
    deadline = time.monotonic() + 30
    while not receiver.refused:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    store.kill()
    receiver.status = 200
    store.start()
    client = store.client()
    client.put_object(Bucket=bucket, Key="last", Body=b"1")
    receiver.wait(1)
    store.kill()  # in the middle of the deliveries
    store.start()
    records = receiver.wait(41)
    by_sequence = {record["s3"]["object"]["sequencer"]: record for record in records}
    told = [by_sequence[number] for number in sorted(by_sequence)]
    assert [record["s3"]["object"]["key"] for record in told] == [*keys, "last"]
    first_seen = list(dict.fromkeys(record["s3"]["object"]["sequencer"] for record in records))
    assert first_seen == sorted(first_seen)
    removals = [record["s3"]["object"]["size"] for record in told if record["eventName"].startswith("ObjectRemoved")]
    assert all(size > 0 for size in removals)
    assert len(removals) == 8


def test_a_dead_target_holds_up_nobody_else(store: LiveStore, receiver: Receiver, bucket: str) -> None:
    client = store.client()
    dead = f"{bucket[:50]}-dead"
    client.create_bucket(Bucket=dead)
    ask(client, dead, arn="arn:isotherm:sqs:us-east-1:dead:webhook")
    client.put_object(Bucket=dead, Key="k", Body=b"1")
    ask(client, bucket)
    client.put_object(Bucket=bucket, Key="k", Body=b"1")
    assert receiver.wait(1)[0]["s3"]["bucket"]["name"] == bucket
    assert SECRET not in store.log.read_text()
    deadline = time.monotonic() + 30
    while outbox(store) < 2:  # the test event and the change, which the dead target never takes
        assert time.monotonic() < deadline
        time.sleep(0.1)
