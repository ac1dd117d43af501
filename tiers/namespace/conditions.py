"""Conditions of a write: one pure judgement, called inside the committing transaction."""

from metadata.types import Version
from tiers.errors import ConditionFailed, KeyNotFound
from tiers.namespace.types import UNCONDITIONAL, WriteConditions


def judge_conditions(conditions: WriteConditions, current: Version | None, key: str) -> None:
    """Return when the write may go on over `current`, the key's current version (None also under a delete marker).

    Errors: KeyNotFound when If-Match has nothing to match; ConditionFailed naming the header that does not hold.
    """
    if conditions is UNCONDITIONAL:
        return
    if conditions.if_match is not None:
        if current is None:
            raise KeyNotFound(key)
        if not _matches(conditions.if_match, current.etag):
            raise ConditionFailed("If-Match")
    if (
        conditions.if_none_match is not None
        and current is not None
        and _matches(conditions.if_none_match, current.etag)
    ):
        raise ConditionFailed("If-None-Match")


def _matches(elements: tuple[str, ...], etag: str) -> bool:
    return "*" in elements or etag in elements
