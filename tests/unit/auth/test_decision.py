"""The one decision: owners, policies, lists, blocks, and what wins over what."""

from time import perf_counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.auth.acl import Acl, Grant, Group, Ownership, Permission, canned_acl, pack_acl
from gateway.auth.decision import (
    NO_RULES,
    Ask,
    BucketRules,
    ObjectRules,
    counted_acl,
    decide,
    is_allowed_without_bucket,
    is_undisputed,
    may_allow,
)
from gateway.auth.keyring import ANONYMOUS, Principal
from gateway.auth.policy.actions import ACTIONS
from gateway.auth.public_access import PublicAccessBlock
from tests.unit.auth.policy.asking import ARN, Values, policy, statement

OWNER = Principal("owner-id", "owner")
WRITER = Principal("writer-id", "writer")
OTHER = Principal("other-id", "other")
ROOT = Principal("root-id", "root", is_root=True)
EVERYBODY = (ROOT, OWNER, WRITER, OTHER, ANONYMOUS)
PLACES = [ARN, f"{ARN}/*"]


def no_context() -> Values:
    raise AssertionError("nobody should have asked for the context")


def allowed(
    action: str, rules: BucketRules = NO_RULES, version: ObjectRules | None = None, **rest: Any
) -> set[Principal]:
    """Who may do `action`; the context is made only where there is a policy."""
    context = no_context if rules.policy is None else Values
    return {
        principal
        for principal in EVERYBODY
        if decide(Ask(principal, action, "owner-id", "bucket/key", rules, context, version, **rest)).is_allowed
    }


def bucket_list(name: str) -> Acl:
    return canned_acl(name, "owner-id", "owner-id")


def written(name: str = "private", owner: str = "writer-id") -> ObjectRules:
    return ObjectRules(owner, pack_acl(canned_acl(name, owner, "owner-id")))


def test_without_documents_owners_alone() -> None:
    for action in ACTIONS:
        assert allowed(action) == {ROOT, OWNER}
    nameless = Principal("", "anyone", is_root=True)
    assert not decide(Ask(nameless, "s3:GetObject", "", "bucket/key", NO_RULES, no_context)).is_allowed


def test_what_concerns_no_bucket() -> None:
    assert is_allowed_without_bucket(OTHER, "s3:CreateBucket")
    assert is_allowed_without_bucket(OTHER, "s3:ListAllMyBuckets")
    assert not is_allowed_without_bucket(OTHER, "s3:DeleteBucket")
    assert is_allowed_without_bucket(ROOT, "s3:DeleteBucket")
    assert not is_allowed_without_bucket(ANONYMOUS, "s3:ListAllMyBuckets")
    assert not is_allowed_without_bucket(Principal("", "x", is_root=True), "s3:CreateBucket")


def test_a_denial_wins_over_everything() -> None:
    denying = BucketRules(policy(statement(), statement(Effect="Deny")), acl=bucket_list("public-read-write"))
    for action in ("s3:GetObject", "s3:PutObject", "s3:DeleteObject"):
        assert allowed(action, denying, written("public-read")) == set()


@pytest.mark.parametrize("action", ["s3:GetBucketPolicy", "s3:PutBucketPolicy", "s3:DeleteBucketPolicy"])
def test_the_owner_keeps_the_policy_unless_confirmed_away(action: str) -> None:
    denying = policy(statement(Effect="Deny", Resource=PLACES))
    assert allowed(action, BucketRules(denying)) == {ROOT, OWNER}
    assert allowed(action, BucketRules(denying, binds_owner=True)) == {ROOT}
    mine = Ask(ROOT, action, "root-id", "bucket/key", BucketRules(denying, binds_owner=True), Values)
    assert not decide(mine).is_allowed


def test_a_policy_gives_what_it_says() -> None:
    named = BucketRules(policy(statement(Principal={"AWS": "other-id"}, Action="s3:GetObject")))
    assert allowed("s3:GetObject", named) == {ROOT, OWNER, OTHER}
    assert allowed("s3:GetObjectVersion", named) == {ROOT, OWNER}
    assert allowed("s3:GetObject", BucketRules(policy(statement()))) == set(EVERYBODY)


def test_what_others_own_is_theirs() -> None:
    """Where writers own: neither the bucket's owner nor its policy gives away what somebody else wrote."""
    for action in ("s3:GetObject", "s3:GetObjectAcl", "s3:PutObjectAcl"):
        assert allowed(action, NO_RULES, written()) == {ROOT, WRITER}
        assert allowed(action, BucketRules(policy(statement())), written()) == {ROOT, WRITER}
        enforced = BucketRules(ownership=Ownership.ENFORCED)
        assert allowed(action, enforced, written("public-read")) == {ROOT, OWNER}
    for action in ("s3:DeleteObject", "s3:DeleteObjectVersion", "s3:PutObjectTagging", "s3:PutObject"):
        assert allowed(action, NO_RULES, written()) == {ROOT, OWNER}


