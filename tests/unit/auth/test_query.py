"""Presigned requests of version 4, and version 2 wherever it stands."""

from collections.abc import Callable
from typing import Any, Literal

import boto3
import pytest
from botocore.config import Config

from gateway.auth.payload import PayloadMode
from gateway.http.call import Call
from tests.unit.auth.signing import (
    ALICE,
    ENDPOINT,
    KEY_ID,
    NOW,
    REGION,
    SECRET,
    Clock,
    authenticate,
    frozen,
    make_authenticator,
    received,
    refusal_of,
    signed,
    with_header,
)

Change = Callable[[Call], object]


def parameter(old: bytes, new: bytes) -> Change:
    def change(call: Call) -> None:
        assert old in call.query
        call.query = call.query.replace(old, new)

    return change


# fmt: off
QUERY_CASES: list[tuple[str, Change, str]] = [
    ("expires 0", parameter(b"Expires=600", b"Expires=0"), "AccessDenied"),
    ("expires negative", parameter(b"Expires=600", b"Expires=-1"), "AccessDenied"),
    ("expires over a week", parameter(b"Expires=600", b"Expires=604801"), "AccessDenied"),
    ("expires huge", parameter(b"Expires=600", b"Expires=" + b"9" * 40), "AccessDenied"),
    ("expires word", parameter(b"Expires=600", b"Expires=abc"), "AuthorizationQueryParametersError"),
    ("expires spelled", parameter(b"Expires=600", b"Expires=6e2"), "AuthorizationQueryParametersError"),
    ("expires empty", parameter(b"Expires=600", b"Expires="), "AuthorizationQueryParametersError"),
    ("expires absent", parameter(b"&X-Amz-Expires=600", b""), "AuthorizationQueryParametersError"),
    ("expires longer", parameter(b"Expires=600", b"Expires=601"), "SignatureDoesNotMatch"),
    ("algorithm", parameter(b"HMAC-SHA256", b"HMAC-SHA1"), "AuthorizationQueryParametersError"),
    ("signature absent", parameter(b"X-Amz-Signature=", b"X-Signature="), "AuthorizationQueryParametersError"),
    ("signature lower", parameter(b"X-Amz-Signature=", b"x-amz-signature="), "AuthorizationQueryParametersError"),
    ("date", parameter(b"X-Amz-Date=20260101T", b"X-Amz-Date=20260101 "), "AuthorizationQueryParametersError"),
    ("region", parameter(b"us-east-1", b"eu-west-1"), "AuthorizationQueryParametersError"),
    ("scope day", parameter(b"%2F20260101%2F", b"%2F20260102%2F"), "AuthorizationQueryParametersError"),
    ("unknown key", parameter(b"AKIDEXAMPLE", b"AKIDUNKNOWN"), "InvalidAccessKeyId"),
    ("host unsigned", parameter(b"SignedHeaders=host", b"SignedHeaders=date"), "AuthorizationQueryParametersError"),
    ("other host", lambda call: with_header(call, b"host", b"s3.test"), "SignatureDoesNotMatch"),
    ("token", lambda call: setattr(call, "query", call.query + b"&X-Amz-Security-Token=t"), "InvalidToken"),
    ("version 2 too", lambda call: setattr(call, "query", call.query + b"&Signature=t"), "InvalidArgument"),
    ("parameter", lambda call: setattr(call, "query", call.query + b"&acl="), "SignatureDoesNotMatch"),
    ("payload word", lambda call: with_header(call, b"x-amz-content-sha256", b"a" * 64), "SignatureDoesNotMatch"),
    ("streaming", lambda call: with_header(call, b"x-amz-content-sha256", b"STREAMING-UNSIGNED-PAYLOAD-TRAILER"),
     "InvalidRequest"),
]
# fmt: on


@pytest.mark.parametrize(("change", "code"), [case[1:] for case in QUERY_CASES], ids=[case[0] for case in QUERY_CASES])
def test_query_refusals(change: Change, code: str) -> None:
    call = signed(mechanism="query")
    change(call)
    assert refusal_of(call).code == code


@pytest.mark.parametrize(("offset", "message"), [(601, "Request has expired"), (-901, "Request is not yet valid")])
@pytest.mark.parametrize("mechanism", ["query", "v2 query"])
def test_expiry(mechanism: str, offset: int, message: str) -> None:
    call = signed(mechanism=mechanism)
    if mechanism == "v2 query" and offset < 0:
        return  # version 2 says when a request ends, not when it begins
    refusal = refusal_of(call, Clock(NOW + offset))
    assert (refusal.code, refusal.message) == ("AccessDenied", message)


