"""What lifecycle rules want, and when: tables of single rules, and properties against plain statements of the rules."""

from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiers.lifecycle.documents import (
    Expiration,
    Filter,
    FilterForm,
    Lifecycle,
    MinimumSize,
    NoncurrentExpiration,
    NoncurrentTransition,
    Rule,
    Transition,
    pack_lifecycle,
    unpack_lifecycle,
)
from tiers.lifecycle.rules import (
    MOVABLE_BYTES_MIN,
    Expire,
    Keep,
    Move,
    Remove,
    Subject,
    abort_of,
    due_after,
    end_of,
    judge,
    matches,
    moves_of,
)

DAY = 86_400_000
MIDNIGHT = 20_000 * DAY
ORDER = {"STANDARD": 0, "STANDARD_IA": 1, "GLACIER_IR": 2, "GLACIER": 3, "DEEP_ARCHIVE": 4}
LARGE = MOVABLE_BYTES_MIN


def rule(**parts: Any) -> Rule:
    return replace(Rule("r", is_enabled=True), **parts)


def rules(*each: Rule, minimum_size: MinimumSize = MinimumSize.ALL_128K) -> Lifecycle:
    return Lifecycle(each, minimum_size)


def subject(key: str = "k", size: int = LARGE, modified_ms: int = MIDNIGHT + 1, **rest: Any) -> Subject:
    return Subject(key, size, modified_ms)._replace(**rest)


@pytest.mark.parametrize(
    ("begin_ms", "days", "due_ms"),
    [
        (MIDNIGHT, 1, MIDNIGHT + DAY),
        (MIDNIGHT + 1, 1, MIDNIGHT + 2 * DAY),
        (MIDNIGHT + DAY - 1, 1, MIDNIGHT + 2 * DAY),
        (MIDNIGHT + 1, 0, MIDNIGHT + DAY),
        (MIDNIGHT, 0, MIDNIGHT),
        (MIDNIGHT + 1, 30, MIDNIGHT + 31 * DAY),
    ],
)
def test_ages_end_at_midnight(begin_ms: int, days: int, due_ms: int) -> None:
    assert due_after(begin_ms, days, DAY) == due_ms


@given(st.integers(0, 1 << 45), st.integers(0, 1 << 31), st.integers(1, DAY))
def test_due_is_the_first_midnight_at_or_after_the_age(begin_ms: int, days: int, day_ms: int) -> None:
    due_ms = due_after(begin_ms, days, day_ms)
    assert due_ms % day_ms == 0
    assert 0 <= due_ms - (begin_ms + days * day_ms) < day_ms


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        (Filter(), True),
        (Filter(prefix=""), True),
        (Filter(prefix="a/"), True),
        (Filter(prefix="a/k2"), False),
        (Filter(prefix="b"), False),
        (Filter(tags=(("t", "1"),)), True),
        (Filter(tags=(("t", "2"),)), False),
        (Filter(tags=(("u", "1"),)), False),
        (Filter(tags=(("t", "1"), ("u", "2"))), False),
        (Filter(tags=(("t", "1"), ("v", ""))), True),
        (Filter(size_over=99), True),
        (Filter(size_over=100), False),
        (Filter(size_under=101), True),
        (Filter(size_under=100), False),
        (Filter(FilterForm.AND, "a/", (("t", "1"),), 99, 101), True),
        (Filter(FilterForm.AND, "a/", (("t", "1"),), 100, 101), False),
    ],
)
def test_filters(selection: Filter, expected: bool) -> None:
    held = subject("a/k", 100, tags=frozenset({("t", "1"), ("v", "")}))
    assert matches(selection, held) is expected
    has_more = bool(selection.tags) or selection.size_over is not None or selection.size_under is not None
    in_prefix = "a/k".startswith(selection.prefix or "")
    assert matches(selection, held._replace(is_delete_marker=True)) is (in_prefix and not has_more)


DUE = MIDNIGHT + 3 * DAY
TWO_DAYS = rule(expiration=Expiration(days=2))
NONCURRENT = rule(noncurrent_expiration=NoncurrentExpiration(2, 3))
OLD: dict[str, Any] = {"noncurrent_ms": MIDNIGHT + 1, "modified_ms": 5}


