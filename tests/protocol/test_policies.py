"""Bucket policies and public access blocks against a live store: its owner, another account, and nobody."""

import json
import urllib.request
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import boto3
import pytest
from botocore import UNSIGNED
from botocore.config import Config
from botocore.exceptions import ClientError

from tests.live import ADMIN_TOKEN, REGION, LiveStore

pytestmark = pytest.mark.protocol

BLOCKS = ("BlockPublicAcls", "IgnorePublicAcls", "BlockPublicPolicy", "RestrictPublicBuckets")


class People:
    """A store, and clients of two of its accounts and of nobody."""

    def __init__(self, store: LiveStore) -> None:
        self.store = store
        self.owner_id, self.owner = self._account("owner")
        self.other_id, self.other = self._account("other")
        self.nobody = self._client(signature_version=UNSIGNED)
        self.root = store.client()
        self._numbers = count()

    def bucket(self, *, is_open: bool = True) -> str:
        """A new bucket of the owner, by default without the block that new buckets have."""
        name = f"bucket-{next(self._numbers)}"
        self.owner.create_bucket(Bucket=name)
        if is_open:
            self.owner.delete_public_access_block(Bucket=name)
        return name

    def _account(self, name: str) -> tuple[str, Any]:
        user = self._post("/admin/v1/users", {"name": name})
        key = self._post(f"/admin/v1/users/{user['id']}/keys")
        keys = {"aws_access_key_id": key["access_key_id"], "aws_secret_access_key": key["secret_key"]}
        return str(user["id"]), self._client(keys)

    def _post(self, path: str, document: Any = None) -> Any:
        headers = {"Authorization": f"Bearer {ADMIN_TOKEN}", "Content-Type": "application/json"}
        body = b"" if document is None else json.dumps(document).encode()
        request = urllib.request.Request(self.store.admin + path, body, headers, method="POST")
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.load(answer)

    def _client(self, keys: dict[str, str] | None = None, **config: Any) -> Any:
        options = {"retries": {"max_attempts": 1}, "s3": {"addressing_style": "path"}, **config}
        make: Any = boto3.client
        return make(
            "s3", endpoint_url=self.store.endpoint, region_name=REGION, config=Config(**options), **(keys or {})
        )


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Iterator[People]:
    with LiveStore(tmp_path_factory.mktemp("policies") / "data") as store:
        yield People(store)


def refusal(function: Callable[..., Any], **arguments: Any) -> tuple[str, int]:
    """Code and status of the refusal that a call must end in."""
    with pytest.raises(ClientError) as caught:
        function(**arguments)
    response: Any = caught.value.response
    return response["Error"]["Code"], response["ResponseMetadata"]["HTTPStatusCode"]


def denied(function: Callable[..., Any], **arguments: Any) -> bool:
    """Whether a call is refused with 403."""
    return refusal(function, **arguments)[1] == 403


def put_policy(people: People, bucket: str, *statements: dict[str, Any], **arguments: Any) -> str:
    """Put a policy of statements that by default allow everybody everything in the bucket."""
    places = [f"arn:aws:s3:::{bucket}", f"arn:aws:s3:::{bucket}/*"]
    whole = [{"Effect": "Allow", "Principal": "*", "Action": "s3:*", "Resource": places} | each for each in statements]
    text = json.dumps({"Version": "2012-10-17", "Statement": whole})
    people.owner.put_bucket_policy(Bucket=bucket, Policy=text, **arguments)
    return text


def test_a_policy_reads_back_as_put_and_counts_at_once(people: People) -> None:
    bucket = people.bucket()
    assert refusal(people.owner.get_bucket_policy, Bucket=bucket) == ("NoSuchBucketPolicy", 404)
    people.owner.put_object(Bucket=bucket, Key="k", Body=b"content")
    for _ in range(5):  # two workers: each has to notice
        text = put_policy(people, bucket, {"Action": "s3:GetObject"})
        for client in (people.other, people.nobody) * 2:
            assert client.get_object(Bucket=bucket, Key="k")["Body"].read() == b"content"
            assert denied(client.put_object, Bucket=bucket, Key="k", Body=b"x")
        answer = people.owner.get_bucket_policy(Bucket=bucket)
        assert answer["Policy"] == text
        assert answer["ResponseMetadata"]["HTTPHeaders"]["content-type"] == "application/json"
        assert people.owner.delete_bucket_policy(Bucket=bucket)["ResponseMetadata"]["HTTPStatusCode"] == 204
        for client in (people.other, people.nobody) * 2:
            assert denied(client.get_object, Bucket=bucket, Key="k")
    assert people.owner.delete_bucket_policy(Bucket=bucket)["ResponseMetadata"]["HTTPStatusCode"] == 204