def test_last_second_of_a_presigned_request() -> None:
    for mechanism in ("query", "v2 query"):
        assert authenticate(signed(mechanism=mechanism), make_authenticator(Clock(NOW + 600))).principal == ALICE


def test_unsigned_headers_are_named() -> None:
    call = with_header(signed("PUT", mechanism="query"), b"x-amz-copy-source", b"/victim/secret")
    with_header(call, b"x-amz-acl", b"public-read")
    with_header(call, b"x-amzn-trace-id", b"Root=1")
    refusal = refusal_of(call)
    assert (refusal.code, refusal.elements) == ("AccessDenied", {"HeadersNotSigned": "x-amz-acl, x-amz-copy-source"})


@pytest.mark.parametrize("word", ["UNSIGNED-PAYLOAD", "a" * 64])
def test_payload_word_may_stay_out_of_signed_headers(word: str) -> None:
    """Only where its value is the payload line: for a header-signed request it always is, for a presigned one here."""
    call = signed("PUT", "/bucket/key?X-Amz-Content-Sha256=UNSIGNED-PAYLOAD", mechanism="query")
    with_header(call, b"x-amz-content-sha256", word.encode())
    if word == "UNSIGNED-PAYLOAD":
        assert authenticate(call).payload.mode is PayloadMode.UNSIGNED
    else:
        assert refusal_of(call).code == "AccessDenied"


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("get_object", {"ResponseContentType": "text/plain; a=b", "VersionId": "v/1"}),
        ("get_object", {"ResponseContentDisposition": 'attachment; filename="ä &.txt"'}),
        ("put_object", {"ContentType": "text/plain", "Metadata": {"a": "b  c"}}),
        ("upload_part", {"PartNumber": 3, "UploadId": "u+/="}),
        ("delete_object", {}),
    ],
)
@pytest.mark.parametrize("style", ["path", "virtual"])
@pytest.mark.parametrize("version", ["s3", "s3v4"])
def test_what_boto3_presigns(
    method: str, arguments: dict[str, Any], style: Literal["path", "virtual"], version: str
) -> None:
    client = boto3.client(
        "s3",
        endpoint_url=ENDPOINT,
        region_name=REGION,
        aws_access_key_id=KEY_ID,
        aws_secret_access_key=SECRET,
        config=Config(signature_version=version, s3={"addressing_style": style}),
    )
    with frozen():
        url = client.generate_presigned_url(method, {"Bucket": "bucket", "Key": "a b/ä+", **arguments})
    headers = {"content-type": "text/plain"} if "ContentType" in arguments else {}
    if "Metadata" in arguments and version == "s3v4":
        headers["x-amz-meta-a"] = "b  c"
    verb = {"get": "GET", "del": "DELETE"}.get(method[:3], "PUT")
    call = received(verb, url, headers)
    assert call.raw_path.startswith(b"/bucket/" if style == "path" else b"/a")
    host_bucket: dict[str, Any] = {"host_bucket": lambda host: "bucket" if host.startswith(b"bucket.") else None}
    assert authenticate(call, make_authenticator(**host_bucket)).principal == ALICE
    if "Metadata" in arguments:
        assert call.fields[b"x-amz-meta-a"] == b"b  c"
    call = received(verb, url + "&acl", headers)
    assert refusal_of(call, **host_bucket).code == "SignatureDoesNotMatch"


def test_version_2_refuses_what_it_does_not_sign() -> None:
    for method, target in (("GET", "/bucket?encryption"), ("GET", "/bucket?foo=a"), ("PUT", "/bucket?prefix=a")):
        assert refusal_of(signed(method, target=target, mechanism="v2 query")).code == "AccessDenied"
    call = with_header(signed(mechanism="v2 query"), b"x-tier-hint", b"pin")
    assert refusal_of(call).elements == {"HeadersNotSigned": "x-tier-hint"}
    call = with_header(signed(mechanism="v2 query"), b"x-amz-acl", b"private")
    assert refusal_of(call).code == "SignatureDoesNotMatch"
    call = with_header(signed("PUT", mechanism="v2 query"), b"content-type", b"text/html")
    assert refusal_of(call).code == "SignatureDoesNotMatch"


