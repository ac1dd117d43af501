"""What Terraform's AWS provider asks for one `aws_s3_bucket` and its companions, replayed with boto3.

Create, read everything, apply the companions, read everything again (the plan after the apply), once more (a second
plan): between the last two nothing may differ, and nothing unset may answer anything but its own code.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.live import LiveStore
from tests.protocol.control import ACCOUNT, DOMAIN, control_client

pytestmark = pytest.mark.protocol

BUCKET = "terraformed"
RESOURCE = {"AccountId": ACCOUNT, "ResourceArn": f"arn:aws:s3:::{BUCKET}"}
UNSET = {
    "get_bucket_policy": "NoSuchBucketPolicy",
    "get_bucket_cors": "NoSuchCORSConfiguration",
    "get_bucket_website": "NoSuchWebsiteConfiguration",
    "get_bucket_lifecycle_configuration": "NoSuchLifecycleConfiguration",
    "get_bucket_replication": "ReplicationConfigurationNotFoundError",
    "get_bucket_encryption": "ServerSideEncryptionConfigurationNotFoundError",
    "get_object_lock_configuration": "ObjectLockConfigurationNotFoundError",
    "get_bucket_tagging": "NoSuchTagSet",
}
"""Reads of the resource itself, in the provider's order, and how each says that nothing is set."""

READS = ("get_bucket_acl", "get_bucket_versioning", "get_bucket_accelerate_configuration", "get_bucket_request_payment")
MORE_READS = ("get_bucket_logging", "get_public_access_block", "get_bucket_ownership_controls", "get_bucket_location")
CORS = [
    {
        "ID": "web",
        "AllowedHeaders": ["*"],
        "AllowedMethods": ["PUT", "POST"],
        "AllowedOrigins": ["https://s3-website-test.hashicorp.com"],
        "ExposeHeaders": ["ETag"],
        "MaxAgeSeconds": 3000,
    },
    {"AllowedMethods": ["GET"], "AllowedOrigins": ["*"]},
]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveStore]:
    folder = Path(tmp_path_factory.mktemp("terraform"))
    with LiveStore(folder / "data", workers=1, ISOTHERM_SERVER__DOMAINS=DOMAIN) as live:
        yield live


def plan(client: Any, control: Any) -> dict[str, Any]:
    """Everything a refresh reads, by call: the document without its metadata, or the code of what is unset."""
    client.head_bucket(Bucket=BUCKET)
    state: dict[str, Any] = {"tags": control.list_tags_for_resource(**RESOURCE)["Tags"]}
    for name in (*READS, *MORE_READS, *UNSET):
        try:
            found = getattr(client, name)(Bucket=BUCKET)
            state[name] = {key: value for key, value in found.items() if key != "ResponseMetadata"}
        except ClientError as error:
            state[name] = error.response["Error"]["Code"]
    return state


def test_a_bucket_is_created_read_and_planned_again(store: LiveStore, monkeypatch: pytest.MonkeyPatch) -> None:
    client, control = store.client(), control_client(store, monkeypatch)
    with pytest.raises(ClientError, match="404"):
        client.head_bucket(Bucket=BUCKET)
    client.create_bucket(Bucket=BUCKET)
    fresh = plan(client, control)
    assert {name: fresh[name] for name in UNSET} == UNSET
    assert (fresh["tags"], fresh["get_bucket_versioning"], fresh["get_bucket_logging"]) == ([], {}, {})
    assert fresh["get_bucket_accelerate_configuration"] == {}
    assert fresh["get_bucket_request_payment"] == {"Payer": "BucketOwner"}
    assert plan(client, control) == fresh

    control.tag_resource(
        **RESOURCE, Tags=[{"Key": "Name", "Value": "My bucket"}, {"Key": "Environment", "Value": "Dev"}]
    )
    client.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration={"Status": "Enabled"})
    client.put_bucket_cors(Bucket=BUCKET, CORSConfiguration={"CORSRules": CORS})
    client.put_bucket_request_payment(Bucket=BUCKET, RequestPaymentConfiguration={"Payer": "BucketOwner"})
    client.put_bucket_accelerate_configuration(Bucket=BUCKET, AccelerateConfiguration={"Status": "Suspended"})
    applied = plan(client, control)
    assert applied["get_bucket_cors"] == {"CORSRules": CORS}
    assert applied["get_bucket_versioning"] == {"Status": "Enabled"}
    assert applied["get_bucket_accelerate_configuration"] == {"Status": "Suspended"}
    assert applied["tags"] == applied["get_bucket_tagging"]["TagSet"]
    assert plan(client, control) == applied

    control.tag_resource(**RESOURCE, Tags=[{"Key": "Environment", "Value": "Prod"}])
    control.untag_resource(**RESOURCE, TagKeys=["Name"])
    assert plan(client, control)["tags"] == [{"Key": "Environment", "Value": "Prod"}]
    client.delete_bucket_cors(Bucket=BUCKET)
    assert plan(client, control)["get_bucket_cors"] == "NoSuchCORSConfiguration"
    client.delete_bucket(Bucket=BUCKET)
    with pytest.raises(ClientError, match="NoSuchBucket"):
        control.list_tags_for_resource(**RESOURCE)
