"""Whole policies: against a plain second evaluator, and the laws that hold for every policy."""

import ipaddress
import re
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.auth.keyring import Principal
from gateway.auth.policy.actions import ACTIONS
from gateway.auth.policy.statement import Effect
from tests.unit.auth.policy.asking import ALICE, ARN, BOB, NOBODY, policy, said, statement

Given = Mapping[str, Sequence[str]]


# ---------------------------------------------------------------------------------------- a plain second evaluator


def listed(element: Any) -> list[Any]:
    return element if isinstance(element, list) else [element]


def fits(pattern: str, text: str) -> bool:
    plain = "".join({"*": ".*", "?": "."}.get(character, re.escape(character)) for character in pattern)
    return re.fullmatch(plain, text, re.DOTALL) is not None


def filled(pattern: str, values: Given) -> str:
    """A pattern with its one variable, whose values here have no wildcards; what fits nothing when it is absent."""
    name = values.get("aws:username", ())
    return pattern.replace("${aws:username}", name[0] if name else "\0")


def names(element: Any, principal: Principal) -> bool:
    if element == "*":
        return True
    given_names = listed(element["AWS"])
    whole = {
        principal.principal_id,
        f"arn:aws:iam::{principal.principal_id}:root",
        f"arn:aws:iam:::user/{principal.name}",
    }
    return "*" in given_names or (bool(principal.principal_id) and not whole.isdisjoint(given_names))


def passes(operator: str, key: str, wanted: list[str], values: Given) -> bool:
    quantifier, _, word = operator.rpartition(":")
    bare = word.removesuffix("IfExists")
    found = values.get(key, ())
    if bare == "Null":
        return (not found) == (wanted == ["true"])
    is_negated = "Not" in bare
    if not found:
        return word != bare or quantifier == "ForAllValues" or (is_negated and not quantifier)

    def one(value: str) -> bool:
        if "IpAddress" in bare:
            return any(ipaddress.ip_address(value) in ipaddress.ip_network(text) for text in wanted)
        if "Like" in bare:
            return any(fits(filled(text, values), value) for text in wanted)
        return value in [filled(text, values) for text in wanted]

    results = [one(value) for value in found]
    if quantifier == "ForAllValues":
        return all(result != is_negated for result in results)
    if quantifier == "ForAnyValue":
        return any(result != is_negated for result in results)
    return any(results) != is_negated


def applies(node: Mapping[str, Any], principal: Principal, action: str, resource: str, values: Given) -> bool:
    if "Principal" in node and not names(node["Principal"], principal):
        return False
    if "NotPrincipal" in node and names(node["NotPrincipal"], principal):
        return False
    for name in ("Action", "NotAction"):
        if name in node and any(fits(text, action) for text in listed(node[name])) != (name == "Action"):
            return False
    has_name = bool(values.get("aws:username"))
    if node["Effect"] == "Allow" and "${aws:username}" in repr(node) and not has_name:
        return False
    for name in ("Resource", "NotResource"):
        whole = "arn:aws:s3:::" + resource
        if name in node and any(fits(filled(text, values), whole) for text in listed(node[name])) != (
            name == "Resource"
        ):
            return False
    conditions = node.get("Condition", {}).items()
    return all(passes(operator, key, wanted, values) for operator, keys in conditions for key, wanted in keys.items())


def judged(nodes: list[Any], principal: Principal, action: str, resource: str, values: Given) -> Effect:
    effects = {node["Effect"] for node in nodes if applies(node, principal, action, resource, values)}
    return Effect.DENY if "Deny" in effects else Effect.ALLOW if "Allow" in effects else Effect.SILENT


# ------------------------------------------------------------------------------------------------- random policies


def some(*words: str) -> st.SearchStrategy[Any]:
    one = st.sampled_from(words)
    return one | st.lists(one, min_size=1, max_size=2)


