"""PostObject: what a form stores, what it is answered, and that a form with anything wrong leaves nothing."""

import base64
import hashlib
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.live import LiveStore
from tests.protocol.forms import BOUNDARY, END, TYPE, encode, part, policy_of, post, signed_v2
from tests.protocol.raw import Answer, Wire

pytestmark = pytest.mark.protocol

BUCKET = "forms"
TAGS = b"<Tagging><TagSet><Tag><Key>k 1</Key><Value>v&amp;</Value></Tag></TagSet></Tagging>"
SHA256_OF_X = base64.b64encode(hashlib.sha256(b"x").digest())


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveStore]:
    with LiveStore(Path(tmp_path_factory.mktemp("forms")) / "data", workers=1) as live:
        live.client().create_bucket(Bucket=BUCKET)
        yield live


@pytest.fixture
def wire(store: LiveStore) -> Iterator[Wire]:
    opened = Wire(store)
    yield opened
    opened.close()


def keys(store: LiveStore) -> list[str]:
    return [entry["Key"] for entry in store.client().list_objects_v2(Bucket=BUCKET).get("Contents", [])]


def sent(wire: Wire, fields: dict[str, Any], content: bytes = b"x", **options: Any) -> Answer:
    return post(wire, f"/{BUCKET}", encode(fields, content, **options))


@pytest.mark.parametrize("version", ["s3v4", "s3"])
@pytest.mark.parametrize("size", [0, 1, 100_000, 3 * 1024 * 1024 + 7])
def test_a_form_presigned_by_boto3(store: LiveStore, wire: Wire, version: str, size: int) -> None:
    client = store.client(signature_version=version)
    extra = {"Content-Type": "text/plain", "x-amz-meta-Who": "me", "x-amz-storage-class": "STANDARD"}
    conditions = [{name: value} for name, value in extra.items()]
    made = client.generate_presigned_post(BUCKET, f"{version}/${{filename}}", Fields=extra, Conditions=conditions)
    content = random.Random(size).randbytes(size)
    answer = sent(wire, made["fields"], content, file_name=f"C:\\dir\\{size}")
    assert (answer.status, answer.body) == (204, b"")
    key = f"{version}/{size}"
    assert answer.headers["location"] == f"{store.endpoint}/{BUCKET}/{key}"
    got = store.client().get_object(Bucket=BUCKET, Key=key)
    assert got["Body"].read() == content
    assert (got["ContentType"], got["Metadata"]) == ("text/plain", {"who": "me"})
    assert answer.headers["etag"] == got["ETag"] == f'"{hashlib.md5(content).hexdigest()}"'


def test_a_form_without_a_length(store: LiveStore, wire: Wire) -> None:
    body = encode(signed_v2(policy_of(BUCKET), key="up/chunked"), b"content")
    framed = b"".join(b"%x\r\n%b\r\n" % (len(body[at : at + 50]), body[at : at + 50]) for at in range(0, len(body), 50))
    head = f"POST /{BUCKET} HTTP/1.1\r\nhost: {wire.host}\r\ncontent-type: {TYPE}\r\ntransfer-encoding: chunked\r\n\r\n"
    assert wire.send(head.encode() + framed + b"0\r\n\r\n").status == 204
    assert store.client().get_object(Bucket=BUCKET, Key="up/chunked")["Body"].read() == b"content"


def test_fields_serve_what_headers_serve(store: LiveStore, wire: Wire) -> None:
    names = ("Cache-Control", "Content-Disposition", "Expires", "tagging", "x-amz-checksum-sha256", "if-none-match")
    values = ("no-store", "inline", "never", TAGS, SHA256_OF_X, "*")
    fields = signed_v2(policy_of(BUCKET, *(["starts-with", f"${name}", ""] for name in names)), key="up/all")
    fields |= dict(zip(names, values, strict=True))
    assert sent(wire, fields).headers["x-amz-checksum-sha256"] == SHA256_OF_X.decode()
    assert sent(wire, fields).code == "PreconditionFailed"
    client = store.client()
    got = client.head_object(Bucket=BUCKET, Key="up/all", ChecksumMode="ENABLED")
    assert (got["CacheControl"], got["ContentDisposition"], got["ExpiresString"]) == ("no-store", "inline", "never")
    assert got["ChecksumSHA256"] == SHA256_OF_X.decode()
    tagging = client.get_object_tagging(Bucket=BUCKET, Key="up/all")
    assert tagging["TagSet"] == [{"Key": "k 1", "Value": "v&"}]


def test_a_field_behind_the_file_is_passed_over(store: LiveStore, wire: Wire) -> None:
    fields = signed_v2(policy_of(BUCKET), key="up/submit")
    assert sent(wire, fields, end=part("submit", b"Upload") + END).status == 204
    assert store.client().get_object(Bucket=BUCKET, Key="up/submit")["Body"].read() == b"x"


