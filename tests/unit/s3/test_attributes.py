"""What is stored of a client's headers, and that no stored line can break out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.s3 import attributes
from gateway.s3.errors import S3Code, S3Error

DEFAULT = b"content-type: binary/octet-stream\r\n"


def test_content_headers_and_metadata_are_kept_byte_for_byte() -> None:
    fields = {
        b"content-type": b"text/plain; charset=utf-8",
        b"expires": b"whenever",
        b"x-amz-meta-b": "Grüße".encode(),
        b"x-amz-meta-a": b"\xff\xfe",
        b"content-length": b"12",
        b"x-amz-acl": b"private",
        b"authorization": b"secret",
    }
    assert attributes.parse(attributes.from_fields(fields)) == [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"expires", b"whenever"),
        (b"x-amz-meta-b", "Grüße".encode()),
        (b"x-amz-meta-a", b"\xff\xfe"),
    ]
    assert attributes.from_fields({}) == DEFAULT


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        (b"aws-chunked", b""),
        (b"gzip, aws-chunked", b"gzip"),
        (b"aws-chunked,gzip", b"gzip"),
        (b"aws-chunked, aws-chunked", b""),
        (b"AWS-Chunked,  GZip", b"GZip"),
        (b"deflate, gzip", b"deflate, gzip"),
        (b"deflate,gzip", b"deflate,gzip"),
        (b"", b""),
    ],
)
def test_w04_aws_chunked_is_no_content_encoding(sent: bytes, kept: bytes) -> None:
    stored = attributes.from_fields({b"content-encoding": sent})
    assert dict(attributes.parse(stored)).get(b"content-encoding", b"") == kept


def test_metadata_limit_counts_names_and_values() -> None:
    assert attributes.from_fields({b"x-amz-meta-ab": b"v" * 2046}).endswith(b"v\r\n")
    with pytest.raises(S3Error) as caught:
        attributes.from_fields({b"x-amz-meta-ab": b"v" * 2046, b"x-amz-meta-c": b""})
    assert caught.value.code is S3Code.MetadataTooLarge


@given(st.binary(max_size=12), st.binary(max_size=20))
def test_s61_no_value_breaks_a_line(name: bytes, value: bytes) -> None:
    fields = {b"x-amz-meta-" + name: value, b"cache-control": value}
    try:
        stored = attributes.from_fields(fields)
    except S3Error:
        return  # refused
    assert stored.count(b"\r\n") == len(attributes.parse(stored))
    assert stored.count(b"\r") == stored.count(b"\n") == stored.count(b"\r\n")
    assert b"\0" not in stored


def test_overrides() -> None:
    query = {"response-content-type": "a/b", "response-expires": "never", "versionId": "1"}
    wanted = attributes.overrides(query, is_signed=True)
    assert attributes.overridden(DEFAULT + b"x-amz-meta-a: b\r\n", wanted) == (
        b"x-amz-meta-a: b\r\ncontent-type: a/b\r\nexpires: never\r\n"
    )
    with pytest.raises(S3Error) as caught:
        attributes.overrides(query, is_signed=False)
    assert caught.value.code is S3Code.InvalidRequest
    assert attributes.overrides({"versionId": "1"}, is_signed=False) == {}


@pytest.mark.parametrize("name", sorted(attributes.OVERRIDES))
@pytest.mark.parametrize("value", ["a\r\nX: 1", "a\nb", "a\rb", "a\0b"])
def test_s61_overrides_cannot_inject(name: str, value: str) -> None:
    with pytest.raises(S3Error) as caught:
        attributes.overrides({name: value}, is_signed=True)
    assert caught.value.code is S3Code.InvalidArgument


def test_redirect_is_stored_and_can_be_left_out() -> None:
    stored = attributes.from_fields({b"x-amz-website-redirect-location": b"/x"})
    assert attributes.without(stored, [attributes.REDIRECT]) == DEFAULT
    assert attributes.redirect_line({attributes.REDIRECT: b"/x"}) == b"x-amz-website-redirect-location: /x\r\n"
    assert attributes.redirect_line({}) == b""
