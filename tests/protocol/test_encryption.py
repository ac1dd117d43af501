"""Encryption over real clients: three kinds times what can be done with a content, and no plaintext on any device."""

import base64
import hashlib
import json
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.live import LiveStore

pytestmark = pytest.mark.protocol
BUCKET = "encrypted"
MARKER = b"canary-plaintext-0123456789abcdef"
SECRET, OTHER = bytes(range(32)), bytes(32)
SMALL = MARKER + b"-small"
LARGE = MARKER * 40_000  # above the largest small content, several pieces, no multiple of a block
PART = 5 * 1024 * 1024


def customer(key: bytes = SECRET, prefix: str = "") -> dict[str, str]:
    names = ("Algorithm", "Key", "KeyMD5")
    values = ("AES256", base64.b64encode(key).decode(), base64.b64encode(hashlib.md5(key).digest()).decode())
    return {f"{prefix}SSECustomer{name}": value for name, value in zip(names, values, strict=True)}


WRITES: dict[str, dict[str, Any]] = {
    "clear": {},
    "sse-s3": {"ServerSideEncryption": "AES256"},
    "sse-kms": {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": "one"},
    "sse-c": customer(),
}
READS = {kind: customer() if kind == "sse-c" else {} for kind in WRITES}
SOURCES = {kind: customer(prefix="CopySource") if kind == "sse-c" else {} for kind in WRITES}
ENCRYPTED = ["sse-s3", "sse-kms", "sse-c"]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveStore]:
    environment = {
        "ISOTHERM_S3__SSE_C_OVER_HTTP": "true",
        "ISOTHERM_ENCRYPTION__KMS_KEYS": "one,two",
        "ISOTHERM_BUCKETS": BUCKET,
    }
    with LiveStore(tmp_path_factory.mktemp("encryption") / "data", workers=1, **environment) as live:
        yield live


@pytest.fixture(scope="module")
def s3(store: LiveStore) -> Any:
    return store.client()


def tells(answer: dict[str, Any], kind: str) -> bool:
    """Whether an answer names exactly this kind of encryption."""
    told = (
        answer.get("ServerSideEncryption"),
        answer.get("SSEKMSKeyId"),
        answer.get("SSECustomerAlgorithm"),
        answer.get("SSECustomerKeyMD5"),
    )
    return (
        told
        == {
            "clear": (None, None, None, None),
            "sse-s3": ("AES256", None, None, None),
            "sse-kms": ("aws:kms", "one", None, None),
            "sse-c": (None, None, "AES256", customer()["SSECustomerKeyMD5"]),
        }[kind]
    )


def tells_in_headers(answer: dict[str, Any], kind: str) -> bool:
    """The same for the answer to Complete, of which boto3 does not read the headers of SSE-C."""
    sent = answer["ResponseMetadata"]["HTTPHeaders"]
    base = "x-amz-server-side-encryption"
    names = {
        "ServerSideEncryption": base,
        "SSEKMSKeyId": f"{base}-aws-kms-key-id",
        "SSECustomerAlgorithm": f"{base}-customer-algorithm",
        "SSECustomerKeyMD5": f"{base}-customer-key-md5",
    }
    return tells({name: sent.get(header) for name, header in names.items()}, kind)


def refusal(call: Any, **arguments: Any) -> tuple[int, str]:
    with pytest.raises(ClientError) as told:
        call(**arguments)
    response = told.value.response
    return response["ResponseMetadata"]["HTTPStatusCode"], response["Error"]["Code"]


def put(s3: Any, kind: str, key: str, body: bytes, **more: Any) -> Any:
    answer = s3.put_object(Bucket=BUCKET, Key=key, Body=body, **WRITES[kind], **more)
    assert tells(answer, kind)
    return answer


def get(s3: Any, kind: str, key: str, **more: Any) -> bytes:
    answer = s3.get_object(Bucket=BUCKET, Key=key, **READS[kind], **more)
    assert tells(answer, kind)
    content: bytes = answer["Body"].read()
    assert len(content) == answer["ContentLength"]
    return content


