"""CopyObject and UploadPartCopy through the plane, as boto3 sees them."""

from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.unit.s3.gateway import Gateway

CONTENT = bytes(range(256)) * 900
SOURCE = {"Bucket": "bucket", "Key": "so urce/é+%2F?x"}
TARGET = {"Bucket": "bucket", "Key": "target"}
OLD, NEW = "Tue, 14 Nov 2023 22:13:19 GMT", "Tue, 14 Nov 2033 22:13:21 GMT"


@pytest.fixture
def source(s3: Any) -> dict[str, Any]:
    """What the put of the source answered."""
    put: dict[str, Any] = s3.put_object(
        **SOURCE, Body=CONTENT, ContentType="a/b", Metadata={"m": "1"}, Tagging="t=1", WebsiteRedirectLocation="/there"
    )
    return put


def failure(function: Any, **arguments: Any) -> tuple[str, int]:
    with pytest.raises(ClientError) as caught:
        function(**arguments)
    response = caught.value.response
    return response["Error"]["Code"], response["ResponseMetadata"]["HTTPStatusCode"]


def test_copy_keeps_or_replaces(s3: Any, source: dict[str, Any]) -> None:
    copied = s3.copy_object(**TARGET, CopySource=SOURCE)
    assert copied["CopyObjectResult"]["ETag"] == source["ETag"]
    assert copied["CopyObjectResult"]["ChecksumCRC32"] == source["ChecksumCRC32"]
    got = s3.get_object(**TARGET)
    assert (got["Body"].read(), got["ContentType"], got["Metadata"]) == (CONTENT, "a/b", {"m": "1"})
    assert (got["TagCount"], "WebsiteRedirectLocation" in got) == (1, False)
    s3.copy_object(
        **TARGET,
        CopySource=SOURCE,
        MetadataDirective="REPLACE",
        Metadata={"n": "2"},
        TaggingDirective="REPLACE",
        StorageClass="STANDARD_IA",
        ChecksumAlgorithm="SHA256",
    )
    got = s3.get_object(**TARGET, ChecksumMode="ENABLED")
    assert (got["Body"].read(), got["ContentType"], got["Metadata"]) == (CONTENT, "binary/octet-stream", {"n": "2"})
    assert ("TagCount" in got, got["StorageClass"], "ChecksumSHA256" in got) == (False, "STANDARD_IA", True)
    for name in ("MetadataDirective", "TaggingDirective"):
        assert failure(s3.copy_object, **TARGET, CopySource=SOURCE, **{name: "MERGE"}) == ("InvalidArgument", 400)


def test_conditions(s3: Any, source: dict[str, Any]) -> None:
    def code(**arguments: Any) -> str:
        try:
            s3.copy_object(**TARGET, CopySource=SOURCE, **arguments)
        except ClientError as error:
            return str(error.response["Error"]["Code"])
        return ""

    etag = source["ETag"]
    assert code(CopySourceIfMatch=etag, CopySourceIfUnmodifiedSince=OLD) == ""
    assert code(CopySourceIfMatch='"other"') == "PreconditionFailed"
    assert code(CopySourceIfNoneMatch=etag) == "PreconditionFailed"
    assert code(CopySourceIfNoneMatch='"other"', CopySourceIfModifiedSince=NEW) == ""
    assert code(CopySourceIfModifiedSince=NEW) == "PreconditionFailed"
    assert code(CopySourceIfUnmodifiedSince=OLD) == "PreconditionFailed"
    assert code(IfNoneMatch="*") == "PreconditionFailed"
    assert code(IfMatch=etag) == ""


def test_onto_itself(s3: Any, source: dict[str, Any]) -> None:
    assert failure(s3.copy_object, **SOURCE, CopySource=SOURCE) == ("InvalidRequest", 400)
    assert failure(s3.copy_object, **SOURCE, CopySource=SOURCE, StorageClass="STANDARD") == ("InvalidRequest", 400)
    s3.copy_object(**SOURCE, CopySource=SOURCE, MetadataDirective="REPLACE", Metadata={"x": "y"})
    s3.copy_object(**SOURCE, CopySource=SOURCE, StorageClass="STANDARD_IA")
    s3.copy_object(**SOURCE, CopySource=SOURCE, StorageClass="STANDARD_IA", WebsiteRedirectLocation="/z")
    got = s3.get_object(**SOURCE)
    assert (got["Body"].read(), got["Metadata"], got["WebsiteRedirectLocation"]) == (CONTENT, {"x": "y"}, "/z")
    assert got["ETag"] == source["ETag"]


