"""Buckets and their sub-resources through the plane, as boto3 sees them."""

import base64
import hashlib
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from gateway.s3.names import is_valid_bucket_name
from tests.unit.s3.gateway import Gateway, body_of

UNSET = {
    "get_bucket_policy": "NoSuchBucketPolicy",
    "get_bucket_cors": "NoSuchCORSConfiguration",
    "get_bucket_encryption": "ServerSideEncryptionConfigurationNotFoundError",
    "get_bucket_lifecycle_configuration": "NoSuchLifecycleConfiguration",
    "get_object_lock_configuration": "ObjectLockConfigurationNotFoundError",
    "get_bucket_replication": "ReplicationConfigurationNotFoundError",
    "get_bucket_website": "NoSuchWebsiteConfiguration",
    "get_bucket_tagging": "NoSuchTagSet",
}
BY_ID = ("inventory", "intelligent_tiering", "analytics", "metrics")


def failure(function: Any, **arguments: Any) -> tuple[str, int]:
    with pytest.raises(ClientError) as caught:
        function(**arguments)
    response = caught.value.response
    return response["Error"]["Code"], response["ResponseMetadata"]["HTTPStatusCode"]


def test_life_of_a_bucket(s3: Any) -> None:
    assert s3.create_bucket(Bucket="fresh")["Location"] == "/fresh"
    assert s3.create_bucket(Bucket="fresh")["Location"] == "/fresh"
    assert s3.head_bucket(Bucket="fresh")["BucketRegion"] == "us-east-1"
    assert s3.get_bucket_location(Bucket="fresh")["LocationConstraint"] is None
    s3.put_object(Bucket="fresh", Key="k", Body=b"x")
    assert failure(s3.delete_bucket, Bucket="fresh") == ("BucketNotEmpty", 409)
    s3.delete_object(Bucket="fresh", Key="k")
    s3.delete_bucket(Bucket="fresh")
    assert failure(s3.head_bucket, Bucket="fresh") == ("404", 404)
    assert failure(s3.delete_bucket, Bucket="fresh") == ("NoSuchBucket", 404)


def test_names_regions_and_owners(gateway: Gateway) -> None:
    s3, other = gateway.client(), gateway.client("other")
    assert failure(other.create_bucket, Bucket="bucket") == ("BucketAlreadyExists", 409)
    assert gateway.send("PUT", "/Upper").error_code == "InvalidBucketName"
    for region, code in (("eu-central-1", "IllegalLocationConstraintException"), ("xx", "InvalidLocationConstraint")):
        wanted = {"LocationConstraint": region}
        assert failure(s3.create_bucket, Bucket="fresh", CreateBucketConfiguration=wanted)[0] == code
    assert failure(s3.create_bucket, Bucket="fresh", ObjectOwnership="Nobody") == ("InvalidArgument", 400)
    assert failure(s3.head_bucket, Bucket="fresh") == ("404", 404)
    s3.create_bucket(Bucket="fresh", ObjectOwnership="BucketOwnerEnforced", ACL="private")


def test_tags_at_creation(s3: Any) -> None:
    wanted = [{"Key": "a", "Value": "b"}]
    s3.create_bucket(Bucket="fresh", CreateBucketConfiguration={"Tags": wanted})
    assert s3.get_bucket_tagging(Bucket="fresh")["TagSet"] == wanted


