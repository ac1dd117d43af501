"""What a request says under condition keys: from the credentials, the socket, the request and the clock."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from gateway.auth.authenticator import Authenticated, Mechanism
from gateway.auth.keyring import ANONYMOUS, Principal
from gateway.auth.payload import UNSIGNED
from gateway.auth.policy.keys import KNOWN
from gateway.s3 import tags
from gateway.s3.errors import S3Error
from gateway.s3.facts import Facts
from gateway.s3.permissions import copies_tags, further_actions
from tests.unit.s3.calls import make_call

ANN = Principal("ann-id", "ann")
NOW = 1_700_000_000.0  # 2023-11-14T22:13:20Z


def facts(
    headers: Mapping[str, str] | None = None,
    query: Mapping[str, str] | None = None,
    *,
    principal: Principal = ANN,
    mechanism: Mechanism = Mechanism.HEADER_V4,
    operation: str = "GetObject",
    path: str = "/bucket/key",
    **rest: Any,
) -> Facts:
    call = make_call("GET", path, headers)
    call.operation = operation
    caller = Authenticated(principal, mechanism, UNSIGNED)
    return Facts(call, query or {}, call.fields, caller, "owner-id", "us-east-1", NOW, **rest)


TABLE: list[tuple[str, Facts, Sequence[str]]] = [
    ("aws:currenttime", facts(), ("2023-11-14T22:13:20.000Z",)),
    ("aws:epochtime", facts(), ("1700000000",)),
    ("aws:sourceip", facts({"x-forwarded-for": "203.0.113.7"}), ("127.0.0.1",)),
    ("aws:securetransport", facts(), ("false",)),
    ("aws:referer", facts({"referer": "http://x"}), ("http://x",)),
    ("aws:referer", facts(), ()),
    ("aws:useragent", facts({"user-agent": "tool"}), ("tool",)),
    ("aws:username", facts(), ("ann",)),
    ("aws:userid", facts(), ("ann-id",)),
    ("aws:username", facts(principal=ANONYMOUS), ()),
    ("aws:userid", facts(principal=ANONYMOUS), ()),
    ("aws:principalarn", facts(), ("arn:aws:iam::ann-id:user/ann",)),
    ("aws:principalarn", facts(principal=Principal("r", "root", is_root=True)), ("arn:aws:iam::r:root",)),
    ("aws:principalarn", facts(principal=ANONYMOUS), ()),
    ("aws:principaltype", facts(principal=ANONYMOUS), ("Anonymous",)),
    ("aws:resourceaccount", facts(), ("owner-id",)),
    ("aws:sourcevpc", facts(), ()),
    ("aws:multifactorauthpresent", facts(), ()),
    ("s3:prefix", facts(query={"prefix": "a"}), ("a",)),
    ("s3:prefix", facts(query={"prefix": ""}), ("",)),
    ("s3:prefix", facts(), ()),
    ("s3:prefix", facts(query={"prefix": "a"}, prefix="key"), ("key",)),
    ("s3:delimiter", facts(query={"delimiter": "/"}), ("/",)),
    ("s3:max-keys", facts(query={"max-keys": "10"}), ("10",)),
    ("s3:versionid", facts(version_id="v"), ("v",)),
    ("s3:if-match", facts({"if-match": "*"}), ("*",)),
    ("s3:if-none-match", facts({"if-none-match": "*"}), ("*",)),
    ("s3:authtype", facts(mechanism=Mechanism.QUERY_V2), ("REST-QUERY-STRING",)),
    ("s3:authtype", facts(mechanism=Mechanism.FORM_V4), ("POST",)),
    ("s3:authtype", facts(mechanism=Mechanism.ANONYMOUS), ()),
    ("s3:signatureversion", facts(), ("AWS4-HMAC-SHA256",)),
    ("s3:signatureversion", facts(mechanism=Mechanism.HEADER_V2), ("AWS",)),
    ("s3:signatureversion", facts(mechanism=Mechanism.ANONYMOUS), ()),
    ("s3:signatureage", facts({"x-amz-date": "20231114T221300Z"}), ("20000",)),
    ("s3:signatureage", facts(path="/bucket/key?X-Amz-Date=20231114T221319Z"), ("1000",)),
    ("s3:signatureage", facts(), ()),
    ("s3:tlsversion", facts(), ()),
    ("s3:x-amz-acl", facts({"x-amz-acl": "public-read"}), ("public-read",)),
    ("s3:x-amz-storage-class", facts(), ()),
    ("s3:x-amz-server-side-encryption", facts({"x-amz-server-side-encryption": "AES256"}), ("AES256",)),
    ("s3:x-amz-copy-source", facts({"x-amz-copy-source": "/b/%70ublic/a?versionId=v"}), ("b/public/a", "/b/public/a")),
    ("s3:existingobjecttag/stage", facts(existing_tags=tags.pack([("Stage", "live")])), ("live",)),
    ("s3:existingobjecttag/other", facts(existing_tags=tags.pack([("Stage", "live")])), ()),
    ("s3:requestobjecttag/a", facts({"x-amz-tagging": "a=b&c=d"}), ("b",)),
    ("s3:requestobjecttagkeys", facts({"x-amz-tagging": "a=b&C=d"}), ("C", "a")),
    ("s3:requestobjecttagkeys", facts(), ()),
    ("s3:object-lock-mode", facts({"x-amz-object-lock-mode": "GOVERNANCE"}), ("GOVERNANCE",)),
    ("s3:object-lock-legal-hold", facts({"x-amz-object-lock-legal-hold": "ON"}), ("ON",)),
    (
        "s3:object-lock-remaining-retention-days",
        facts({"x-amz-object-lock-retain-until-date": "2023-11-16T00:00:00Z"}),
        ("2",),
    ),
    ("s3:object-lock-remaining-retention-days", facts({"x-amz-object-lock-retain-until-date": "soon"}), ()),
]


@pytest.mark.parametrize(("key", "given", "expected"), TABLE, ids=lambda value: value if isinstance(value, str) else "")
def test_values(key: str, given: Facts, expected: Sequence[str]) -> None:
    assert tuple(given.values(key)) == tuple(expected)
    assert given.values(key) is given.values(key), "computed once"


def test_values_of_documents() -> None:
    tagging = b"<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>"
    asked = facts({"x-amz-tagging": "c=d"}, operation="PutObjectTagging", document=tagging)
    assert asked.values("s3:requestobjecttagkeys") == ("a",)
    retention = b"<Retention><Mode>COMPLIANCE</Mode><RetainUntilDate>2023-11-15T22:13:20Z</RetainUntilDate></Retention>"
    asked = facts(operation="PutObjectRetention", document=retention)
    assert asked.values("s3:object-lock-mode") == ("COMPLIANCE",)
    assert asked.values("s3:object-lock-remaining-retention-days") == ("1",)
    with pytest.raises(S3Error):
        facts(operation="PutObjectLegalHold", document=b"<x").values("s3:object-lock-legal-hold")


def test_every_known_key_has_an_answer() -> None:
    whole = facts()
    assert all(isinstance(whole.values(key), tuple) for key in KNOWN)


FURTHER: list[tuple[dict[str, str], list[str]]] = [
    ({}, []),
    ({"x-amz-acl": "private"}, []),
    ({"x-amz-acl": "bucket-owner-full-control"}, []),
    ({"x-amz-acl": "public-read"}, ["s3:PutObjectAcl"]),
    ({"x-amz-acl": "unknown"}, ["s3:PutObjectAcl"]),
    ({"x-amz-grant-full-control": "id=owner-id"}, []),
    ({"x-amz-grant-read": 'id="owner-id"'}, []),
    ({"x-amz-grant-read": "id=owner-id, id=other"}, ["s3:PutObjectAcl"]),
    ({"x-amz-grant-read": "id=owner-id", "x-amz-grant-write": "id=x"}, ["s3:PutObjectAcl"]),
    ({"x-amz-tagging": ""}, ["s3:PutObjectTagging"]),
    (
        {"x-amz-object-lock-mode": "GOVERNANCE", "x-amz-object-lock-retain-until-date": "x"},
        ["s3:PutObjectRetention"],
    ),
    ({"x-amz-object-lock-legal-hold": "OFF"}, ["s3:PutObjectLegalHold"]),
]


@pytest.mark.parametrize(("headers", "expected"), FURTHER)
def test_further_actions(headers: dict[str, str], expected: list[str]) -> None:
    fields = make_call("PUT", "/b/k", headers).fields
    for operation in ("PutObject", "PostObject", "CopyObject", "CreateMultipartUpload"):
        assert further_actions(operation, fields, "owner-id") == expected
    assert further_actions("GetObject", fields, "owner-id") == []


def test_which_copies_take_tags() -> None:
    assert copies_tags("CopyObject", {})
    assert copies_tags("CopyObject", {b"x-amz-tagging-directive": b"COPY"})
    assert not copies_tags("CopyObject", {b"x-amz-tagging-directive": b"REPLACE"})
    assert not copies_tags("UploadPartCopy", {})