@pytest.mark.parametrize("kind", ENCRYPTED)
@pytest.mark.parametrize("body", [b"", b"x", SMALL, LARGE], ids=["empty", "byte", "small", "large"])
def test_contents_come_back_whole_and_in_ranges(s3: Any, kind: str, body: bytes) -> None:
    key = f"{kind}-{len(body)}"
    answer = put(s3, kind, key, body, ChecksumAlgorithm="SHA256")
    assert answer["ETag"] == f'"{hashlib.md5(body).hexdigest()}"'
    assert get(s3, kind, key) == body
    head = s3.head_object(Bucket=BUCKET, Key=key, ChecksumMode="ENABLED", **READS[kind])
    assert tells(head, kind)
    assert (head["ContentLength"], head["ETag"]) == (len(body), answer["ETag"])
    assert head["ChecksumSHA256"] == base64.b64encode(hashlib.sha256(body).digest()).decode()
    rng = random.Random(len(body))
    for _ in range(6 if body else 0):
        start = rng.randrange(len(body))
        stop = rng.randint(start + 1, len(body))
        assert get(s3, kind, key, Range=f"bytes={start}-{stop - 1}") == body[start:stop]


@pytest.mark.parametrize("target", WRITES)
@pytest.mark.parametrize("source", WRITES)
def test_copies_are_encrypted_as_they_ask(s3: Any, source: str, target: str) -> None:
    for body in (SMALL, LARGE):
        put(s3, source, "source", body)
        copied = s3.copy_object(
            Bucket=BUCKET, Key="copy", CopySource=f"{BUCKET}/source", **WRITES[target], **SOURCES[source]
        )
        assert tells(copied, target)
        assert get(s3, target, "copy") == body
        assert copied["CopyObjectResult"]["ETag"] == f'"{hashlib.md5(body).hexdigest()}"'
        s3.delete_object(Bucket=BUCKET, Key="source")
        assert get(s3, target, "copy") == body


@pytest.mark.parametrize("kind", ENCRYPTED)
def test_a_copy_onto_itself_may_change_the_encryption_alone(s3: Any, kind: str) -> None:
    put(s3, "clear", "self", SMALL)
    itself = {"Bucket": BUCKET, "Key": "self", "CopySource": f"{BUCKET}/self"}
    assert refusal(s3.copy_object, **itself) == (400, "InvalidRequest")
    s3.copy_object(**itself, **WRITES[kind])
    assert get(s3, kind, "self") == SMALL


@pytest.mark.parametrize("kind", ENCRYPTED)
def test_uploads_in_parts(s3: Any, kind: str) -> None:
    """Parts out of order, one sent twice, one copied from a content of another kind."""
    parts = [bytes([number]) * PART for number in (1, 2)] + [LARGE[100:200_100]]
    put(s3, "sse-s3" if kind != "sse-s3" else "sse-kms", "piece", LARGE)
    upload = s3.create_multipart_upload(Bucket=BUCKET, Key="parts", ChecksumAlgorithm="CRC32", **WRITES[kind])
    assert tells(upload, kind)
    named = {"Bucket": BUCKET, "Key": "parts", "UploadId": upload["UploadId"]}
    etags: dict[int, str] = {}
    for number, body in ((2, b"replaced"), (2, parts[1]), (1, parts[0])):
        part = s3.upload_part(**named, PartNumber=number, Body=body, ChecksumAlgorithm="CRC32", **READS[kind])
        assert tells(part, kind)
        etags[number] = part["ETag"]
    copied = s3.upload_part_copy(
        **named, PartNumber=3, CopySource=f"{BUCKET}/piece", CopySourceRange="bytes=100-200099", **READS[kind]
    )
    assert tells(copied, kind)
    etags[3] = copied["CopyPartResult"]["ETag"]
    checksums = {part["PartNumber"]: part["ChecksumCRC32"] for part in s3.list_parts(**named)["Parts"]}
    listed = [
        {"PartNumber": number, "ETag": etag, "ChecksumCRC32": checksums[number]}
        for number, etag in sorted(etags.items())
    ]
    done = s3.complete_multipart_upload(**named, MultipartUpload={"Parts": listed}, **READS[kind])
    assert tells_in_headers(done, kind)
    again = s3.complete_multipart_upload(**named, MultipartUpload={"Parts": listed}, **READS[kind])
    assert tells_in_headers(again, kind)
    assert again["ETag"] == done["ETag"]
    whole = b"".join(parts)
    digests = b"".join(hashlib.md5(part).digest() for part in parts)
    assert done["ETag"] == f'"{hashlib.md5(digests).hexdigest()}-3"'
    assert get(s3, kind, "parts") == whole
    for start in (0, PART - 5, PART, 2 * PART - 1, len(whole) - 3):
        assert get(s3, kind, "parts", Range=f"bytes={start}-{start + 70_000}") == whole[start : start + 70_001]
    for number, part in enumerate(parts, 1):
        assert get(s3, kind, "parts", PartNumber=number) == part
    told = s3.get_object_attributes(
        Bucket=BUCKET, Key="parts", ObjectAttributes=["ObjectSize", "ObjectParts"], **READS[kind]
    )
    assert (told["ObjectSize"], told["ObjectParts"]["TotalPartsCount"]) == (len(whole), 3)
    s3.copy_object(Bucket=BUCKET, Key="joined", CopySource=f"{BUCKET}/parts", **WRITES[kind], **SOURCES[kind])
    assert get(s3, kind, "joined") == whole


