"""From the JSON of a bucket policy to its compiled form. What is not understood is refused here, never later."""

import json
from functools import lru_cache
from typing import Any, Final

from gateway.auth.policy.actions import ACTIONS, actions_of
from gateway.auth.policy.conditions import conditions_of
from gateway.auth.policy.keys import is_known
from gateway.auth.policy.malformed import MalformedPolicy
from gateway.auth.policy.patterns import Glob, Pattern, Variable, Wild, tokenise
from gateway.auth.policy.principals import PrincipalSet, principals_of, texts_of
from gateway.auth.policy.statement import Policy, Resources, Statement

DOCUMENT_BYTES_MAX: Final = 20 * 1024
COMPILED_BYTES: Final = 64
"""What a compiled policy occupies in memory for each byte of its document, at most, about."""

_VERSIONS: Final = frozenset({"2008-10-17", "2012-10-17"})
_WITH_VARIABLES: Final = "2012-10-17"
_ARN: Final = "arn:aws:s3:::"
_ELEMENTS: Final = frozenset({"Version", "Id", "Statement"})
_STATEMENT_ELEMENTS: Final = frozenset(
    {
        "Sid",
        "Effect",
        "Principal",
        "NotPrincipal",
        "Action",
        "NotAction",
        "Resource",
        "NotResource",
        "Condition",
    }
)


def compile_policy(document: bytes, bucket: str | None = None) -> Policy:
    """The policy that a document is for a bucket; None where it was accepted for its bucket before.

    Errors: MalformedPolicy. Cost: at most 20 KiB of text, once.
    """
    if len(document) > DOCUMENT_BYTES_MAX:
        raise MalformedPolicy(f"Policies must not be larger than {DOCUMENT_BYTES_MAX} bytes")
    root = _parse(document)
    _check_elements(root, _ELEMENTS)
    version = root.get("Version", "2008-10-17")
    if not isinstance(version, str) or version not in _VERSIONS or not isinstance(root.get("Id", ""), str):
        raise MalformedPolicy("The policy must contain a valid version string")
    listed = root.get("Statement")
    nodes = [listed] if isinstance(listed, dict) else listed
    if not isinstance(nodes, list) or not nodes:
        raise MalformedPolicy("Missing required field Statement")
    statements = tuple(_statement(node, bucket, with_variables=version == _WITH_VARIABLES) for node in nodes)
    named = [statement.sid for statement in statements if statement.sid]
    if len(named) != len(set(named)):
        raise MalformedPolicy("Statement IDs (SID) in a single policy must be unique")
    return Policy(statements)


def _parse(document: bytes) -> dict[str, Any]:
    try:
        root = json.loads(document.decode(), object_pairs_hook=_unique, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:  # UnicodeDecodeError and JSONDecodeError are ValueErrors
        raise MalformedPolicy("Policies must be valid JSON and the first byte must be '{'") from error
    if not isinstance(root, dict):
        raise MalformedPolicy("Policies must be valid JSON and the first byte must be '{'")
    return root


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object; a name twice means that two readers could read two policies."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise MalformedPolicy("An element occurs twice")
    return found


def _refuse_constant(_word: str) -> None:
    raise MalformedPolicy("Policies must be valid JSON")


def _check_elements(node: dict[str, Any], known: frozenset[str]) -> None:
    if not known.issuperset(node):
        raise MalformedPolicy("Unknown field in the policy")


def _statement(node: object, bucket: str | None, *, with_variables: bool) -> Statement:
    if not isinstance(node, dict):
        raise MalformedPolicy("A statement must be an object")
    _check_elements(node, _STATEMENT_ELEMENTS)
    sid, effect = node.get("Sid", ""), node.get("Effect")
    if not isinstance(sid, str) or not isinstance(effect, str) or effect not in {"Allow", "Deny"}:
        raise MalformedPolicy("Invalid effect or Sid")
    allows = effect == "Allow"
    conditions = conditions_of(node.get("Condition", {}), with_variables=with_variables)
    resources = _resources(node, bucket, with_variables=with_variables)
    variables = resources.variables.union(*(condition.variables for condition in conditions))
    if not all(is_known(variable.key) for variable in variables):
        raise MalformedPolicy("Policy has an invalid policy variable")
    return Statement(
        sid, allows, *_principals(node, allows=allows), _actions(node), resources, conditions, _needed(variables)
    )


def _needed(variables: frozenset[Variable]) -> frozenset[Variable]:
    return frozenset(variable for variable in variables if variable.default is None)


def _one_of(node: dict[str, Any], name: str, negated: str) -> tuple[object, bool]:
    """The element present of two, exactly one of which must be, and whether it is the negated one."""
    if (name in node) == (negated in node):
        raise MalformedPolicy(f"Exactly one of {name} and {negated} is required")
    return (node[name], False) if name in node else (node[negated], True)


def _principals(node: dict[str, Any], *, allows: bool) -> tuple[PrincipalSet, bool]:
    element, is_negated = _one_of(node, "Principal", "NotPrincipal")
    if is_negated and allows:
        raise MalformedPolicy("Allow with NotPrincipal is not allowed")
    return principals_of(element), is_negated


def _actions(node: dict[str, Any]) -> frozenset[str]:
    element, is_negated = _one_of(node, "Action", "NotAction")
    named = frozenset().union(*(actions_of(text) for text in texts_of(element)))
    return _others(named) if is_negated else named


@lru_cache(256)
def _others(actions: frozenset[str]) -> frozenset[str]:
    return ACTIONS - actions


def _resources(node: dict[str, Any], bucket: str | None, *, with_variables: bool) -> Resources:
    element, is_negated = _one_of(node, "Resource", "NotResource")
    patterns = tuple(_resource(text, bucket, with_variables=with_variables) for text in texts_of(element))
    return Resources(patterns, is_negated)


def _resource(text: str, bucket: str | None, *, with_variables: bool) -> Pattern:
    """The pattern for `bucket` and `bucket/key`. Errors: MalformedPolicy for what can name nothing of this bucket."""
    path = text.removeprefix(_ARN)
    head = tokenise(path.partition("/")[0], with_wildcards=True, with_variables=False)
    place = Glob([token for token in head if isinstance(token, str | Wild)])
    if not text.startswith(_ARN) or not path or (bucket is not None and not place.matches(bucket)):
        raise MalformedPolicy("Policy has invalid resource")
    return Pattern(tokenise(path, with_wildcards=True, with_variables=with_variables))