def test_what_is_no_policy_changes_nothing(people: People) -> None:
    bucket = people.bucket()
    text = put_policy(people, bucket, {"Action": "s3:GetObject"})
    elsewhere = {"Effect": "Allow", "Principal": "*", "Action": "s3:*", "Resource": "arn:aws:s3:::elsewhere/*"}
    for bad in (
        "{",
        json.dumps({"Statement": [elsewhere]}),
        json.dumps({"Statement": [{**elsewhere, "Resource": f"arn:aws:s3:::{bucket}/*", "Action": "s3:Foo"}]}),
        json.dumps({"Statement": [], "Id": "x" * 50_000}),
        '{"Id": "\\ud800", "Statement": []}',
    ):
        assert refusal(people.owner.put_bucket_policy, Bucket=bucket, Policy=bad) == ("MalformedPolicy", 400)
    assert people.owner.get_bucket_policy(Bucket=bucket)["Policy"] == text


def test_a_policy_is_its_owners_business(people: People) -> None:
    bucket = people.bucket()
    text = put_policy(people, bucket, {"Principal": {"AWS": people.other_id}})
    assert refusal(people.other.get_bucket_policy, Bucket=bucket) == ("MethodNotAllowed", 405)
    assert refusal(people.other.put_bucket_policy, Bucket=bucket, Policy=text) == ("MethodNotAllowed", 405)
    assert refusal(people.nobody.delete_bucket_policy, Bucket=bucket) == ("AccessDenied", 403)


def test_the_owner_keeps_the_policy_unless_confirmed_away(people: People) -> None:
    bucket = people.bucket()
    text = put_policy(people, bucket, {"Effect": "Deny"})
    assert denied(people.owner.list_objects_v2, Bucket=bucket)
    assert denied(people.owner.get_bucket_tagging, Bucket=bucket)
    assert people.owner.get_bucket_policy(Bucket=bucket)["Policy"] == text
    put_policy(people, bucket, {"Effect": "Deny"}, ConfirmRemoveSelfBucketAccess=True)
    assert denied(people.owner.get_bucket_policy, Bucket=bucket)
    assert denied(people.owner.put_bucket_policy, Bucket=bucket, Policy=text)
    assert denied(people.owner.delete_bucket_policy, Bucket=bucket)
    people.root.delete_bucket_policy(Bucket=bucket)  # the way back
    people.owner.list_objects_v2(Bucket=bucket)


def test_s32_versions_need_actions_of_their_own(people: People) -> None:
    bucket = people.bucket()
    people.owner.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    version = people.owner.put_object(Bucket=bucket, Key="k", Body=b"x")["VersionId"]
    put_policy(people, bucket, {"Action": ["s3:GetObject", "s3:DeleteObject", "s3:GetObjectTagging"]})
    people.other.get_object(Bucket=bucket, Key="k")
    named = {"Bucket": bucket, "Key": "k", "VersionId": version}
    for function in (
        *(people.other.get_object, people.other.head_object, people.other.delete_object),
        *(people.other.get_object_tagging, people.other.get_object_acl),
    ):
        assert denied(function, **named)
    target = people.bucket()
    source: dict[str, Any] = {"CopySource": named, "Bucket": target, "Key": "copy"}
    put_policy(people, target, {"Action": "s3:PutObject"})
    assert denied(people.other.copy_object, **source)
    people.other.copy_object(**{**source, "CopySource": {"Bucket": bucket, "Key": "k"}})
    put_policy(people, bucket, {"Action": "s3:GetObjectVersion"})
    people.other.get_object(**named)
    people.other.copy_object(**source)
    assert denied(people.other.get_object, Bucket=bucket, Key="k")