def test_a_customer_key_is_needed_for_everything(s3: Any) -> None:
    put(s3, "sse-c", "own", SMALL)
    for key, expected in (({}, 400), (customer(OTHER), 400)):
        for call in (s3.get_object, s3.head_object):
            assert refusal(call, Bucket=BUCKET, Key="own", **key)[0] == expected
        wanted = {"Bucket": BUCKET, "Key": "own", "ObjectAttributes": ["ETag"]}
        assert refusal(s3.get_object_attributes, **wanted, **key) == (400, "InvalidRequest")
    for key in ({}, customer(OTHER, "CopySource")):
        assert refusal(s3.copy_object, Bucket=BUCKET, Key="c", CopySource=f"{BUCKET}/own", **key)[1] == "InvalidRequest"
    put(s3, "sse-s3", "other", SMALL)
    assert refusal(s3.get_object, Bucket=BUCKET, Key="other", **customer()) == (400, "InvalidRequest")
    put(s3, "clear", "other", SMALL)
    assert refusal(s3.get_object, Bucket=BUCKET, Key="other", **customer()) == (400, "InvalidRequest")


def test_every_part_and_the_end_carry_the_uploads_key(s3: Any) -> None:
    named = {"Bucket": BUCKET, "Key": "u"}
    named["UploadId"] = s3.create_multipart_upload(**named, **customer())["UploadId"]
    for key in ({}, customer(OTHER)):
        assert refusal(s3.upload_part, **named, PartNumber=1, Body=b"x", **key) == (400, "InvalidRequest")
    etag = s3.upload_part(**named, PartNumber=1, Body=b"x", **customer())["ETag"]
    parts = {"Parts": [{"PartNumber": 1, "ETag": etag}]}
    for key in ({}, customer(OTHER)):
        assert refusal(s3.complete_multipart_upload, **named, MultipartUpload=parts, **key) == (400, "InvalidRequest")
    s3.complete_multipart_upload(**named, MultipartUpload=parts, **customer())
    clear = {"Bucket": BUCKET, "Key": "v"}
    clear["UploadId"] = s3.create_multipart_upload(**clear)["UploadId"]
    assert refusal(s3.upload_part, **clear, PartNumber=1, Body=b"x", **customer()) == (400, "InvalidRequest")
    s3.abort_multipart_upload(**clear)


def test_kms_keys_and_contexts(s3: Any) -> None:
    arguments = {"Bucket": BUCKET, "Key": "kms", "Body": SMALL, "ServerSideEncryption": "aws:kms"}
    assert refusal(s3.put_object, **arguments, SSEKMSKeyId="three") == (400, "KMS.NotFoundException")
    assert refusal(s3.put_object, **arguments, SSEKMSKeyId="sse-s3") == (400, "KMS.NotFoundException")
    assert refusal(s3.put_object, **arguments) == (400, "InvalidArgument")
    assert refusal(s3.put_object, Bucket=BUCKET, Key="kms", SSEKMSKeyId="one") == (400, "InvalidArgument")
    context = base64.b64encode(json.dumps({"department": "x"}).encode()).decode()
    answer = s3.put_object(**arguments, SSEKMSKeyId="one", SSEKMSEncryptionContext=context, BucketKeyEnabled=True)
    assert json.loads(base64.b64decode(answer["SSEKMSEncryptionContext"])) == {"department": "x"}
    assert answer["BucketKeyEnabled"] is True
    assert get(s3, "sse-kms", "kms") == SMALL


def test_a_read_must_not_say_how_the_store_encrypted(s3: Any) -> None:
    put(s3, "sse-s3", "plain", SMALL)
    for operation in ("GetObject", "HeadObject"):

        def add(params: Any, **_: Any) -> None:
            params["headers"]["x-amz-server-side-encryption"] = "AES256"

        event = f"before-call.s3.{operation}"
        s3.meta.events.register(event, add)
        try:
            call = s3.get_object if operation == "GetObject" else s3.head_object
            assert refusal(call, Bucket=BUCKET, Key="plain")[0] == 400
        finally:
            s3.meta.events.unregister(event, add)


