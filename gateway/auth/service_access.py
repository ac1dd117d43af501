"""What the services of the store that act by themselves may write into a bucket: server access logs and inventories.

Pure. A service writes for the owner of the bucket that its rule belongs to, the *source*. It may do so where the
target's policy allows it, as on AWS; what is not said there the right of the service's kind decides. A policy that
names the service and no source speaks for sources of its own owner only: on AWS nobody else's could use it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, NamedTuple

from gateway.auth.acl import Acl, Group, Permission
from gateway.auth.decision import Ask, BucketRules, counted_acl, decide
from gateway.auth.keyring import Principal
from gateway.auth.policy.principals import Service
from gateway.auth.policy.statement import Effect, Policy

LOGGING: Final = Service("logging.s3.amazonaws.com")
INVENTORY: Final = Service("s3.amazonaws.com")

_PUT: Final = "s3:PutObject"
_NEEDED_GRANTS: Final = frozenset({Permission.WRITE, Permission.READ_ACP})
"""What AWS's log delivery group has to have on a target's list."""


class Source(NamedTuple):
    """The bucket whose rule makes a service write, and its owner."""

    bucket_name: str
    owner_id: str


class Delivery(NamedTuple):
    """A write of a service: for whom, and into which bucket. `now` is in seconds since the epoch.

    `resources` are `bucket/key` for the key to be written and, where permission may be given for it, its prefix.
    """

    source: Source
    target_owner_id: str
    resources: tuple[str, ...]
    region: str
    now: float


@dataclass(frozen=True, slots=True)
class _Facts:
    """A condition context of fixed values; a key that is not there the write does not have."""

    known: Mapping[str, str]

    def values(self, key: str) -> Sequence[str]:
        """See `Context.values`."""
        value = self.known.get(key)
        return () if value is None else (value,)


def may_log(rules: BucketRules, delivery: Delivery) -> bool:
    """Whether server access logs may be delivered: by the policy, or by AWS's log delivery group in the list.

    A list cannot name a source, so it speaks for its owner's buckets only.
    """
    said = _say(rules.policy, LOGGING, delivery)
    if said is not Effect.SILENT:
        return said is Effect.ALLOW
    is_own = delivery.source.owner_id == delivery.target_owner_id
    return is_own and _grants_delivery(counted_acl(rules, delivery.target_owner_id))


def may_report(rules: BucketRules, delivery: Delivery, owner: Principal) -> bool:
    """Whether an inventory may be delivered: by the policy, or because the source's owner may write there.

    `owner` is that owner, or ANONYMOUS for one that nobody is any more. Root does not count as an owner of everything:
    whoever may change a configuration of root's bucket must not write with its right.
    """
    said = _say(rules.policy, INVENTORY, delivery)
    if said is not Effect.SILENT:
        return said is Effect.ALLOW
    facts = _facts(delivery) | {"aws:principalaccount": owner.principal_id, "aws:userid": owner.principal_id}
    asked = Ask(
        owner._replace(is_root=False),
        _PUT,
        delivery.target_owner_id,
        delivery.resources[0],
        rules,
        lambda: _Facts(facts),
        creates=True,
    )
    return decide(asked).is_allowed


def _say(policy: Policy | None, service: Service, delivery: Delivery) -> Effect:
    """What a policy says to a service; a permission that names no source counts for the target's owner only."""
    if policy is None:
        return Effect.SILENT
    source = delivery.source
    bound = {"aws:sourcearn": f"arn:aws:s3:::{source.bucket_name}", "aws:sourceaccount": source.owner_id}
    facts = _facts(delivery) | {"aws:principalisawsservice": "true", "aws:principalservicename": service.name}
    said = _over(policy, service, delivery.resources, facts | bound)
    if said is not Effect.ALLOW or source.owner_id == delivery.target_owner_id:
        return said
    is_bound = _over(policy, service, delivery.resources, facts) is not Effect.ALLOW
    return Effect.ALLOW if is_bound else Effect.SILENT


def _over(policy: Policy, service: Service, resources: Sequence[str], facts: Mapping[str, str]) -> Effect:
    """What is said about any of the resources; a denial of one is a denial."""
    said = {policy.say(service, _PUT, resource, _Facts(facts)).effect for resource in resources}
    return next(effect for effect in (Effect.DENY, Effect.ALLOW, Effect.SILENT) if effect in said)


def _facts(delivery: Delivery) -> dict[str, str]:
    now = datetime.fromtimestamp(delivery.now, UTC)
    return {
        "aws:currenttime": now.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "aws:epochtime": str(int(delivery.now)),
        "aws:principalisawsservice": "false",
        "aws:requestedregion": delivery.region,
        "aws:resourceaccount": delivery.target_owner_id,
        "aws:securetransport": "true",  # nothing leaves the store
        "aws:viaawsservice": "false",
        "s3:resourceaccount": delivery.target_owner_id,
        "s3:x-amz-acl": "bucket-owner-full-control",  # the target's owner gets what is written
    }


def _grants_delivery(acl: Acl) -> bool:
    given = {grant.permission for grant in acl.grants if grant.grantee == Group.LOG_DELIVERY}
    return Permission.FULL_CONTROL in given or given >= _NEEDED_GRANTS
