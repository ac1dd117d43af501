"""A bucket's rules as the index asks them: the times entered are early enough, whatever else a key has."""

from dataclasses import replace
from typing import Any

import msgpack
import pytest

from metadata.tables import OBJECT
from metadata.types import DueKind, Upload, UploadState, Version
from tests.metadata_rows import sample
from tests.world import DAY_MS
from tiers.lifecycle.documents import (
    Expiration,
    Filter,
    Lifecycle,
    NoncurrentExpiration,
    NoncurrentTransition,
    Rule,
    Transition,
    pack_lifecycle,
)
from tiers.lifecycle.due import Timetable, day_ms_of, timetables
from tiers.namespace.schedules import Descent, Standing

BORN = 20_000 * DAY_MS
ORDER = {"STANDARD": 0, "STANDARD_IA": 1, "GLACIER": 2}
LARGE = 1 << 20


def rule(**parts: Any) -> Rule:
    return replace(Rule("r", is_enabled=True), **parts)


def timetable(*rules: Rule) -> Timetable:
    return Timetable(Lifecycle(rules), DAY_MS)


def version(**changed: Any) -> Version:
    plain = {"key": b"k", "size": LARGE, "modified_ms": BORN, "storage_class": "STANDARD", "is_delete_marker": 0}
    empty = {"tags": b"", "lock": b"", "noncurrent_ms": 0}
    made: Version = sample(OBJECT, 1, **{**plain, **empty, **changed})
    return made


def days(count: int) -> int:
    return BORN + count * DAY_MS


MARKER = {"is_delete_marker": 1, "size": 0, "storage_class": ""}


@pytest.mark.parametrize(
    ("rules", "changed", "expected"),
    [
        ([rule(expiration=Expiration(days=3))], {}, {DueKind.END: days(3)}),
        ([rule(expiration=Expiration(date_ms=days(9)))], {}, {DueKind.END: days(9)}),
        ([rule(expiration=Expiration(days=3)), rule(expiration=Expiration(days=2))], {}, {DueKind.END: days(2)}),
        ([replace(rule(expiration=Expiration(days=3)), is_enabled=False)], {}, {}),
        ([rule(expiration=Expiration(days=3), filter=Filter(prefix="other"))], {}, {}),
        ([rule(expiration=Expiration(days=3), filter=Filter(tags=(("a", "b"),)))], {}, {}),
        (
            [rule(expiration=Expiration(days=3), filter=Filter(tags=(("a", "b"),)))],
            {"tags": msgpack.packb([["a", "b"]])},
            {DueKind.END: days(3)},
        ),
        ([rule(expiration=Expiration(days=3))], {"noncurrent_ms": days(1)}, {}),
        ([rule(expiration=Expiration(ends_markers=True))], MARKER, {DueKind.END: days(0)}),
        ([rule(expiration=Expiration(ends_markers=True))], {}, {}),
        (
            [rule(noncurrent_expiration=NoncurrentExpiration(2, newer_kept=5))],
            {"noncurrent_ms": days(4)},
            {DueKind.END: days(6)},
        ),
        (
            [rule(transitions=(Transition("GLACIER", days=9), Transition("STANDARD_IA", days=4)))],
            {},
            {DueKind.MOVE: days(4)},
        ),
        (
            [rule(transitions=(Transition("GLACIER", days=9), Transition("STANDARD_IA", days=4)))],
            {"storage_class": "STANDARD_IA"},
            {DueKind.MOVE: days(9)},
        ),
        (
            [
                rule(
                    expiration=Expiration(days=30),
                    noncurrent_transitions=(NoncurrentTransition("GLACIER", 1, newer_kept=3),),
                )
            ],
            {"noncurrent_ms": days(2)},
            {DueKind.MOVE: days(3)},
        ),
        ([rule(transitions=(Transition("STANDARD_IA", days=4),))], {"size": 10}, {}),
    ],
)
def test_entries_are_due_at_the_earliest_time(
    rules: list[Rule], changed: dict[str, Any], expected: dict[DueKind, int]
) -> None:
    assert timetable(*rules).times_of(version(**changed)) == expected


def test_an_end_waits_for_what_its_key_must_have() -> None:
    spared = timetable(rule(noncurrent_expiration=NoncurrentExpiration(2, newer_kept=5)))
    old = version(noncurrent_ms=days(4))
    assert spared.kept == (5,)
    assert spared.end_ms(old, Standing(0)) is None
    assert spared.end_ms(old, Standing(5)) == days(6)
    lonely = timetable(rule(expiration=Expiration(days=1)))
    assert lonely.kept == ()
    assert lonely.end_ms(version(**MARKER), Standing()) is None
    assert lonely.end_ms(version(**MARKER), Standing(is_alone=True)) == days(1)


def test_moves_go_down_and_make_way_for_an_end() -> None:
    rules = timetable(
        rule(
            transitions=(Transition("STANDARD_IA", days=4), Transition("GLACIER", days=9)),
            expiration=Expiration(days=12),
        )
    )

    def ask(now_ms: int, **changed: Any) -> Descent | int | None:
        return rules.descent_of(version(**changed), Standing(), now_ms, ORDER)

    assert ask(days(3)) == days(4)
    assert ask(days(4)) == Descent("r", days(4), "STANDARD_IA")
    assert ask(days(9)) == Descent("r", days(9), "GLACIER")
    assert ask(days(5), storage_class="STANDARD_IA") == days(9)
    assert ask(days(20), storage_class="GLACIER", lock=b"locked") is None
    assert ask(days(12)) == days(13), "it ends; should that fail, the move is looked at again"
    assert ask(days(12), lock=b"locked") == Descent("r", days(9), "GLACIER")


def test_uploads_are_aborted_by_prefix_and_age() -> None:
    upload = Upload(
        "u", 1, b"logs/1", "o", BORN, UploadState.OPEN, "STANDARD", "hot", b"", b"", b"", b"", b"", "", "", b"", 0
    )
    rules = timetable(rule(filter=Filter(prefix="logs/"), abort_days=2), rule(filter=Filter(prefix="x"), abort_days=1))
    assert rules.abort_ms(upload) == days(2)
    assert rules.abort_ms(upload._replace(key=b"other")) is None


def test_documents_become_schedules_or_are_refused() -> None:
    schedule = timetables(10_000)(pack_lifecycle(Lifecycle((rule(expiration=Expiration(days=3)),))))
    assert schedule.times_of(version(modified_ms=5_000)) == {DueKind.END: 40_000}
    with pytest.raises(ValueError, match="unreadable"):
        timetables(10_000)(b"\x93junk")


@pytest.mark.parametrize(("seconds", "day_ms"), [(86_400.0, DAY_MS), (0.5, 500), (0.000_01, 1)])
def test_a_day_is_a_millisecond_at_least(seconds: float, day_ms: int) -> None:
    assert day_ms_of(seconds) == day_ms