def rule(method: str, key_id: str = "", **more: Any) -> dict[str, Any]:
    default = {"SSEAlgorithm": method, **({"KMSMasterKeyID": key_id} if key_id else {})}
    return {"Rules": [{"ApplyServerSideEncryptionByDefault": default, **more}]}


def test_a_buckets_default_holds_for_what_asks_for_nothing(s3: Any) -> None:
    s3.create_bucket(Bucket="by-default")
    named = {"Bucket": "by-default"}
    missing = (404, "ServerSideEncryptionConfigurationNotFoundError")
    assert refusal(s3.get_bucket_encryption, **named) == missing
    s3.put_bucket_encryption(**named, ServerSideEncryptionConfiguration=rule("aws:kms", "one", BucketKeyEnabled=True))
    read = s3.get_bucket_encryption(**named)["ServerSideEncryptionConfiguration"]
    assert read == rule("aws:kms", "one", BucketKeyEnabled=True)
    for answer in (
        s3.put_object(**named, Key="k", Body=SMALL),
        s3.get_object(**named, Key="k"),
        s3.copy_object(**named, Key="c", CopySource="by-default/k"),
        s3.create_multipart_upload(**named, Key="u"),
    ):
        assert tells(answer, "sse-kms")
        assert answer["BucketKeyEnabled"] is True
    assert tells(s3.put_object(**named, Key="k", Body=SMALL, ServerSideEncryption="AES256"), "sse-s3")
    assert tells(s3.put_object(**named, Key="k", Body=SMALL, **customer()), "sse-c")
    blocked = rule("AES256", BlockedEncryptionTypes={"EncryptionType": ["SSE-C"]})
    s3.put_bucket_encryption(**named, ServerSideEncryptionConfiguration=blocked)
    assert s3.get_bucket_encryption(**named)["ServerSideEncryptionConfiguration"] == blocked
    assert refusal(s3.put_object, **named, Key="k", Body=SMALL, **customer()) == (403, "AccessDenied")
    assert tells(s3.put_object(**named, Key="k", Body=SMALL), "sse-s3")
    s3.delete_bucket_encryption(**named)
    s3.delete_bucket_encryption(**named)
    assert refusal(s3.get_bucket_encryption, **named) == missing
    assert tells(s3.put_object(**named, Key="k", Body=SMALL), "clear")
    assert refusal(s3.put_bucket_encryption, **named, ServerSideEncryptionConfiguration=rule("aws:kms")) == (
        400,
        "InvalidArgument",
    )


def files_with(folder: Path, text: bytes) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and text in path.read_bytes()]


def test_no_plaintext_on_any_device_and_no_key_anywhere(store: LiveStore, s3: Any) -> None:
    """S88. The search itself is shown to work by a content in the clear."""
    text = b"canary-of-the-devices-" + os.urandom(8).hex().encode()
    bodies = {"small": text * 10, "large": text * 20_000}
    for kind in ENCRYPTED:
        for name, body in bodies.items():
            put(s3, kind, f"device-{kind}-{name}", body)
    named = {"Bucket": BUCKET, "Key": "device-parts"}
    named["UploadId"] = s3.create_multipart_upload(**named, ServerSideEncryption="AES256")["UploadId"]
    s3.upload_part(**named, PartNumber=1, Body=bodies["large"])
    put(s3, "clear", "source", bodies["large"])
    s3.copy_object(Bucket=BUCKET, Key="device-copy", CopySource=f"{BUCKET}/device-sse-s3-large", **WRITES["sse-kms"])
    s3.delete_object(Bucket=BUCKET, Key="source")
    before = files_with(store.data / "devices", text)
    assert before, "a large content in the clear is found"
    known = set(before)
    put(s3, "clear", "device-clear", bodies["small"])
    assert set(files_with(store.data / "devices", text)) - known, "a small content in the clear is found"
    put(s3, "sse-s3", "only", b"another-" + text[::-1] * 20_000)
    assert files_with(store.data / "devices", text[::-1]) == []
    for secret in (SECRET, base64.b64encode(SECRET)):
        assert files_with(store.data, secret) == []
    assert base64.b64encode(SECRET) not in store.log.read_bytes()
