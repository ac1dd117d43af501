"""Who may do what: the one function that says so, pure, from rows and compiled documents.

An explicit denial of the bucket policy wins over everything. Then owners: the bucket's owner may do everything to the
bucket and what is in it, except to use an object that somebody else wrote and owns; that one's owner may. Then the
policy's permission, then the lists. Root is the administrator of the store: an owner of everything.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from gateway.auth.acl import (
    Acl,
    Ownership,
    Permission,
    allows_on_bucket,
    allows_on_object,
    grants,
    object_acl,
    private_acl,
    without_public,
)
from gateway.auth.keyring import Principal
from gateway.auth.policy.patterns import Context
from gateway.auth.policy.statement import Effect, Policy
from gateway.auth.public_access import NO_BLOCK, PublicAccessBlock

_OF_ONESELF: Final = frozenset({"s3:ListAllMyBuckets", "s3:CreateBucket"})
"""Actions that concern no existing bucket."""

_OF_POLICY: Final = frozenset({"s3:GetBucketPolicy", "s3:PutBucketPolicy", "s3:DeleteBucketPolicy"})
"""What no policy can take from the bucket's owner, who would have no way back."""

OF_OBJECT_OWNER: Final = frozenset(
    {
        "s3:GetObject",
        "s3:GetObjectAcl",
        "s3:GetObjectAttributes",
        "s3:GetObjectTorrent",
        "s3:GetObjectVersion",
        "s3:GetObjectVersionAcl",
        "s3:GetObjectVersionAttributes",
        "s3:GetObjectVersionTorrent",
        "s3:PutObjectAcl",
        "s3:PutObjectVersionAcl",
    }
)
"""Actions on an existing object that are up to whoever owns it, where that can be another than the bucket's owner.

Tags, locks and deletion are the bucket owner's business, whoever wrote the object.
"""

_WITH_WRITE: Final = frozenset({"s3:PutObject", "s3:PutObjectAcl", "s3:PutObjectTagging"})
"""What a grant of WRITE on the bucket lets one do to an object in the request that makes it."""


class BucketRules(NamedTuple):
    """What a bucket's documents say about access. `acl` is its list as it counts, None for the private one.

    `binds_owner` says that the owner confirmed, when putting the policy, that it may shut out the owner too.
    """

    policy: Policy | None = None
    binds_owner: bool = False
    acl: Acl | None = None
    block: PublicAccessBlock = NO_BLOCK
    ownership: Ownership | None = None


NO_RULES: Final = BucketRules()
"""What holds in a bucket without documents: its owner may everything, nobody else anything."""


class ObjectRules(NamedTuple):
    """Owner and list (in its stored form) of the version a request is about."""

    owner_id: str
    acl: bytes


class Ask(NamedTuple):
    """Whether `principal` may do `action` is what is asked.

    `owner_id` is the bucket's owner. `resource` is `bucket` or `bucket/key`.
    `version` is the existing version concerned, None where there is none or it plays no part; `creates` says that the
    request makes the object. `context` is called only when a policy has to be asked.
    """

    principal: Principal
    action: str
    owner_id: str
    resource: str
    rules: BucketRules
    context: Callable[[], Context]
    version: ObjectRules | None = None
    creates: bool = False


class Verdict(NamedTuple):
    """Whether, and why: `by` is owner, policy, list or nothing; `sid` the statement of a policy that decided."""

    is_allowed: bool
    by: str
    sid: str = ""


BY_OWNER: Final = Verdict(is_allowed=True, by="owner")
BY_LIST: Final = Verdict(is_allowed=True, by="list")
BY_NOTHING: Final = Verdict(is_allowed=False, by="nothing")


