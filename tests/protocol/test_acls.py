"""Lists and ownership over the wire: two accounts and nobody, on a bucket of one of them."""

import io
import json
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import boto3
import pytest
from botocore import UNSIGNED
from botocore.config import Config
from botocore.exceptions import ClientError

from gateway.auth.acl import ANONYMOUS_OWNER_ID, Group
from tests.live import ADMIN_TOKEN, REGION, LiveStore

pytestmark = [pytest.mark.protocol, pytest.mark.timeout(120)]

ALL = {"Type": "Group", "URI": Group.ALL_USERS.value}


class Account(NamedTuple):
    """A user with its client."""

    id: str
    name: str
    s3: Any

    @property
    def owner(self) -> dict[str, str]:
        return {"ID": self.id, "DisplayName": self.name}

    @property
    def grantee(self) -> dict[str, str]:
        return {**self.owner, "Type": "CanonicalUser"}


class World(NamedTuple):
    """Alice owns the buckets, bob is another account, nobody does not sign. `fresh` gives a bucket of Alice."""

    alice: Account
    bob: Account
    nobody: Any
    fresh: Callable[..., str]


def client(store: LiveStore, key: dict[str, str] | None) -> Any:
    options: dict[str, Any] = {"s3": {"addressing_style": "path"}, "retries": {"max_attempts": 1, "mode": "standard"}}
    if key is None:
        options["signature_version"] = UNSIGNED
    secret = key or {"access_key_id": "none", "secret_key": "none"}
    make: Any = boto3.client  # its stubs know the services by literal names
    return make(
        "s3",
        endpoint_url=store.endpoint,
        region_name=REGION,
        aws_access_key_id=secret["access_key_id"],
        aws_secret_access_key=secret["secret_key"],
        config=Config(**options),
    )


def account(store: LiveStore, name: str) -> Account:
    def post(path: str, document: object) -> Any:
        headers = {"authorization": f"Bearer {ADMIN_TOKEN}", "content-type": "application/json"}
        request = urllib.request.Request(store.admin + path, json.dumps(document).encode(), headers)
        with urllib.request.urlopen(request, timeout=20) as answer:
            return json.load(answer)

    made = post("/admin/v1/users", {"name": name, "email": f"{name}@example.com"})
    return Account(made["id"], name, client(store, post(f"/admin/v1/users/{made['id']}/keys", {})))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("acls")
    with LiveStore(folder / "data", workers=1, ISOTHERM_S3__NEW_BUCKET_DEFAULTS="open") as store:
        alice, bob = account(store, "alice"), account(store, "bob")
        names = (f"bucket-{number}" for number in range(1000))

        def fresh(**arguments: Any) -> str:
            name = next(names)
            alice.s3.create_bucket(Bucket=name, **arguments)
            return name

        yield World(alice, bob, client(store, None), fresh)


def refused(act: Callable[..., Any], **arguments: Any) -> str:
    """The code of a refusal."""
    with pytest.raises(ClientError) as caught:
        act(**arguments)
    answer = caught.value.response
    return f"{answer['ResponseMetadata']['HTTPStatusCode']} {answer['Error']['Code']}"


DENIED, NO_LISTS = "403 AccessDenied", "400 AccessControlListNotSupported"


def grants_of(acl: Any) -> list[tuple[str, str]]:
    return [(grant["Grantee"].get("ID") or grant["Grantee"]["URI"], grant["Permission"]) for grant in acl["Grants"]]


# ---------------------------------------------------------------------------------------------------------- buckets


def test_bucket_lists_let_in_whom_they_name(world: World) -> None:
    alice, bob = world.alice, world.bob
    bucket = world.fresh()
    assert alice.s3.get_bucket_acl(Bucket=bucket)["Owner"] == alice.owner
    alice.s3.put_object(Bucket=bucket, Key="k", Body=b"1")
    assert refused(bob.s3.list_objects_v2, Bucket=bucket) == DENIED
    alice.s3.put_bucket_acl(Bucket=bucket, ACL="authenticated-read")
    assert bob.s3.list_objects_v2(Bucket=bucket)["KeyCount"] == 1
    assert refused(world.nobody.list_objects_v2, Bucket=bucket) == DENIED
    alice.s3.put_bucket_acl(Bucket=bucket, ACL="public-read-write")
    assert world.nobody.list_objects_v2(Bucket=bucket)["KeyCount"] == 1
    assert refused(bob.s3.get_bucket_acl, Bucket=bucket) == DENIED
    assert refused(bob.s3.put_bucket_acl, Bucket=bucket, ACL="private") == DENIED
    assert grants_of(alice.s3.get_bucket_acl(Bucket=bucket)) == [
        (ALL["URI"], "READ"),
        (ALL["URI"], "WRITE"),
        (alice.id, "FULL_CONTROL"),
    ]
    alice.s3.put_bucket_acl(Bucket=bucket, ACL="private")
    assert refused(world.nobody.list_objects_v2, Bucket=bucket) == DENIED


