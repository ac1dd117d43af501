"""Multipart uploads through the plane, as boto3 sees them. Parts may be as short as the test world says (100 bytes)."""

import hashlib
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.unit.s3.gateway import Gateway

PARTS = {1: b"a" * 200_000, 3: b"b" * 150, 7: b"c"}
WHOLE = b"".join(PARTS.values())
AT = {"Bucket": "bucket", "Key": "k&y"}


def failure(function: Any, **arguments: Any) -> tuple[str, int]:
    with pytest.raises(ClientError) as caught:
        function(**AT, **arguments)
    response = caught.value.response
    return response["Error"]["Code"], response["ResponseMetadata"]["HTTPStatusCode"]


def start(s3: Any, **arguments: Any) -> tuple[str, list[dict[str, Any]]]:
    """An upload with its parts, and the list that completes it."""
    upload_id = s3.create_multipart_upload(**AT, **arguments)["UploadId"]
    checksum = {"ChecksumAlgorithm": arguments["ChecksumAlgorithm"]} if "ChecksumAlgorithm" in arguments else {}
    done = []
    for number, content in PARTS.items():
        part = s3.upload_part(**AT, UploadId=upload_id, PartNumber=number, Body=content, **checksum)
        kept = {name: value for name, value in part.items() if name.startswith("Checksum") and checksum}
        done.append({"PartNumber": number, "ETag": part["ETag"], **kept})
    return upload_id, done


def etag_of(parts: list[bytes]) -> str:
    digest = hashlib.md5(b"".join(hashlib.md5(part).digest() for part in parts))
    return f'"{digest.hexdigest()}-{len(parts)}"'


def test_upload(s3: Any) -> None:
    upload_id, done = start(s3, ContentType="a/b", Metadata={"m": "v"}, Tagging="t=1", StorageClass="STANDARD_IA")
    assert failure(s3.get_object) == ("NoSuchKey", 404)
    finished = s3.complete_multipart_upload(**AT, UploadId=upload_id, MultipartUpload={"Parts": done})
    assert finished["ETag"] == etag_of(list(PARTS.values()))
    assert (finished["Bucket"], finished["Key"]) == ("bucket", "k&y")
    assert "VersionId" not in finished
    got = s3.get_object(**AT)
    assert got["Body"].read() == WHOLE
    assert (got["ContentType"], got["Metadata"]) == ("a/b", {"m": "v"})
    assert (got["TagCount"], got["StorageClass"]) == (1, "STANDARD_IA")
    # the same list again: the same answer; another list: no such upload
    again = s3.complete_multipart_upload(**AT, UploadId=upload_id, MultipartUpload={"Parts": done})
    assert again["ETag"] == finished["ETag"]
    other = {"UploadId": upload_id, "MultipartUpload": {"Parts": done[:1]}}
    assert failure(s3.complete_multipart_upload, **other) == ("NoSuchUpload", 404)


def test_parts_by_number(s3: Any) -> None:
    upload_id, done = start(s3)
    s3.complete_multipart_upload(**AT, UploadId=upload_id, MultipartUpload={"Parts": done})
    at = 0
    for number, content in PARTS.items():
        got = s3.get_object(**AT, PartNumber=number)
        assert got["Body"].read() == content
        assert (got["PartsCount"], got["ETag"]) == (3, etag_of(list(PARTS.values())))
        assert got["ContentRange"] == f"bytes {at}-{at + len(content) - 1}/{len(WHOLE)}"
        at += len(content)
        assert s3.head_object(**AT, PartNumber=number)["ContentLength"] == len(content)
    assert failure(s3.get_object, PartNumber=2) == ("InvalidPart", 400)
    got = s3.get_object_attributes(**AT, ObjectAttributes=["ObjectParts"], MaxParts=2, PartNumberMarker=1)
    parts = got["ObjectParts"]
    assert (parts["TotalPartsCount"], parts["MaxParts"], parts["IsTruncated"]) == (3, 2, False)
    assert [(part["PartNumber"], part["Size"]) for part in parts["Parts"]] == [(3, 150), (7, 1)]


@pytest.mark.parametrize(
    ("algorithm", "kind"),
    [
        ("CRC32", "COMPOSITE"),
        ("CRC32", "FULL_OBJECT"),
        ("CRC32C", "COMPOSITE"),
        ("SHA1", "COMPOSITE"),
        ("SHA256", "COMPOSITE"),
        ("CRC64NVME", "FULL_OBJECT"),
    ],
)
def test_w07_checksums(s3: Any, algorithm: str, kind: str) -> None:
    upload_id, done = start(s3, ChecksumAlgorithm=algorithm, ChecksumType=kind)
    name = f"Checksum{algorithm}"
    finished = s3.complete_multipart_upload(**AT, UploadId=upload_id, MultipartUpload={"Parts": done})
    value = finished[name]
    assert value.endswith("-3") is (kind == "COMPOSITE")
    assert finished["ChecksumType"] == kind
    for got in (s3.head_object(**AT, ChecksumMode="ENABLED"), s3.get_object(**AT, ChecksumMode="ENABLED")):
        assert (got[name], got["ChecksumType"]) == (value, kind)
    listed = s3.list_objects_v2(Bucket="bucket")["Contents"][0]
    assert (listed["ChecksumAlgorithm"], listed["ChecksumType"]) == ([algorithm], kind)
    told = s3.get_object_attributes(**AT, ObjectAttributes=["Checksum", "ObjectParts"])
    assert told["Checksum"] == {name: value.partition("-")[0], "ChecksumType": kind}
    assert [part[name] for part in told["ObjectParts"]["Parts"]] == [part[name] for part in done]
    got = s3.get_object(**AT, PartNumber=1, ChecksumMode="ENABLED")
    assert (got[name], got["Body"].read()) == (done[0][name], PARTS[1])


