"""The Condition element: operators, their qualifiers, and what an absent key means."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from gateway.auth.policy.keys import is_known, is_spelled_right
from gateway.auth.policy.malformed import MalformedPolicy
from gateway.auth.policy.operators import OPERATORS, Compiled
from gateway.auth.policy.patterns import Context, Variable


class Quantifier(Enum):
    """Which of a key's values have to pass."""

    PLAIN = ""
    ALL = "ForAllValues:"
    ANY = "ForAnyValue:"


@dataclass(frozen=True, slots=True)
class Condition:
    """One operator on one key. `tests` are the policy's values, any of which may match."""

    operator: str
    key: str
    quantifier: Quantifier
    is_negated: bool
    if_exists: bool
    tests: tuple[Compiled, ...]

    @property
    def is_known(self) -> bool:
        """Whether the key can be judged here; see `gateway.auth.policy.keys`."""
        return is_known(self.key)

    @property
    def variables(self) -> frozenset[Variable]:
        return frozenset(variable for test in self.tests for variable in test.variables)

    def holds(self, context: Context) -> bool:
        """Whether the condition holds for a request. The key is a known one."""
        values = context.values(self.key)
        if not values:
            return self._holds_without()
        passed = [any(compiled.test(value, context) for compiled in self.tests) for value in values]
        if self.quantifier is Quantifier.ALL:
            return all(match != self.is_negated for match in passed)
        if self.quantifier is Quantifier.ANY:
            return any(match != self.is_negated for match in passed)
        return any(passed) != self.is_negated

    def _holds_without(self) -> bool:
        if self.if_exists or self.quantifier is Quantifier.ALL:
            return True
        return self.is_negated and self.quantifier is Quantifier.PLAIN


@dataclass(frozen=True, slots=True)
class Presence:
    """The operator Null: whether a key is absent."""

    key: str
    wants_absent: bool
    operator: str = "Null"
    variables: frozenset[Variable] = frozenset()

    @property
    def is_known(self) -> bool:
        return is_known(self.key)

    def holds(self, context: Context) -> bool:
        """Whether the condition holds for a request. The key is a known one."""
        return (not context.values(self.key)) == self.wants_absent


_IF_EXISTS: Final = "IfExists"


def conditions_of(element: object, *, with_variables: bool) -> tuple[Condition | Presence, ...]:
    """The conditions of a Condition element, all of which have to hold. Errors: MalformedPolicy."""
    if not isinstance(element, dict):
        raise MalformedPolicy("Condition must be an object")
    found: list[Condition | Presence] = []
    for name, keys in element.items():
        make = _maker(name, with_variables=with_variables)
        if not isinstance(keys, dict) or not keys:
            raise MalformedPolicy(f"The operator {name} must have at least one key")
        for key, listed in keys.items():
            if not is_spelled_right(key.lower()):
                raise MalformedPolicy("Policy has an invalid condition key")
            found.append(make(key.lower(), _values_of(listed)))
    return tuple(found)


def _maker(name: str, *, with_variables: bool) -> Callable[[str, list[str]], Condition | Presence]:
    """How the conditions of one operator are made."""
    if name == "Null":
        return _presence
    quantifier, word = Quantifier.PLAIN, name
    for candidate in (Quantifier.ALL, Quantifier.ANY):
        if name.startswith(candidate.value):
            quantifier, word = candidate, name.removeprefix(candidate.value)
    bare = word.removesuffix(_IF_EXISTS)
    operator = OPERATORS.get(bare)
    if operator is None:
        raise MalformedPolicy("Invalid condition operator in policy")

    def make(key: str, values: list[str]) -> Condition:
        tests = tuple(operator.compile(value, with_variables=with_variables) for value in values)
        return Condition(name, key, quantifier, operator.is_negated, bare != word, tests)

    return make


def _presence(key: str, values: list[str]) -> Presence:
    if values not in (["true"], ["false"]):
        raise MalformedPolicy("The operator Null takes true or false")
    return Presence(key, values == ["true"])


def _values_of(listed: object) -> list[str]:
    """The values of a key as texts; an empty list is refused, as it would hold for nobody or for everybody."""
    values = listed if isinstance(listed, list) else [listed]
    if not values:
        raise MalformedPolicy("A condition needs a value")
    return [_value_of(value) for value in values]


def _value_of(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    raise MalformedPolicy("A condition's value must be a text, number or boolean")