def test_list_buckets_pages(gateway: Gateway) -> None:
    s3, other = gateway.client(), gateway.client("other")
    for name in ("b-1", "b-2", "b-3"):
        s3.create_bucket(Bucket=name)
    other.create_bucket(Bucket="b-0")
    listed = s3.list_buckets()
    assert [bucket["Name"] for bucket in listed["Buckets"]] == ["b-1", "b-2", "b-3", "bucket"]
    assert listed["Buckets"][0]["BucketRegion"] == "us-east-1"
    assert "ContinuationToken" not in listed
    pages = list(s3.get_paginator("list_buckets").paginate(Prefix="b-", PaginationConfig={"PageSize": 2}))
    assert [[bucket["Name"] for bucket in page["Buckets"]] for page in pages] == [["b-1", "b-2"], ["b-3"]]
    assert [bucket["Name"] for bucket in other.list_buckets()["Buckets"]] == ["b-0"]
    assert s3.list_buckets(BucketRegion="eu-west-1")["Buckets"] == []
    for count in ("0", "10001", "x"):
        assert gateway.send("GET", f"/?max-buckets={count}").error_code == "InvalidArgument"
    assert failure(s3.list_buckets, ContinuationToken="Zm9yZ2Vk") == ("InvalidArgument", 400)


def test_tagging(s3: Any) -> None:
    wanted = [{"Key": f"k{at}", "Value": "<&"} for at in range(50)]
    answer = s3.put_bucket_tagging(Bucket="bucket", Tagging={"TagSet": wanted})
    assert answer["ResponseMetadata"]["HTTPStatusCode"] == 204
    assert s3.get_bucket_tagging(Bucket="bucket")["TagSet"] == wanted
    more = {"TagSet": [*wanted, {"Key": "x", "Value": ""}]}
    assert failure(s3.put_bucket_tagging, Bucket="bucket", Tagging=more) == ("InvalidTag", 400)
    assert s3.delete_bucket_tagging(Bucket="bucket")["ResponseMetadata"]["HTTPStatusCode"] == 204
    assert failure(s3.get_bucket_tagging, Bucket="bucket") == ("NoSuchTagSet", 404)


def test_w10_unset_sub_resources(s3: Any) -> None:
    for name, code in UNSET.items():
        assert failure(getattr(s3, name), Bucket="bucket") == (code, 404)
    assert s3.get_bucket_policy_status(Bucket="bucket")["PolicyStatus"] == {"IsPublic": False}
    assert s3.get_bucket_request_payment(Bucket="bucket")["Payer"] == "BucketOwner"
    assert "Status" not in s3.get_bucket_versioning(Bucket="bucket")
    assert "Status" not in s3.get_bucket_accelerate_configuration(Bucket="bucket")
    assert "LoggingEnabled" not in s3.get_bucket_logging(Bucket="bucket")
    assert "TopicConfigurations" not in s3.get_bucket_notification_configuration(Bucket="bucket")
    assert s3.get_bucket_acl(Bucket="bucket")["Grants"][0]["Permission"] == "FULL_CONTROL"
    for kind in BY_ID:
        for verb in ("get", "delete"):
            function = getattr(s3, f"{verb}_bucket_{kind}_configuration")
            assert failure(function, Bucket="bucket", Id="x") == ("NoSuchConfiguration", 404)
        assert getattr(s3, f"list_bucket_{kind}_configurations")(Bucket="bucket")["IsTruncated"] is False
    for kind in ("policy", "cors", "encryption", "lifecycle", "replication", "website"):
        answer = getattr(s3, f"delete_bucket_{kind}")(Bucket="bucket")
        assert answer["ResponseMetadata"]["HTTPStatusCode"] == 204


def test_new_bucket_defaults(s3: Any, tmp_path: Path) -> None:
    s3.create_bucket(Bucket="fresh", ACL="private")
    blocked = s3.get_public_access_block(Bucket="fresh")["PublicAccessBlockConfiguration"]
    assert list(blocked.values()) == [True] * 4
    (rule,) = s3.get_bucket_ownership_controls(Bucket="fresh")["OwnershipControls"]["Rules"]
    assert rule == {"ObjectOwnership": "BucketOwnerEnforced"}
    (tmp_path / "open").mkdir()
    gateway = Gateway(tmp_path / "open", new_bucket_defaults="open")
    client = gateway.client()
    client.create_bucket(Bucket="fresh", ACL="public-read")
    assert failure(client.get_public_access_block, Bucket="fresh")[0] == "NoSuchPublicAccessBlockConfiguration"
    assert failure(client.get_bucket_ownership_controls, Bucket="fresh")[0] == "OwnershipControlsNotFoundError"
    client.put_object(Bucket="fresh", Key="k", Body=b"", ACL="public-read")
    gateway.close()


