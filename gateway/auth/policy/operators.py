"""Condition operators: what one value of a policy says about one value of a request.

Each operator compiles a policy's value into a test, once. A value of a request that has not the operator's type (a
number, a date, an address) passes no test.
"""

from base64 import b64decode
from binascii import Error as BadBase64
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from functools import partial
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from operator import eq, ge, gt, le, lt
from typing import Any, Final, NamedTuple, Protocol

from gateway.auth.policy.malformed import MalformedPolicy
from gateway.auth.policy.patterns import Context, Pattern, Test, Variable, resolve, tokenise

_NUMBER_CHARACTERS_MAX: Final = 64
_NUMBER_CHARACTERS: Final = frozenset("0123456789.-")
_ARN_PARTS: Final = 6

Compare = Callable[[Any, Any], bool]


class Compiled(NamedTuple):
    """A test and the variables it needs. `is_fixed` says that it admits one value, or one `network`, and no pattern."""

    test: Test
    variables: frozenset[Variable] = frozenset()
    is_fixed: bool = True
    network: IPv4Network | IPv6Network | None = None


class Compile(Protocol):
    """From a value of a policy to its test. Errors: MalformedPolicy for a value that has not the operator's type."""

    def __call__(self, text: str, *, with_variables: bool) -> Compiled: ...


class Operator(NamedTuple):
    """How an operator's values are compiled, and whether it says "none of these"."""

    compile: Compile
    is_negated: bool = False


# ------------------------------------------------------------------------------------------------------------ strings


def _text(text: str, *, with_variables: bool, with_wildcards: bool = False) -> Compiled:
    pattern = Pattern(tokenise(text, with_wildcards=with_wildcards, with_variables=with_variables))
    return Compiled(pattern.matches, pattern.variables, pattern.is_literal)


def _folded(text: str, *, with_variables: bool) -> Compiled:
    tokens = tokenise(text, with_wildcards=False, with_variables=with_variables)

    def test(value: str, context: Context) -> bool:
        pieces = [resolve(token, context) if isinstance(token, Variable) else token for token in tokens]
        return None not in pieces and "".join(str(piece) for piece in pieces).casefold() == value.casefold()

    variables = frozenset(token for token in tokens if isinstance(token, Variable))
    return Compiled(test, variables, not variables)


def _arn(text: str, *, with_variables: bool) -> Compiled:
    """Six parts, each matched by itself, so that a wildcard never reaches over a colon."""
    parts = text.split(":", _ARN_PARTS - 1)
    if text != "*" and (len(parts) != _ARN_PARTS or parts[0] != "arn"):
        raise MalformedPolicy("Invalid ARN in a condition")
    patterns = [Pattern(tokenise(part, with_wildcards=True, with_variables=with_variables)) for part in parts]

    def test(value: str, context: Context) -> bool:
        given = value.split(":", _ARN_PARTS - 1)
        if text == "*":
            return True
        return len(given) == _ARN_PARTS and all(
            pattern.matches(part, context) for pattern, part in zip(patterns, given, strict=True)
        )

    variables = frozenset(variable for pattern in patterns for variable in pattern.variables)
    return Compiled(test, variables, all(pattern.is_literal for pattern in patterns))


def _binary(text: str, **_: bool) -> Compiled:
    try:
        wanted = b64decode(text, validate=True)
    except (BadBase64, ValueError) as error:
        raise MalformedPolicy("Invalid base64 in a condition") from error

    def test(value: str, _context: Context) -> bool:
        try:
            return b64decode(value, validate=True) == wanted
        except (BadBase64, ValueError):
            return False

    return Compiled(test)


# ------------------------------------------------------------------------------------- numbers, dates, words, addresses


def _number(text: str) -> Decimal | None:
    if len(text) > _NUMBER_CHARACTERS_MAX or not _NUMBER_CHARACTERS.issuperset(text):
        return None
    try:
        return Decimal(text)
    except InvalidOperation:
        return None


def _seconds(text: str) -> float | None:
    """Seconds since the epoch of an ISO 8601 date, or of a number of seconds."""
    if text.isascii() and text.isdigit() and len(text) <= 12:
        return float(text)
    if len(text) > _NUMBER_CHARACTERS_MAX:
        return None
    try:
        parsed = datetime.fromisoformat(text)
        return (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


def _flag(text: str) -> bool | None:
    return {"true": True, "false": False}.get(text.lower())


def _address(text: str) -> IPv4Address | IPv6Address | None:
    try:
        address = ip_address(text)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def _typed(text: str, *, parse: Callable[[str], Any], compare: Compare, what: str, **_: bool) -> Compiled:
    wanted = parse(text)
    if wanted is None:
        raise MalformedPolicy(f"Invalid {what} in a condition")

    def test(value: str, _context: Context) -> bool:
        given = parse(value)
        return given is not None and compare(given, wanted)

    return Compiled(test)


def _network(text: str, **_: bool) -> Compiled:
    try:
        network = ip_network(text, strict=False)
    except ValueError as error:
        raise MalformedPolicy("Invalid IP range in a condition") from error

    def test(value: str, _context: Context) -> bool:
        address = _address(value)
        return address is not None and address.version == network.version and address in network

    return Compiled(test, network=network)


def _table(prefix: str, parse: Callable[[str], Any], what: str) -> dict[str, Operator]:
    """The six comparisons of an ordered type."""
    orders: dict[str, Compare] = {
        "Equals": eq,
        "NotEquals": eq,
        "LessThan": lt,
        "LessThanEquals": le,
        "GreaterThan": gt,
        "GreaterThanEquals": ge,
    }
    return {
        prefix + name: Operator(partial(_typed, parse=parse, compare=compare, what=what), name == "NotEquals")
        for name, compare in orders.items()
    }


_LIKE: Final = partial(_text, with_wildcards=True)

OPERATORS: Final[Mapping[str, Operator]] = {
    "StringEquals": Operator(_text),
    "StringNotEquals": Operator(_text, is_negated=True),
    "StringEqualsIgnoreCase": Operator(_folded),
    "StringNotEqualsIgnoreCase": Operator(_folded, is_negated=True),
    "StringLike": Operator(_LIKE),
    "StringNotLike": Operator(_LIKE, is_negated=True),
    "ArnEquals": Operator(_arn),
    "ArnLike": Operator(_arn),
    "ArnNotEquals": Operator(_arn, is_negated=True),
    "ArnNotLike": Operator(_arn, is_negated=True),
    "BinaryEquals": Operator(_binary),
    "Bool": Operator(partial(_typed, parse=_flag, compare=eq, what="boolean")),
    "IpAddress": Operator(_network),
    "NotIpAddress": Operator(_network, is_negated=True),
    **_table("Numeric", _number, "number"),
    **_table("Date", _seconds, "date"),
}
"""Every operator but Null, by its name without qualifier and without IfExists."""
