from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.s3.addressing import Address, Addressing, CopySource, check_bucket_name, parse_copy_source
from gateway.s3.errors import S3Code, S3Error

ADDRESSING = Addressing(["s3.test", "eu.s3.test", "Other.Example."])


@pytest.mark.parametrize(("host", "path", "expected"), [
    (b"s3.test", b"/", (None, None)),
    (b"s3.test", b"/bucket", ("bucket", None)),
    (b"s3.test", b"/bucket/", ("bucket", None)),
    (b"s3.test", b"/bucket//", ("bucket", "/")),
    (b"s3.test:9000", b"/bucket//a/../b/./", ("bucket", "/a/../b/./")),
    (b"s3.test", b"/bucket/a%2Fb", ("bucket", "a/b")),
    (b"s3.test", b"/bucket/a%252Fb", ("bucket", "a%2Fb")),
    (b"s3.test", b"/bucket/a+b%2B%20", ("bucket", "a+b+ ")),
    (b"s3.test", b"/bucket/%00", ("bucket", "\0")),
    (b"s3.test", b"/bucket/..", ("bucket", "..")),
    (b"s3.test", b"/bucket/%2e%2e%5c", ("bucket", "..\\")),
    (b"s3.test", b"/bucket/e%CC%81", ("bucket", "e\u0301")),
    (b"s3.test", b"/bucket/%C3%A9", ("bucket", "\xe9")),
    (b"bucket.s3.test:9000", b"/a/b", ("bucket", "a/b")),
    (b"Bucket.S3.Test", b"/", ("bucket", None)),
    (b"my.dotted.bucket.s3.test", b"/bucket/k", ("my.dotted.bucket", "bucket/k")),
    (b"bucket.eu.s3.test", b"/k", ("bucket", "k")),
    (b"eu.s3.test", b"/bucket/k", ("bucket", "k")),
    (b"bucket.other.example", b"/k", ("bucket", "k")),
    (b"bucket.elsewhere", b"/b/k", ("b", "k")),
    (b"evils3.test", b"/b/k", ("b", "k")),
    (b"127.0.0.1:9000", b"/b/k", ("b", "k")),
    (b"[::1]:9000", b"/b/k", ("b", "k")),
    (b"[::1]", b"/b/k", ("b", "k")),
    (b"", b"/b/k", ("b", "k")),
])  # fmt: skip
def test_parse(host: bytes, path: bytes, expected: tuple[str | None, str | None]) -> None:
    assert ADDRESSING.parse(host, path) == Address(*expected)


@pytest.mark.parametrize(
    ("path", "code"),
    [
        (b"/bucket/%ff", S3Code.InvalidURI),
        (b"/bucket/%fe", S3Code.InvalidURI),
        (b"/bucket/\xff", S3Code.InvalidURI),
        (b"/bucket/%ED%A0%80", S3Code.InvalidURI),
        (b"/%ff/key", S3Code.InvalidURI),
        (b"//key", S3Code.InvalidBucketName),
        (b"/a%00b/key", S3Code.InvalidBucketName),
        (b"/bucket/" + b"a" * 1025, S3Code.KeyTooLongError),
        (b"/bucket/" + b"%C3%A9" * 513, S3Code.KeyTooLongError),
    ],
)
def test_refusals(path: bytes, code: S3Code) -> None:
    with pytest.raises(S3Error) as raised:
        ADDRESSING.parse(b"s3.test", path)
    assert raised.value.code is code


@pytest.mark.parametrize("key", ["a" * 1024, "\xe9" * 512])
def test_longest_key(key: str) -> None:
    assert ADDRESSING.parse(b"s3.test", f"/bucket/{quote(key)}".encode()).key == key


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60))
@settings(max_examples=300, deadline=None)
def test_every_key_comes_back_from_every_style_and_from_a_copy_source(key: str) -> None:
    spelled = quote(key, safe="/~").encode()
    assert ADDRESSING.parse(b"s3.test", b"/bucket/" + spelled) == ("bucket", key)
    assert ADDRESSING.parse(b"bucket.s3.test", b"/" + spelled) == ("bucket", key)
    assert parse_copy_source(b"bucket/" + spelled + b"?versionId=v%2F1") == ("bucket", key, "v/1")
    assert parse_copy_source(quote(f"bucket/{key}", safe="").encode()) == ("bucket", key, None)


def test_no_domain_means_path_style_only() -> None:
    assert Addressing([]).parse(b"bucket.s3.test", b"/b/k") == ("b", "k")
    assert Addressing([]).host_bucket(b"bucket.s3.test") is None
    assert ADDRESSING.host_bucket(b"bucket.s3.test:1") == "bucket"


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (b"/b/k", ("b", "k", None)),
        (b"b/k?versionId=null", ("b", "k", "null")),
        (b"b/k%3FversionId=x", ("b", "k?versionId=x", None)),
        (b"b//k", ("b", "/k", None)),
        (b"b/a+b%2Bc", ("b", "a b+c", None)),
        (b"b/k?x", ("b", "k?x", None)),
    ],
)
def test_copy_source(header: bytes, expected: tuple[str, str, str | None]) -> None:
    assert parse_copy_source(header) == CopySource(*expected)


@pytest.mark.parametrize("header", [b"", b"/", b"b", b"b/", b"/b", b"//k", b"b/k?versionId=", b"b/k?versionId=%00"])
def test_bad_copy_source(header: bytes) -> None:
    with pytest.raises(S3Error) as raised:
        parse_copy_source(header)
    assert raised.value.code is S3Code.InvalidArgument


def test_copy_source_that_is_not_utf8() -> None:
    with pytest.raises(S3Error) as raised:
        parse_copy_source(b"b/%ff")
    assert raised.value.code is S3Code.InvalidURI


@pytest.mark.parametrize("name", ["abc", "a-b", "a.b", "1a2", "admin", "console", "a" * 63, "192.168.1.x", "xn-a"])
def test_bucket_names(name: str) -> None:
    check_bucket_name(name)


@pytest.mark.parametrize(
    "name",
    [
        *("", "a", "ab", "a" * 64, "Abc", "a_b", "-ab", "ab-", ".ab", "ab.", "a..b", "a.-b", "a-.b", "192.168.1.1"),
        *("xn--abc", "sthree-abc", "abc-s3alias", "abc--ol-s3", "abc--x-s3", "health", "minio", "v20180820"),
        *("_internal", "a/b", "a b", "abc\n", "\xe9bc", "ab\0"),
    ],
)
def test_bad_bucket_names(name: str) -> None:
    with pytest.raises(S3Error) as raised:
        check_bucket_name(name)
    assert raised.value.code is S3Code.InvalidBucketName