def test_lists() -> None:
    reading = BucketRules(acl=bucket_list("public-read"))
    assert allowed("s3:ListBucket", reading) == set(EVERYBODY)
    assert allowed("s3:PutObject", reading) == {ROOT, OWNER}
    assert allowed("s3:GetObject", reading) == {ROOT, OWNER}, "the bucket's list says nothing about its objects"
    writing = BucketRules(acl=bucket_list("public-read-write"))
    assert allowed("s3:PutObject", writing, creates=True) == set(EVERYBODY)
    assert allowed("s3:PutObjectAcl", writing, creates=True) == set(EVERYBODY)
    assert allowed("s3:PutObjectAcl", writing, written()) == {ROOT, WRITER}
    assert allowed("s3:PutObjectRetention", writing, creates=True) == {ROOT, OWNER}
    signed = BucketRules(acl=bucket_list("authenticated-read"))
    assert allowed("s3:ListBucket", signed) == {ROOT, OWNER, WRITER, OTHER}
    assert allowed("s3:GetObject", NO_RULES, written("public-read")) == {ROOT, OTHER, WRITER, OWNER, ANONYMOUS}
    assert allowed("s3:GetObject", NO_RULES, written("bucket-owner-read")) == {ROOT, OWNER, WRITER}
    assert allowed("s3:GetObjectTagging", NO_RULES, written("public-read")) == {ROOT, OWNER}


def test_blocks() -> None:
    ignoring = PublicAccessBlock(ignore_public_acls=True)
    shared = Acl("owner-id", (Grant(Group.ALL_USERS, Permission.READ), Grant("other-id", Permission.READ)))
    assert allowed("s3:ListBucket", BucketRules(acl=shared, block=ignoring)) == {ROOT, OWNER, OTHER}
    assert allowed("s3:GetObject", BucketRules(block=ignoring), written("public-read")) == {ROOT, WRITER}
    restricting = PublicAccessBlock(restrict_public_buckets=True)
    public = policy(statement(), statement(Principal={"AWS": "other-id"}))
    assert allowed("s3:GetObject", BucketRules(public, block=restricting)) == {ROOT, OWNER}
    private = policy(statement(Principal={"AWS": "other-id"}))
    assert allowed("s3:GetObject", BucketRules(private, block=restricting)) == {ROOT, OWNER, OTHER}
    for block in (PublicAccessBlock(block_public_acls=True), PublicAccessBlock(block_public_policy=True)):
        assert allowed("s3:GetObject", BucketRules(public, block=block)) == set(EVERYBODY), "judged when it is put"


def test_verdicts_say_why() -> None:
    rules = BucketRules(policy(statement(Sid="a"), statement(Sid="b", Effect="Deny", Action="s3:DeleteObject")))
    asked = Ask(OTHER, "s3:GetObject", "owner-id", "bucket/key", rules, Values)
    assert decide(asked) == (True, "policy", "a")
    assert decide(asked._replace(action="s3:DeleteObject")) == (False, "policy", "b")
    assert decide(asked._replace(principal=OWNER)) == (True, "owner", "")
    assert decide(asked._replace(rules=NO_RULES)) == (False, "nothing", "")
    assert decide(asked._replace(rules=NO_RULES, version=written("public-read"))) == (True, "list", "")


RULES = st.builds(
    BucketRules,
    st.sampled_from(
        [
            None,
            policy(statement(Resource=PLACES)),
            policy(statement(Resource=PLACES, Principal={"AWS": "other-id"}, Action="s3:Get*")),
            policy(statement(Resource=PLACES), statement(Effect="Deny", Action="s3:Put*", Resource=PLACES)),
        ]
    ),
    st.booleans(),
    st.sampled_from(
        [None, *(bucket_list(name) for name in ("public-read", "public-read-write", "authenticated-read"))]
    ),
    st.builds(PublicAccessBlock, *[st.booleans()] * 4),
    st.sampled_from([None, *Ownership]),
)
VERSIONS = st.sampled_from(
    [None, written(), written("public-read"), written("private", "owner-id"), written("public-read", "owner-id")]
)


@given(RULES, VERSIONS, st.sampled_from(sorted(ACTIONS)), st.booleans())
def test_the_short_cuts_agree_with_the_decision(
    rules: BucketRules, version: ObjectRules | None, action: str, creates: bool
) -> None:
    object_owner_id = "owner-id" if version is None else version.owner_id
    for principal in EVERYBODY:
        verdict = decide(Ask(principal, action, "owner-id", "bucket/key", rules, Values, version, creates))
        if is_undisputed(principal, "owner-id", rules, object_owner_id):
            assert verdict.is_allowed
        if version is None and not creates and not may_allow(principal, "owner-id", rules, action):
            assert not verdict.is_allowed


@given(RULES, VERSIONS, st.sampled_from(sorted(ACTIONS)))
def test_blocking_more_never_allows_more(rules: BucketRules, version: ObjectRules | None, action: str) -> None:
    stricter = rules._replace(block=PublicAccessBlock(*[True] * 4))
    assert allowed(action, stricter, version) <= allowed(action, rules, version)
    assert set(counted_acl(stricter, "owner-id").grants) <= set(counted_acl(rules, "owner-id").grants)


def test_an_owner_is_known_at_once() -> None:
    """The context is never made (it would raise); the time is printed, not asserted."""
    times: list[float] = []
    asked = Ask(OWNER, "s3:GetObject", "owner-id", "bucket/key", NO_RULES, no_context, written("private", "owner-id"))
    for _ in range(5):
        began = perf_counter()
        for _ in range(1000):
            decide(asked)
        times.append(perf_counter() - began)
    print(f"{min(times) * 1000:.2f} us a decision")
