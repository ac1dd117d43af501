"""What is a policy, and everything that is none."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.auth.policy.actions import ACTIONS, actions_of
from gateway.auth.policy.document import DOCUMENT_BYTES_MAX, compile_policy
from gateway.auth.policy.malformed import MalformedPolicy
from gateway.auth.policy.statement import Effect
from gateway.auth.policy.stored import pack_policy, unpack_policy
from gateway.s3.operations import OPERATIONS
from tests.unit.auth.policy.asking import ARN, BUCKET, document, policy, said, statement

MALFORMED: dict[str, bytes] = {
    "empty": b"",
    "no JSON": b"{",
    "no UTF-8": b'{"Id": "\xff"}',
    "no object": b"[]",
    "NaN": document(statement()).replace(b'"*"', b"NaN"),
    "an element twice": b'{"Statement": [], ' + document(statement())[1:],
    "deep": b"[" * 15_000,
    "large": document(statement(Sid="x" * DOCUMENT_BYTES_MAX)),
    "unknown version": document(statement(), version="2013-01-01"),
    "version is no text": document(statement(), Version=[]),
    "Id is no text": document(statement(), Id=1),
    "unknown element": document(statement(), Statements=[]),
    "no statement": document(),
    "statement is a text": document(Statement="x"),
    "statement in a list is a text": document("x"),
    "lower case element": document(statement(action="s3:GetObject")),
    "unknown effect": document(statement(Effect="Permit")),
    "effect in lower case": document(statement(Effect="allow")),
    "no effect": document(statement(Effect=None)),
    "effect is a list": document(statement(Effect=["Allow"])),
    "Sid is no text": document(statement(Sid=3)),
    "Sid twice": document(statement(Sid="a"), statement(Sid="a")),
    "no principal": document(statement(Principal=None)),
    "both principals": document(statement(Effect="Deny", NotPrincipal="*")),
    "Allow with NotPrincipal": document(statement(Principal=None, NotPrincipal={"AWS": "x"})),
    "principal is a bare id": document(statement(Principal="alice-id")),
    "principal of an unknown kind": document(statement(Principal={"Federated": "x"})),
    "principals none": document(statement(Principal={})),
    "principals empty": document(statement(Principal={"AWS": []})),
    "principal with a wildcard": document(statement(Principal={"AWS": "arn:aws:iam::a:user/*"})),
    "every account": document(statement(Principal={"AWS": "arn:aws:iam::*:root"})),
    "role": document(statement(Principal={"AWS": "arn:aws:iam::a:role/x"})),
    "root of nobody": document(statement(Principal={"AWS": "arn:aws:iam:::root"})),
    "other ARN": document(statement(Principal={"AWS": "arn:aws:s3:::x"})),
    "canonical user with a wildcard": document(statement(Principal={"CanonicalUser": "*"})),
    "service elsewhere": document(statement(Principal={"Service": "x.example.com"})),
    "no action": document(statement(Action=None)),
    "both actions": document(statement(NotAction="s3:GetObject")),
    "actions empty": document(statement(Action=[])),
    "unknown action": document(statement(Action="s3:GetObjekt")),
    "action of another service": document(statement(Action="ec2:*")),
    "wildcard that is no action": document(statement(Action="s3:Foo*")),
    "action is a number": document(statement(Action=1)),
    "no resource": document(statement(Resource=None)),
    "both resources": document(statement(NotResource=ARN)),
    "resources empty": document(statement(Resource=[])),
    "everything": document(statement(Resource="*")),
    "another bucket": document(statement(Resource="arn:aws:s3:::other/*")),
    "longer name": document(statement(Resource="arn:aws:s3:::bucket2/*")),
    "one of two is elsewhere": document(statement(Resource=[f"{ARN}/*", "arn:aws:s3:::other"])),
    "NotResource elsewhere": document(statement(Resource=None, NotResource="arn:aws:s3:::other/*")),
    "bucket is a variable": document(statement(Resource="arn:aws:s3:::${aws:username}/*")),
    "unknown variable": document(statement(Resource=f"{ARN}/${{aws:shoe}}")),
    "open variable": document(statement(Resource=f"{ARN}/${{aws:username")),
}
_CONDITIONS: dict[str, Any] = {
    "a text": "x",
    "unknown operator": {"StringIs": {"aws:username": "x"}},
    "operator in lower case": {"stringequals": {"aws:username": "x"}},
    "Null with IfExists": {"NullIfExists": {"aws:username": "true"}},
    "Null of many": {"ForAnyValue:Null": {"aws:username": "true"}},
    "Null of a word": {"Null": {"aws:username": "maybe"}},
    "unknown quantifier": {"ForSomeValues:StringEquals": {"aws:username": "x"}},
    "no key": {"StringEquals": {}},
    "keys are a list": {"StringEquals": []},
    "misspelt S3 key": {"StringEquals": {"s3:prefixx": "x"}},
    "key without service": {"StringEquals": {"username": "x"}},
    "no value": {"StringEquals": {"aws:username": []}},
    "null value": {"StringEquals": {"aws:username": None}},
    "value in a list of lists": {"StringEquals": {"aws:username": [["x"]]}},
    "no number": {"NumericEquals": {"s3:max-keys": "ten"}},
    "no plain number": {"NumericEquals": {"s3:max-keys": "1e3"}},
    "no date": {"DateLessThan": {"aws:CurrentTime": "tomorrow"}},
    "no boolean": {"Bool": {"aws:SecureTransport": "yes"}},
    "no address": {"IpAddress": {"aws:SourceIp": "10.0.0.0/33"}},
    "no ARN": {"ArnLike": {"aws:PrincipalArn": "arn:aws"}},
    "no base64": {"BinaryEquals": {"aws:username": "*"}},
}
MALFORMED |= {f"condition: {name}": document(statement(Condition=element)) for name, element in _CONDITIONS.items()}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed(name: str) -> None:
    with pytest.raises(MalformedPolicy):
        compile_policy(MALFORMED[name], BUCKET)


@pytest.mark.parametrize(
    "element",
    [
        {"Principal": {"AWS": "*"}},
        {"Principal": {"AWS": ["alice-id", "arn:aws:iam::bob-id:root", "arn:aws:iam:::user/carol"]}},
        {"Principal": {"CanonicalUser": "alice-id", "AWS": "arn:aws:iam::s3tenant1:root"}},
        {"Principal": {"Service": "logging.s3.amazonaws.com"}},
        {"Effect": "Deny", "Principal": None, "NotPrincipal": {"AWS": "alice-id"}},
        {"Action": "*"},
        {"Action": ["S3:getobject", "s3:Put*Acl"]},
        {"Action": None, "NotAction": "s3:Delete*"},
        {"Action": "s3:PutObject", "Resource": ARN},
        {"Resource": ["arn:aws:s3:::*", "arn:aws:s3:::*/*", "arn:aws:s3:::buck?t/*", "arn:aws:s3:::b*"]},
        {"Resource": None, "NotResource": f"{ARN}/private/${{aws:username, 'x'}}/*"},
        {"Sid": "Allow Public Access to All Objects"},
        {"Condition": {}},
        {"Condition": {"Bool": {"aws:SecureTransport": [True]}, "NumericLessThan": {"s3:max-keys": [10, 2.5]}}},
    ],
)
def test_well_formed(element: dict[str, Any]) -> None:
    assert len(policy(statement(**element)).statements) == 1


def test_versions_and_single_statements() -> None:
    assert len(compile_policy(json.dumps({"Statement": statement()}).encode(), BUCKET).statements) == 1
    old = document(statement(Resource=f"{ARN}/${{aws:shoe}}"), version="2008-10-17")
    assert compile_policy(old, BUCKET), "variables are text in the old version"


def test_largest() -> None:
    short = document(statement(Sid=""))
    whole = document(statement(Sid="x" * (DOCUMENT_BYTES_MAX - len(short))))
    assert len(whole) == DOCUMENT_BYTES_MAX
    assert compile_policy(whole, BUCKET)


def test_every_operation_has_a_known_action() -> None:
    """A policy that denies everything has to deny every operation."""
    for operation in OPERATIONS:
        for action in (operation.action, operation.version_action, operation.source_action):
            assert not action.startswith("s3:") or action in ACTIONS, operation.name
    assert actions_of("s3:*") == ACTIONS
    assert actions_of("s3:getobject") == {"s3:GetObject"}
    assert actions_of("s3:Get?bject") == {"s3:GetObject"}


def test_stored_form() -> None:
    text = document(statement())
    stored = unpack_policy(pack_policy(text, binds_owner=True))
    assert (stored.text, stored.binds_owner) == (text, True)
    assert said(stored.policy) is Effect.ALLOW


@given(st.binary(max_size=64) | st.text(max_size=64).map(str.encode))
def test_any_bytes_are_read_or_refused(given_bytes: bytes) -> None:
    with pytest.raises(MalformedPolicy):
        compile_policy(given_bytes, BUCKET)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.sampled_from(["Allow", "*", "s3:*", ARN]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(st.sampled_from(sorted(statement())), _JSON)
def test_any_element_is_read_or_refused(name: str, element: Any) -> None:
    with suppress(MalformedPolicy):
        compile_policy(document(statement(**{name: element})), BUCKET)