def test_lists_where_the_defaults_of_aws_hold(s3: Any) -> None:
    create = s3.create_bucket
    asked = failure(create, Bucket="fresh", ACL="public-read")
    assert asked == ("InvalidBucketAclWithObjectOwnership", 400)
    asked = failure(create, Bucket="fresh", ACL="public-read", ObjectOwnership="ObjectWriter")
    assert asked == ("InvalidBucketAclWithBlockPublicAccessError", 400)
    s3.create_bucket(Bucket="fresh")
    s3.create_bucket(Bucket="fresh", ObjectOwnership="BucketOwnerEnforced")
    assert failure(create, Bucket="fresh", ObjectOwnership="ObjectWriter") == ("BucketAlreadyExists", 409)
    for acl in ("private", "public-read"):
        assert failure(s3.put_bucket_acl, Bucket="fresh", ACL=acl)[0] == "AccessControlListNotSupported"
        assert failure(s3.put_object, Bucket="fresh", Key="k", ACL=acl)[0] == "AccessControlListNotSupported"
    s3.put_object(Bucket="fresh", Key="k", ACL="bucket-owner-full-control")


@pytest.mark.parametrize(
    ("region", "recreation", "expected"),
    [
        ("us-east-1", "region", None),
        ("eu-west-1", "region", "BucketAlreadyOwnedByYou"),
        ("eu-west-1", "accepted", None),
        ("us-east-1", "refused", "BucketAlreadyOwnedByYou"),
    ],
)
def test_creating_a_bucket_again(tmp_path: Path, region: str, recreation: str, expected: str | None) -> None:
    gateway = Gateway(tmp_path, region=region, recreation=recreation)
    client = gateway.client(region=region)
    client.create_bucket(Bucket="fresh")
    if expected is None:
        client.create_bucket(Bucket="fresh")
    else:
        assert failure(client.create_bucket, Bucket="fresh") == (expected, 409)
    gateway.close()


def test_versioning_documents(gateway: Gateway) -> None:
    for document, code in (
        (b"<VersioningConfiguration><Status>Maybe</Status></VersioningConfiguration>", "MalformedXML"),
        (b"<VersioningConfiguration/>", "MalformedXML"),
        (b"<VersioningConfiguration><Status>Enabled</Status><X/></VersioningConfiguration>", "MalformedXML"),
        (
            b"<VersioningConfiguration><Status>Enabled</Status><MfaDelete>Enabled</MfaDelete></VersioningConfiguration>",
            "NotImplemented",
        ),
    ):
        md5 = {"Content-MD5": base64.b64encode(hashlib.md5(document).digest()).decode()}
        assert gateway.send("PUT", "/bucket?versioning", md5, document).error_code == code
        assert gateway.send("PUT", "/bucket?versioning", None, document).error_code == "InvalidRequest"
    assert b"<Status>" not in body_of(gateway.send("GET", "/bucket?versioning"))


@pytest.mark.parametrize(
    ("name", "is_valid"),
    [
        ("abc", True),
        ("a.b-c", True),
        ("1ab", True),
        ("a" * 63, True),
        ("a" * 64, False),
        ("ab", False),
        ("Abc", False),
        ("a_c", False),
        ("-ab", False),
        ("ab-", False),
        ("a..b", False),
        ("a.-b", False),
        ("a-.b", False),
        ("192.168.1.1", False),
        ("xn--abc", False),
        ("sthree-abc", False),
        ("abc-s3alias", False),
        ("abc--ol-s3", False),
        ("abc--x-s3", False),
        ("health", False),
        ("minio", False),
        ("v20180820", False),
        ("ab\n", False),
    ],
)
def test_bucket_names(name: str, is_valid: bool) -> None:
    assert is_valid_bucket_name(name) is is_valid
