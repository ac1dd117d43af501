"""The control API: which requests speak to it, and which bucket they name."""

import pytest

from gateway.s3 import control
from gateway.s3.addressing import Addressing
from gateway.s3.errors import S3Code, S3Error
from tests.unit.s3.calls import make_call

ACCOUNT = "123456789012"
ADDRESSING = Addressing(["s3.test"])


@pytest.mark.parametrize(
    ("host", "path", "account", "expected"),
    [
        ("s3.test", "/v20180820/tags/a", "", True),
        ("127.0.0.1:9000", "/v20180820/tags/a", ACCOUNT, True),
        (f"{ACCOUNT}.s3.test", "/v20180820/tags/a", ACCOUNT, True),
        (f"{ACCOUNT}.s3.test", "/v20180820/tags/a", "", False),
        (f"{ACCOUNT}.s3.test", "/v20180820/tags/a", "210987654321", False),
        ("bucket.s3.test", "/v20180820/tags/a", ACCOUNT, False),
        (f"{ACCOUNT}.s3.test", "/key", ACCOUNT, False),
        ("s3.test", "/v20180820", ACCOUNT, False),
        ("s3.test", "/v20180820x/tags/a", ACCOUNT, False),
    ],
)
def test_who_speaks_to_it(host: str, path: str, account: str, expected: bool) -> None:
    call = make_call("GET", path, {"x-amz-account-id": account} if account else {})
    call.fields[b"host"] = host.encode()
    assert control.names_control(call, ADDRESSING) is expected


@pytest.mark.parametrize(
    "arn", ["arn:aws:s3:::my-bucket", "arn%3Aaws%3As3%3A%3A%3Amy-bucket", "arn:aws-cn:s3:::my-bucket"]
)
def test_the_bucket_of_an_arn(arn: str) -> None:
    assert control.resource_bucket(f"/v20180820/tags/{arn}".encode()) == "my-bucket"


@pytest.mark.parametrize(
    ("path", "code"),
    [
        (b"/v20180820/tags/", S3Code.InvalidRequest),
        (b"/v20180820/tags/my-bucket", S3Code.InvalidRequest),
        (b"/v20180820/tags/arn:aws:s3:::my-bucket/key", S3Code.InvalidRequest),
        (b"/v20180820/tags/arn:aws:s3:us-east-1:123456789012:accesspoint/a", S3Code.InvalidRequest),
        (b"/v20180820/tags/arn:aws:s3:::..", S3Code.InvalidRequest),
        (b"/v20180820/tags/arn%3Aaws%3As3%3A%3A%3Ab%0Ad", S3Code.InvalidRequest),
        (b"/v20180820/accesspoint/a", S3Code.NotImplemented),
        (b"/v20180820/", S3Code.NotImplemented),
    ],
)
def test_other_resources(path: bytes, code: S3Code) -> None:
    with pytest.raises(S3Error) as caught:
        control.resource_bucket(path)
    assert caught.value.code is code


def test_tag_keys_may_repeat() -> None:
    assert control.tag_keys(b"tagKeys=a&x=1&tagKeys=b+c&tagKeys=%C3%BC&tagkeys=z") == {"a", "b c", "\u00fc"}
    assert control.tag_keys(b"") == frozenset()
    with pytest.raises(S3Error) as caught:
        control.tag_keys(b"tagKeys=%FF")
    assert caught.value.code is S3Code.InvalidURI