@pytest.mark.parametrize(("wanted", "status"), [("200", 200), ("201", 201), ("204", 204), ("404", 204), ("", 204)])
def test_success_status(store: LiveStore, wire: Wire, wanted: str, status: int) -> None:
    policy = policy_of(BUCKET, ["starts-with", "$success_action_status", ""])
    answer = sent(wire, signed_v2(policy, key="up/a b&c", success_action_status=wanted))
    assert answer.status == status
    assert answer.headers["location"] == f"{store.endpoint}/{BUCKET}/up/a%20b%26c"
    if status == 201:
        etag = answer.headers["etag"]
        assert f"<Bucket>{BUCKET}</Bucket><Key>up/a b&amp;c</Key><ETag>{etag}</ETag>" in answer.body.decode()
    else:
        assert answer.body == b""


@pytest.mark.parametrize("name", ["success_action_redirect", "redirect"])
def test_success_redirect(wire: Wire, name: str) -> None:
    policy = policy_of(BUCKET, ["starts-with", f"${name}", ""])
    for url, joint in (("http://a.test/done", "?"), ("https://a.test/?x=1#top", "&")):
        answer = sent(wire, signed_v2(policy, **{name: url}))
        told = f"{joint}bucket={BUCKET}&key=up%2Fa&etag=%22{hashlib.md5(b'x').hexdigest()}%22"
        before, _, fragment = url.partition("#")
        assert (answer.status, answer.headers["location"]) == (303, before + told + ("#top" if fragment else ""))
    for url in ("/relative", "javascript:alert(1)", "http://a.test/\r\nx-evil: 1", "http://a.test/\u00fc"):
        answer = sent(wire, signed_v2(policy, **{name: url}))
        assert (answer.status, answer.code) == (400, "InvalidArgument")
        assert "x-evil" not in answer.headers


def past() -> str:
    return (datetime.now(UTC) - timedelta(minutes=1)).strftime("%Y-%m-%dT%H:%M:%SZ")


ALL = ["starts-with", "$x-amz-meta-a", ""]
REFUSED: list[tuple[str, dict[str, Any], int, str]] = [
    ("key outside the prefix", signed_v2(policy_of(BUCKET), key="down/a"), 403, "AccessDenied"),
    ("unsigned field", signed_v2(policy_of(BUCKET), acl="public-read"), 403, "AccessDenied"),
    ("unsigned metadata", signed_v2(policy_of(BUCKET), **{"X-AMZ-Meta-a": "b"}), 403, "AccessDenied"),
    (
        "condition in another case",
        signed_v2(policy_of(BUCKET, {"ACL": "private"}), acl="public-read"),
        403,
        "AccessDenied",
    ),
    ("absent field", signed_v2(policy_of(BUCKET, {"x-amz-meta-a": "b"})), 403, "AccessDenied"),
    ("another bucket signed", signed_v2(policy_of("other")), 403, "AccessDenied"),
    ("another bucket named", signed_v2(policy_of(BUCKET), bucket="other"), 403, "AccessDenied"),
    ("expired", signed_v2(policy_of(BUCKET, expiration=past())), 403, "AccessDenied"),
    ("too large", signed_v2(policy_of(BUCKET, ["content-length-range", 0, 9])), 400, "EntityTooLarge"),
    ("too small", signed_v2(policy_of(BUCKET, ["content-length-range", 11, 99])), 400, "EntityTooSmall"),
    ("signature", signed_v2(policy_of(BUCKET), signature="AAAA"), 403, "SignatureDoesNotMatch"),
    ("unknown key id", signed_v2(policy_of(BUCKET), AWSAccessKeyId="nobody"), 403, "InvalidAccessKeyId"),
    ("no JSON", signed_v2("{"), 400, "InvalidPolicyDocument"),
    ("no conditions", signed_v2({"expiration": "2099-01-01T00:00:00Z"}), 400, "InvalidPolicyDocument"),
    ("deep JSON", signed_v2("[" * 9000), 400, "InvalidPolicyDocument"),
    ("no key", signed_v2(policy_of(BUCKET), key=""), 400, "UserKeyMustBeSpecified"),
    ("long key", signed_v2(policy_of(BUCKET), key="up/" + "a" * 1022), 400, "KeyTooLongError"),
    ("key that is no UTF-8", signed_v2(policy_of(BUCKET), key=b"up/\xff"), 400, "InvalidURI"),
    ("checksum", signed_v2(policy_of(BUCKET), **{"x-amz-checksum-sha256": SHA256_OF_X}), 400, "BadDigest"),
    ("no checksum", signed_v2(policy_of(BUCKET), **{"x-amz-checksum-sha256": "x"}), 400, "BadDigest"),
    (
        "metadata with a line break",
        signed_v2(policy_of(BUCKET, ALL), **{"x-amz-meta-a": "b\r\nc: d"}),
        400,
        "InvalidArgument",
    ),
    ("too much metadata", signed_v2(policy_of(BUCKET, ALL), **{"x-amz-meta-a": "b" * 2048}), 400, "MetadataTooLarge"),
    ("tags", signed_v2(policy_of(BUCKET, ["starts-with", "$tagging", ""]), tagging="<Tagging>"), 400, "MalformedXML"),
    (
        "copy source",
        signed_v2(policy_of(BUCKET, ["starts-with", "$x-amz-copy-source", ""]), **{"x-amz-copy-source": "/a/b"}),
        400,
        "InvalidArgument",
    ),
    (
        "too many bytes of fields",
        signed_v2(policy_of(BUCKET), **{"x-ignore-a": "b" * 20_480}),
        400,
        "MaxPostPreDataLengthExceeded",
    ),
    ("anonymous", {"key": "up/a"}, 403, "AccessDenied"),
    ("only a policy", {"key": "up/a", "policy": "e30="}, 400, "InvalidArgument"),
]


