"""Object Lock through the plane, as boto3 sees it, under a clock that the test moves; and conditional deletes."""

import base64
import hashlib
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from metadata.tables import OBJECT
from tests.unit.s3.gateway import Gateway
from tiers.namespace.locks import Mode, unpack_lock

NOW = datetime.fromtimestamp(1_700_000_000, UTC)
SOON, LATER = NOW + timedelta(days=1), NOW + timedelta(days=30)
GOVERNANCE = {"Mode": "GOVERNANCE", "RetainUntilDate": SOON}
DENIED = ("AccessDenied", 403)
BYPASSES: list[dict[str, Any]] = [{}, {"BypassGovernanceRetention": True}]


def failure(function: Any, bucket: str = "locked", **arguments: Any) -> tuple[str, int]:
    """Code and status of an operation that must fail."""
    with pytest.raises(ClientError) as caught:
        function(Bucket=bucket, **arguments)
    response = caught.value.response
    return response["Error"]["Code"], response["ResponseMetadata"]["HTTPStatusCode"]


def owner_of_both(gateway: Gateway) -> Any:
    """The owner of `locked`, a bucket with Object Lock, and of `bucket`, one without."""
    client = gateway.client()
    client.create_bucket(Bucket="locked", ObjectLockEnabledForBucket=True)
    return client


@pytest.fixture
def s3(gateway: Gateway) -> Any:
    return owner_of_both(gateway)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """One plane for all requests that change nothing; both buckets hold `k`, and `locked` a default retention."""
    opened = Gateway(tmp_path_factory.mktemp("shared"))
    client = owner_of_both(opened)
    configure(client, Mode="COMPLIANCE", Days=1)
    put(client)
    client.put_object(Bucket="bucket", Key="k", Body=b"x")
    yield opened
    opened.close()
    assert opened.faults == []


def put(s3: Any, key: str = "k", **arguments: Any) -> str:
    version: str = s3.put_object(Bucket="locked", Key=key, Body=b"x", **arguments)["VersionId"]
    return version


def configure(s3: Any, bucket: str = "locked", **retention: Any) -> None:
    rule = {"Rule": {"DefaultRetention": retention}} if retention else {}
    configuration = {"ObjectLockEnabled": "Enabled", **rule}
    s3.put_object_lock_configuration(Bucket=bucket, ObjectLockConfiguration=configuration)


def test_a_bucket_made_with_lock_is_versioned_for_good(s3: Any) -> None:
    assert s3.get_bucket_versioning(Bucket="locked")["Status"] == "Enabled"
    stored = s3.get_object_lock_configuration(Bucket="locked")["ObjectLockConfiguration"]
    assert stored == {"ObjectLockEnabled": "Enabled"}
    suspend = {"Status": "Suspended"}
    assert failure(s3.put_bucket_versioning, VersioningConfiguration=suspend) == ("InvalidBucketState", 409)
    s3.put_bucket_versioning(Bucket="locked", VersioningConfiguration={"Status": "Enabled"})
    s3.create_bucket(Bucket="locked", ObjectLockEnabledForBucket=True)
    assert failure(s3.create_bucket, "bucket", ObjectLockEnabledForBucket=True) == ("BucketAlreadyOwnedByYou", 409)


def test_lock_may_come_later_on_a_versioned_bucket(s3: Any) -> None:
    wanted = {"ObjectLockEnabled": "Enabled"}
    put_configuration = s3.put_object_lock_configuration
    assert failure(put_configuration, "bucket", ObjectLockConfiguration=wanted) == ("InvalidBucketState", 409)
    for state, code in (("Suspended", ("InvalidBucketState", 409)), ("Enabled", None)):
        s3.put_bucket_versioning(Bucket="bucket", VersioningConfiguration={"Status": state})
        if code is not None:
            assert failure(put_configuration, "bucket", ObjectLockConfiguration=wanted) == code
    for retention in ({"Mode": "GOVERNANCE", "Days": 3}, {"Mode": "COMPLIANCE", "Years": 2}, {}):
        configure(s3, "bucket", **retention)
        stored = s3.get_object_lock_configuration(Bucket="bucket")["ObjectLockConfiguration"]
        assert stored.get("Rule", {}).get("DefaultRetention", {}) == retention


