"""Objects through the plane, as boto3 sees them."""

import base64
import hashlib
from typing import Any

import pytest
from botocore.exceptions import ClientError

from gateway.s3.handlers.objects import WHOLE_BYTES_MAX
from tests.unit.s3.calls import make_call
from tests.unit.s3.gateway import Gateway

SMALL = bytes(range(256)) * 4
LARGE = bytes(range(251)) * 1500
MD5 = f'"{hashlib.md5(SMALL).hexdigest()}"'


def failure(function: Any, **arguments: Any) -> tuple[str, int]:
    """Code and status of an operation that must fail."""
    with pytest.raises(ClientError) as caught:
        function(Bucket="bucket", **arguments)
    response = caught.value.response
    return response["Error"]["Code"], response["ResponseMetadata"]["HTTPStatusCode"]


@pytest.mark.parametrize("content", [b"", b"x", SMALL, LARGE, b"y" * WHOLE_BYTES_MAX, b"z" * (WHOLE_BYTES_MAX + 1)])
def test_put_then_get(s3: Any, content: bytes) -> None:
    put = s3.put_object(Bucket="bucket", Key="k", Body=content)
    got = s3.get_object(Bucket="bucket", Key="k", ChecksumMode="ENABLED")
    assert got["Body"].read() == content
    assert put["ETag"] == got["ETag"] == f'"{hashlib.md5(content).hexdigest()}"'
    assert put["ChecksumCRC32"] == got["ChecksumCRC32"]
    assert got["ContentLength"] == len(content)
    assert got["ContentType"] == "binary/octet-stream"
    assert "VersionId" not in got
    assert "StorageClass" not in got


def test_headers_and_metadata_come_back(s3: Any) -> None:
    described: dict[str, Any] = {
        "CacheControl": "no-store",
        "ContentDisposition": 'attachment; filename="é"',
        "ContentLanguage": "de",
        "ContentType": "text/plain",
        "Metadata": {"Mixed-Case": "v w", "b": ""},
    }
    more = {"ContentEncoding": "aws-chunked,gzip", "Tagging": "a=b&c=d", "StorageClass": "STANDARD_IA"}
    s3.put_object(Bucket="bucket", Key="k", Body=b"x", **described, **more)
    for got in (s3.get_object(Bucket="bucket", Key="k"), s3.head_object(Bucket="bucket", Key="k")):
        assert got["Metadata"] == {"mixed-case": "v w", "b": ""}
        assert got["ContentEncoding"] == "gzip"
        assert (got["StorageClass"], got["TagCount"]) == ("STANDARD_IA", 2)
        assert got["ContentDisposition"].encode("latin-1").decode() == described["ContentDisposition"]
        for name in ("CacheControl", "ContentLanguage", "ContentType"):
            assert got[name] == described[name]
    got = s3.get_object(Bucket="bucket", Key="k", ResponseContentType="a/b", ResponseCacheControl="max-age=1")
    assert (got["ContentType"], got["CacheControl"], got["ContentLanguage"]) == ("a/b", "max-age=1", "de")
    assert got["Metadata"] == {"mixed-case": "v w", "b": ""}


@pytest.mark.parametrize("content", [SMALL, LARGE])
def test_ranges(s3: Any, content: bytes) -> None:
    s3.put_object(Bucket="bucket", Key="k", Body=content)
    size = len(content)
    for words, start, stop in (("0-0", 0, 1), ("5-", 5, size), ("-7", size - 7, size), ("1-999999999", 1, size)):
        got = s3.get_object(Bucket="bucket", Key="k", Range=f"bytes={words}", ChecksumMode="ENABLED")
        assert got["Body"].read() == content[start:stop]
        assert got["ContentRange"] == f"bytes {start}-{stop - 1}/{size}"
        assert got["ResponseMetadata"]["HTTPStatusCode"] == 206
        assert "ChecksumCRC32" not in got
        head = s3.head_object(Bucket="bucket", Key="k", Range=f"bytes={words}")
        assert head["ContentLength"] == stop - start
    for words in ("bytes=0-1,3-4", "bytes=x", "items=0-1"):
        got = s3.get_object(Bucket="bucket", Key="k", Range=words)
        assert (got["ResponseMetadata"]["HTTPStatusCode"], got["ContentLength"]) == (200, size)
    with pytest.raises(ClientError) as caught:
        s3.get_object(Bucket="bucket", Key="k", Range=f"bytes={size}-")
    assert caught.value.response["Error"]["Code"] == "InvalidRange"
    assert caught.value.response["ResponseMetadata"]["HTTPHeaders"]["content-range"] == f"bytes */{size}"
    assert failure(s3.get_object, Key="k", Range="bytes=0-1", PartNumber=1) == ("InvalidRequest", 400)


