"""The policy of a form upload: parsed strictly, judged purely against the fields of the form.

Names of fields compare without case, as do the words of conditions; the two members of the document do not. Whatever
has not the published form is refused: a condition that is not understood would be a promise not kept to the signer.
Source: "Creating a POST policy" of the S3 API reference.
"""

import base64
import binascii
import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple

from gateway.auth.refusals import Refused

CONDITIONS_MAX: Final = 1000
SIZE_MAX: Final = 2**63 - 1

_MEMBERS: Final = frozenset({"expiration", "conditions"})
_RANGE: Final = "content-length-range"
_WORDS: Final = frozenset({"eq", "starts-with"})
_TIME_FORMS: Final = ("%Y-%m-%dT%H:%M:%S.%fZ", "%Y-%m-%dT%H:%M:%SZ")

_UNCOVERED: Final = frozenset({b"awsaccesskeyid", b"signature", b"x-amz-signature", b"policy", b"file"})
"""Fields that no condition has to name: they are the proof itself."""
_UNCOVERED_STARTS: Final = (b"x-ignore-", b"x-amz-checksum-")
"""Ignored fields, and checksums: these only bind the content and can grant nothing."""


class Condition(NamedTuple):
    """One condition on one field: its value equals `value`, or begins with it."""

    name: bytes
    value: bytes
    is_prefix: bool
    text: str


class PostPolicy(NamedTuple):
    """A policy as signed. `sizes` bounds the content in bytes, both ends included; `expires` is in epoch seconds."""

    expires: float
    conditions: tuple[Condition, ...]
    sizes: tuple[int, int]


def parse_policy(encoded: bytes) -> PostPolicy:
    """The policy in the base64 text that was signed.

    Errors: Refused InvalidPolicyDocument for anything that is not exactly the published form.
    """
    try:
        text = base64.b64decode(encoded, validate=True).decode()
        document = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
    except (binascii.Error, ValueError, RecursionError) as error:
        raise malformed("Invalid JSON.") from error
    if not isinstance(document, dict):
        raise malformed("Invalid JSON.")
    for name in document:
        if name not in _MEMBERS:
            raise malformed(f"Unexpected: '{name}'.")
    listed = document.get("conditions")
    if "expiration" not in document:
        raise malformed("Policy missing expiration.")
    if not isinstance(listed, list):
        raise malformed("Policy missing conditions.")
    if len(listed) > CONDITIONS_MAX:
        raise malformed("Too many conditions.")
    conditions, sizes = _parse_conditions(listed)
    return PostPolicy(_parse_expiration(document["expiration"]), conditions, sizes)


def _unique(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a member occurs twice")
    return members


def _no_constant(word: str) -> object:
    raise ValueError(word)


def malformed(message: str) -> Refused:
    """The refusal of a policy that has not the published form."""
    return Refused("InvalidPolicyDocument", f"Invalid Policy: {message}")


def _parse_expiration(value: object) -> float:
    for form in _TIME_FORMS if isinstance(value, str) else ():
        try:
            return datetime.strptime(str(value), form).replace(tzinfo=UTC).timestamp()
        except ValueError:
            continue
    raise malformed("Invalid 'expiration' value.")


def _parse_conditions(listed: Sequence[object]) -> tuple[tuple[Condition, ...], tuple[int, int]]:
    conditions: list[Condition] = []
    least, most = 0, SIZE_MAX
    for entry in listed:
        if isinstance(entry, dict):
            conditions.append(_simple(entry))
        elif isinstance(entry, list) and len(entry) == 3 and isinstance(entry[0], str):
            if entry[0].lower() == _RANGE:
                first, last = _size(entry[1]), _size(entry[2])
                least, most = max(least, first), min(most, last)
            else:
                conditions.append(_listed(*entry))
        else:
            raise malformed("Invalid Condition: a condition has one property, or three elements.")
    return tuple(conditions), (least, most)


def _simple(entry: Mapping[str, object]) -> Condition:
    if len(entry) != 1:
        raise malformed("Invalid Simple-Condition: Simple-Conditions must have exactly one property specified.")
    name, value = next(iter(entry.items()))
    if not isinstance(value, str):
        raise malformed("Invalid Simple-Condition: value must be a string.")
    return Condition(name.lower().encode(), value.encode(), is_prefix=False, text=json.dumps(entry))


def _listed(word: str, field: object, value: object) -> Condition:
    if word.lower() not in _WORDS:
        raise malformed(f"Invalid Condition: unknown operation '{word}'.")
    if not isinstance(field, str) or not field.startswith("$") or not isinstance(value, str):
        raise malformed("Invalid Condition: a field is named as $name, its value is a string.")
    is_prefix = word.lower() == "starts-with"
    return Condition(field[1:].lower().encode(), value.encode(), is_prefix, json.dumps([word, field, value]))


def _size(value: object) -> int:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 18:
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= SIZE_MAX:
        raise malformed("Invalid content-length-range: its bounds are numbers of bytes.")
    return value


def judge_policy(policy: PostPolicy, fields: Mapping[bytes, bytes], now: float) -> None:
    """Let a form pass whose every field is covered and every condition holds; `fields` are by lower-case name.

    A field that is absent counts as empty. Errors: Refused AccessDenied.
    """
    if now >= policy.expires:
        raise _denied("Policy expired.")
    for condition in policy.conditions:
        value = fields.get(condition.name, b"")
        holds = value.startswith(condition.value) if condition.is_prefix else value == condition.value
        if not holds:
            raise _denied(f"Policy Condition failed: {condition.text}")
    extra = sorted(_uncovered(policy, fields))
    if extra:
        raise _denied(f"Extra input fields: {', '.join(extra)}")


def _uncovered(policy: PostPolicy, fields: Mapping[bytes, bytes]) -> Iterator[str]:
    covered = {condition.name for condition in policy.conditions}
    for name in fields:
        if name not in covered and name not in _UNCOVERED and not name.startswith(_UNCOVERED_STARTS):
            yield name.decode("utf-8", "replace")


def _denied(message: str) -> Refused:
    return Refused("AccessDenied", f"Invalid according to Policy: {message}")
