"""The matrix of conditions (s3-behaviour.md 1.4), cell by cell."""

import pytest

from metadata.types import Version
from tests.property.test_listing import version
from tiers.errors import ConditionFailed, KeyNotFound, VersionNotFound
from tiers.namespace.conditions import judge_conditions, judge_delete
from tiers.namespace.types import UNCONDITIONAL, UNCONDITIONAL_DELETE, DeleteConditions, WriteConditions

CURRENT = version("k", 1)._replace(etag="e1", size=7, modified_ms=1_700_000_000_999)
MARKER = CURRENT._replace(etag="", size=0, is_delete_marker=1)
SECONDS = 1_700_000_000
MATCH, NONE_MATCH = "If-Match", "If-None-Match"
SIZE, MODIFIED = "x-amz-if-match-size", "x-amz-if-match-last-modified-time"


@pytest.mark.parametrize(
    ("conditions", "is_present", "refusal"),
    [
        (UNCONDITIONAL, True, None),
        (UNCONDITIONAL, False, None),
        (WriteConditions(if_match=("e1",)), True, None),
        (WriteConditions(if_match=("*",)), True, None),
        (WriteConditions(if_match=("e0", "e1")), True, None),
        (WriteConditions(if_match=("e2",)), True, MATCH),
        (WriteConditions(if_match=()), True, MATCH),
        (WriteConditions(if_match=("e1",)), False, KeyNotFound),
        (WriteConditions(if_match=("*",)), False, KeyNotFound),
        (WriteConditions(if_none_match=("*",)), True, NONE_MATCH),
        (WriteConditions(if_none_match=("e1",)), True, NONE_MATCH),
        (WriteConditions(if_none_match=("e2",)), True, None),
        (WriteConditions(if_none_match=("*",)), False, None),
        (WriteConditions(if_match=("e1",), if_none_match=("e1",)), True, NONE_MATCH),
    ],
)
def test_matrix(conditions: WriteConditions, is_present: bool, refusal: str | type[Exception] | None) -> None:
    current = CURRENT if is_present else None
    if refusal is None:
        judge_conditions(conditions, current, "k")
    elif isinstance(refusal, str):
        with pytest.raises(ConditionFailed) as caught:
            judge_conditions(conditions, current, "k")
        assert caught.value.condition == refusal
    else:
        with pytest.raises(refusal):
            judge_conditions(conditions, current, "k")


@pytest.mark.parametrize(
    ("conditions", "found", "marker", "absent"),
    [
        (UNCONDITIONAL_DELETE, None, None, None),
        (DeleteConditions(if_match=("e1",)), None, MATCH, KeyNotFound),
        (DeleteConditions(if_match=("*",)), None, MATCH, KeyNotFound),
        (DeleteConditions(if_match=("e2",)), MATCH, MATCH, KeyNotFound),
        (DeleteConditions(if_match=("",)), MATCH, MATCH, KeyNotFound),
        (DeleteConditions(size=7), None, SIZE, None),
        (DeleteConditions(size=0), SIZE, None, None),
        (DeleteConditions(modified_seconds=SECONDS), None, None, None),
        (DeleteConditions(modified_seconds=SECONDS + 1), MODIFIED, MODIFIED, None),
        (DeleteConditions(modified_seconds=0), MODIFIED, MODIFIED, None),
        (DeleteConditions(("e1",), 7, SECONDS), None, MATCH, KeyNotFound),
        (DeleteConditions(("e1",), 8, SECONDS), SIZE, MATCH, KeyNotFound),
        (DeleteConditions(None, 7, 0), MODIFIED, SIZE, None),
    ],
)
def test_matrix_of_deletes(
    conditions: DeleteConditions, found: str | None, marker: str | None, absent: type[Exception] | None
) -> None:
    """What is refused for a version, for a delete marker that is named, and where there is nothing."""

    def refusal(about: Version | None, version_id: str | None = None) -> str | type[Exception] | None:
        try:
            judge_delete(conditions, about, key="k", version_id=version_id)
        except ConditionFailed as error:
            return error.condition
        except (KeyNotFound, VersionNotFound) as error:
            return type(error)
        return None

    assert (refusal(CURRENT), refusal(MARKER, "v"), refusal(None)) == (found, marker, absent)
    assert refusal(None, "v") == (None if absent is None else VersionNotFound)