def test_conditional_reads(s3: Any) -> None:
    s3.put_object(Bucket="bucket", Key="k", Body=SMALL)
    assert s3.get_object(Bucket="bucket", Key="k", IfMatch=MD5)["ContentLength"] == len(SMALL)
    assert failure(s3.get_object, Key="k", IfMatch='"other"') == ("PreconditionFailed", 412)
    assert failure(s3.head_object, Key="k", IfMatch='"other"') == ("412", 412)
    with pytest.raises(ClientError) as caught:
        s3.get_object(Bucket="bucket", Key="k", IfNoneMatch=MD5)
    assert caught.value.response["Error"]["Code"] == "304"
    assert caught.value.response["ResponseMetadata"]["HTTPHeaders"]["etag"] == MD5
    assert failure(s3.get_object, Key="absent", IfNoneMatch="*") == ("NoSuchKey", 404)


def test_conditional_writes(s3: Any) -> None:
    assert failure(s3.put_object, Key="k", Body=b"1", IfMatch="*") == ("NoSuchKey", 404)
    s3.put_object(Bucket="bucket", Key="k", Body=SMALL, IfNoneMatch="*")
    assert failure(s3.put_object, Key="k", Body=b"2", IfNoneMatch="*") == ("PreconditionFailed", 412)
    assert failure(s3.put_object, Key="k", Body=b"2", IfMatch='"other"') == ("PreconditionFailed", 412)
    assert failure(s3.delete_object, Key="k", IfMatch='"other"') == ("PreconditionFailed", 412)
    assert s3.get_object(Bucket="bucket", Key="k")["ETag"] == MD5
    s3.put_object(Bucket="bucket", Key="k", Body=b"3", IfMatch=MD5)
    s3.delete_object(Bucket="bucket", Key="k", IfMatch="*")
    assert failure(s3.delete_object, Key="k", IfMatch="*") == ("NoSuchKey", 404)


def test_versions(s3: Any) -> None:
    s3.put_object(Bucket="bucket", Key="k", Body=b"null")
    s3.put_bucket_versioning(Bucket="bucket", VersioningConfiguration={"Status": "Enabled"})
    assert s3.get_bucket_versioning(Bucket="bucket")["Status"] == "Enabled"
    first = s3.put_object(Bucket="bucket", Key="k", Body=b"1")["VersionId"]
    second = s3.put_object(Bucket="bucket", Key="k", Body=b"2")["VersionId"]
    assert s3.get_object(Bucket="bucket", Key="k")["VersionId"] == second
    assert s3.get_object(Bucket="bucket", Key="k", VersionId=first)["Body"].read() == b"1"
    assert s3.get_object(Bucket="bucket", Key="k", VersionId="null")["Body"].read() == b"null"
    marker = s3.delete_object(Bucket="bucket", Key="k")
    assert marker["DeleteMarker"] is True
    with pytest.raises(ClientError) as caught:
        s3.get_object(Bucket="bucket", Key="k")
    assert caught.value.response["ResponseMetadata"]["HTTPHeaders"]["x-amz-delete-marker"] == "true"
    with pytest.raises(ClientError) as caught:
        s3.get_object(Bucket="bucket", Key="k", VersionId=marker["VersionId"])
    assert caught.value.response["Error"]["Code"] == "MethodNotAllowed"
    assert caught.value.response["ResponseMetadata"]["HTTPHeaders"]["allow"] == "DELETE"
    assert failure(s3.get_object, Key="k", VersionId="unknown") == ("NoSuchVersion", 404)
    gone = s3.delete_object(Bucket="bucket", Key="k", VersionId=marker["VersionId"])
    assert (gone["DeleteMarker"], gone["VersionId"]) == (True, marker["VersionId"])
    assert s3.get_object(Bucket="bucket", Key="k")["Body"].read() == b"2"
    s3.put_bucket_versioning(Bucket="bucket", VersioningConfiguration={"Status": "Suspended"})
    assert "VersionId" not in s3.put_object(Bucket="bucket", Key="k", Body=b"3")