@pytest.mark.parametrize(
    ("wanted", "about", "expected"),
    [
        (TWO_DAYS, subject(), Expire("r", DUE)),
        (rule(expiration=Expiration(date_ms=MIDNIGHT)), subject(), Expire("r", MIDNIGHT)),
        (replace(TWO_DAYS, is_enabled=False), subject(), None),
        (replace(TWO_DAYS, filter=Filter(prefix="x")), subject(), None),
        (rule(transitions=(Transition("GLACIER", 1),)), subject(), None),
        (TWO_DAYS, subject(**OLD), None),
        (NONCURRENT, subject(), None),
        (NONCURRENT, subject(**OLD, newer_noncurrent=2), None),
        (NONCURRENT, subject(**OLD, newer_noncurrent=3), Remove("r", DUE)),
        (rule(noncurrent_expiration=NoncurrentExpiration(2)), subject(**OLD), Remove("r", DUE)),
        (rule(noncurrent_expiration=NoncurrentExpiration(2)), subject(**OLD, is_delete_marker=True), Remove("r", DUE)),
        (rule(expiration=Expiration(ends_markers=True)), subject(), None),
        (rule(expiration=Expiration(ends_markers=True)), subject(is_delete_marker=True), None),
        (
            rule(expiration=Expiration(ends_markers=True)),
            subject(is_delete_marker=True, is_alone=True),
            Remove("r", MIDNIGHT + DAY),
        ),
        (TWO_DAYS, subject(is_delete_marker=True), None),
        (TWO_DAYS, subject(is_delete_marker=True, is_alone=True), Remove("r", DUE)),
        (rule(expiration=Expiration(ends_markers=False)), subject(is_delete_marker=True, is_alone=True), None),
    ],
)
def test_end_of_one_rule(wanted: Rule, about: Subject, expected: Expire | Remove | None) -> None:
    assert end_of(rules(wanted), about, DAY) == expected


def test_the_first_end_counts_and_of_equal_ones_the_first_rule() -> None:
    several = [rule(rule_id=f"{days}-{n}", expiration=Expiration(days=days)) for days, n in product((9, 2, 5), (0, 1))]
    assert end_of(rules(*several), subject(), DAY) == Expire("2-0", DUE)


@pytest.mark.parametrize(
    ("size", "selection", "minimum_size", "expected"),
    [
        (LARGE, Filter(), MinimumSize.ALL_128K, ["STANDARD_IA", "GLACIER"]),
        (LARGE - 1, Filter(), MinimumSize.ALL_128K, []),
        (LARGE - 1, Filter(), MinimumSize.VARIES, ["GLACIER"]),
        (0, Filter(size_under=10), MinimumSize.ALL_128K, ["STANDARD_IA", "GLACIER"]),
        (1, Filter(size_over=0), MinimumSize.ALL_128K, ["STANDARD_IA", "GLACIER"]),
    ],
)
def test_small_versions_stay(size: int, selection: Filter, minimum_size: MinimumSize, expected: list[str]) -> None:
    moving = rule(filter=selection, transitions=(Transition("STANDARD_IA", 1), Transition("GLACIER", 2)))
    moves = moves_of(rules(moving, minimum_size=minimum_size), subject(size=size), DAY)
    assert [move.storage_class for move in moves] == expected


STEPS = rule(
    transitions=(Transition("STANDARD_IA", 1), Transition("GLACIER", 2), Transition("DEEP_ARCHIVE", 3)),
    expiration=Expiration(days=4),
)


@pytest.mark.parametrize(
    ("days", "storage_class", "expected"),
    [
        (0, "STANDARD", Keep(MIDNIGHT + 2 * DAY)),
        (2, "STANDARD", Move("r", MIDNIGHT + 2 * DAY, "STANDARD_IA")),
        (2, "STANDARD_IA", Keep(MIDNIGHT + 3 * DAY)),
        (3, "STANDARD_IA", Move("r", MIDNIGHT + 3 * DAY, "GLACIER")),
        (4, "STANDARD", Move("r", MIDNIGHT + 4 * DAY, "DEEP_ARCHIVE")),
        (4, "DEEP_ARCHIVE", Keep(MIDNIGHT + 5 * DAY)),
        (5, "STANDARD", Expire("r", MIDNIGHT + 5 * DAY)),
        (0, "gone-tier", Keep(MIDNIGHT + 5 * DAY)),
        (4, "gone-tier", Keep(MIDNIGHT + 5 * DAY)),
    ],
)
def test_steps_downhill_then_the_end(days: int, storage_class: str, expected: object) -> None:
    held = subject(storage_class=storage_class)
    assert judge(rules(STEPS), held, MIDNIGHT + days * DAY, day_ms=DAY, order=ORDER) == expected


def test_noncurrent_moves_count_from_when_it_ceased_to_be_current() -> None:
    moving = rule(noncurrent_transitions=(NoncurrentTransition("GLACIER", 1, 1),))
    held = subject(**OLD, newer_noncurrent=1)
    assert judge(rules(moving), held, MIDNIGHT + 2 * DAY, day_ms=DAY, order=ORDER) == Move(
        "r", MIDNIGHT + 2 * DAY, "GLACIER"
    )
    assert judge(rules(moving), held._replace(newer_noncurrent=0), 1 << 50, day_ms=DAY, order=ORDER) == Keep(None)
    assert judge(rules(moving), held._replace(is_delete_marker=True), 1 << 50, day_ms=DAY, order=ORDER) == Keep(None)


def test_open_uploads_end_by_prefix() -> None:
    ending = rules(
        rule(rule_id="a", abort_days=3),
        rule(rule_id="b", abort_days=1, filter=Filter(prefix="x")),
        rule(rule_id="c", abort_days=1, is_enabled=False),
    )
    assert abort_of(ending, "k", MIDNIGHT, DAY) == Expire("a", MIDNIGHT + 3 * DAY)
    assert abort_of(ending, "xk", MIDNIGHT, DAY) == Expire("b", MIDNIGHT + DAY)
    assert abort_of(rules(TWO_DAYS), "k", MIDNIGHT, DAY) is None