@pytest.mark.parametrize(
    ("inside", "code"),
    [
        ("<ObjectLockEnabled>Disabled</ObjectLockEnabled>", "MalformedXML"),
        ("", "MalformedXML"),
        ("<Rule/>", "MalformedXML"),
        ("<Mode>governance</Mode><Days>1</Days>", "MalformedXML"),
        ("<Days>1</Days>", "MalformedXML"),
        ("<Mode>GOVERNANCE</Mode>", "MalformedXML"),
        ("<Mode>GOVERNANCE</Mode><Days>1</Days><Years>1</Years>", "MalformedXML"),
        ("<Mode>GOVERNANCE</Mode><Days>soon</Days>", "MalformedXML"),
        ("<Mode>GOVERNANCE</Mode><Days>0</Days>", "InvalidRetentionPeriod"),
        ("<Mode>GOVERNANCE</Mode><Days>-1</Days>", "InvalidRetentionPeriod"),
        ("<Mode>GOVERNANCE</Mode><Days>36501</Days>", "InvalidRetentionPeriod"),
        ("<Mode>GOVERNANCE</Mode><Years>101</Years>", "InvalidRetentionPeriod"),
        ("<Mode>GOVERNANCE</Mode><Years>-1</Years>", "InvalidRetentionPeriod"),
        ("<Mode>GOVERNANCE</Mode><DefaultEventHold><Days>1</Days></DefaultEventHold>", "NotImplemented"),
    ],
)
def test_bad_configurations_change_nothing(shared: Gateway, inside: str, code: str) -> None:
    if "<Mode>" in inside or "<Days>" in inside:
        inside = f"<Rule><DefaultRetention>{inside}</DefaultRetention></Rule>"
    if inside and "Disabled" not in inside:
        inside = f"<ObjectLockEnabled>Enabled</ObjectLockEnabled>{inside}"
    body = f"<ObjectLockConfiguration>{inside}</ObjectLockConfiguration>".encode()
    assert send_document(shared, "/locked?object-lock", body) == code
    stored = shared.client().get_object_lock_configuration(Bucket="locked")["ObjectLockConfiguration"]
    assert stored["Rule"]["DefaultRetention"] == {"Mode": "COMPLIANCE", "Days": 1}


def send_document(gateway: Gateway, path: str, body: bytes) -> str:
    """Error code of a PUT of a document with its checksum, empty for success."""
    digest = base64.b64encode(hashlib.md5(body).digest()).decode()
    return gateway.send("PUT", path, {"Content-MD5": digest}, body).error_code


@pytest.mark.parametrize(
    ("kind", "document", "code"),
    [
        ("retention", "<Retention><Mode>GOVERNANCE</Mode></Retention>", "MalformedXML"),
        ("retention", "<Retention><RetainUntilDate>2030-01-01</RetainUntilDate></Retention>", "MalformedXML"),
        (
            "retention",
            "<Retention><Mode>x</Mode><RetainUntilDate>2030-01-01</RetainUntilDate></Retention>",
            "MalformedXML",
        ),
        (
            "retention",
            "<Retention><Mode>GOVERNANCE</Mode><RetainUntilDate>soon</RetainUntilDate></Retention>",
            "MalformedXML",
        ),
        (
            "retention",
            "<Retention><Mode>GOVERNANCE</Mode><RetainUntilDate>2020-01-01</RetainUntilDate></Retention>",
            "InvalidArgument",
        ),
        ("retention", "<Retention><EventHold>ON</EventHold></Retention>", "NotImplemented"),
        ("retention", "<Other/>", "MalformedXML"),
        ("legal-hold", "<LegalHold><Status>on</Status></LegalHold>", "MalformedXML"),
        ("legal-hold", "<LegalHold/>", "MalformedXML"),
    ],
)
def test_bad_documents_of_versions(shared: Gateway, kind: str, document: str, code: str) -> None:
    s3 = shared.client()
    assert send_document(shared, f"/locked/k?{kind}", document.encode()) == code
    assert s3.get_object_retention(Bucket="locked", Key="k")["Retention"]["Mode"] == "COMPLIANCE"
    assert failure(s3.get_object_legal_hold, Key="k") == ("NoSuchObjectLockConfiguration", 404)