@pytest.mark.parametrize(("fields", "status", "code"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_refused_forms_leave_nothing(store: LiveStore, fields: dict[str, Any], status: int, code: str) -> None:
    """S36: whatever the policy does not let pass."""
    before = keys(store)
    for size in (10, 300_000):
        if (code, size) == ("EntityTooSmall", 300_000):
            fields = signed_v2(policy_of(BUCKET, ["content-length-range", size + 1, size + 9]))
        wire = Wire(store)
        answer = sent(wire, fields, b"c" * size)
        assert (answer.status, answer.code) == (status, code)
        wire.close()
    assert keys(store) == before


def test_nothing_beside_the_form_acts(store: LiveStore, wire: Wire) -> None:
    body = encode(signed_v2(policy_of(BUCKET), key="up/beside"), b"x")
    for headers in ({"x_amz_acl": "public-read"}, {"x_tier_hint": "pin"}):
        assert post(wire, f"/{BUCKET}", body, **headers).code == "AccessDenied"
    assert post(wire, f"/{BUCKET}", body, authorization="AWS a:b").code == "InvalidArgument"
    assert post(wire, f"/{BUCKET}?AWSAccessKeyId=a", body).code == "InvalidArgument"
    assert post(wire, f"/{BUCKET}", body, content_type="application/json").code == "PreconditionFailed"
    assert post(wire, f"/{BUCKET}?uploads", body).status == 405
    assert post(wire, "/forms-of-nobody", encode(signed_v2(policy_of("forms-of-nobody")), b"x")).code == "NoSuchBucket"
    assert "up/beside" not in keys(store)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"\r\n" * 5_000_000, "MalformedPOSTRequest"),
        (part("a", b"b" * 50_000_000), "MaxPostPreDataLengthExceeded"),
        (b"".join(part(f"n{number}", b"") for number in range(100_000)), "MaxPostPreDataLengthExceeded"),
        (f"--{BOUNDARY}\r\n".encode() + b"x: " + b"y" * 1_000_000, "MaxPostPreDataLengthExceeded"),
        (b"a=1;" * 1_000_000, "MalformedPOSTRequest"),
        (b"", "MalformedPOSTRequest"),
        (part("key", b"up/a") + END, "InvalidArgument"),
    ],
    ids=["preamble", "long field", "many fields", "long line", "urlencoded", "empty", "no file"],
)
def test_hostile_bodies_cost_little(store: LiveStore, body: bytes, code: str) -> None:
    """S68: refused from their first 32 KiB."""
    wire = Wire(store)
    assert post(wire, f"/{BUCKET}", body).code == code
    wire.close()


@pytest.mark.parametrize("size", [10, 300_000])
@pytest.mark.parametrize("cut", [1, 20, 29])
def test_a_form_that_ends_early_leaves_nothing(store: LiveStore, size: int, cut: int) -> None:
    before = keys(store)
    body = encode(signed_v2(policy_of(BUCKET), key="up/cut"), b"c" * size)
    announced, wire = Wire(store), Wire(store)
    head = (
        f"POST /{BUCKET} HTTP/1.1\r\nhost: {wire.host}\r\ncontent-type: {TYPE}\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    assert announced.send(head.encode() + body[:-cut], half_close=True).code in {
        "IncompleteBody",
        "MalformedPOSTRequest",
    }
    shorter = post(wire, f"/{BUCKET}", body[: -cut - 4])
    assert shorter.code == "MalformedPOSTRequest"
    assert keys(store) == before
    announced.close()
    wire.close()


def test_a_connection_serves_on_after_a_form(store: LiveStore, wire: Wire) -> None:
    for number in range(3):
        assert sent(wire, signed_v2(policy_of(BUCKET), key=f"up/again{number}"), b"y" * 5000).status == 204
        assert sent(wire, signed_v2(policy_of(BUCKET), key=f"down/{number}"), b"y" * 5000).status == 403


def test_a_form_into_a_versioned_bucket(store: LiveStore, wire: Wire) -> None:
    client = store.client()
    client.create_bucket(Bucket="forms-versioned")
    client.put_bucket_versioning(Bucket="forms-versioned", VersioningConfiguration={"Status": "Enabled"})
    answer = post(wire, "/forms-versioned/", encode(signed_v2(policy_of("forms-versioned")), b"x"))
    assert answer.status == 204
    version_id = answer.headers["x-amz-version-id"]
    assert client.get_object(Bucket="forms-versioned", Key="up/a", VersionId=version_id)["Body"].read() == b"x"
    with pytest.raises(ClientError):
        client.get_object(Bucket="forms-versioned", Key="up/a", VersionId="0" * len(version_id))