keys = st.sampled_from(["", "a", "a/", "a/b", "b"])
tags = st.sampled_from([("t", "1"), ("t", "2"), ("u", "1")])
filters = st.builds(
    Filter,
    st.sampled_from(FilterForm),
    st.none() | keys,
    st.lists(tags, max_size=2, unique_by=lambda tag: tag[0]).map(tuple),
    st.none() | st.integers(0, 3),
    st.none() | st.integers(1, 4),
)
classes = st.sampled_from(sorted(ORDER))
counts = st.integers(0, 4)
drawn_rules = st.builds(
    Rule,
    st.text(max_size=5),
    st.booleans(),
    filters,
    st.none() | st.builds(Expiration, st.none() | counts, st.none() | st.just(MIDNIGHT), st.none() | st.booleans()),
    st.lists(st.builds(Transition, classes, counts), max_size=2).map(tuple),
    st.lists(st.builds(NoncurrentTransition, classes, counts, st.none() | counts), max_size=2).map(tuple),
    st.none() | st.builds(NoncurrentExpiration, counts, st.none() | counts),
    st.none() | counts,
)
lifecycles = st.builds(Lifecycle, st.lists(drawn_rules, max_size=4).map(tuple), st.sampled_from(MinimumSize))
subjects = st.builds(
    Subject,
    keys,
    st.sampled_from([0, 1, 2, 3, 4, LARGE - 1, LARGE]),
    st.integers(MIDNIGHT, MIDNIGHT + 2 * DAY),
    classes,
    st.frozensets(tags),
    st.booleans(),
    st.sampled_from([0, MIDNIGHT + 1]),
    counts,
    st.booleans(),
)
moments = st.integers(MIDNIGHT - DAY, MIDNIGHT + 10 * DAY)


@given(lifecycles)
def test_documents_come_back_as_stored(lifecycle: Lifecycle) -> None:
    assert unpack_lifecycle(pack_lifecycle(lifecycle)) == lifecycle


@pytest.mark.parametrize("document", [b"", b"x", b"\x93\x02\xa0\x90", b"\x93\x01\xa1x\x90", b"\x92\x01\x90"])
def test_an_unreadable_document_is_refused(document: bytes) -> None:
    with pytest.raises(ValueError, match="unreadable"):
        unpack_lifecycle(document)


@given(lifecycles, subjects, moments)
def test_no_verdict_comes_early_or_uphill(lifecycle: Lifecycle, about: Subject, now_ms: int) -> None:
    """What is done is due; a current version is never removed for good, a move never goes to a dearer place."""
    verdict = judge(lifecycle, about, now_ms, day_ms=DAY, order=ORDER)
    if isinstance(verdict, Keep):
        assert verdict.next_ms is None or verdict.next_ms > now_ms
        return
    assert verdict.due_ms <= now_ms
    named = [each for each in lifecycle.rules if each.rule_id == verdict.rule_id and each.is_enabled]
    assert any(matches(each.filter, about) for each in named)
    is_current = not about.noncurrent_ms and not about.is_delete_marker
    assert isinstance(verdict, Remove) <= (not is_current)
    assert isinstance(verdict, Expire) <= is_current
    if isinstance(verdict, Move):
        assert ORDER[verdict.storage_class] > ORDER[about.storage_class]
        end = end_of(lifecycle, about, DAY)
        assert end is None or end.due_ms > now_ms


@given(lifecycles, subjects, moments)
def test_waiting_for_the_next_time_misses_nothing(lifecycle: Lifecycle, about: Subject, now_ms: int) -> None:
    verdict = judge(lifecycle, about, now_ms, day_ms=DAY, order=ORDER)
    if isinstance(verdict, Keep):
        just_before = 1 << 50 if verdict.next_ms is None else verdict.next_ms - 1
        assert isinstance(judge(lifecycle, about, just_before, day_ms=DAY, order=ORDER), Keep)
        if verdict.next_ms is not None:
            assert not isinstance(judge(lifecycle, about, verdict.next_ms, day_ms=DAY, order=ORDER), Keep)


@given(lifecycles, subjects, st.integers(2, 1000))
def test_a_shorter_day_scales_every_count(lifecycle: Lifecycle, about: Subject, factor: int) -> None:
    """With days and times a `factor` longer, everything that counts days is due a `factor` later."""
    undated = replace(
        lifecycle,
        rules=tuple(
            replace(each, expiration=each.expiration and replace(each.expiration, date_ms=None))
            for each in lifecycle.rules
        ),
    )
    short = about._replace(modified_ms=about.modified_ms * 1000, noncurrent_ms=about.noncurrent_ms * 1000)
    long = short._replace(modified_ms=short.modified_ms * factor, noncurrent_ms=short.noncurrent_ms * factor)
    one, many = end_of(undated, short, DAY), end_of(undated, long, DAY * factor)
    assert (one and one.due_ms * factor) == (many and many.due_ms)