def test_wrong_lists(s3: Any) -> None:
    upload_id, done = start(s3)
    complete = s3.complete_multipart_upload
    wrong = [
        (done[::-1], "InvalidPartOrder"),
        ([done[0], done[1], done[0]], "InvalidPartOrder"),
        ([{"PartNumber": 1, "ETag": '"other"'}], "InvalidPart"),
        ([{"PartNumber": 2, "ETag": done[0]["ETag"]}], "InvalidPart"),
        ([], "MalformedXML"),
        ([{"PartNumber": 1}], "MalformedXML"),
    ]
    for parts, code in wrong:
        assert failure(complete, UploadId=upload_id, MultipartUpload={"Parts": parts}) == (code, 400)
    small = s3.upload_part(**AT, UploadId=upload_id, PartNumber=2, Body=b"short")
    parts = [done[0], {"PartNumber": 2, "ETag": small["ETag"]}, done[1]]
    assert failure(complete, UploadId=upload_id, MultipartUpload={"Parts": parts}) == ("EntityTooSmall", 400)
    right = {"UploadId": upload_id, "MultipartUpload": {"Parts": done}}
    assert failure(complete, **right, MpuObjectSize=3) == ("InvalidRequest", 400)
    assert failure(complete, **right, ChecksumSHA256="A" * 43 + "=") == ("InvalidRequest", 400)
    assert failure(complete, **right, ChecksumCRC64NVME="AAAAAAAAAAA=") == ("BadDigest", 400)
    s3.put_object(**AT, Body=b"x")
    assert failure(complete, **right, IfNoneMatch="*") == ("PreconditionFailed", 412)
    complete(**AT, **right, MpuObjectSize=len(WHOLE), IfMatch="*")
    assert s3.get_object(**AT)["ContentLength"] == len(WHOLE)


def test_create_refuses_impossible_checksums(s3: Any) -> None:
    for algorithm, kind in (("CRC64NVME", "COMPOSITE"), ("SHA256", "FULL_OBJECT"), ("SHA1", "FULL_OBJECT")):
        got = failure(s3.create_multipart_upload, ChecksumAlgorithm=algorithm, ChecksumType=kind)
        assert got == ("InvalidRequest", 400)


def test_unknown_uploads(s3: Any) -> None:
    for function, arguments in (
        (s3.upload_part, {"PartNumber": 1, "Body": b"x"}),
        (s3.list_parts, {}),
        (s3.abort_multipart_upload, {}),
        (s3.complete_multipart_upload, {"MultipartUpload": {"Parts": [{"PartNumber": 1, "ETag": "x"}]}}),
    ):
        assert failure(function, UploadId="unknown", **arguments) == ("NoSuchUpload", 404)
    upload_id, _ = start(s3)
    for number in (0, 10_001):
        assert failure(s3.upload_part, UploadId=upload_id, PartNumber=number, Body=b"x") == ("InvalidArgument", 400)
    s3.abort_multipart_upload(**AT, UploadId=upload_id)
    assert failure(s3.list_parts, UploadId=upload_id) == ("NoSuchUpload", 404)


def test_list_parts(s3: Any) -> None:
    upload_id, done = start(s3, ChecksumAlgorithm="SHA256")
    page = s3.list_parts(**AT, UploadId=upload_id, MaxParts=2)
    assert (page["IsTruncated"], page["NextPartNumberMarker"], page["MaxParts"]) == (True, 3, 2)
    assert (page["StorageClass"], page["ChecksumAlgorithm"], page["Initiator"]["ID"]) == ("STANDARD", "SHA256", "owner")
    pages = s3.get_paginator("list_parts").paginate(**AT, UploadId=upload_id, PaginationConfig={"PageSize": 2})
    parts = [part for page in pages for part in page["Parts"]]
    assert [(part["PartNumber"], part["Size"]) for part in parts] == [(n, len(c)) for n, c in PARTS.items()]
    assert [part["ETag"] for part in parts] == [part["ETag"] for part in done]
    assert [part["ChecksumSHA256"] for part in parts] == [part["ChecksumSHA256"] for part in done]


def test_list_uploads(gateway: Gateway) -> None:
    s3 = gateway.client()
    ids: dict[str, list[str]] = {}
    for key in ("a/1", "a/2", "b", "b", "c&d"):
        gateway.world.clock.advance(1)
        upload_id = s3.create_multipart_upload(Bucket="bucket", Key=key)["UploadId"]
        ids.setdefault(key, []).append(upload_id)
    pages = s3.get_paginator("list_multipart_uploads").paginate(Bucket="bucket", PaginationConfig={"PageSize": 1})
    found = [(upload["Key"], upload["UploadId"]) for page in pages for upload in page.get("Uploads", [])]
    assert found == [(key, upload_id) for key in ("a/1", "a/2", "b", "c&d") for upload_id in ids[key]]
    page = s3.list_multipart_uploads(Bucket="bucket", Delimiter="/")
    assert [entry["Prefix"] for entry in page["CommonPrefixes"]] == ["a/"]
    assert [upload["Key"] for upload in page["Uploads"]] == ["b", "b", "c&d"]
    page = s3.list_multipart_uploads(Bucket="bucket", Prefix="b")
    assert [upload["UploadId"] for upload in page["Uploads"]] == ids["b"]
    assert page["Uploads"][0]["StorageClass"] == "STANDARD"
