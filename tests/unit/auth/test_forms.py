"""Form uploads signed by boto3: which proof a form carries, and that nothing but a whole and right one passes."""

import asyncio
from collections.abc import Mapping
from typing import Any

import boto3
import pytest
from botocore.config import Config

from gateway.auth.authenticator import AuthenticatedForm, Mechanism
from gateway.auth.keyring import ANONYMOUS
from gateway.auth.post_policy import SIZE_MAX, parse_policy
from gateway.auth.refusals import Refused
from tests.unit.auth.signing import ALICE, ENDPOINT, KEY_ID, NOW, REGION, SECRET, Clock, frozen, make_authenticator
from tests.unit.s3.calls import make_call

VERSIONS = {"s3v4": Mechanism.FORM_V4, "s3": Mechanism.FORM_V2}


def form_of(version: str = "s3v4", **arguments: Any) -> dict[bytes, bytes]:
    """The fields of a form that boto3 signed, by lower-case name, with the bucket that the path names."""
    client: Any = boto3.client(
        "s3",
        endpoint_url=ENDPOINT,
        region_name=REGION,
        aws_access_key_id=KEY_ID,
        aws_secret_access_key=SECRET,
        config=Config(signature_version=version),
    )
    with frozen():
        fields = client.generate_presigned_post("bucket", "user/${filename}", **arguments)["fields"]
    named = {name.lower().encode(): value.encode() for name, value in fields.items()}
    return named | {b"bucket": b"bucket", b"key": b"user/a.txt"}


def prove(
    fields: Mapping[bytes, bytes],
    *,
    now: float = NOW,
    path: str = "/bucket",
    headers: Mapping[str, str] | None = None,
    **options: Any,
) -> AuthenticatedForm:
    authenticator = make_authenticator(Clock(now), **options)
    return asyncio.run(authenticator.authenticate_form(make_call("POST", path, headers), fields))


def refusal_of(fields: Mapping[bytes, bytes], **options: Any) -> Refused:
    with pytest.raises(Refused) as caught:
        prove(fields, **options)
    return caught.value


@pytest.mark.parametrize(("version", "mechanism"), VERSIONS.items())
def test_what_boto3_signs_is_accepted(version: str, mechanism: Mechanism) -> None:
    conditions = [["content-length-range", 1, 10], {"acl": "private"}]
    proved = prove({**form_of(version, Conditions=conditions), b"acl": b"private"})
    assert (proved.authenticated.principal, proved.authenticated.mechanism) == (ALICE, mechanism)
    assert (proved.authenticated.payload.is_chunked, proved.sizes) == (False, (1, 10))


def test_a_form_without_any_proof_is_anonymous() -> None:
    proved = prove({b"key": b"k", b"bucket": b"bucket", b"acl": b"public-read"})
    assert (proved.authenticated.principal, proved.sizes) == (ANONYMOUS, (0, SIZE_MAX))
    assert proved.authenticated.mechanism is Mechanism.ANONYMOUS


@pytest.mark.parametrize("version", VERSIONS)
def test_a_part_of_a_proof_is_no_proof(version: str) -> None:
    """Each field of the proof left out alone, and each alone."""
    whole = form_of(version)
    proof = [name for name in whole if name not in {b"key", b"bucket"}]
    assert len(proof) == (3 if version == "s3" else 5)
    for name in proof:
        assert refusal_of({field: value for field, value in whole.items() if field != name}).code in {
            "InvalidArgument",
            "AuthorizationQueryParametersError",
        }
        assert refusal_of({b"key": b"k", name: whole[name]}).code == "InvalidArgument"


@pytest.mark.parametrize(
    ("version", "name", "value", "code"),
    [
        ("s3v4", b"x-amz-signature", b"0" * 64, "SignatureDoesNotMatch"),
        ("s3v4", b"policy", b"e30=", "SignatureDoesNotMatch"),
        ("s3v4", b"x-amz-algorithm", b"AWS4-HMAC-SHA1", "AuthorizationQueryParametersError"),
        ("s3v4", b"x-amz-date", b"2026-01-01", "AuthorizationQueryParametersError"),
        ("s3v4", b"x-amz-date", b"20251231T235959Z", "AuthorizationQueryParametersError"),
        ("s3v4", b"x-amz-credential", b"nobody", "AuthorizationQueryParametersError"),
        ("s3v4", b"x-amz-credential", b"NOBODY/20260101/us-east-1/s3/aws4_request", "InvalidAccessKeyId"),
        ("s3v4", b"x-amz-credential", f"{KEY_ID}/20260101/mars/s3/aws4_request", "AuthorizationQueryParametersError"),
        (
            "s3v4",
            b"x-amz-credential",
            f"{KEY_ID}/20260101/{REGION}/iam/aws4_request",
            "AuthorizationQueryParametersError",
        ),
        (
            "s3v4",
            b"x-amz-credential",
            f"{KEY_ID}/20260102/{REGION}/s3/aws4_request",
            "AuthorizationQueryParametersError",
        ),
        ("s3v4", b"x-amz-security-token", b"t", "InvalidToken"),
        ("s3v4", b"key", b"other/a.txt", "AccessDenied"),
        ("s3v4", b"bucket", b"bucket2", "AccessDenied"),
        ("s3v4", b"acl", b"public-read", "AccessDenied"),
        ("s3", b"signature", b"AAAA", "SignatureDoesNotMatch"),
        ("s3", b"policy", b"e30=", "SignatureDoesNotMatch"),
        ("s3", b"awsaccesskeyid", b"foo", "InvalidAccessKeyId"),
        ("s3", b"awsaccesskeyid", b"\xff", "InvalidAccessKeyId"),
        ("s3", b"x-amz-signature", b"0" * 64, "InvalidArgument"),
        ("s3", b"acl", b"public-read", "AccessDenied"),
    ],
)
def test_one_field_changed(version: str, name: bytes, value: bytes | str, code: str) -> None:
    value = value if isinstance(value, bytes) else value.encode()
    assert refusal_of({**form_of(version), name: value}).code == code


def test_a_form_ends_with_its_policy() -> None:
    fields = form_of()
    ends = parse_policy(fields[b"policy"]).expires
    assert prove(fields, now=ends - 1).authenticated.principal == ALICE
    assert "expired" in str(refusal_of(fields, now=ends).message)


@pytest.mark.parametrize(
    ("path", "headers", "code"),
    [
        ("/bucket", {"authorization": "AWS4-HMAC-SHA256 x"}, "InvalidArgument"),
        ("/bucket", {"authorization": ""}, "InvalidArgument"),
        ("/bucket?X-Amz-Signature=a", {}, "InvalidArgument"),
        ("/bucket?AWSAccessKeyId=a", {}, "InvalidArgument"),
        ("/bucket?a=1&a=2", {}, "InvalidArgument"),
        ("/bucket", {"x-amz-acl": "public-read"}, "AccessDenied"),
        ("/bucket", {"x-tier-hint": "pin"}, "AccessDenied"),
    ],
)
def test_nothing_beside_the_form_acts(path: str, headers: dict[str, str], code: str) -> None:
    for fields in (form_of(), {b"key": b"k", b"bucket": b"bucket"}):
        assert refusal_of(fields, path=path, headers=headers).code == code


def test_version_2_can_be_off() -> None:
    assert refusal_of(form_of("s3"), sigv2="off").code == "InvalidRequest"
    assert prove(form_of("s3v4"), sigv2="off").authenticated.principal == ALICE
