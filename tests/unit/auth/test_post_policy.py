"""The policy of a form upload: its form to the letter, and what it lets pass."""

import base64
import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.auth.post_policy import SIZE_MAX, PostPolicy, judge_policy, parse_policy
from gateway.auth.refusals import Refused

EXPIRES = "2030-01-01T00:00:00Z"
BEFORE, AT = 1_893_455_999.0, 1_893_456_000.0


def encoded(document: Any) -> bytes:
    text = document if isinstance(document, str) else json.dumps(document)
    return base64.b64encode(text.encode())


def policy_of(*conditions: Any) -> PostPolicy:
    return parse_policy(encoded({"expiration": EXPIRES, "conditions": list(conditions)}))


def refusal_of(document: Any) -> Refused:
    with pytest.raises(Refused) as caught:
        parse_policy(encoded(document))
    return caught.value


@pytest.mark.parametrize(
    "document",
    [
        "",
        "[]",
        "{",
        "[" * 20_000,
        '{"expiration": NaN, "conditions": []}',
        '{"expiration": "2030-01-01T00:00:00Z", "conditions": [], "conditions": []}',
        {"conditions": []},
        {"expiration": EXPIRES},
        {"expiration": EXPIRES, "CONDITIONS": []},
        {"EXPIRATION": EXPIRES, "conditions": []},
        {"expiration": EXPIRES, "conditions": [], "extra": 1},
        {"expiration": EXPIRES, "conditions": {}},
        {"expiration": "2030-01-01 00:00:00", "conditions": []},
        {"expiration": 1_893_456_000, "conditions": []},
        *(
            {"expiration": EXPIRES, "conditions": [condition]}
            for condition in (
                {},
                {"a": "b", "c": "d"},
                {"a": 1},
                {"a": None},
                [],
                "eq",
                ["eq", "$a"],
                ["eq", "a", "b"],
                ["eq", "$a", 1],
                ["ends-with", "$a", "b"],
                [1, "$a", "b"],
                ["content-length-range", 0],
                ["content-length-range", -1, 0],
                ["content-length-range", "x", 1],
                ["content-length-range", True, 1],
                ["content-length-range", 1.5, 2],
                ["content-length-range", 0, 2**63],
            )
        ),
    ],
)
def test_anything_but_the_published_form_is_refused(document: Any) -> None:
    assert refusal_of(document).code == "InvalidPolicyDocument"


def test_text_that_is_no_base64_is_refused() -> None:
    for text in (b"{}", b"e30=\n", b"\xff"):
        with pytest.raises(Refused) as caught:
            parse_policy(text)
        assert caught.value.code == "InvalidPolicyDocument"


def test_the_tightest_sizes_hold() -> None:
    assert policy_of().sizes == (0, SIZE_MAX)
    both = policy_of(["content-length-range", 1, 100], ["Content-Length-Range", "2", "50"])
    assert (both.sizes, both.conditions) == ((2, 50), ())


@pytest.mark.parametrize(
    ("condition", "value", "passes"),
    [
        ({"bUcKeT": "b"}, b"b", True),
        ({"bucket": "b"}, b"B", False),
        ({"bucket": "b"}, b"bb", False),
        (["EQ", "$Bucket", "b"], b"b", True),
        (["StArTs-WiTh", "$BUCKET", "us"], b"user", True),
        (["starts-with", "$bucket", "us"], b"u", False),
        (["starts-with", "$bucket", ""], b"anything", True),
        (["eq", "$bucket", ""], b"anything", False),
    ],
)
def test_one_condition(condition: Any, value: bytes, passes: bool) -> None:
    policy = policy_of(condition)
    if passes:
        judge_policy(policy, {b"bucket": value}, BEFORE)
        return
    with pytest.raises(Refused) as caught:
        judge_policy(policy, {b"bucket": value}, BEFORE)
    assert caught.value.code == "AccessDenied"
    assert str(caught.value.message).startswith("Invalid according to Policy: Policy Condition failed: ")


def test_an_absent_field_counts_as_empty() -> None:
    judge_policy(policy_of(["starts-with", "$tagging", ""]), {}, BEFORE)
    with pytest.raises(Refused, match="Policy Condition failed"):
        judge_policy(policy_of(["starts-with", "$x-amz-meta-a", "b"]), {}, BEFORE)


def test_every_field_is_covered_but_the_proof_and_what_can_grant_nothing() -> None:
    names = (b"awsaccesskeyid", b"signature", b"policy", b"x-ignore-a", b"x-amz-checksum-crc32")
    fields = dict.fromkeys(names, b"v")
    judge_policy(policy_of(), fields, BEFORE)
    for name in (b"key", b"acl", b"x-amz-credential", b"x-amz-meta-a", b"tagging", b"submit"):
        with pytest.raises(Refused, match="Extra input fields: " + name.decode()):
            judge_policy(policy_of(), {**fields, name: b""}, BEFORE)


def test_a_policy_ends() -> None:
    judge_policy(policy_of(), {}, BEFORE)
    with pytest.raises(Refused, match="Policy expired"):
        judge_policy(policy_of(), {}, AT)
    assert parse_policy(encoded({"expiration": "2030-01-01T00:00:00.500Z", "conditions": []})).expires == AT + 0.5


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(st.fixed_dictionaries({"expiration": st.just(EXPIRES) | JSON, "conditions": st.lists(JSON) | JSON}) | JSON)
def test_no_document_breaks_the_parser(document: Any) -> None:
    with suppress(Refused):
        assert isinstance(parse_policy(encoded(document)), PostPolicy)
