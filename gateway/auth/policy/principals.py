"""The Principal element: who a statement is about.

A principal is named by its canonical id, bare or as `arn:aws:iam::<id>:root`, or as a user by
`arn:aws:iam:::user/<name>`, with or without the id between the colons. A service of AWS's name is one that the store
itself has: none ever sends a request.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from gateway.auth.keyring import Principal
from gateway.auth.policy.malformed import MalformedPolicy

_ARN: Final = "arn:aws:iam::"
_ID_CHARACTERS: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")
_NAME_CHARACTERS: Final = _ID_CHARACTERS | frozenset("+=,.@/$")
_ID_LENGTH_MAX: Final = 128


class Service(NamedTuple):
    """A service of the store that acts by itself, under the name AWS's has, such as `logging.s3.amazonaws.com`."""

    name: str


class PrincipalSet(NamedTuple):
    """A set of principals. `users` are pairs of account (empty: any) and user name."""

    is_everyone: bool
    ids: frozenset[str]
    users: frozenset[tuple[str, str]]
    services: frozenset[str] = frozenset()

    def includes(self, principal: Principal) -> bool:
        """Whether `principal` belongs to the set; anonymous belongs to everyone only."""
        if self.is_everyone:
            return True
        identity = principal.principal_id
        if not identity:
            return False
        return identity in self.ids or ("", principal.name) in self.users or (identity, principal.name) in self.users


def principals_of(element: object) -> PrincipalSet:
    """The set that a Principal or NotPrincipal element names. Errors: MalformedPolicy."""
    if element == "*":
        return PrincipalSet(is_everyone=True, ids=frozenset(), users=frozenset())
    if not isinstance(element, dict) or not element:
        raise _invalid()
    names: list[str] = []
    services: list[str] = []
    for kind, listed in element.items():
        given = texts_of(listed)
        if kind == "CanonicalUser" and not all(_is_id(name) for name in given):
            raise _invalid()
        if kind == "Service" and not all(name.endswith(".amazonaws.com") for name in given):
            raise _invalid()
        if kind not in {"AWS", "CanonicalUser", "Service"}:
            raise _invalid()
        (services if kind == "Service" else names).extend(given)
    return _set(names)._replace(services=frozenset(services))


def _set(names: Iterable[str]) -> PrincipalSet:
    is_everyone, ids, users = False, set(), set()
    for name in names:
        if name == "*":
            is_everyone = True
        elif _is_id(name):
            ids.add(name)
        else:
            account, kind, user = _parse_arn(name)
            if kind == "root":
                ids.add(account)
            else:
                users.add((account, user))
    return PrincipalSet(is_everyone=is_everyone, ids=frozenset(ids), users=frozenset(users))


def _parse_arn(arn: str) -> tuple[str, str, str]:
    """Account, `root` or `user`, and the user's name."""
    account, colon, resource = arn.removeprefix(_ARN).partition(":")
    kind, slash, user = resource.partition("/")
    if not arn.startswith(_ARN) or not colon or not (_is_id(account) or (not account and slash)):
        raise _invalid()
    if resource == "root" or (kind == "user" and user and _NAME_CHARACTERS.issuperset(user)):
        return account, kind, user
    raise _invalid()


def _is_id(text: str) -> bool:
    return 0 < len(text) <= _ID_LENGTH_MAX and _ID_CHARACTERS.issuperset(text)


def texts_of(element: object) -> list[str]:
    """A text or a list of texts as a list that is not empty. Errors: MalformedPolicy."""
    listed = element if isinstance(element, list) else [element]
    if not listed or not all(isinstance(text, str) and text for text in listed):
        raise MalformedPolicy("An element of the policy must be a text or a list of texts")
    return [str(text) for text in listed]


def _invalid() -> MalformedPolicy:
    return MalformedPolicy("Invalid principal in policy")