PEOPLE = st.just("*") | st.fixed_dictionaries(
    {"AWS": some("*", "alice-id", "arn:aws:iam::alice-id:root", "arn:aws:iam:::user/bob", "arn:aws:iam::zoe:root")}
)
ACTION = some("*", "s3:*", "s3:Get*", "s3:GetObject", "s3:PutObject", "s3:?etObject", "s3:*Object*", "s3:ListBucket")
PLACE = some(ARN, f"{ARN}*", f"{ARN}/*", f"{ARN}/a*", f"{ARN}/?", f"{ARN}/*/${{aws:username}}", "arn:aws:s3:::*")
TEXTS = st.lists(st.sampled_from(["a", "b", "a*", "${aws:username}"]), min_size=1, max_size=2)
QUANTIFIER = st.sampled_from(["", "ForAllValues:", "ForAnyValue:"])
SUFFIX = st.sampled_from(["", "IfExists"])
WORD = st.sampled_from(["StringEquals", "StringNotEquals", "StringLike", "StringNotLike"])
KEY = st.sampled_from(["s3:requestobjecttagkeys", "s3:prefix", "aws:username"])
TEXT_CONDITION = st.builds(
    lambda quantifier, word, suffix, key, wanted: {quantifier + word + suffix: {key: wanted}},
    *(QUANTIFIER, WORD, SUFFIX, KEY, TEXTS),
)
ADDRESSES = st.lists(st.sampled_from(["10.0.0.0/8", "10.0.0.1/32", "192.168.0.0/16"]), min_size=1, max_size=2)
ADDRESS_CONDITION = st.builds(
    lambda word, suffix, wanted: {word + suffix: {"aws:sourceip": wanted}},
    *(st.sampled_from(["IpAddress", "NotIpAddress"]), SUFFIX, ADDRESSES),
)
NULL = st.builds(lambda key, word: {"Null": {key: [word]}}, KEY, st.sampled_from(["true", "false"]))
CONDITION: st.SearchStrategy[dict[str, Any]] = st.just({}) | TEXT_CONDITION | ADDRESS_CONDITION | NULL


@st.composite
def statements(draw: st.DrawFn) -> dict[str, Any]:
    effect = draw(st.sampled_from(["Allow", "Deny"]))
    who = draw(st.sampled_from(["Principal", "NotPrincipal"])) if effect == "Deny" else "Principal"
    return {
        "Effect": effect,
        who: draw(PEOPLE),
        draw(st.sampled_from(["Action", "NotAction"])): draw(ACTION),
        draw(st.sampled_from(["Resource", "NotResource"])): draw(PLACE),
        "Condition": draw(CONDITION),
    }


STATEMENTS = st.lists(statements(), min_size=1, max_size=4)
PRINCIPAL = st.sampled_from([ALICE, BOB, NOBODY])
ACTIONS_ASKED = st.sampled_from(["s3:GetObject", "s3:PutObject", "s3:ListBucket", "s3:DeleteObjectVersion"])
RESOURCES = st.sampled_from(["bucket", "bucket/a", "bucket/ab", "bucket/x/a", "bucket/\n"])
VALUES = st.fixed_dictionaries(
    {},
    optional={
        "s3:requestobjecttagkeys": st.lists(st.sampled_from(["a", "b", "c"]), max_size=3),
        "s3:prefix": st.sampled_from([("a",), ("ab",), ("c",)]),
        "aws:username": st.sampled_from([("a",), ("b",)]),
        "aws:sourceip": st.sampled_from([("10.0.0.1",), ("10.9.0.1",), ("8.8.8.8",)]),
    },
)


@given(STATEMENTS, PRINCIPAL, ACTIONS_ASKED, RESOURCES, VALUES)
def test_equals_the_plain_evaluator(
    nodes: list[Any], principal: Principal, action: str, resource: str, values: Given
) -> None:
    expected = judged(nodes, principal, action, resource, values)
    assert said(policy(*nodes), values, principal=principal, action=action, resource=resource) is expected


@given(STATEMENTS, statements(), PRINCIPAL, ACTIONS_ASKED, RESOURCES, VALUES)
def test_a_further_denial_never_allows_more(
    nodes: list[Any], further: dict[str, Any], principal: Principal, action: str, resource: str, values: Given
) -> None:
    further = {**further, "Effect": "Deny"}
    before = said(policy(*nodes), values, principal=principal, action=action, resource=resource)
    for order in ([*nodes, further], [further, *nodes]):
        after = said(policy(*order), values, principal=principal, action=action, resource=resource)
        assert after is before or after is Effect.DENY


@given(STATEMENTS, PRINCIPAL, ACTIONS_ASKED, RESOURCES, VALUES)
def test_an_unknown_key_never_allows(
    nodes: list[Any], principal: Principal, action: str, resource: str, values: Given
) -> None:
    unknown = [{**node, "Condition": {**node["Condition"], "DateEquals": {"aws:shoe": "2026-01-01"}}} for node in nodes]
    effect = said(policy(*unknown), values, principal=principal, action=action, resource=resource)
    assert effect is not Effect.ALLOW


# ------------------------------------------------------------------------------------------------------- examples