def test_documents_come_back_as_put_and_name_people_by_email(world: World) -> None:
    alice, bob = world.alice, world.bob
    bucket = world.fresh()
    by_email = {"Type": "AmazonCustomerByEmail", "EmailAddress": "BOB@example.com"}
    grants = [{"Grantee": ALL, "Permission": "READ_ACP"}, {"Grantee": alice.grantee, "Permission": "FULL_CONTROL"}]
    policy = {"Owner": alice.owner, "Grants": [*grants, {"Grantee": by_email, "Permission": "WRITE_ACP"}]}
    alice.s3.put_bucket_acl(Bucket=bucket, AccessControlPolicy=policy)
    got = alice.s3.get_bucket_acl(Bucket=bucket)
    assert got["Owner"] == alice.owner
    assert got["Grants"] == [*grants, {"Grantee": bob.grantee, "Permission": "WRITE_ACP"}]
    assert grants_of(world.nobody.get_bucket_acl(Bucket=bucket)) == grants_of(got)
    assert refused(bob.s3.list_objects_v2, Bucket=bucket) == DENIED
    bob.s3.put_bucket_acl(Bucket=bucket, ACL="public-read")  # WRITE_ACP, and the owner stays the owner
    assert alice.s3.get_bucket_acl(Bucket=bucket)["Owner"] == alice.owner


def test_an_owner_who_grants_nothing_can_still_change_the_list(world: World) -> None:
    alice = world.alice
    bucket = world.fresh()
    alice.s3.put_bucket_acl(Bucket=bucket, AccessControlPolicy={"Owner": alice.owner, "Grants": []})
    assert alice.s3.get_bucket_acl(Bucket=bucket).get("Grants", []) == []
    alice.s3.put_bucket_acl(Bucket=bucket, ACL="private")
    assert grants_of(alice.s3.get_bucket_acl(Bucket=bucket)) == [(alice.id, "FULL_CONTROL")]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"ACL": "nonsense"}, "400 InvalidArgument"),
        ({"GrantRead": "id=nobody"}, "400 InvalidArgument"),
        ({"GrantRead": "anything"}, "400 InvalidArgument"),
        ({"GrantRead": 'uri="http://acs.amazonaws.com/groups/global/Nobody"'}, "400 InvalidArgument"),
        ({"GrantRead": 'emailAddress="nobody@example.com"'}, "400 UnresolvableGrantByEmailAddress"),
        ({"ACL": "private", "GrantRead": f"uri={Group.ALL_USERS}"}, "400 InvalidRequest"),
        ({}, "400 MissingSecurityHeader"),
        ({"ACL": "private", "AccessControlPolicy": {}}, "400 UnexpectedContent"),
        ({"AccessControlPolicy": {"Owner": {"ID": "nobody"}, "Grants": []}}, DENIED),
    ],
)
def test_lists_that_cannot_be_had_change_nothing(world: World, arguments: dict[str, Any], expected: str) -> None:
    alice = world.alice
    bucket = world.fresh(ACL="public-read")
    alice.s3.put_object(Bucket=bucket, Key="k", ACL="public-read")
    assert refused(alice.s3.put_bucket_acl, Bucket=bucket, **arguments) == expected
    assert refused(alice.s3.put_object_acl, Bucket=bucket, Key="k", **arguments) == expected
    shown = [(ALL["URI"], "READ"), (alice.id, "FULL_CONTROL")]
    assert grants_of(alice.s3.get_bucket_acl(Bucket=bucket)) == shown
    assert grants_of(alice.s3.get_object_acl(Bucket=bucket, Key="k")) == shown
    if arguments and "AccessControlPolicy" not in arguments:
        assert refused(alice.s3.put_object, Bucket=bucket, Key="new", **arguments) == expected
        assert refused(alice.s3.create_bucket, Bucket="never-made", **arguments) == expected
        assert refused(alice.s3.head_object, Bucket=bucket, Key="new") == "404 404"


