import base64
import hashlib
import zlib

import pytest

from gateway.http.call import Call
from gateway.s3 import checksums
from gateway.s3.checksums import Declared
from gateway.s3.errors import S3Code, S3Error
from tests.unit.s3.calls import make_call

CRC32 = base64.b64encode(zlib.crc32(b"abc").to_bytes(4, "big")).decode()
SHA256 = base64.b64encode(hashlib.sha256(b"abc").digest()).decode()


def declare(headers: dict[str, str], *, has_trailer: bool = False, path: str = "/b/k") -> Declared | None:
    return checksums.parse_declared(make_call("PUT", path, headers), has_trailer=has_trailer)


def code_of(headers: dict[str, str], *, has_trailer: bool = False) -> S3Code:
    with pytest.raises(S3Error) as raised:
        declare(headers, has_trailer=has_trailer)
    return raised.value.code


def test_none() -> None:
    assert declare({"x-amz-checksum-mode": "ENABLED", "x-amz-checksum-type": "FULL_OBJECT"}) is None


def test_header_and_trailer() -> None:
    found = declare({"x-amz-checksum-crc32": CRC32, "x-amz-sdk-checksum-algorithm": "crc32"})
    assert found == Declared("CRC32", zlib.crc32(b"abc").to_bytes(4, "big"))
    found = declare(
        {"x-amz-trailer": "X-Amz-Checksum-SHA256", "x-amz-sdk-checksum-algorithm": "SHA256"}, has_trailer=True
    )
    assert found == Declared("SHA256", None)
    assert found.header == b"x-amz-checksum-sha256"


@pytest.mark.parametrize(("headers", "has_trailer", "code"), [
    ({"x-amz-checksum-crc32": CRC32, "x-amz-checksum-sha256": SHA256}, False, S3Code.InvalidRequest),
    ({"x-amz-checksum-crc32": CRC32, "x-amz-trailer": "x-amz-checksum-crc32"}, True, S3Code.InvalidRequest),
    ({"x-amz-checksum-crc32": f"{CRC32},{CRC32}"}, False, S3Code.InvalidRequest),
    ({"x-amz-checksum-crc32": "AAAA"}, False, S3Code.BadDigest),
    ({"x-amz-checksum-crc32": "AAAAAA"}, False, S3Code.BadDigest),
    ({"x-amz-checksum-crc32": "AAAA A=="}, False, S3Code.BadDigest),
    ({"x-amz-checksum-crc32": ""}, False, S3Code.BadDigest),
    ({"x-amz-checksum-sha256": CRC32}, False, S3Code.BadDigest),
    ({"x-amz-checksum-sha512": "x"}, False, S3Code.BadDigest),
    ({"x-amz-checksum-blake3": "x"}, False, S3Code.NotImplemented),
    ({"x-amz-checksum-blake3": "x", "x-amz-checksum-crc32": CRC32}, False, S3Code.NotImplemented),
    ({"x-amz-checksum-md5": "x", "x-amz-checksum-crc32": CRC32}, False, S3Code.InvalidRequest),
    ({"x-amz-trailer": "x-amz-checksum-xxhash3"}, False, S3Code.InvalidRequest),
    ({"x-amz-trailer": "x-amz-checksum-blake3"}, True, S3Code.InvalidRequest),
    ({"x-amz-trailer": "x-amz-checksum-crc32"}, False, S3Code.InvalidRequest),
    ({"x-amz-trailer": "x-amz-meta-a"}, True, S3Code.InvalidRequest),
    ({"x-amz-trailer": "x-amz-checksum-crc32,x-amz-checksum-sha1"}, True, S3Code.InvalidRequest),
    ({"x-amz-sdk-checksum-algorithm": "CRC32"}, False, S3Code.InvalidRequest),
    ({"x-amz-sdk-checksum-algorithm": "CRC32C", "x-amz-checksum-crc32": CRC32}, False, S3Code.InvalidRequest),
    ({"x-amz-sdk-checksum-algorithm": "CRC16", "x-amz-checksum-crc32": CRC32}, False, S3Code.InvalidRequest),
    ({"x-amz-sdk-checksum-algorithm": "SHA512"}, False, S3Code.InvalidRequest),
])  # fmt: skip
def test_refusals(headers: dict[str, str], has_trailer: bool, code: S3Code) -> None:
    assert code_of(headers, has_trailer=has_trailer) is code