def decide(ask: Ask) -> Verdict:
    """The verdict on one action. What nothing allows is denied. Cost: under 2 us for an owner without a policy."""
    principal, rules = ask.principal, ask.rules
    if rules.policy is None:
        return BY_OWNER if _owns(ask) else _judge_lists(ask)
    said = rules.policy.say(principal, ask.action, ask.resource, ask.context())
    if said.effect is Effect.DENY and not _keeps_policy(ask):
        return Verdict(is_allowed=False, by="policy", sid=said.sid)
    if _owns(ask):
        return BY_OWNER
    if said.effect is Effect.ALLOW and _policy_counts(ask):
        return Verdict(is_allowed=True, by="policy", sid=said.sid)
    return _judge_lists(ask)


def is_allowed_without_bucket(principal: Principal, action: str) -> bool:
    """Whether `principal` may do what concerns no existing bucket."""
    return bool(principal.principal_id) and (principal.is_root or action in _OF_ONESELF)


def is_undisputed(principal: Principal, owner_id: str, rules: BucketRules, object_owner_id: str) -> bool:
    """Whether `principal` owns everything concerned and no policy can deny it, so that nothing need be asked.

    `object_owner_id` is the owner of the object concerned, empty while nobody knows it.
    """
    if rules.policy is not None or not _is_owner(principal, owner_id):
        return False
    return principal.is_root or object_owner_id == owner_id or rules.ownership is Ownership.ENFORCED


def may_allow(principal: Principal, owner_id: str, rules: BucketRules, action: str) -> bool:
    """Whether the bucket's rules can allow `action` on some key; what they cannot is denied before a key is known."""
    if rules.policy is not None or _is_owner(principal, owner_id):
        return True
    return allows_on_bucket(counted_acl(rules, owner_id), principal, action)


def _is_owner(principal: Principal, owner_id: str) -> bool:
    identity = principal.principal_id
    return bool(identity) and (principal.is_root or identity == owner_id)


def _owns(ask: Ask) -> bool:
    version = ask.version
    if version is None or ask.principal.is_root or ask.action not in OF_OBJECT_OWNER:
        return _is_owner(ask.principal, ask.owner_id)
    owner_id = ask.owner_id if ask.rules.ownership is Ownership.ENFORCED else version.owner_id
    return _is_owner(ask.principal, owner_id)


def _keeps_policy(ask: Ask) -> bool:
    """Whether a denial does not count: root and, unless confirmed away, the owner always reach the policy."""
    if ask.action not in _OF_POLICY:
        return False
    if ask.principal.principal_id == ask.owner_id:
        return not ask.rules.binds_owner
    return _is_owner(ask.principal, ask.owner_id)


def _policy_counts(ask: Ask) -> bool:
    """Whether the policy's permission holds: it gives away neither what others own, nor anything while restricted."""
    rules, version = ask.rules, ask.version
    if rules.block.restrict_public_buckets and rules.policy is not None and rules.policy.is_public:
        return False
    if version is None or rules.ownership is Ownership.ENFORCED or ask.action not in OF_OBJECT_OWNER:
        return True
    return version.owner_id == ask.owner_id


def _judge_lists(ask: Ask) -> Verdict:
    rules, principal, owner_id = ask.rules, ask.principal, ask.owner_id
    bucket_list = counted_acl(rules, owner_id)
    if allows_on_bucket(bucket_list, principal, ask.action):
        return BY_LIST
    if ask.creates and ask.action in _WITH_WRITE and grants(bucket_list, principal, Permission.WRITE):
        return BY_LIST
    if ask.version is None or ask.creates:
        return BY_NOTHING
    acl = object_acl(ask.version.acl, ask.version.owner_id, owner_id, rules.ownership)
    counted = without_public(acl) if rules.block.ignore_public_acls else acl
    return BY_LIST if allows_on_object(counted, principal, ask.action) else BY_NOTHING


def counted_acl(rules: BucketRules, owner_id: str) -> Acl:
    """The list of a bucket of that owner as it counts for a decision."""
    acl = rules.acl or private_acl(owner_id)
    return without_public(acl) if rules.block.ignore_public_acls else acl