def test_without_lock_nothing_of_it_is_served(s3: Any) -> None:
    s3.put_object(Bucket="bucket", Key="k", Body=b"before")
    refused = ("InvalidRequest", 400)
    lock = {"ObjectLockMode": "GOVERNANCE", "ObjectLockRetainUntilDate": SOON}
    assert failure(s3.get_object_retention, "bucket", Key="k") == refused
    assert failure(s3.get_object_legal_hold, "bucket", Key="k") == refused
    assert failure(s3.put_object_retention, "bucket", Key="k", Retention=GOVERNANCE) == refused
    assert failure(s3.put_object_legal_hold, "bucket", Key="k", LegalHold={"Status": "ON"}) == refused
    assert failure(s3.put_object, "bucket", Key="k", Body=b"after", **lock) == refused
    assert failure(s3.create_multipart_upload, "bucket", Key="k", **lock) == refused
    assert failure(s3.copy_object, "bucket", Key="k2", CopySource="bucket/k", ObjectLockLegalHoldStatus="ON") == refused
    assert s3.get_object(Bucket="bucket", Key="k")["Body"].read() == b"before"
    assert failure(s3.get_object_lock_configuration, "bucket") == ("ObjectLockConfigurationNotFoundError", 404)


@pytest.mark.parametrize(
    "headers",
    [
        {"x-amz-object-lock-mode": "GOVERNANCE"},
        {"x-amz-object-lock-retain-until-date": "2030-01-01T00:00:00Z"},
        {"x-amz-object-lock-mode": "governance", "x-amz-object-lock-retain-until-date": "2030-01-01T00:00:00Z"},
        {"x-amz-object-lock-mode": "GOVERNANCE", "x-amz-object-lock-retain-until-date": "2020-01-01T00:00:00Z"},
        {"x-amz-object-lock-mode": "GOVERNANCE", "x-amz-object-lock-retain-until-date": "20300101"},
        {"x-amz-object-lock-legal-hold": "on"},
    ],
)
def test_bad_lock_headers(shared: Gateway, headers: dict[str, str]) -> None:
    assert shared.send("PUT", "/locked/new", headers, b"x").error_code == "InvalidArgument"
    held = shared.send("PUT", "/locked/new", {"x-amz-object-lock-event-hold": "ON"}, b"x")
    assert held.error_code == "NotImplemented"
    assert failure(shared.client().head_object, Key="new") == ("404", 404)


def test_governance(s3: Any) -> None:
    version = put(s3, ObjectLockMode="GOVERNANCE", ObjectLockRetainUntilDate=SOON)
    assert failure(s3.delete_object, Key="k", VersionId=version) == DENIED
    longer, shorter = GOVERNANCE | {"RetainUntilDate": LATER}, GOVERNANCE | {"RetainUntilDate": SOON}
    s3.put_object_retention(Bucket="locked", Key="k", Retention=longer)
    assert failure(s3.put_object_retention, Key="k", Retention=shorter) == DENIED
    assert failure(s3.put_object_retention, Key="k", Retention={}) == DENIED
    assert s3.get_object_retention(Bucket="locked", Key="k")["Retention"] == longer
    s3.put_object_retention(Bucket="locked", Key="k", Retention=shorter, BypassGovernanceRetention=True)
    assert s3.get_object_retention(Bucket="locked", Key="k", VersionId=version)["Retention"] == shorter
    s3.put_object_retention(Bucket="locked", Key="k", Retention={}, BypassGovernanceRetention=True)
    assert failure(s3.get_object_retention, Key="k") == ("NoSuchObjectLockConfiguration", 404)
    s3.put_object_retention(Bucket="locked", Key="k", Retention=GOVERNANCE)
    s3.delete_object(Bucket="locked", Key="k", VersionId=version, BypassGovernanceRetention=True)
    assert failure(s3.head_object, Key="k", VersionId=version) == ("404", 404)


def test_compliance_holds_until_its_date_and_no_longer(s3: Any, gateway: Gateway) -> None:
    version = put(s3, ObjectLockMode="COMPLIANCE", ObjectLockRetainUntilDate=SOON)
    for bypass in BYPASSES:
        assert failure(s3.delete_object, Key="k", VersionId=version, **bypass) == DENIED
        assert failure(s3.put_object_retention, Key="k", Retention={}, **bypass) == DENIED
        assert failure(s3.put_object_retention, Key="k", Retention=GOVERNANCE, **bypass) == DENIED
    gateway.world.clock.advance(86_399)
    assert failure(s3.delete_object, Key="k", VersionId=version) == DENIED
    gateway.world.clock.advance(2)
    s3.delete_object(Bucket="locked", Key="k", VersionId=version)


def test_legal_hold_needs_no_date_and_no_right_lifts_it(s3: Any) -> None:
    version = put(s3, ObjectLockLegalHoldStatus="ON")
    assert failure(s3.delete_object, Key="k", VersionId=version, BypassGovernanceRetention=True) == DENIED
    assert failure(s3.get_object_retention, Key="k") == ("NoSuchObjectLockConfiguration", 404)
    s3.put_object_legal_hold(Bucket="locked", Key="k", LegalHold={"Status": "OFF"})
    assert s3.get_object_legal_hold(Bucket="locked", Key="k")["LegalHold"] == {"Status": "OFF"}
    s3.delete_object(Bucket="locked", Key="k", VersionId=version)