def test_delete_objects_reports_each_key_alone(s3: Any) -> None:
    for key in ("a", "b<&", "c"):
        s3.put_object(Bucket="bucket", Key=key, Body=SMALL)
    wanted = [
        {"Key": "a"},
        {"Key": "b<&", "ETag": '"other"'},
        {"Key": "absent"},
        {"Key": "k" * 1025},
        {"Key": "c", "ETag": MD5},
    ]
    answer = s3.delete_objects(Bucket="bucket", Delete={"Objects": wanted})
    assert [entry["Key"] for entry in answer["Deleted"]] == ["a", "absent", "c"]
    assert [(entry["Key"][:3], entry["Code"]) for entry in answer["Errors"]] == [
        ("b<&", "PreconditionFailed"),
        ("kkk", "KeyTooLongError"),
    ]
    quiet = s3.delete_objects(Bucket="bucket", Delete={"Objects": [{"Key": "b<&"}, {"Key": "x"}], "Quiet": True})
    assert "Deleted" not in quiet
    s3.put_bucket_versioning(Bucket="bucket", VersioningConfiguration={"Status": "Enabled"})
    (entry,) = s3.delete_objects(Bucket="bucket", Delete={"Objects": [{"Key": "a"}]})["Deleted"]
    assert entry["DeleteMarker"] is True
    named = {"Key": "a", "VersionId": entry["DeleteMarkerVersionId"]}
    (entry,) = s3.delete_objects(Bucket="bucket", Delete={"Objects": [named]})["Deleted"]
    assert (entry["VersionId"], entry["DeleteMarker"]) == (named["VersionId"], True)


def test_lifting_a_lock_that_nothing_has_is_a_plain_delete(s3: Any) -> None:
    for key in ("a", "b"):
        s3.put_object(Bucket="bucket", Key=key, Body=b"x")
    s3.delete_object(Bucket="bucket", Key="a", BypassGovernanceRetention=True)
    s3.delete_objects(Bucket="bucket", Delete={"Objects": [{"Key": "b"}]}, BypassGovernanceRetention=True)
    assert s3.list_objects_v2(Bucket="bucket")["KeyCount"] == 0


def test_delete_objects_limits(s3: Any) -> None:
    many = [{"Key": str(at)} for at in range(1001)]
    assert failure(s3.delete_objects, Delete={"Objects": many}) == ("MalformedXML", 400)
    assert len(s3.delete_objects(Bucket="bucket", Delete={"Objects": many[:1000]})["Deleted"]) == 1000
    assert failure(s3.delete_objects, Delete={"Objects": []}) == ("MalformedXML", 400)
    for named in ({"ETag": ""}, {"VersionId": ""}):
        assert failure(s3.delete_objects, Delete={"Objects": [{"Key": "a", **named}]}) == ("MalformedXML", 400)


def test_tagging(s3: Any) -> None:
    s3.put_object(Bucket="bucket", Key="k", Body=b"x", Tagging="a=1")
    assert s3.get_object_tagging(Bucket="bucket", Key="k")["TagSet"] == [{"Key": "a", "Value": "1"}]
    tag_set = [{"Key": "b<", "Value": "&"}, {"Key": "c", "Value": ""}]
    s3.put_object_tagging(Bucket="bucket", Key="k", Tagging={"TagSet": tag_set})
    assert s3.get_object_tagging(Bucket="bucket", Key="k")["TagSet"] == tag_set
    s3.delete_object_tagging(Bucket="bucket", Key="k")
    assert s3.get_object_tagging(Bucket="bucket", Key="k")["TagSet"] == []
    assert failure(s3.put_object, Key="k", Tagging="&".join(f"{at}=" for at in range(11))) == ("InvalidTag", 400)
    assert failure(s3.get_object_tagging, Key="absent") == ("NoSuchKey", 404)


def test_attributes(s3: Any) -> None:
    s3.put_object(Bucket="bucket", Key="k", Body=SMALL, ChecksumAlgorithm="SHA256")
    wanted = ["ETag", "Checksum", "ObjectParts", "StorageClass", "ObjectSize"]
    got = s3.get_object_attributes(Bucket="bucket", Key="k", ObjectAttributes=wanted)
    assert (got["ETag"], got["ObjectSize"], got["StorageClass"]) == (MD5.strip('"'), len(SMALL), "STANDARD")
    digest = base64.b64encode(hashlib.sha256(SMALL).digest()).decode()
    assert got["Checksum"] == {"ChecksumSHA256": digest, "ChecksumType": "FULL_OBJECT"}
    assert "ObjectParts" not in got
    got = s3.get_object_attributes(Bucket="bucket", Key="k", ObjectAttributes=["ObjectSize"])
    assert "ETag" not in got
    assert failure(s3.get_object_attributes, Key="k", ObjectAttributes=["Other"]) == ("InvalidArgument", 400)


