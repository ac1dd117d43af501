"""Configurations that are stored as they are put, those that can only be idle, and tags by the control API."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.live import LiveStore
from tests.protocol.control import ACCOUNT, DOMAIN, control_client
from tests.protocol.raw import Request, Wire

pytestmark = pytest.mark.protocol

ARN = "arn:aws:s3:::configured"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveStore]:
    folder = Path(tmp_path_factory.mktemp("configurations"))
    with LiveStore(folder / "data", workers=2, ISOTHERM_SERVER__DOMAINS=DOMAIN) as live:
        live.client().create_bucket(Bucket="configured")
        yield live


@pytest.fixture
def client(store: LiveStore) -> Any:
    return store.client()


@pytest.fixture
def control(store: LiveStore, monkeypatch: pytest.MonkeyPatch) -> Any:
    return control_client(store, monkeypatch)


def code_of(call: Any, **arguments: Any) -> tuple[int, str]:
    with pytest.raises(ClientError) as caught:
        call(**arguments)
    response = caught.value.response
    return response["ResponseMetadata"]["HTTPStatusCode"], response["Error"]["Code"]


def test_request_payment_and_acceleration_can_only_be_idle(client: Any) -> None:
    bucket = {"Bucket": "configured"}
    assert client.get_bucket_request_payment(**bucket)["Payer"] == "BucketOwner"
    client.put_bucket_request_payment(**bucket, RequestPaymentConfiguration={"Payer": "BucketOwner"})
    for payer, answer in (("Requester", (501, "NotImplemented")), ("Nobody", (400, "MalformedXML"))):
        configuration = {"Payer": payer}
        assert code_of(client.put_bucket_request_payment, **bucket, RequestPaymentConfiguration=configuration) == answer
    assert client.get_bucket_request_payment(**bucket)["Payer"] == "BucketOwner"
    assert "Status" not in client.get_bucket_accelerate_configuration(**bucket)
    for status, answer in (("Enabled", (501, "NotImplemented")), ("On", (400, "MalformedXML"))):
        configuration = {"Status": status}
        call = client.put_bucket_accelerate_configuration
        assert code_of(call, **bucket, AccelerateConfiguration=configuration) == answer
    client.put_bucket_accelerate_configuration(**bucket, AccelerateConfiguration={"Status": "Suspended"})
    assert client.get_bucket_accelerate_configuration(**bucket)["Status"] == "Suspended"


def test_what_cannot_be_set_is_unset(client: Any) -> None:
    bucket = {"Bucket": "configured"}
    named = {**bucket, "Id": "x"}
    for kind in ("analytics", "metrics"):
        listing = getattr(client, f"list_bucket_{kind}_configurations")(**bucket)
        assert (listing["IsTruncated"], [name for name in listing if name.endswith("List")]) == (False, [])
        for verb in ("get", "delete"):
            call = getattr(client, f"{verb}_bucket_{kind}_configuration")
            assert code_of(call, **named) == (404, "NoSuchConfiguration")
    storage = {"StorageClassAnalysis": {}}
    call = client.put_bucket_analytics_configuration
    assert code_of(call, **named, AnalyticsConfiguration={"Id": "x", **storage}) == (501, "NotImplemented")
    call = client.put_bucket_metrics_configuration
    assert code_of(call, **named, MetricsConfiguration={"Id": "x"}) == (501, "NotImplemented")
    assert code_of(client.get_bucket_website, **bucket) == (404, "NoSuchWebsiteConfiguration")
    assert code_of(client.get_bucket_replication, **bucket) == (404, "ReplicationConfigurationNotFoundError")
    website: Any = {"IndexDocument": {"Suffix": "index.html"}}
    assert code_of(client.put_bucket_website, **bucket, WebsiteConfiguration=website) == (501, "NotImplemented")


def inventory(name: str, **changed: Any) -> dict[str, Any]:
    target = {"Bucket": ARN, "Format": "CSV", "Prefix": "reports", "Encryption": {"SSES3": {}}}
    return {
        "Destination": {"S3BucketDestination": target},
        "IsEnabled": True,
        "Filter": {"Prefix": "a&b/"},
        "Id": name,
        "IncludedObjectVersions": "Current",
        "OptionalFields": ["ETag", "Size", "StorageClass"],
        "Schedule": {"Frequency": "Daily"},
    } | changed


def tiering(name: str, **changed: Any) -> dict[str, Any]:
    tierings = [{"Days": 180, "AccessTier": "DEEP_ARCHIVE_ACCESS"}, {"Days": 90, "AccessTier": "ARCHIVE_ACCESS"}]
    tags = [{"Key": "b", "Value": "1"}, {"Key": "a", "Value": "2"}]
    return {
        "Id": name,
        "Filter": {"And": {"Prefix": "p/", "Tags": tags}},
        "Status": "Enabled",
        "Tierings": tierings,
    } | changed


KINDS: dict[str, Any] = {"inventory": ("Inventory", inventory), "intelligent_tiering": ("IntelligentTiering", tiering)}


@pytest.mark.parametrize("kind", KINDS)
def test_configurations_by_id(client: Any, kind: str) -> None:
    word, make = KINDS[kind]
    name = f"{word}Configuration"
    verbs = {verb: getattr(client, f"{verb}_bucket_{kind}_configuration") for verb in ("put", "get", "delete")}
    listing = getattr(client, f"list_bucket_{kind}_configurations")
    bucket = {"Bucket": "configured"}
    assert listing(**bucket)["IsTruncated"] is False
    for verb in ("get", "delete"):
        assert code_of(verbs[verb], **bucket, Id="absent") == (404, "NoSuchConfiguration")
    for identity in ("second", "first", "first"):
        verbs["put"](**bucket, Id=identity, **{name: make(identity)})
    assert verbs["get"](**bucket, Id="first")[name] == make("first")
    assert [found["Id"] for found in listing(**bucket)[f"{name}List"]] == ["first", "second"]
    assert code_of(verbs["put"], **bucket, Id="third", **{name: make("other")}) == (400, "InvalidArgument")
    assert code_of(verbs["put"], **bucket, Id="a/b", **{name: make("a/b")}) == (400, "InvalidArgument")
    verbs["delete"](**bucket, Id="first")
    assert [found["Id"] for found in listing(**bucket)[f"{name}List"]] == ["second"]


def test_configurations_page_by_page(client: Any) -> None:
    bucket = {"Bucket": "configured-often"}
    client.create_bucket(**bucket)
    names = [f"n{number:03d}" for number in range(101)]
    with ThreadPoolExecutor(8) as threads:
        put = client.put_bucket_intelligent_tiering_configuration
        list(threads.map(lambda name: put(**bucket, Id=name, IntelligentTieringConfiguration=tiering(name)), names))
    first = client.list_bucket_intelligent_tiering_configurations(**bucket)
    token = first["NextContinuationToken"]
    second = client.list_bucket_intelligent_tiering_configurations(**bucket, ContinuationToken=token)
    pages = [page["IntelligentTieringConfigurationList"] for page in (first, second)]
    assert [found["Id"] for page in pages for found in page] == names
    assert (len(pages[0]), first["IsTruncated"], second["IsTruncated"]) == (100, True, False)
    assert (second["ContinuationToken"], "NextContinuationToken" in second) == (token, False)
    for forged in (token[:-2], "x"):
        call = client.list_bucket_intelligent_tiering_configurations
        assert code_of(call, **bucket, ContinuationToken=forged) == (400, "InvalidArgument")
    call = client.list_bucket_inventory_configurations
    assert code_of(call, **bucket, ContinuationToken=token) == (400, "InvalidArgument")
    client.delete_bucket(**bucket)
    client.create_bucket(**bucket)
    assert "IntelligentTieringConfigurationList" not in client.list_bucket_intelligent_tiering_configurations(**bucket)


def test_an_inventory_needs_its_destination(client: Any) -> None:
    target = {"S3BucketDestination": {"Bucket": "arn:aws:s3:::of-nobody", "Format": "CSV"}}
    configuration = inventory("lost", Destination=target)
    call = client.put_bucket_inventory_configuration
    arguments = {"Bucket": "configured", "Id": "lost", "InventoryConfiguration": configuration}
    assert code_of(call, **arguments) == (400, "InvalidArgument")


def test_tags_by_the_control_api(client: Any, control: Any) -> None:
    resource = {"AccountId": ACCOUNT, "ResourceArn": ARN}
    assert control.list_tags_for_resource(**resource)["Tags"] == []
    tags = [{"Key": "b", "Value": "1"}, {"Key": "a 1+&", "Value": ""}]
    assert control.tag_resource(**resource, Tags=tags)["ResponseMetadata"]["HTTPStatusCode"] == 204
    assert control.list_tags_for_resource(**resource)["Tags"] == tags
    assert client.get_bucket_tagging(Bucket="configured")["TagSet"] == tags
    control.tag_resource(**resource, Tags=[{"Key": "b", "Value": "2"}, {"Key": "c", "Value": "3"}])
    changed = [{"Key": "b", "Value": "2"}, tags[1], {"Key": "c", "Value": "3"}]
    assert client.get_bucket_tagging(Bucket="configured")["TagSet"] == changed
    assert (
        control.untag_resource(**resource, TagKeys=["a 1+&", "b", "absent"])["ResponseMetadata"]["HTTPStatusCode"]
        == 204
    )
    assert control.list_tags_for_resource(**resource)["Tags"] == changed[2:]
    control.untag_resource(**resource, TagKeys=["c"])
    assert code_of(client.get_bucket_tagging, Bucket="configured") == (404, "NoSuchTagSet")
    many = [{"Key": f"k{number}", "Value": "v"} for number in range(50)]
    control.tag_resource(**resource, Tags=many)
    assert code_of(control.tag_resource, **resource, Tags=tags) == (400, "InvalidTag")
    reserved = [{"Key": "aws:a", "Value": "b"}]
    assert code_of(control.tag_resource, **resource, Tags=reserved) == (400, "InvalidTag")
    assert client.get_bucket_tagging(Bucket="configured")["TagSet"] == many
    client.delete_bucket_tagging(Bucket="configured")
    absent = {"AccountId": ACCOUNT, "ResourceArn": "arn:aws:s3:::of-nobody"}
    assert code_of(control.list_tags_for_resource, **absent) == (404, "NoSuchBucket")
    assert code_of(control.list_access_points, AccountId=ACCOUNT) == (501, "NotImplemented")


def test_tags_changed_at_once_are_all_kept(client: Any, control: Any) -> None:
    resource = {"AccountId": ACCOUNT, "ResourceArn": ARN}
    with ThreadPoolExecutor(6) as threads:
        added = [[{"Key": f"k{number}", "Value": "v"}] for number in range(12)]
        list(threads.map(lambda tags: control.tag_resource(**resource, Tags=tags), added))
    assert len(control.list_tags_for_resource(**resource)["Tags"]) == 12
    client.delete_bucket_tagging(Bucket="configured")


def test_the_account_in_front_of_the_host_is_no_bucket(store: LiveStore, client: Any) -> None:
    """Nor is a bucket of twelve digits taken for an account."""
    path = f"/v20180820/tags/{ARN.replace(':', '%3A')}"
    client.put_bucket_tagging(Bucket="configured", Tagging={"TagSet": [{"Key": "a", "Value": "b"}]})
    client.create_bucket(Bucket=ACCOUNT)
    client.put_object(Bucket=ACCOUNT, Key=path[1:].replace("%3A", ":"), Body=b"a key of that name")
    wire = Wire(store)
    wire.host = f"{ACCOUNT}.{DOMAIN}"
    listed = wire.call(Request("GET", path, headers={"x-amz-account-id": ACCOUNT}))
    assert b"<Tags><Tag><Key>a</Key><Value>b</Value></Tag></Tags>" in listed.body
    assert wire.call(Request("GET", path)).body == b"a key of that name"
    wire.host = DOMAIN
    assert b"<Tags><Tag>" in wire.call(Request("GET", path)).body
    refused = wire.call(Request("GET", path, unsigned={"x-amz-account-id": ACCOUNT}))
    assert (refused.status, refused.code) == (403, "AccessDenied")
    assert wire.call(Request("PUT", "/v20180820")).code == "InvalidBucketName"
    assert wire.call(Request("GET", "/v20180820/accesspoint")).code == "NotImplemented"
    assert wire.call(Request("PUT", path)).status == 405
    wire.close()
    client.delete_bucket_tagging(Bucket="configured")