# ---------------------------------------------------------------------------------------------------------- objects


def test_object_lists_let_in_whom_they_name_and_touch_nothing_else(world: World) -> None:
    alice, bob = world.alice, world.bob
    bucket = world.fresh()
    alice.s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    old = alice.s3.put_object(Bucket=bucket, Key="k", Body=b"old", Metadata={"a": "b"})["VersionId"]
    new = alice.s3.put_object(Bucket=bucket, Key="k", Body=b"new", GrantRead=f'id="{bob.id}"')["VersionId"]
    before = alice.s3.head_object(Bucket=bucket, Key="k", VersionId=old)
    assert refused(world.nobody.get_object, Bucket=bucket, Key="k") == DENIED
    assert bob.s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"new"
    assert refused(bob.s3.get_object, Bucket=bucket, Key="k", VersionId=old) == DENIED
    alice.s3.put_object_acl(Bucket=bucket, Key="k", VersionId=old, ACL="public-read")
    assert world.nobody.get_object(Bucket=bucket, Key="k", VersionId=old)["Body"].read() == b"old"
    assert refused(world.nobody.get_object, Bucket=bucket, Key="k", VersionId=new) == DENIED
    after = alice.s3.head_object(Bucket=bucket, Key="k", VersionId=old)
    for name in ("LastModified", "ETag", "Metadata", "ContentLength"):
        assert after[name] == before[name]
    assert grants_of(alice.s3.get_object_acl(Bucket=bucket, Key="k")) == [(bob.id, "READ")]
    assert refused(bob.s3.get_object_acl, Bucket=bucket, Key="k") == DENIED
    assert refused(bob.s3.put_object_acl, Bucket=bucket, Key="k", ACL="public-read") == DENIED
    assert refused(bob.s3.put_object, Bucket=bucket, Key="k", Body=b"x") == DENIED


def test_copies_and_uploads_get_the_list_of_their_own_request(world: World) -> None:
    alice, bob = world.alice, world.bob
    bucket = world.fresh()
    alice.s3.put_object(Bucket=bucket, Key="k", Body=b"1", ACL="public-read")
    alice.s3.copy_object(Bucket=bucket, Key="private", CopySource=f"{bucket}/k")
    alice.s3.copy_object(Bucket=bucket, Key="shared", CopySource=f"{bucket}/k", GrantFullControl=f"id={bob.id}")
    assert refused(bob.s3.get_object, Bucket=bucket, Key="private") == DENIED
    bob.s3.put_object_acl(Bucket=bucket, Key="shared", ACL="authenticated-read")
    assert alice.s3.get_object_acl(Bucket=bucket, Key="shared")["Owner"] == alice.owner
    upload = alice.s3.create_multipart_upload(Bucket=bucket, Key="parts", ACL="public-read")["UploadId"]
    named = {"Bucket": bucket, "Key": "parts", "UploadId": upload}
    part = alice.s3.upload_part(**named, PartNumber=1, Body=io.BytesIO(b"part"))
    alice.s3.complete_multipart_upload(**named, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]})
    assert world.nobody.get_object(Bucket=bucket, Key="parts")["Body"].read() == b"part"


