"""Conditions of writes and deletes: pure judgements, called inside the committing transaction."""

from metadata.types import Version
from tiers.errors import ConditionFailed, KeyNotFound, VersionNotFound
from tiers.namespace.types import UNCONDITIONAL, UNCONDITIONAL_DELETE, DeleteConditions, WriteConditions


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


def judge_delete(conditions: DeleteConditions, version: Version | None, *, key: str, version_id: str | None) -> None:
    """Return when the delete may go on.

    `version` is the version named or, when `version_id` is None, the current one (None also under a delete marker). A
    delete marker that is named has a size (0) and a time but no ETag, so that nothing matches it.
    Errors: KeyNotFound or VersionNotFound when If-Match has nothing to match, the other conditions hold then;
    ConditionFailed naming the header that does not hold.
    """
    if conditions is UNCONDITIONAL_DELETE:
        return
    if version is None:
        if conditions.if_match is not None:
            raise KeyNotFound(key) if version_id is None else VersionNotFound(version_id)
        return
    if conditions.if_match is not None and (
        version.is_delete_marker or not _matches(conditions.if_match, version.etag)
    ):
        raise ConditionFailed("If-Match")
    if conditions.size is not None and conditions.size != version.size:
        raise ConditionFailed("x-amz-if-match-size")
    if conditions.modified_seconds is not None and conditions.modified_seconds != version.modified_ms // 1000:
        raise ConditionFailed("x-amz-if-match-last-modified-time")


def _matches(elements: tuple[str, ...], etag: str) -> bool:
    return "*" in elements or etag in elements