def test_part_number_of_a_plain_object(s3: Any) -> None:
    s3.put_object(Bucket="bucket", Key="k", Body=SMALL)
    got = s3.get_object(Bucket="bucket", Key="k", PartNumber=1)
    assert (got["Body"].read(), got["ResponseMetadata"]["HTTPStatusCode"]) == (SMALL, 206)
    assert failure(s3.get_object, Key="k", PartNumber=2) == ("InvalidPart", 400)
    assert failure(s3.get_object, Key="k", PartNumber=0) == ("InvalidArgument", 400)


def test_d12_and_wrong_checksums_leave_nothing(s3: Any) -> None:
    for sent in ("AAAAAA==", "not base64"):
        assert failure(s3.put_object, Key="k", Body=b"x", ChecksumCRC32=sent) == ("BadDigest", 400)
    assert failure(s3.put_object, Key="k", Body=b"x", ContentMD5="AAAAAAAAAAAAAAAAAAAAAA==") == ("BadDigest", 400)
    assert failure(s3.put_object, Key="k", Body=b"x", StorageClass="OUTPOSTS") == ("InvalidStorageClass", 400)
    assert failure(s3.put_object, Key="k", Body=b"x", Metadata={"a": "v" * 2048}) == ("MetadataTooLarge", 400)
    assert failure(s3.get_object, Key="k") == ("NoSuchKey", 404)


def test_unset_sub_resources_of_objects(s3: Any) -> None:
    s3.put_object(Bucket="bucket", Key="k", Body=b"x")
    (grant,) = s3.get_object_acl(Bucket="bucket", Key="k")["Grants"]
    assert (grant["Permission"], grant["Grantee"]["Type"]) == ("FULL_CONTROL", "CanonicalUser")
    assert failure(s3.get_object_retention, Key="k") == ("InvalidRequest", 400)
    assert failure(s3.get_object_legal_hold, Key="k") == ("InvalidRequest", 400)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"ServerSideEncryption": "aws:kms:dsse"}, "NotImplemented"),
        ({"SSECustomerAlgorithm": "AES128", "SSECustomerKey": "k" * 32}, "InvalidEncryptionAlgorithmError"),
        ({"ObjectLockLegalHoldStatus": "ON"}, "InvalidRequest"),
        ({"WriteOffsetBytes": 0}, "InvalidWriteOffset"),
        ({"GrantRead": "id=x"}, "InvalidArgument"),
        ({"ACL": "nonsense"}, "InvalidArgument"),
    ],
)
def test_g2_nothing_that_matters_is_ignored(s3: Any, arguments: dict[str, Any], code: str) -> None:
    s3.put_object(Bucket="bucket", Key="k", Body=b"before", ACL="private")
    assert failure(s3.put_object, Key="k", Body=b"after", **arguments)[0] == code
    assert s3.get_object(Bucket="bucket", Key="k")["Body"].read() == b"before"


def test_small_contents_are_bytes_and_large_ones_streams(gateway: Gateway) -> None:
    client = gateway.client()
    client.put_object(Bucket="bucket", Key="s", Body=LARGE[:WHOLE_BYTES_MAX])
    client.put_object(Bucket="bucket", Key="l", Body=LARGE)
    for key, is_whole in (("s", True), ("l", False)):
        url = client.generate_presigned_url("get_object", Params={"Bucket": "bucket", "Key": key})
        answer = gateway.run(gateway.plane.answer(make_call("GET", url.removeprefix("http://s3.test:9000"))))
        assert isinstance(answer.body, bytes) is is_whole
        if answer.body is not None and not isinstance(answer.body, bytes):
            answer.body.close()


def test_writes_name_no_version(gateway: Gateway) -> None:
    for headers in ({}, {"x-amz-copy-source": "bucket/other"}):
        answer = gateway.send("PUT", "/bucket/k?versionId=v", headers, b"x" if not headers else b"")
        assert answer.error_code == "InvalidArgument"
    for name in ("If-Modified-Since", "If-Unmodified-Since"):
        answer = gateway.send("PUT", "/bucket/k", {name: "Tue, 14 Nov 2023 22:13:20 GMT"}, b"x")
        assert answer.error_code == "NotImplemented"
    assert gateway.send("HEAD", "/bucket/k").status == 404
