"""What services of the store may write: by policies, by lists, by the right of the source's owner."""

import json
from typing import Any

import pytest

from gateway.auth.acl import Acl, Grant, Group, Permission, canned_acl
from gateway.auth.decision import NO_RULES, BucketRules
from gateway.auth.keyring import ANONYMOUS, Principal
from gateway.auth.policy.document import compile_policy
from gateway.auth.service_access import Delivery, Source, may_log, may_report

OWNER = Principal("owner", "owner")
OTHER = Principal("other", "other")
DELIVERY = Delivery(Source("source", "owner"), "owner", ("target/log/2025-1", "target/log/"), "us-east-1", 1.7e9)
OF_OTHER = DELIVERY._replace(source=Source("source", "other"))


def rules(*statements: dict[str, Any], acl: Acl | None = None) -> BucketRules:
    whole = [
        {
            "Effect": "Allow",
            "Principal": {"Service": "logging.s3.amazonaws.com"},
            "Action": "s3:PutObject",
            "Resource": "arn:aws:s3:::target/log/*",
            **statement,
        }
        for statement in statements
    ]
    document = json.dumps({"Version": "2012-10-17", "Statement": whole}).encode()
    return BucketRules(compile_policy(document) if whole else None, acl=acl)


def bound(account: str = "other", bucket: str = "source") -> dict[str, Any]:
    return {
        "StringEquals": {"aws:SourceAccount": account},
        "ArnLike": {"aws:SourceArn": f"arn:aws:s3:::{bucket}"},
    }


DENY = {"Effect": "Deny", "Principal": "*", "Action": "s3:*"}


@pytest.mark.parametrize(
    ("statements", "allowed"),
    [
        ([], False),
        ([{}], True),
        ([{"Resource": "arn:aws:s3:::target/log/"}], True),
        ([{"Resource": "arn:aws:s3:::target/log/2025*"}], True),
        ([{"Resource": "arn:aws:s3:::target/elsewhere/*"}], False),
        ([{"Action": "s3:GetObject"}], False),
        ([{"Principal": {"Service": "s3.amazonaws.com"}}], False),
        ([{"Principal": {"AWS": "*"}}], False),
        ([{"Principal": "*"}], False),
        ([{"Condition": bound("owner")}], True),
        ([{"Condition": bound("other")}], False),
        ([{"Condition": bound("owner", "elsewhere")}], False),
        ([{"Condition": {"Bool": {"aws:SecureTransport": "false"}}}], False),
        ([{"Condition": {"Bool": {"aws:PrincipalIsAWSService": "true"}}}], True),
        ([{"Condition": {"StringEquals": {"aws:SourceVpc": "v"}}}], False),
        ([{}, DENY], False),
        ([{}, {**DENY, "Resource": "arn:aws:s3:::target/log/2025-1"}], False),
        ([{}, {**DENY, "Condition": {"Bool": {"aws:SecureTransport": "false"}}}], True),
        ([{}, {**DENY, "Condition": {"Bool": {"aws:PrincipalIsAWSService": "false"}}}], True),
    ],
)
def test_policies_on_logs(statements: list[dict[str, Any]], allowed: bool) -> None:
    assert may_log(rules(*statements), DELIVERY) is allowed


@pytest.mark.parametrize(
    ("condition", "allowed"),
    [
        (None, False),
        ({"StringLike": {"aws:SourceAccount": "*"}}, True),
        (bound(), True),
        (bound("owner"), False),
        (bound(bucket="elsewhere"), False),
        ({"StringNotEquals": {"aws:SourceAccount": "owner"}}, False),
    ],
)
def test_logs_of_another_owner_need_a_permission_that_names_sources(condition: Any, allowed: bool) -> None:
    statement = {} if condition is None else {"Condition": condition}
    assert may_log(rules(statement), OF_OTHER) is allowed


def test_the_list_of_a_target() -> None:
    acl = canned_acl("log-delivery-write", "owner", "owner")
    assert may_log(rules(acl=acl), DELIVERY)
    assert not may_log(rules(acl=acl), OF_OTHER)
    assert not may_log(rules(DENY, acl=acl), DELIVERY)
    half = Acl("owner", (Grant(Group.LOG_DELIVERY, Permission.WRITE),))
    assert not may_log(rules(acl=half), DELIVERY)
    whole = Acl("owner", (Grant(Group.LOG_DELIVERY, Permission.FULL_CONTROL),))
    assert may_log(rules(acl=whole), DELIVERY)
    assert not may_log(rules(acl=canned_acl("public-read-write", "owner", "owner")), DELIVERY)


@pytest.mark.parametrize(
    ("delivery", "owner", "statements", "allowed"),
    [
        (DELIVERY, OWNER, [], True),
        (DELIVERY, ANONYMOUS, [], False),
        (DELIVERY, OWNER, [DENY], False),
        (DELIVERY, OWNER, [{**DENY, "Principal": {"AWS": "owner"}}], False),
        (OF_OTHER, OTHER, [], False),
        (OF_OTHER, OTHER._replace(is_root=True), [], False),
        (OF_OTHER, OTHER, [{"Principal": {"AWS": "other"}}], True),
        (OF_OTHER, OTHER, [{"Principal": {"Service": "s3.amazonaws.com"}}], False),
        (OF_OTHER, OTHER, [{"Principal": {"Service": "s3.amazonaws.com"}, "Condition": bound()}], True),
        (OF_OTHER, ANONYMOUS, [{"Principal": {"Service": "s3.amazonaws.com"}, "Condition": bound()}], True),
    ],
)
def test_reports(delivery: Delivery, owner: Principal, statements: list[dict[str, Any]], allowed: bool) -> None:
    assert may_report(rules(*statements), delivery, owner) is allowed


def test_nothing_is_allowed_without_rules() -> None:
    assert not may_log(NO_RULES, DELIVERY)