def test_unserved_algorithm_names_its_header() -> None:
    with pytest.raises(S3Error) as raised:
        declare({"x-amz-checksum-blake3": "x"})
    assert raised.value.elements == {"Header": "x-amz-checksum-blake3"}


@pytest.mark.parametrize("text", [b"", b"abc", b"AAAAAAAAAAAAAAAAAAAAAA", b"AAAA"])
def test_malformed_content_md5(text: bytes) -> None:
    with pytest.raises(S3Error) as raised:
        checksums.parse_content_md5(text)
    assert raised.value.code is S3Code.InvalidDigest


def test_content_md5() -> None:
    digest = hashlib.md5(b"abc").digest()
    declared = checksums.parse_content_md5(base64.b64encode(digest))
    assert declared == digest
    assert checksums.parse_content_md5(None) is None
    checksums.verify_content_md5(digest, {"MD5": digest})
    with pytest.raises(S3Error) as raised:
        checksums.verify_content_md5(digest, {"MD5": bytes(16)})
    assert raised.value.code is S3Code.BadDigest


def test_checksum_in_a_presigned_query_tells_of_the_sdk_setting() -> None:
    declared = declare({"x-amz-checksum-crc32": "AAAAAA=="}, path="/b/k?x-amz-checksum-crc32=AAAAAA%3D%3D")
    assert declared is not None
    assert declared.in_query
    assert declared.value is not None
    checksums.verify_checksum(declared, declared.value, {"CRC32": bytes(4)})
    with pytest.raises(S3Error, match="WHEN_REQUIRED") as raised:
        checksums.verify_checksum(declared, declared.value, {"CRC32": b"abcd"})
    assert raised.value.code is S3Code.BadDigest


@pytest.mark.parametrize("algorithm", sorted(checksums.DIGEST_BYTES))
def test_checksum_of_nothing(algorithm: str) -> None:
    from tiers.datapath.digests import DigestSet

    assert checksums.is_of_nothing(algorithm, DigestSet([algorithm]).results()[algorithm])


@pytest.mark.parametrize(
    ("word", "algorithm", "is_right"),
    [
        ("full_object", "CRC32", True),
        ("COMPOSITE", "CRC32", True),
        ("COMPOSITE", "SHA256", True),
        ("FULL_OBJECT", "CRC64NVME", True),
        ("COMPOSITE", "CRC64NVME", False),
        ("FULL_OBJECT", "SHA256", False),
        ("FULL_OBJECT", "SHA1", False),
        ("FULL_OBJECT", "", False),
        ("OTHER", "CRC32", False),
    ],
)
def test_checksum_types(word: str, algorithm: str, is_right: bool) -> None:
    if is_right:
        assert checksums.parse_checksum_type(word.encode(), algorithm) == word.upper()
        return
    with pytest.raises(S3Error) as raised:
        checksums.parse_checksum_type(word.encode(), algorithm)
    assert raised.value.code is S3Code.InvalidRequest


def test_required() -> None:
    def require(call: Call) -> None:
        checksums.require_checksum(call, checksums.parse_declared(call, has_trailer=False))

    require(make_call("PUT", "/b?acl", {"content-md5": "x"}))
    require(make_call("PUT", "/b?acl", {"x-amz-checksum-crc32": CRC32}))
    with pytest.raises(S3Error, match="Content-MD5 OR x-amz-checksum") as raised:
        require(make_call("PUT", "/b?acl", {"x-amz-content-sha256": "a" * 64}))
    assert raised.value.code is S3Code.InvalidRequest