def test_version_2_turns_the_pages_of_a_listing_unsigned() -> None:
    """Botocore adds `encoding-type` to every listing and signs no parameter of one."""
    client = boto3.client(
        "s3",
        endpoint_url=ENDPOINT,
        region_name=REGION,
        aws_access_key_id=KEY_ID,
        aws_secret_access_key=SECRET,
        config=Config(signature_version="s3", s3={"addressing_style": "path"}),
    )
    with frozen():
        url = client.generate_presigned_url("list_objects_v2", {"Bucket": "bucket", "Prefix": "a/", "MaxKeys": 7})
    assert "encoding-type=url" in url
    assert "list-type=2" in url
    assert authenticate(received("GET", url, {})).principal == ALICE
    assert refusal_of(received("DELETE", url, {})).code == "AccessDenied"
    assert refusal_of(received("GET", url + "&uploads", {})).code == "SignatureDoesNotMatch"


@pytest.mark.parametrize("style", ["path", "virtual"])
def test_version_2_presigned_by_boto3_for_a_bucket(style: Literal["path", "virtual"]) -> None:
    """Botocore signs `/bucket/` where it sends `/bucket`."""
    client = boto3.client(
        "s3",
        endpoint_url=ENDPOINT,
        region_name=REGION,
        aws_access_key_id=KEY_ID,
        aws_secret_access_key=SECRET,
        config=Config(signature_version="s3", s3={"addressing_style": style}),
    )
    with frozen():
        call = received("GET", client.generate_presigned_url("get_bucket_versioning", {"Bucket": "bucket"}), {})
    host_bucket: dict[str, Any] = {"host_bucket": lambda host: "bucket" if host.startswith(b"bucket.") else None}
    assert authenticate(call, make_authenticator(**host_bucket)).principal == ALICE
    call.raw_path = b"/bucket2" if style == "path" else b"/bucket/"
    assert refusal_of(call, **host_bucket).code == "SignatureDoesNotMatch"


@pytest.mark.parametrize("target", ["/bucket", "/bucket/", "/"])
def test_version_2_as_spelled(target: str) -> None:
    assert authenticate(signed(target=target, mechanism="v2 query")).principal == ALICE


def test_version_2_never_selects_a_streaming_payload() -> None:
    headers = {"x-amz-content-sha256": "STREAMING-UNSIGNED-PAYLOAD-TRAILER"}
    call = signed("PUT", headers=headers, mechanism="v2 header")
    assert refusal_of(call, sigv2="all").code == "InvalidRequest"


@pytest.mark.parametrize(
    ("sigv2_mode", "mechanism", "is_served"),
    [
        ("presigned", "v2 query", True),
        ("presigned", "v2 header", False),
        ("all", "v2 header", True),
        ("all", "v2 query", True),
        ("off", "v2 query", False),
        ("off", "v2 header", False),
    ],
)
def test_where_version_2_is_served(sigv2_mode: str, mechanism: str, is_served: bool) -> None:
    call = signed("PUT", headers={"x-amz-acl": "private", "content-type": "text/plain"}, mechanism=mechanism)
    if mechanism == "v2 query":
        with_header(call, b"content-type", b"text/plain")
    if is_served:
        assert authenticate(call, make_authenticator(sigv2=sigv2_mode)).principal == ALICE
    else:
        refusal = refusal_of(call, sigv2=sigv2_mode)
        assert (refusal.code, "AWS4-HMAC-SHA256" in str(refusal.message)) == ("InvalidRequest", True)


def test_malformed_version_2() -> None:
    assert refusal_of(with_header(signed(), b"authorization", b"AWS HAHAHA")).code == "InvalidArgument"
    call = received("GET", ENDPOINT + "/bucket/key?AWSAccessKeyId=A&Signature=b", {})
    assert refusal_of(call).code == "AccessDenied"
    call = received("GET", ENDPOINT + "/bucket/key?AWSAccessKeyId=A&Signature=b&Expires=soon", {})
    assert refusal_of(call).code == "AccessDenied"


def test_moved_headers_become_headers() -> None:
    call = signed("PUT", "/bucket/key?x-amz-meta-a=b%20c&X-Amz-Storage-Class=GLACIER&x-id=PutObject", mechanism="query")
    authenticate(call)
    assert (b"x-amz-meta-a", b"b c") in call.headers
    assert call.fields[b"x-amz-storage-class"] == b"GLACIER"
    assert b"x-amz-signature" not in call.fields


@pytest.mark.parametrize(
    ("moved", "code"),
    [("x-amz-copy-source=%2Fvictim%2Fsecret", "NotImplemented"), ("x-amz-acl=a%0D%0Ax", "InvalidArgument")],
)
def test_moved_headers_that_are_refused(moved: str, code: str) -> None:
    assert refusal_of(signed("PUT", f"/bucket/key?{moved}", mechanism="query")).code == code
