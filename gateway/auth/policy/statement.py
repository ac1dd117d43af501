"""A compiled policy and what it says to one request."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import NamedTuple

from gateway.auth.keyring import Principal
from gateway.auth.policy.conditions import Condition, Presence
from gateway.auth.policy.keys import EXISTING_TAG, LOCK_KEYS, REQUEST_TAG, REQUEST_TAG_KEYS
from gateway.auth.policy.patterns import Context, Pattern, Variable, resolve
from gateway.auth.policy.principals import PrincipalSet, Service
from gateway.auth.policy.public import is_public_grant


class Effect(Enum):
    """What a policy says. SILENT is neither."""

    ALLOW = "allow"
    DENY = "deny"
    SILENT = "silent"


class Said(NamedTuple):
    """An effect, and the Sid of the statement it comes from, empty when that has none."""

    effect: Effect
    sid: str = ""


_NOTHING_SAID = Said(Effect.SILENT)


class Resources(NamedTuple):
    """The Resource or NotResource of a statement."""

    patterns: tuple[Pattern, ...]
    is_negated: bool

    @property
    def variables(self) -> frozenset[Variable]:
        return frozenset(variable for pattern in self.patterns for variable in pattern.variables)

    def include(self, resource: str, context: Context) -> bool:
        """Whether `bucket` or `bucket/key` is meant."""
        return any(pattern.matches(resource, context) for pattern in self.patterns) != self.is_negated


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement. `actions` is already the set meant; `needed` are the variables without a default."""

    sid: str
    allows: bool
    principals: PrincipalSet
    excludes_principals: bool
    actions: frozenset[str]
    resources: Resources
    conditions: tuple[Condition | Presence, ...]
    needed: frozenset[Variable]

    def applies(self, principal: Principal | Service, action: str, resource: str, context: Context) -> bool:
        """Whether the statement says something to a request. Unknown keys and absent variables never widen it."""
        if action not in self.actions or self._names(principal) == self.excludes_principals:
            return False
        if self.allows and any(resolve(variable, context) is None for variable in self.needed):
            return False
        return self.resources.include(resource, context) and self._holds(context)

    def _names(self, principal: Principal | Service) -> bool:
        """Whether the principals named include this one. Everybody includes services only where it denies."""
        named = self.principals
        if isinstance(principal, Service):
            return principal.name in named.services or (named.is_everyone and not self.allows)
        return named.includes(principal)

    def _holds(self, context: Context) -> bool:
        return all(condition.holds(context) if condition.is_known else not self.allows for condition in self.conditions)


@dataclass(frozen=True)
class Policy:
    """A bucket policy, compiled. Immutable; pure."""

    statements: tuple[Statement, ...]

    def say(self, principal: Principal | Service, action: str, resource: str, context: Context) -> Said:
        """What the policy says to `principal` doing `action` on `bucket` or `bucket/key`. A denial wins."""
        allowed: Said | None = None
        for statement in self.statements:
            if allowed is not None and statement.allows:
                continue
            if statement.applies(principal, action, resource, context):
                if not statement.allows:
                    return Said(Effect.DENY, statement.sid)
                allowed = Said(Effect.ALLOW, statement.sid)
        return allowed or _NOTHING_SAID

    @cached_property
    def is_public(self) -> bool:
        """Whether some statement grants something to everybody, as AWS defines a public policy."""
        return any(
            statement.allows and statement.principals.is_everyone and is_public_grant(statement.conditions)
            for statement in self.statements
        )

    @cached_property
    def asks_existing_tags(self) -> bool:
        """Whether a decision may depend on the tags of the version acted on."""
        return any(key.startswith(EXISTING_TAG) for key in self._keys())

    @cached_property
    def asks_document(self) -> bool:
        """Whether a decision may depend on the body of a request that sets tags or locks."""
        asked = (REQUEST_TAG, REQUEST_TAG_KEYS, LOCK_KEYS)
        return any(key.startswith(asked) for key in self._keys())

    def _keys(self) -> Iterator[str]:
        for statement in self.statements:
            yield from (condition.key for condition in statement.conditions)
            for source in (statement.resources, *statement.conditions):
                yield from (variable.key for variable in source.variables)
