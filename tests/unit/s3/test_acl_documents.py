"""Lists as clients write them: headers, documents, and how both are refused."""

from collections.abc import Mapping

import pytest

from gateway.auth.acl import CANNED, Permission
from gateway.s3.errors import S3Code, S3Error
from gateway.s3.schemas.acls import (
    GRANT_HEADERS,
    WrittenGrant,
    canned_in_headers,
    has_acl,
    written_in_document,
    written_in_headers,
)

XSI = 'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"'
OWNER = "<Owner><ID>o</ID><DisplayName>anything</DisplayName></Owner>"
READ = Permission.READ


def grant(grantee: str, kind: str = "CanonicalUser", permission: str = "READ") -> str:
    return f'<Grant><Grantee {XSI} xsi:type="{kind}">{grantee}</Grantee><Permission>{permission}</Permission></Grant>'


def policy(*grants: str, owner: str = OWNER) -> bytes:
    return (
        f'<AccessControlPolicy xmlns="http://s3.amazonaws.com/doc/2006-03-01/">{owner}'
        f"<AccessControlList>{''.join(grants)}</AccessControlList></AccessControlPolicy>"
    ).encode()


def test_documents_name_grantees_in_three_ways() -> None:
    owner, written = written_in_document(
        policy(
            grant("<ID>a</ID><DisplayName>x</DisplayName>"),
            grant("<URI>http://g</URI>", "Group", "WRITE_ACP"),
            grant("<EmailAddress>a@b</EmailAddress>", "AmazonCustomerByEmail", "FULL_CONTROL"),
        )
    )
    assert owner == "o"
    assert written == [
        WrittenGrant("ID", "a", READ),
        WrittenGrant("URI", "http://g", Permission.WRITE_ACP),
        WrittenGrant("EmailAddress", "a@b", Permission.FULL_CONTROL),
    ]
    assert written_in_document(policy()) == ("o", [])


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"<AccessControlPolicy/>",
        policy(owner=""),
        policy(grant("<ID>a</ID>", permission="EVERYTHING")),
        policy(grant("<ID>a</ID>", permission="read")),
        policy(grant("<ID>a</ID>", "Group")),
        policy(grant("<ID>a</ID>", "Somebody")),
        policy(grant("<ID>a</ID><URI>http://g</URI>")),
        policy(grant("<DisplayName>a</DisplayName>")),
        policy("<Grant><Grantee><ID>a</ID></Grantee><Permission>READ</Permission></Grant>"),
        policy(*[grant(f"<ID>{number}</ID>") for number in range(101)]),
        policy(OWNER),
    ],
)
def test_documents_that_do_not_fit(document: bytes) -> None:
    with pytest.raises(S3Error) as caught:
        written_in_document(document)
    assert caught.value.code is S3Code.MalformedACLError


def test_grant_headers() -> None:
    fields = {
        b"x-amz-grant-full-control": b'id="b"',
        b"x-amz-grant-read": b' id=a , uri="http://g", emailAddress="x@y" ',
    }
    assert written_in_headers(fields) == [
        WrittenGrant("ID", "a", READ),
        WrittenGrant("URI", "http://g", READ),
        WrittenGrant("EmailAddress", "x@y", READ),
        WrittenGrant("ID", "b", Permission.FULL_CONTROL),
    ]
    assert {header: written_in_headers({header: b"id=a"})[0].permission for header in GRANT_HEADERS} == GRANT_HEADERS


@pytest.mark.parametrize("value", [b"", b"a", b"name=a", b"id=a id=b", b'id="a', b"id=", b",", b"id=a,,id=b"])
def test_grant_headers_that_are_not_understood(value: bytes) -> None:
    with pytest.raises(S3Error) as caught:
        written_in_headers({b"x-amz-grant-read": value})
    assert caught.value.code is S3Code.InvalidArgument


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, False),
        ({b"x-amz-acl": b""}, True),
        ({b"x-amz-grant-read-acp": b"id=a"}, True),
        ({b"x-amz-date": b""}, False),
    ],
)
def test_has_acl(fields: Mapping[bytes, bytes], expected: bool) -> None:
    assert has_acl(fields) is expected


def test_canned_names() -> None:
    assert {canned_in_headers({b"x-amz-acl": name.encode()}) for name in CANNED} == CANNED
    assert canned_in_headers({}) == ""
    for value in (b"", b"public", b"Private"):
        with pytest.raises(S3Error) as caught:
            canned_in_headers({b"x-amz-acl": value})
        assert caught.value.code is S3Code.InvalidArgument