def test_s29_s30_s33_copies_need_both_sides(people: People) -> None:
    source, target = people.bucket(), people.bucket()
    people.owner.put_object(Bucket=source, Key="public/a", Body=b"x")
    people.owner.put_object(Bucket=source, Key="private/a", Body=b"x")
    put_policy(people, target, {"Action": "s3:PutObject"})
    copy = {"Bucket": target, "Key": "k", "CopySource": {"Bucket": source, "Key": "public/a"}}
    upload = people.other.create_multipart_upload(Bucket=target, Key="k")["UploadId"]
    part = {**copy, "UploadId": upload, "PartNumber": 1}
    assert denied(people.other.copy_object, **copy)
    assert denied(people.other.upload_part_copy, **part)
    put_policy(people, source, {"Action": "s3:GetObject", "Resource": f"arn:aws:s3:::{source}/*"})
    people.other.copy_object(**copy)
    people.other.upload_part_copy(**part)
    only = {"StringLike": {"s3:x-amz-copy-source": f"{source}/public/*"}}
    put_policy(people, target, {"Action": "s3:PutObject", "Condition": only})
    for spelled in (f"{source}/public/a", f"/{source}/public/a"):
        people.other.copy_object(**{**copy, "CopySource": spelled})
    for spelled in (f"{source}/private/a", f"/{source}/private/a"):
        assert denied(people.other.copy_object, **{**copy, "CopySource": spelled})
        assert denied(people.other.upload_part_copy, **{**part, "CopySource": spelled})
    assert denied(people.other.put_object, Bucket=target, Key="k", Body=b"")


def test_s49_absence_is_told_to_who_may_list(people: People) -> None:
    bucket = people.bucket()
    put_policy(people, bucket, {"Action": "s3:GetObject"})
    absent = {"Bucket": bucket, "Key": "home/absent"}
    for client in (people.other, people.nobody):
        assert refusal(client.get_object, **absent) == ("AccessDenied", 403)
        assert refusal(client.head_object, **absent)[1] == 403
    listing = {"Action": "s3:ListBucket", "Condition": {"StringLike": {"s3:prefix": "home/*"}}}
    put_policy(people, bucket, {"Action": "s3:GetObject"}, listing)
    for client in (people.other, people.nobody):
        assert refusal(client.get_object, **absent) == ("NoSuchKey", 404)
        assert refusal(client.get_object, Bucket=bucket, Key="other") == ("AccessDenied", 403)
        assert client.list_objects_v2(Bucket=bucket, Prefix="home/x")["KeyCount"] == 0
        assert denied(client.list_objects_v2, Bucket=bucket)
    assert refusal(people.other.put_object_tagging, **absent, Tagging={"TagSet": []}) == ("AccessDenied", 403)


def test_a_batch_is_judged_key_by_key(people: People) -> None:
    bucket = people.bucket()
    for key in ("a/1", "b/1"):
        people.owner.put_object(Bucket=bucket, Key=key, Body=b"x")
    batch = {"Objects": [{"Key": "a/1"}, {"Key": "b/1"}, {"Key": "a/1", "VersionId": "null"}, {"Key": "a/absent"}]}
    assert denied(people.other.delete_objects, Bucket=bucket, Delete=batch)
    put_policy(people, bucket, {"Action": "s3:DeleteObject", "Resource": f"arn:aws:s3:::{bucket}/a/*"})
    answer = people.other.delete_objects(Bucket=bucket, Delete=batch)
    assert [each["Key"] for each in answer["Deleted"]] == ["a/1", "a/absent"]
    assert [(each["Key"], each["Code"]) for each in answer["Errors"]] == [
        ("b/1", "AccessDenied"),
        ("a/1", "AccessDenied"),
    ]
    assert people.owner.head_object(Bucket=bucket, Key="b/1")["ContentLength"] == 1


def test_headers_that_do_more_need_more(people: People) -> None:
    bucket = people.bucket()
    put_policy(people, bucket, {"Action": "s3:PutObject"})
    put = {"Bucket": bucket, "Key": "k", "Body": b""}
    people.other.put_object(**put)
    assert denied(people.other.put_object, **put, Tagging="a=b")
    assert denied(people.other.put_object, **put, IfMatch="*")
    assert denied(people.other.create_multipart_upload, Bucket=bucket, Key="k", Tagging="a=b")
    put_policy(people, bucket, {"Action": ["s3:PutObject", "s3:PutObjectTagging", "s3:GetObject"]})
    people.other.put_object(**put, Tagging="a=b")
    people.other.put_object(**put, IfMatch="*")


