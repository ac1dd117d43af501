"""Which grants to everybody are public, in the sense of AWS's block of public access.

A grant to everybody is not public when a condition holds it to fixed values of a key that says where a request comes
from or who sends it. Anything else counts as public: the definition errs towards public.
"""

from collections.abc import Iterable
from ipaddress import IPv4Network, IPv6Network
from typing import Final

from gateway.auth.policy.conditions import Condition, Presence, Quantifier

_HOLDING_KEYS: Final = frozenset(
    {
        "aws:principalaccount",
        "aws:principalarn",
        "aws:principalorgid",
        "aws:principalorgpaths",
        "aws:sourceaccount",
        "aws:sourcearn",
        "aws:sourceip",
        "aws:sourceowner",
        "aws:sourcevpc",
        "aws:sourcevpce",
        "aws:userid",
        "aws:username",
        "s3:dataaccesspointaccount",
        "s3:dataaccesspointarn",
        "s3:x-amz-server-side-encryption-aws-kms-key-id",
    }
)
_HOLDING_OPERATORS: Final = frozenset(
    {"StringEquals", "StringEqualsIgnoreCase", "StringLike", "ArnEquals", "ArnLike", "IpAddress"}
)
_PRIVATE: Final = tuple(IPv4Network(text) for text in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"))
_NARROWEST: Final = {4: 8, 6: 32}
"""Networks wider than this are public, private ranges apart."""


def is_public_grant(conditions: Iterable[Condition | Presence]) -> bool:
    """Whether a grant to everybody under these conditions is public."""
    return not any(isinstance(condition, Condition) and _holds_back(condition) for condition in conditions)


def _holds_back(condition: Condition) -> bool:
    word = condition.operator.removeprefix(Quantifier.ANY.value)
    if condition.key not in _HOLDING_KEYS or word not in _HOLDING_OPERATORS:
        return False
    return all(compiled.is_fixed and _is_narrow(compiled.network) for compiled in condition.tests)


def _is_narrow(network: IPv4Network | IPv6Network | None) -> bool:
    if network is None or network.prefixlen >= _NARROWEST[network.version]:
        return True
    return any(isinstance(network, IPv4Network) and network.subnet_of(private) for private in _PRIVATE)
