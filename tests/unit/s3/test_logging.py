"""Bucket logging end to end in one process: documents, refusals, collection within bounds, delivery."""

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from gateway.http.observer import Transfer
from gateway.s3.deposits import Deposits
from gateway.s3.log_delivery import LogDelivery
from gateway.s3.server_log import LogBatch, LogLimits, ServerLog
from metadata.types import DocumentKind
from tests.unit.s3.calls import make_call
from tests.unit.s3.gateway import Gateway
from tiers.errors import MetadataUnavailable

LIMITS = LogLimits(buffer_bytes=4000, object_bytes=1500)
TARGET = {"TargetBucket": "target", "TargetPrefix": "log/"}


class WatchedLog(ServerLog):
    """Says when something was delivered or given up."""

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__(LIMITS, "us-east-1", "HOST1", clock)
        self.settled = asyncio.Event()

    def settle(self, batch: LogBatch, *, is_delivered: bool) -> None:
        super().settle(batch, is_delivered=is_delivered)
        self.settled.set()


class Logged:
    """A gateway whose requests are observed, `bucket` and `target` beside each other."""

    def __init__(self, path: Path) -> None:
        self.log = WatchedLog(lambda: self.gateway.world.clock())
        self.gateway = Gateway(path, server_log=self.log, new_bucket_defaults="open")
        services = self.gateway.services
        self.deposits = Deposits(services.namespace, services.content_keys, services.configurations)
        self.delivery = LogDelivery(self.log, self.deposits, self.gateway.world.clock, 0.01)
        self.s3 = self.gateway.client()
        self.s3.create_bucket(Bucket="bucket")
        self.s3.create_bucket(Bucket="target")
        self.permit()

    def permit(self, **changes: Any) -> None:
        statement = {
            "Effect": "Allow",
            "Principal": {"Service": "logging.s3.amazonaws.com"},
            "Action": "s3:PutObject",
            "Resource": "arn:aws:s3:::target/log/*",
            **changes,
        }
        self.s3.put_bucket_policy(
            Bucket="target", Policy=json.dumps({"Version": "2012-10-17", "Statement": [statement]})
        )

    def put(self, client: Any = None, **changes: Any) -> None:
        status = {"LoggingEnabled": {**TARGET, **changes}}
        (client or self.s3).put_bucket_logging(Bucket="bucket", BucketLoggingStatus=status)

    def visit(self, path: str, agent: str = "tool") -> None:
        """One anonymous request through the plane, and its end as the HTTP layer tells it."""
        call = make_call("GET", path, {"user-agent": agent})
        answer = self.gateway.answer(call)
        for follow in call.followers:
            follow(answer, Transfer(0.001, 0.002, 0, 7))

    def flush(self) -> bool:
        done: bool = self.gateway.run(self.delivery.flush())
        return done

    def delivered(self) -> list[bytes]:
        listed = self.s3.list_objects_v2(Bucket="target").get("Contents", [])
        return [self.s3.get_object(Bucket="target", Key=found["Key"])["Body"].read() for found in listed]


@pytest.fixture
def logged(tmp_path: Path) -> Iterator[Logged]:
    made = Logged(tmp_path)
    yield made
    made.gateway.close()
    assert made.gateway.faults == []


def code_of(call: Callable[[], object]) -> str:
    with pytest.raises(ClientError) as caught:
        call()
    code: str = caught.value.response["Error"]["Code"]
    return code


GRANTEE = {"Type": "Group", "URI": "http://acs.amazonaws.com/groups/global/AuthenticatedUsers"}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"TargetPrefix": "log/<&>"},
        {"TargetObjectKeyFormat": {"SimplePrefix": {}}},
        {"TargetObjectKeyFormat": {"PartitionedPrefix": {"PartitionDateSource": "EventTime"}}},
        {"TargetObjectKeyFormat": {"PartitionedPrefix": {"PartitionDateSource": "DeliveryTime"}}},
        {"TargetGrants": [{"Grantee": GRANTEE, "Permission": "READ"}]},
        {
            "TargetGrants": [
                {"Grantee": {"Type": "CanonicalUser", "ID": "owner", "DisplayName": "o"}, "Permission": "FULL_CONTROL"}
            ]
        },
    ],
)
def test_a_configuration_is_read_back_as_put(logged: Logged, changes: dict[str, Any]) -> None:
    assert "LoggingEnabled" not in logged.s3.get_bucket_logging(Bucket="bucket")
    logged.put(**changes)
    assert logged.s3.get_bucket_logging(Bucket="bucket")["LoggingEnabled"] == {**TARGET, **changes}
    logged.s3.put_bucket_logging(Bucket="bucket", BucketLoggingStatus={})
    assert "LoggingEnabled" not in logged.s3.get_bucket_logging(Bucket="bucket")


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"TargetBucket": "absent"}, "InvalidTargetBucketForLogging"),
        ({"TargetBucket": "bucket"}, "InvalidArgument"),
        ({"TargetPrefix": "p" * 513}, "InvalidArgument"),
        ({"TargetPrefix": "elsewhere/"}, "AccessDenied"),
        ({"TargetObjectKeyFormat": {}}, "MalformedXML"),
        ({"TargetObjectKeyFormat": {"PartitionedPrefix": {"PartitionDateSource": "kaboom"}}}, "MalformedXML"),
        (
            {"TargetObjectKeyFormat": {"SimplePrefix": {}, "PartitionedPrefix": {"PartitionDateSource": "EventTime"}}},
            "MalformedXML",
        ),
        ({"TargetGrants": [{"Grantee": GRANTEE, "Permission": "READ_ACP"}]}, "MalformedXML"),
        (
            {"TargetGrants": [{"Grantee": {"Type": "CanonicalUser", "ID": "nobody"}, "Permission": "READ"}]},
            "InvalidArgument",
        ),
    ],
)
def test_configurations_refused(logged: Logged, changes: dict[str, Any], code: str) -> None:
    assert code_of(lambda: logged.put(**changes)) == code
    assert "LoggingEnabled" not in logged.s3.get_bucket_logging(Bucket="bucket")