def test_versions(s3: Any) -> None:
    s3.put_bucket_versioning(Bucket="bucket", VersioningConfiguration={"Status": "Enabled"})
    first = s3.put_object(**SOURCE, Body=b"1")["VersionId"]
    s3.put_object(**SOURCE, Body=b"2")
    copied = s3.copy_object(**SOURCE, CopySource={**SOURCE, "VersionId": first})
    assert copied["CopySourceVersionId"] == first
    got = s3.get_object(**SOURCE)
    assert (got["Body"].read(), got["VersionId"]) == (b"1", copied["VersionId"])
    marker = s3.delete_object(**SOURCE)["VersionId"]
    assert failure(s3.copy_object, **TARGET, CopySource=SOURCE) == ("NoSuchKey", 404)
    named = {**SOURCE, "VersionId": marker}
    assert failure(s3.copy_object, **TARGET, CopySource=named) == ("InvalidRequest", 400)
    named = {**SOURCE, "VersionId": "unknown"}
    assert failure(s3.copy_object, **TARGET, CopySource=named) == ("NoSuchVersion", 404)


def test_both_sides_are_authorised(gateway: Gateway, source: dict[str, Any]) -> None:
    assert source["ETag"]
    other = gateway.client("other")
    other.create_bucket(Bucket="others")
    target = {"Bucket": "others", "Key": "k"}
    for wanted in (SOURCE, {"Bucket": "bucket", "Key": "absent"}):
        assert failure(other.copy_object, **target, CopySource=wanted) == ("AccessDenied", 403)
    assert failure(other.copy_object, **target, CopySource={"Bucket": "none", "Key": "k"}) == ("NoSuchBucket", 404)
    other.put_object(**target, Body=b"x")
    assert failure(other.copy_object, **TARGET, CopySource=target) == ("AccessDenied", 403)
    wrong = {"ExpectedSourceBucketOwner": "other"}
    assert failure(gateway.client().copy_object, **TARGET, CopySource=SOURCE, **wrong) == ("AccessDenied", 403)


@pytest.mark.parametrize("value", ["", "bucket", "bucket/", "/bucket", "bucket/k?versionId=", "bucket/%ff"])
def test_bad_sources(gateway: Gateway, value: str) -> None:
    answer = gateway.send("PUT", "/bucket/target", {"x-amz-copy-source": value})
    assert answer.error_code in {"InvalidArgument", "InvalidURI"}


def test_upload_part_copy(s3: Any, source: dict[str, Any]) -> None:
    upload_id = s3.create_multipart_upload(**TARGET)["UploadId"]
    parts = []
    for number, words in ((1, "bytes=0-149999"), (2, "bytes=150000-230399")):
        part = s3.upload_part_copy(
            **TARGET, UploadId=upload_id, PartNumber=number, CopySource=SOURCE, CopySourceRange=words
        )
        parts.append({"PartNumber": number, "ETag": part["CopyPartResult"]["ETag"]})
    whole = s3.upload_part_copy(**TARGET, UploadId=upload_id, PartNumber=3, CopySource=SOURCE)
    assert whole["CopyPartResult"]["ETag"] == source["ETag"]
    for words, code in (
        ("bytes=0-", "InvalidArgument"),
        ("0-3", "InvalidArgument"),
        ("bytes=0-1,3-4", "InvalidArgument"),
        ("bytes=0-230400", "InvalidRange"),
    ):
        arguments = {"UploadId": upload_id, "PartNumber": 4, "CopySource": SOURCE, "CopySourceRange": words}
        assert failure(s3.upload_part_copy, **TARGET, **arguments)[0] == code
    s3.complete_multipart_upload(**TARGET, UploadId=upload_id, MultipartUpload={"Parts": parts})
    assert s3.get_object(**TARGET)["Body"].read() == CONTENT
    copied = s3.copy_object(Bucket="bucket", Key="plain", CopySource=TARGET)
    assert copied["CopyObjectResult"]["ETag"] == source["ETag"]