def test_uploads_are_for_whoever_opened_them_and_for_the_bucket_owner(world: World) -> None:
    alice, bob = world.alice, world.bob
    bucket = world.fresh(ACL="public-read-write")
    mine = alice.s3.create_multipart_upload(Bucket=bucket, Key="k")["UploadId"]
    part = {"Bucket": bucket, "Key": "k", "UploadId": mine}
    assert refused(bob.s3.upload_part, **part, PartNumber=1, Body=b"x") == DENIED
    assert refused(bob.s3.list_parts, **part) == DENIED
    assert refused(bob.s3.abort_multipart_upload, **part) == DENIED
    parts = {"Parts": [{"PartNumber": 1, "ETag": "x"}]}
    assert refused(bob.s3.complete_multipart_upload, **part, MultipartUpload=parts) == DENIED
    his = bob.s3.create_multipart_upload(Bucket=bucket, Key="k")["UploadId"]
    named = {"Bucket": bucket, "Key": "k", "UploadId": his}
    etag = bob.s3.upload_part(**named, PartNumber=1, Body=b"x")["ETag"]
    listed = alice.s3.list_parts(**named)
    assert listed["Initiator"] == listed["Owner"] == bob.owner
    assert [upload["Owner"] for upload in alice.s3.list_multipart_uploads(Bucket=bucket)["Uploads"]] in (
        [alice.owner, bob.owner],
        [bob.owner, alice.owner],
    )
    whole = {"Parts": [{"PartNumber": 1, "ETag": etag}]}
    done = bob.s3.complete_multipart_upload(**named, MultipartUpload=whole)
    assert bob.s3.complete_multipart_upload(**named, MultipartUpload=whole)["ETag"] == done["ETag"]
    alice.s3.abort_multipart_upload(**part)


# -------------------------------------------------------------------------------------------------------- ownership


@pytest.mark.parametrize("ownership", ["", "ObjectWriter", "BucketOwnerPreferred"])
def test_writers_own_what_they_write(world: World, ownership: str) -> None:
    alice, bob = world.alice, world.bob
    bucket = world.fresh(ACL="public-read-write", **({"ObjectOwnership": ownership} if ownership else {}))
    bob.s3.put_object(Bucket=bucket, Key="his", Body=b"1")
    bob.s3.put_object(Bucket=bucket, Key="given", Body=b"22", ACL="bucket-owner-full-control")
    bob.s3.copy_object(Bucket=bucket, Key="copied", CopySource=f"{bucket}/his", ACL="bucket-owner-read")
    world.nobody.put_object(Bucket=bucket, Key="nobodys", Body=b"4444")
    assert bob.s3.get_object_acl(Bucket=bucket, Key="his")["Owner"] == bob.owner
    assert refused(alice.s3.get_object, Bucket=bucket, Key="his") == DENIED
    given = alice.s3.get_object_acl(Bucket=bucket, Key="given")
    assert given["Owner"] == (alice.owner if ownership == "BucketOwnerPreferred" else bob.owner)
    assert (alice.id, "FULL_CONTROL") in grants_of(given)
    assert alice.s3.get_object(Bucket=bucket, Key="copied")["Body"].read() == b"1"
    anonymous = {"ID": ANONYMOUS_OWNER_ID, "DisplayName": "anonymous"}
    owners = {entry["Key"]: entry["Owner"] for entry in alice.s3.list_objects(Bucket=bucket)["Contents"]}
    assert owners == {"his": bob.owner, "given": given["Owner"], "copied": bob.owner, "nobodys": anonymous}
    assert refused(world.nobody.get_object, Bucket=bucket, Key="nobodys") == DENIED
    assert refused(world.nobody.put_object_acl, Bucket=bucket, Key="nobodys", ACL="private") == DENIED
    for key in owners:
        alice.s3.delete_object(Bucket=bucket, Key=key)
    alice.s3.delete_bucket(Bucket=bucket)