def test_targets_refused_for_what_they_are(logged: Logged) -> None:
    buckets, run = logged.gateway.services.namespace.buckets, logged.gateway.run
    rule = {"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": "one"}}
    logged.s3.put_bucket_encryption(Bucket="target", ServerSideEncryptionConfiguration={"Rules": [rule]})
    assert code_of(logged.put) == "InvalidArgument"
    logged.s3.delete_bucket_encryption(Bucket="target")
    logged.put()
    document = run(buckets.get_document("bucket", DocumentKind.LOGGING))
    run(buckets.put_document("target", DocumentKind.LOGGING, document))
    assert code_of(logged.put) == "InvalidArgument"
    run(buckets.delete_document("target", DocumentKind.LOGGING))
    logged.s3.put_bucket_ownership_controls(
        Bucket="target", OwnershipControls={"Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]}
    )
    assert code_of(lambda: logged.put(TargetGrants=[{"Grantee": GRANTEE, "Permission": "READ"}])) == (
        "AccessControlListNotSupported"
    )


def test_only_the_owner_sets_it_whatever_a_policy_permits(logged: Logged) -> None:
    everything = {"Effect": "Allow", "Principal": "*", "Action": "s3:*", "Resource": "arn:aws:s3:::bucket"}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [everything]})
    logged.s3.put_bucket_policy(Bucket="bucket", Policy=policy)
    other = logged.gateway.client("other")
    assert code_of(lambda: logged.put(other)) == "AccessDenied"
    assert code_of(lambda: other.put_bucket_logging(Bucket="bucket", BucketLoggingStatus={})) == "AccessDenied"
    assert "LoggingEnabled" not in other.get_bucket_logging(Bucket="bucket")


def test_requests_of_logged_buckets_become_objects(logged: Logged) -> None:
    logged.visit("/bucket/before")
    logged.put(TargetGrants=[{"Grantee": GRANTEE, "Permission": "READ"}])
    logged.visit("/bucket/k?versionId=v", agent='x" 200 - forged\t')
    logged.visit("/target/k")
    assert logged.flush()
    (content,) = logged.delivered()
    assert content.count(b"\n") == 1
    assert b" owner bucket [" not in content
    assert content.startswith(b"owner bucket [14/Nov/2023:22:13:")
    assert b' - REQUEST1 REST.GET.OBJECT k "GET /bucket/k?versionId=v HTTP/1.1" 403 AccessDenied 7 - 2 1 ' in content
    assert b'"x%22 200 - forged%09" v HOST1 - - - ' in content
    (found,) = logged.s3.list_objects_v2(Bucket="target")["Contents"]
    grants = logged.s3.get_object_acl(Bucket="target", Key=found["Key"])["Grants"]
    assert {(grant["Grantee"].get("URI"), grant["Permission"]) for grant in grants} == {
        (None, "FULL_CONTROL"),
        (GRANTEE["URI"], "READ"),
    }
    assert (logged.log.counts.delivered, logged.log.counts.dropped) == (1, 0)


def test_memory_is_bounded_and_what_does_not_fit_is_counted(logged: Logged) -> None:
    logged.put()
    for _ in range(30):
        logged.visit("/bucket/k")
    counts = logged.log.counts
    assert counts.dropped > 0
    assert logged.log.has_full.is_set()
    assert logged.flush()
    contents = logged.delivered()
    assert len(contents) > 1
    assert all(len(content) <= LIMITS.object_bytes + 500 for content in contents)
    assert sum(content.count(b"\n") for content in contents) == counts.delivered == 30 - counts.dropped
    logged.visit("/bucket/k")
    assert logged.flush()
    assert counts.delivered == 31 - counts.dropped


def test_a_permission_taken_back_ends_delivery(logged: Logged) -> None:
    logged.put()
    logged.visit("/bucket/k")
    logged.permit(Effect="Deny", Principal="*")
    assert logged.flush()
    assert logged.delivered() == []
    assert (logged.log.counts.delivered, logged.log.counts.dropped) == (0, 1)


def test_lines_wait_while_the_store_takes_nothing(logged: Logged, monkeypatch: pytest.MonkeyPatch) -> None:
    logged.put()
    logged.visit("/bucket/k")

    async def fail(*_arguments: object, **_options: object) -> None:
        raise MetadataUnavailable("now")

    with monkeypatch.context() as patch:
        patch.setattr(logged.deposits.namespace.objects, "put", fail)
        assert not logged.flush()
    assert logged.delivered() == []
    assert logged.flush()
    assert [content.count(b"\n") for content in logged.delivered()] == [1]


def test_a_full_log_is_delivered_before_its_time(logged: Logged) -> None:
    delivery = LogDelivery(logged.log, logged.deposits, logged.gateway.world.clock, 3600)
    logged.put()
    for _ in range(10):
        logged.visit("/bucket/k")

    async def run() -> None:
        task = asyncio.ensure_future(delivery.run())
        await logged.log.settled.wait()
        task.cancel()

    logged.gateway.run(asyncio.wait_for(run(), 10))
    assert logged.delivered()