def test_markers_and_new_versions_go_on_top(s3: Any) -> None:
    version = put(s3, ObjectLockMode="COMPLIANCE", ObjectLockRetainUntilDate=SOON)
    marker = s3.delete_object(Bucket="locked", Key="k")["VersionId"]
    assert failure(s3.delete_object, Key="k", VersionId=version) == DENIED
    s3.delete_object(Bucket="locked", Key="k", VersionId=marker)
    newer = put(s3)
    s3.put_object_tagging(Bucket="locked", Key="k", VersionId=version, Tagging={"TagSet": []})
    s3.delete_object(Bucket="locked", Key="k", VersionId=newer)
    assert s3.head_object(Bucket="locked", Key="k")["VersionId"] == version
    assert failure(s3.delete_bucket) == ("BucketNotEmpty", 409)


def test_each_key_of_a_list_alone(s3: Any) -> None:
    held = put(s3, "a", ObjectLockMode="GOVERNANCE", ObjectLockRetainUntilDate=SOON)
    free = put(s3, "b")
    wanted = [{"Key": "a", "VersionId": held}, {"Key": "b", "VersionId": free}]
    answer = s3.delete_objects(Bucket="locked", Delete={"Objects": wanted})
    assert [entry["Key"] for entry in answer["Deleted"]] == ["b"]
    assert [(entry["Key"], entry["Code"], entry["VersionId"]) for entry in answer["Errors"]] == [
        ("a", "AccessDenied", held)
    ]
    answer = s3.delete_objects(Bucket="locked", Delete={"Objects": wanted[:1]}, BypassGovernanceRetention=True)
    assert (len(answer["Deleted"]), "Errors" in answer) == (1, False)


def test_default_retention_and_what_a_read_tells(s3: Any) -> None:
    configure(s3, Mode="GOVERNANCE", Days=30)
    put(s3)
    told = s3.head_object(Bucket="locked", Key="k")
    assert (told["ObjectLockMode"], told["ObjectLockRetainUntilDate"]) == ("GOVERNANCE", LATER)
    assert "ObjectLockLegalHoldStatus" not in told
    put(s3, "own", ObjectLockMode="COMPLIANCE", ObjectLockRetainUntilDate=SOON, ObjectLockLegalHoldStatus="ON")
    told = s3.get_object(Bucket="locked", Key="own")
    assert (told["ObjectLockMode"], told["ObjectLockRetainUntilDate"]) == ("COMPLIANCE", SOON)
    assert told["ObjectLockLegalHoldStatus"] == "ON"
    copied = s3.copy_object(Bucket="locked", Key="copy", CopySource="locked/own", ObjectLockLegalHoldStatus="OFF")
    told = s3.head_object(Bucket="locked", Key="copy", VersionId=copied["VersionId"])
    assert (told["ObjectLockMode"], told["ObjectLockLegalHoldStatus"]) == ("GOVERNANCE", "OFF")