def test_tags_of_the_object_and_of_the_request(people: People) -> None:
    bucket = people.bucket()
    for key, tag in (("live", "stage=live"), ("test", "stage=test")):
        people.owner.put_object(Bucket=bucket, Key=key, Body=b"x", Tagging=tag)
    existing = {"StringEquals": {"s3:ExistingObjectTag/stage": "live"}}
    asked = {"ForAllValues:StringLike": {"s3:RequestObjectTagKeys": ["stage", "x-*"]}}
    put_policy(
        people,
        bucket,
        {"Action": ["s3:GetObject", "s3:DeleteObject"], "Condition": existing},
        {"Action": "s3:PutObjectTagging", "Condition": existing | asked},
    )
    people.other.get_object(Bucket=bucket, Key="live")
    assert denied(people.other.get_object, Bucket=bucket, Key="test")
    named = {"Bucket": bucket, "Key": "live"}
    assert denied(people.other.put_object_tagging, **named, Tagging={"TagSet": [{"Key": "owner", "Value": "me"}]})
    kept = {"TagSet": [{"Key": "stage", "Value": "live"}, {"Key": "x-1", "Value": ""}]}
    people.other.put_object_tagging(**named, Tagging=kept)
    assert people.owner.get_object_tagging(**named)["TagSet"] == kept["TagSet"]
    answer = people.other.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": "live"}, {"Key": "test"}]})
    assert ([each["Key"] for each in answer["Deleted"]], [each["Key"] for each in answer["Errors"]]) == (
        ["live"],
        ["test"],
    )


def test_s44_the_peer_is_the_address(people: People) -> None:
    bucket = people.bucket()
    people.owner.put_object(Bucket=bucket, Key="k", Body=b"x")
    put_policy(people, bucket, {"Action": "s3:GetObject", "Condition": {"IpAddress": {"aws:SourceIp": "203.0.113.7"}}})
    for header in ("X-Forwarded-For", "X-Real-IP", "Forwarded", "aws-SourceIp", "x-amz-source-ip"):
        request = urllib.request.Request(f"{people.store.endpoint}/{bucket}/k", headers={header: "203.0.113.7"})
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(request, timeout=10)
        assert caught.value.code == 403
        caught.value.close()
    put_policy(people, bucket, {"Action": "s3:GetObject", "Condition": {"IpAddress": {"aws:SourceIp": "127.0.0.0/8"}}})
    people.nobody.get_object(Bucket=bucket, Key="k")


def test_new_buckets_are_blocked_and_blocks_count(people: People) -> None:
    bucket = people.bucket(is_open=False)
    client = people.owner
    named = {"Bucket": bucket}
    assert client.get_public_access_block(**named)["PublicAccessBlockConfiguration"] == dict.fromkeys(BLOCKS, True)
    with pytest.raises(ClientError, match="AccessDenied"):
        put_policy(people, bucket, {"Action": "s3:GetObject"})
    client.put_public_access_block(**named, PublicAccessBlockConfiguration={"IgnorePublicAcls": True})
    expected = {**dict.fromkeys(BLOCKS, False), "IgnorePublicAcls": True}
    assert client.get_public_access_block(**named)["PublicAccessBlockConfiguration"] == expected
    assert client.get_bucket_policy_status(**named)["PolicyStatus"] == {"IsPublic": False}
    client.put_object(**named, Key="k", Body=b"x")
    put_policy(people, bucket, {"Action": "s3:GetObject"})
    assert client.get_bucket_policy_status(**named)["PolicyStatus"] == {"IsPublic": True}
    people.nobody.get_object(**named, Key="k")
    client.put_public_access_block(**named, PublicAccessBlockConfiguration={"RestrictPublicBuckets": True})
    assert denied(people.nobody.get_object, **named, Key="k")
    assert denied(people.other.get_object, **named, Key="k")
    client.get_object(**named, Key="k")
    assert client.delete_public_access_block(**named)["ResponseMetadata"]["HTTPStatusCode"] == 204
    assert client.delete_public_access_block(**named)["ResponseMetadata"]["HTTPStatusCode"] == 204
    missing = ("NoSuchPublicAccessBlockConfiguration", 404)
    assert refusal(client.get_public_access_block, **named) == missing
    people.nobody.get_object(**named, Key="k")
    assert denied(people.other.put_public_access_block, **named, PublicAccessBlockConfiguration={})