def test_principals() -> None:
    root = Principal("root-id", "root", is_root=True)
    for element, included in (
        ("*", {ALICE, BOB, NOBODY, root}),
        ({"AWS": "*"}, {ALICE, BOB, NOBODY, root}),
        ({"AWS": "alice-id"}, {ALICE}),
        ({"CanonicalUser": "alice-id"}, {ALICE}),
        ({"AWS": ["arn:aws:iam::alice-id:root", "arn:aws:iam:::user/bob"]}, {ALICE, BOB}),
        ({"AWS": "arn:aws:iam::alice-id:user/alice"}, {ALICE}),
        ({"AWS": "arn:aws:iam::bob-id:user/alice"}, set[Principal]()),
        ({"AWS": "arn:aws:iam:::user/anonymous"}, set[Principal]()),
        ({"Service": "logging.s3.amazonaws.com"}, set[Principal]()),
    ):
        allowing = policy(statement(Principal=element))
        denying = policy(statement(Effect="Deny", Principal=None, NotPrincipal=element))
        for principal in (ALICE, BOB, NOBODY, root):
            assert (said(allowing, principal=principal) is Effect.ALLOW) is (principal in included), element
            assert (said(denying, principal=principal) is Effect.DENY) is (principal not in included), element


def test_denying_everything_denies_every_action() -> None:
    denying = policy(statement(Effect="Deny", Action="*", Resource=[ARN, f"{ARN}/*"]))
    for action in ACTIONS:
        for resource in ("bucket", "bucket/key"):
            assert said(denying, principal=NOBODY, action=action, resource=resource) is Effect.DENY


def test_what_is_asked_for() -> None:
    tags = policy(statement(Condition={"StringEquals": {"s3:ExistingObjectTag/x": "y"}}))
    assert tags.asks_existing_tags
    assert not tags.asks_document
    assert policy(statement(Resource=f"{ARN}/${{s3:ExistingObjectTag/x}}")).asks_existing_tags
    assert policy(statement(Condition={"Null": {"s3:RequestObjectTagKeys": "true"}})).asks_document
    assert policy(statement(Condition={"StringEquals": {"s3:object-lock-mode": "COMPLIANCE"}})).asks_document


PUBLIC: list[tuple[dict[str, Any], bool]] = [
    ({}, True),
    ({"Effect": "Deny"}, False),
    ({"Principal": {"AWS": "*"}}, True),
    ({"Principal": {"AWS": ["*", "alice-id"]}}, True),
    ({"Principal": {"AWS": "alice-id"}}, False),
    ({"Principal": {"Service": "logging.s3.amazonaws.com"}}, False),
    ({"Condition": {"IpAddress": {"aws:SourceIp": "10.0.0.0/32"}}}, False),
    ({"Condition": {"IpAddress": {"aws:SourceIp": ["203.0.113.0/24", "172.16.0.0/12"]}}}, False),
    ({"Condition": {"IpAddress": {"aws:SourceIp": ["203.0.113.0/24", "0.0.0.0/0"]}}}, True),
    ({"Condition": {"IpAddress": {"aws:SourceIp": "8.0.0.0/7"}}}, True),
    ({"Condition": {"IpAddress": {"aws:SourceIp": "2001:db8::/31"}}}, True),
    ({"Condition": {"IpAddressIfExists": {"aws:SourceIp": "203.0.113.0/24"}}}, True),
    ({"Condition": {"NotIpAddress": {"aws:SourceIp": "203.0.113.0/24"}}}, True),
    ({"Condition": {"StringEquals": {"aws:PrincipalOrgID": "o-1"}}}, False),
    ({"Condition": {"StringLike": {"aws:PrincipalOrgID": "o-*"}}}, True),
    ({"Condition": {"StringEquals": {"aws:userid": "${aws:userid}"}}}, True),
    ({"Condition": {"ForAllValues:StringEquals": {"aws:SourceVpc": "vpc-1"}}}, True),
    ({"Condition": {"ForAnyValue:StringEquals": {"aws:SourceVpc": "vpc-1"}}}, False),
    ({"Condition": {"StringEquals": {"aws:Referer": "http://example.com"}}}, True),
    ({"Condition": {"Null": {"aws:SourceVpc": "false"}}}, True),
    ({"Condition": {"Bool": {"aws:SecureTransport": "true"}}}, True),
]


@pytest.mark.parametrize(("elements", "expected"), PUBLIC)
def test_public(elements: dict[str, Any], expected: bool) -> None:
    assert policy(statement(**elements)).is_public is expected
    both = policy(statement(Principal={"AWS": "bob-id"}), statement(**elements))
    assert both.is_public is expected
