"""Policies and contexts made of plain values."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from gateway.auth.keyring import ANONYMOUS, Principal
from gateway.auth.policy.document import compile_policy
from gateway.auth.policy.statement import Effect, Policy

ALICE = Principal("alice-id", "alice")
BOB = Principal("bob-id", "bob")
NOBODY = ANONYMOUS
BUCKET = "bucket"
ARN = "arn:aws:s3:::bucket"


class Values:
    """A context; keys as a policy writes them."""

    def __init__(self, values: Mapping[str, str | Sequence[str]] | None = None) -> None:
        self._values = {
            key.lower(): (value,) if isinstance(value, str) else tuple(value) for key, value in (values or {}).items()
        }

    def values(self, key: str) -> Sequence[str]:
        assert key == key.lower()
        return self._values.get(key, ())


def statement(**elements: Any) -> dict[str, Any]:
    """A statement that allows everybody everything on every object, but for what is given; None leaves out."""
    whole = {"Effect": "Allow", "Principal": "*", "Action": "s3:*", "Resource": f"{ARN}/*"} | elements
    return {name: value for name, value in whole.items() if value is not None}


def document(*statements: Any, version: str | None = "2012-10-17", **elements: Any) -> bytes:
    """The JSON of a policy."""
    whole = {"Version": version, "Statement": list(statements), **elements}
    return json.dumps({name: value for name, value in whole.items() if value is not None}).encode()


def policy(*statements: Any, **elements: Any) -> Policy:
    """A compiled policy of the bucket."""
    return compile_policy(document(*statements, **elements), BUCKET)


def said(
    compiled: Policy,
    values: Mapping[str, str | Sequence[str]] | None = None,
    *,
    principal: Principal = ALICE,
    action: str = "s3:GetObject",
    resource: str = "bucket/key",
) -> Effect:
    """What a policy says to a request with these values of condition keys."""
    return compiled.say(principal, action, resource, Values(values)).effect
