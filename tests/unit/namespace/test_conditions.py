"""The matrix of conditions (s3-behaviour.md 1.4), cell by cell."""

import pytest

from tests.property.test_listing import version
from tiers.errors import ConditionFailed, KeyNotFound
from tiers.namespace.conditions import judge_conditions
from tiers.namespace.types import UNCONDITIONAL, WriteConditions

CURRENT = version("k", 1)._replace(etag="e1")
MATCH, NONE_MATCH = "If-Match", "If-None-Match"


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