def test_enforced_ownership_switches_lists_off_and_back_on(world: World) -> None:
    alice, bob = world.alice, world.bob
    bucket = world.fresh(ACL="public-read-write")
    bob.s3.put_object(Bucket=bucket, Key="his", Body=b"1", ACL="public-read")
    enforced = {"Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]}
    code = refused(alice.s3.put_bucket_ownership_controls, Bucket=bucket, OwnershipControls=enforced)
    assert code == "400 InvalidBucketAclWithObjectOwnership"
    assert refused(alice.s3.get_bucket_ownership_controls, Bucket=bucket) == "404 OwnershipControlsNotFoundError"
    alice.s3.put_bucket_acl(Bucket=bucket, ACL="private")
    alice.s3.put_bucket_ownership_controls(Bucket=bucket, OwnershipControls=enforced)
    assert alice.s3.get_bucket_ownership_controls(Bucket=bucket)["OwnershipControls"] == enforced
    assert alice.s3.get_object(Bucket=bucket, Key="his")["Body"].read() == b"1"
    assert refused(bob.s3.get_object, Bucket=bucket, Key="his") == DENIED
    acl = alice.s3.get_object_acl(Bucket=bucket, Key="his")
    assert (acl["Owner"], grants_of(acl)) == (alice.owner, [(alice.id, "FULL_CONTROL")])
    assert alice.s3.list_objects(Bucket=bucket)["Contents"][0]["Owner"] == alice.owner
    for act in (alice.s3.put_bucket_acl, alice.s3.create_bucket):
        expected = NO_LISTS if act == alice.s3.put_bucket_acl else "409 BucketAlreadyExists"
        assert refused(act, Bucket=bucket, ACL="public-read") == expected
    assert refused(alice.s3.put_object_acl, Bucket=bucket, Key="his", ACL="public-read") == NO_LISTS
    assert refused(alice.s3.put_object, Bucket=bucket, Key="new", ACL="public-read") == NO_LISTS
    alice.s3.put_object(Bucket=bucket, Key="new", ACL="bucket-owner-full-control")
    alice.s3.put_object_acl(Bucket=bucket, Key="new", ACL="bucket-owner-full-control")
    alice.s3.delete_bucket_ownership_controls(Bucket=bucket)
    alice.s3.delete_bucket_ownership_controls(Bucket=bucket)
    assert bob.s3.get_object(Bucket=bucket, Key="his")["Body"].read() == b"1"
    assert refused(alice.s3.get_object_acl, Bucket=bucket, Key="his") == DENIED


def test_a_bucket_that_blocks_public_lists_takes_none(world: World) -> None:
    alice, bob = world.alice, world.bob
    bucket = world.fresh(ACL="public-read")
    alice.s3.put_public_access_block(
        Bucket=bucket, PublicAccessBlockConfiguration={"BlockPublicAcls": True, "IgnorePublicAcls": False}
    )
    assert bob.s3.list_objects_v2(Bucket=bucket)["KeyCount"] == 0  # what was there counts on
    for acl in ("public-read", "public-read-write", "authenticated-read"):
        assert refused(alice.s3.put_bucket_acl, Bucket=bucket, ACL=acl) == DENIED
        assert refused(alice.s3.put_object, Bucket=bucket, Key="k", Body=b"", ACL=acl) == DENIED
        assert refused(alice.s3.create_multipart_upload, Bucket=bucket, Key="k", ACL=acl) == DENIED
    alice.s3.put_object(Bucket=bucket, Key="k", GrantRead=f"id={bob.id}")
    assert refused(alice.s3.put_object_acl, Bucket=bucket, Key="k", ACL="public-read") == DENIED
    assert bob.s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b""


# --------------------------------------------------------------------------------------------------------- creation


def test_creating_a_bucket_again(world: World) -> None:
    alice = world.alice
    bucket = world.fresh()
    alice.s3.create_bucket(Bucket=bucket)
    assert refused(alice.s3.create_bucket, Bucket=bucket, ACL="public-read") == "409 BucketAlreadyExists"
    code = refused(alice.s3.create_bucket, Bucket=bucket, ObjectOwnership="BucketOwnerPreferred")
    assert code == "409 BucketAlreadyExists"
    assert refused(world.bob.s3.create_bucket, Bucket=bucket) == "409 BucketAlreadyExists"
    assert grants_of(alice.s3.get_bucket_acl(Bucket=bucket)) == [(alice.id, "FULL_CONTROL")]
    public = world.fresh(ACL="public-read")
    assert refused(alice.s3.create_bucket, Bucket=public) == "409 BucketAlreadyExists"


def test_ownership_and_lists_asked_at_creation(world: World) -> None:
    bucket = world.fresh(ObjectOwnership="BucketOwnerPreferred", GrantWrite=f"id={world.bob.id}")
    rules = world.alice.s3.get_bucket_ownership_controls(Bucket=bucket)["OwnershipControls"]["Rules"]
    assert rules == [{"ObjectOwnership": "BucketOwnerPreferred"}]
    world.bob.s3.put_object(Bucket=bucket, Key="k")
    create = world.alice.s3.create_bucket
    both = {"ObjectOwnership": "BucketOwnerEnforced", "ACL": "public-read"}
    assert refused(create, Bucket="never-made", **both) == "400 InvalidBucketAclWithObjectOwnership"
    assert refused(create, Bucket="never-made", ObjectOwnership="Nobody") == "400 InvalidArgument"
    assert refused(world.alice.s3.head_bucket, Bucket="never-made") == "404 404"
