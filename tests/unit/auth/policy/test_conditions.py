"""Every operator, qualifier and suffix; absent and unknown keys."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from gateway.auth.policy.document import compile_policy
from gateway.auth.policy.statement import Effect
from tests.unit.auth.policy.asking import document, policy, said, statement

ALLOW, SILENT = Effect.ALLOW, Effect.SILENT


def holds(operator: str, key: str, wanted: Any, given: Mapping[str, str | Sequence[str]]) -> bool:
    """Whether a condition holds: what an allowing statement with it says."""
    compiled = policy(statement(Condition={operator: {key: wanted}}))
    effect = said(compiled, given)
    assert effect in {ALLOW, SILENT}
    return effect is ALLOW


TABLE: list[tuple[str, str, Any, str | None, bool]] = [
    ("StringEquals", "aws:username", "ann", "ann", True),
    ("StringEquals", "aws:username", ["bob", "ann"], "ann", True),
    ("StringEquals", "aws:username", "ann", "Ann", False),
    ("StringEquals", "aws:username", "a*", "ann", False),
    ("StringEquals", "aws:username", "ann", None, False),
    ("StringEquals", "AWS:UserName", "ann", "ann", True),
    ("StringNotEquals", "aws:username", ["bob", "ann"], "ann", False),
    ("StringNotEquals", "aws:username", ["bob", "ann"], "eve", True),
    ("StringNotEquals", "aws:username", "ann", None, True),
    ("StringEqualsIgnoreCase", "aws:username", "ANN", "ann", True),
    ("StringEqualsIgnoreCase", "aws:username", "${aws:userid}", "ANN", False),
    ("StringNotEqualsIgnoreCase", "aws:username", "ANN", "ann", False),
    ("StringLike", "aws:Referer", "http://*.example.com/?", "http://a.example.com/x", True),
    ("StringLike", "aws:Referer", "http://*.example.com/?", "http://a.example.com/", False),
    ("StringNotLike", "aws:Referer", "http://*", "ftp://x", True),
    ("StringNotLike", "aws:Referer", "http://*", "http://x", False),
    ("NumericEquals", "s3:max-keys", 10, "10", True),
    ("NumericEquals", "s3:max-keys", "10.0", "10", True),
    ("NumericEquals", "s3:max-keys", "10", "1e1", False),
    ("NumericNotEquals", "s3:max-keys", "10", "11", True),
    ("NumericNotEquals", "s3:max-keys", "10", "ten", True),
    ("NumericLessThan", "s3:max-keys", "10", "9", True),
    ("NumericLessThan", "s3:max-keys", "10", "10", False),
    ("NumericLessThanEquals", "s3:max-keys", "10", "10", True),
    ("NumericGreaterThan", "s3:max-keys", "10", "11", True),
    ("NumericGreaterThan", "s3:max-keys", "10", "10", False),
    ("NumericGreaterThanEquals", "s3:max-keys", "10", "10", True),
    ("NumericGreaterThan", "s3:max-keys", "-1", None, False),
    ("DateEquals", "aws:CurrentTime", "2026-01-01T00:00:00Z", "2026-01-01T00:00:00.000Z", True),
    ("DateNotEquals", "aws:CurrentTime", "2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z", True),
    ("DateLessThan", "aws:CurrentTime", "2026-01-01T00:00:00Z", "2025-12-31T23:59:59Z", True),
    ("DateLessThan", "aws:CurrentTime", "2026-01-01", "2026-01-01T00:00:00Z", False),
    ("DateLessThanEquals", "aws:CurrentTime", "2026-01-01", "2026-01-01T00:00:00Z", True),
    ("DateGreaterThan", "aws:EpochTime", "1700000000", "1700000001", True),
    ("DateGreaterThanEquals", "aws:EpochTime", "2023-11-14T22:13:20Z", "1700000000", True),
    ("DateLessThan", "aws:CurrentTime", "2026-01-01", "never", False),
    ("Bool", "aws:SecureTransport", "true", "true", True),
    ("Bool", "aws:SecureTransport", True, "false", False),
    ("Bool", "aws:SecureTransport", "FALSE", "false", True),
    ("Bool", "aws:MultiFactorAuthPresent", "false", None, False),
    ("BoolIfExists", "aws:MultiFactorAuthPresent", "false", None, True),
    ("BinaryEquals", "aws:username", "YQ==", "YQ==", True),
    ("BinaryEquals", "aws:username", "YQ==", "?", False),
    ("IpAddress", "aws:SourceIp", "10.0.0.0/8", "10.1.2.3", True),
    ("IpAddress", "aws:SourceIp", ["192.168.0.0/16", "10.0.0.1"], "10.0.0.1", True),
    ("IpAddress", "aws:SourceIp", "10.0.0.1", "10.0.0.2", False),
    ("IpAddress", "aws:SourceIp", "10.0.0.0/8", "::ffff:10.1.2.3", True),
    ("IpAddress", "aws:SourceIp", "10.0.0.0/8", "2001:db8::1", False),
    ("IpAddress", "aws:SourceIp", "2001:db8::/32", "2001:db8::1", True),
    ("IpAddress", "aws:SourceIp", "0.0.0.0/0", "nowhere", False),
    ("NotIpAddress", "aws:SourceIp", "10.0.0.0/8", "11.0.0.1", True),
    ("NotIpAddress", "aws:SourceIp", "10.0.0.0/8", "10.0.0.1", False),
    ("ArnEquals", "aws:PrincipalArn", "arn:aws:iam::a:user/*", "arn:aws:iam::a:user/x", True),
    ("ArnLike", "aws:PrincipalArn", "arn:aws:iam::*:root", "arn:aws:iam::a:b:root", False),
    ("ArnLike", "aws:PrincipalArn", "arn:*:iam::?:root", "arn:aws:iam::a:root", True),
    ("ArnLike", "aws:PrincipalArn", "*", "anything", True),
    ("ArnNotLike", "aws:PrincipalArn", "arn:aws:iam::a:user/*", "arn:aws:iam::a:user/x", False),
    ("ArnNotEquals", "aws:PrincipalArn", "arn:aws:iam::a:user/*", "arn:aws:iam::b:user/x", True),
    ("Null", "aws:TokenIssueTime", "true", None, True),
    ("Null", "aws:username", "true", "ann", False),
    ("Null", "aws:username", False, "ann", True),
    ("Null", "aws:username", "false", None, False),
    ("StringEqualsIfExists", "aws:username", "ann", None, True),
    ("StringEqualsIfExists", "aws:username", "ann", "bob", False),
    ("StringNotEqualsIfExists", "aws:username", "ann", None, True),
    ("NumericLessThanIfExists", "s3:max-keys", "10", "11", False),
    ("IpAddressIfExists", "aws:VpcSourceIp", "10.0.0.0/8", None, True),
    ("StringEquals", "s3:ExistingObjectTag/Stage", "live", None, False),
]


@pytest.mark.parametrize(("operator", "key", "wanted", "given_value", "expected"), TABLE)
def test_operators(operator: str, key: str, wanted: Any, given_value: str | None, expected: bool) -> None:
    given = {} if given_value is None else {key: given_value}
    assert holds(operator, key, wanted, given) is expected


SETS: list[tuple[str, Sequence[str], bool]] = [
    # operator, values of the request; the policy names "a" and "b"
    ("ForAllValues:StringEquals", ("a", "b"), True),
    ("ForAllValues:StringEquals", ("a", "c"), False),
    ("ForAllValues:StringEquals", ("c",), False),
    ("ForAllValues:StringEquals", (), True),
    ("ForAllValues:StringNotEquals", ("c", "d"), True),
    ("ForAllValues:StringNotEquals", ("a", "c"), False),
    ("ForAllValues:StringNotEquals", (), True),
    ("ForAnyValue:StringEquals", ("a", "c"), True),
    ("ForAnyValue:StringEquals", ("c",), False),
    ("ForAnyValue:StringEquals", (), False),
    ("ForAnyValue:StringEqualsIfExists", (), True),
    ("ForAnyValue:StringNotEquals", ("a", "c"), True),
    ("ForAnyValue:StringNotEquals", ("a", "b"), False),
    ("ForAnyValue:StringNotEquals", (), False),
    ("StringEquals", ("a", "c"), True),
    ("StringNotEquals", ("a", "c"), False),
    ("StringNotEquals", ("c",), True),
]


@pytest.mark.parametrize(("operator", "values", "expected"), SETS)
def test_sets(operator: str, values: Sequence[str], expected: bool) -> None:
    key = "s3:RequestObjectTagKeys"
    assert holds(operator, key, ["a", "b"], {key: values} if values else {}) is expected


def test_all_conditions_have_to_hold() -> None:
    conditions = {
        "StringEquals": {"aws:username": "ann", "aws:userid": "1"},
        "Bool": {"aws:SecureTransport": "true"},
    }
    compiled = policy(statement(Condition=conditions))
    whole = {"aws:username": "ann", "aws:userid": "1", "aws:securetransport": "true"}
    assert said(compiled, whole) is ALLOW
    for name in whole:
        assert said(compiled, {**whole, name: "other"}) is SILENT


def test_variables_take_values_literally() -> None:
    compiled = policy(statement(Condition={"StringLike": {"s3:prefix": "home/${aws:username}/*"}}))
    assert said(compiled, {"aws:username": "ann", "s3:prefix": "home/ann/x"}) is ALLOW
    assert said(compiled, {"aws:username": "*", "s3:prefix": "home/ann/x"}) is SILENT
    assert said(compiled, {"s3:prefix": "home//x"}) is SILENT


def test_an_absent_variable_never_widens_a_permission() -> None:
    private = "arn:aws:s3:::bucket/private/${aws:username}/*"
    allowing = policy(statement(Resource=None, NotResource=private))
    assert said(allowing, {"aws:username": "ann"}) is ALLOW
    assert said(allowing) is SILENT
    denying = policy(statement(Effect="Deny", Resource=None, NotResource=private))
    assert said(denying, {"aws:username": "ann"}, resource="bucket/private/ann/x") is SILENT
    assert said(denying, resource="bucket/private/ann/x") is Effect.DENY


@pytest.mark.parametrize("operator", ["StringEquals", "StringNotEquals", "StringLikeIfExists", "Null"])
@pytest.mark.parametrize("quantifier", ["", "ForAllValues:", "ForAnyValue:"])
@pytest.mark.parametrize("key", ["aws:SourceShoe", "ldap:username", "s3:DataAccessPointArn"])
def test_an_unknown_key_never_allows_and_always_denies(operator: str, quantifier: str, key: str) -> None:
    if operator == "Null" and quantifier:
        return
    condition = {quantifier + operator: {key: "true"}}
    for values in ({}, {key: "true"}):
        assert said(policy(statement(Condition=condition)), values) is SILENT
        assert said(policy(statement(Effect="Deny", Condition=condition)), values) is Effect.DENY


def test_old_documents_have_no_variables() -> None:
    condition = {"StringEquals": {"aws:username": "${aws:userid}"}}
    old = compile_policy(document(statement(Condition=condition), version="2008-10-17"), "bucket")
    assert said(old, {"aws:username": "${aws:userid}"}) is ALLOW
    assert said(old, {"aws:username": "1", "aws:userid": "1"}) is SILENT