def test_an_upload_gets_what_it_asked_for_else_the_default_of_its_completion(s3: Any) -> None:
    def upload(key: str, **lock: Any) -> Any:
        upload_id = s3.create_multipart_upload(Bucket="locked", Key=key, **lock)["UploadId"]
        named = {"Bucket": "locked", "Key": key, "UploadId": upload_id}
        etag = s3.upload_part(**named, PartNumber=1, Body=b"x")["ETag"]
        configure(s3, Mode="GOVERNANCE", Days=30)
        s3.complete_multipart_upload(**named, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": etag}]})
        return s3.head_object(Bucket="locked", Key=key)

    assert upload("a")["ObjectLockRetainUntilDate"] == LATER
    told = upload("b", ObjectLockMode="COMPLIANCE", ObjectLockRetainUntilDate=SOON)
    assert (told["ObjectLockMode"], told["ObjectLockRetainUntilDate"]) == ("COMPLIANCE", SOON)


def test_an_unreadable_lock_is_a_lock(s3: Any, gateway: Gateway) -> None:
    version = put(s3)
    world = gateway.world

    bucket_id = gateway.run(world.reader.find_bucket("locked")).bucket_id
    with closing(world.metadata.open_writer()) as writer, writer.transaction() as transaction:
        transaction.begin_step()
        row = transaction.get(OBJECT, (bucket_id, b"k"))
        assert row is not None
        transaction.put(OBJECT, row._replace(lock=b"\xc1"))
        transaction.commit(transaction.head)
    for bypass in BYPASSES:
        assert failure(s3.delete_object, Key="k", VersionId=version, **bypass) == DENIED
    assert failure(s3.put_object_legal_hold, Key="k", LegalHold={"Status": "OFF"}) == DENIED
    assert s3.get_object_retention(Bucket="locked", Key="k")["Retention"]["Mode"] == "COMPLIANCE"


def test_conditional_deletes(s3: Any) -> None:
    etag = s3.put_object(Bucket="bucket", Key="k", Body=b"1234567")["ETag"]
    bad: list[dict[str, Any]] = [
        {"IfMatch": '"x"'},
        {"IfMatchSize": 8},
        {"IfMatchLastModifiedTime": SOON},
        {"IfMatch": etag, "IfMatchSize": 8},
    ]
    for conditions in bad:
        assert failure(s3.delete_object, "bucket", Key="k", **conditions) == ("PreconditionFailed", 412)
    s3.delete_object(Bucket="bucket", Key="k", IfMatch=etag, IfMatchSize=7, IfMatchLastModifiedTime=NOW)
    assert failure(s3.delete_object, "bucket", Key="k", IfMatch="*") == ("NoSuchKey", 404)
    s3.delete_object(Bucket="bucket", Key="k", IfMatchSize=8)
    s3.delete_object(Bucket="bucket", Key="k", IfMatchLastModifiedTime=SOON)


def test_conditional_deletes_of_versions(s3: Any) -> None:
    """The version named is judged, not the current one."""
    old = s3.put_object(Bucket="locked", Key="k", Body=b"1234567")
    put(s3)
    named = {"Key": "k", "VersionId": old["VersionId"]}
    for conditions in ({"IfMatch": '"x"'}, {"IfMatchSize": 1}, {"IfMatchLastModifiedTime": SOON}):
        assert failure(s3.delete_object, **named, **conditions) == ("PreconditionFailed", 412)
    items = [{**named, "ETag": '"x"'}, {**named, "Size": 1}, {**named, "LastModifiedTime": SOON}]
    answer = s3.delete_objects(Bucket="locked", Delete={"Objects": items})
    assert [entry["Code"] for entry in answer["Errors"]] == ["PreconditionFailed"] * 3
    whole = {**named, "ETag": old["ETag"], "Size": 7, "LastModifiedTime": NOW}
    assert len(s3.delete_objects(Bucket="locked", Delete={"Objects": [whole]})["Deleted"]) == 1
    assert failure(s3.delete_object, **named, IfMatch="*") == ("NoSuchVersion", 404)
    s3.delete_object(Bucket="locked", **named, IfMatchSize=1)
    marker = s3.delete_object(Bucket="locked", Key="k")["VersionId"]
    assert failure(s3.delete_object, Key="k", IfMatch="*") == ("NoSuchKey", 404)
    assert failure(s3.delete_object, Key="k", VersionId=marker, IfMatch="*") == ("PreconditionFailed", 412)
    s3.delete_object(Bucket="locked", Key="k", VersionId=marker, IfMatchSize=0)


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"x-amz-if-match-size": "big"}, "InvalidArgument"),
        ({"x-amz-if-match-size": "-1"}, "InvalidArgument"),
        ({"x-amz-if-match-last-modified-time": "yesterday"}, "InvalidArgument"),
        ({"if-none-match": "*"}, "NotImplemented"),
        ({"if-unmodified-since": "Tue, 14 Nov 2023 22:13:20 GMT"}, "NotImplemented"),
        ({"x-amz-bypass-governance-retention": "perhaps"}, "InvalidArgument"),
    ],
)
def test_conditions_that_say_nothing_delete_nothing(shared: Gateway, headers: dict[str, str], code: str) -> None:
    assert shared.send("DELETE", "/bucket/k", headers).error_code == code
    if "x-amz-if-match" in next(iter(headers)):
        assert shared.send("PUT", "/bucket/k", headers, b"y").error_code == "NotImplemented"
    assert shared.client().get_object(Bucket="bucket", Key="k")["Body"].read() == b"x"


def test_stored_form(s3: Any, gateway: Gateway) -> None:
    put(s3, ObjectLockMode="GOVERNANCE", ObjectLockRetainUntilDate=SOON)
    found = gateway.run(gateway.world.namespace.objects.find("locked", "k"))
    assert unpack_lock(found.version.lock)[:2] == (Mode.GOVERNANCE, int(SOON.timestamp()) * 1000)
