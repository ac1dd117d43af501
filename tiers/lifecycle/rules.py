"""What the lifecycle rules of a bucket want for one version or upload, and when: pure functions of values and a clock.

The same functions decide and answer: who acts on a version asks `judge`, who tells a client of it asks `end_of`. A day
is as long as the caller says (`day_ms`, 86,400,000 outside tests), and every age is rounded up to the next midnight
UTC, a multiple of that day since the epoch. Dates are what they say, however long a day is.
"""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from tiers.lifecycle.documents import (
    Filter,
    Lifecycle,
    MinimumSize,
    NoncurrentExpiration,
    NoncurrentTransition,
    Rule,
    Transition,
)

MOVABLE_BYTES_MIN: Final = 128 * 1024
"""Smaller versions are not worth moving, unless a rule speaks of sizes itself."""

_ARCHIVES: Final = frozenset({"GLACIER", "DEEP_ARCHIVE"})
"""Classes that MinimumSize.VARIES lets small versions move to."""


class Subject(NamedTuple):
    """What rules look at of one version or delete marker.

    `noncurrent_ms` is 0 while it is the newest of its key, else when it ceased to be. `newer_noncurrent` counts the
    noncurrent versions of the key that are newer than it; `is_alone` says that its key has no other version.
    """

    key: str
    size: int
    modified_ms: int
    storage_class: str = "STANDARD"
    tags: frozenset[tuple[str, str]] = frozenset()
    is_delete_marker: bool = False
    noncurrent_ms: int = 0
    newer_noncurrent: int = 0
    is_alone: bool = False


class Keep(NamedTuple):
    """Nothing to do before `next_ms`, when some rule will be due; None: ever."""

    next_ms: int | None


class Move(NamedTuple):
    """Give the version another storage class."""

    rule_id: str
    due_ms: int
    storage_class: str


class Expire(NamedTuple):
    """Delete the key of a current version as a client without a version id would."""

    rule_id: str
    due_ms: int


class Remove(NamedTuple):
    """Take out a noncurrent version, or a delete marker that hides nothing, for good."""

    rule_id: str
    due_ms: int


Verdict = Keep | Move | Expire | Remove


def due_after(begin_ms: int, days: int, day_ms: int) -> int:
    """When an age of `days` that began at `begin_ms` is complete: at the first midnight at or after it."""
    assert day_ms > 0
    return -(-(begin_ms + days * day_ms) // day_ms) * day_ms


def matches(selection: Filter, subject: Subject) -> bool:
    """Whether a rule's filter holds for a version. A delete marker has neither size nor tags."""
    if selection.prefix and not subject.key.startswith(selection.prefix):
        return False
    if subject.is_delete_marker:
        return not selection.tags and selection.size_over is None and selection.size_under is None
    if selection.size_over is not None and subject.size <= selection.size_over:
        return False
    if selection.size_under is not None and subject.size >= selection.size_under:
        return False
    return subject.tags.issuperset(selection.tags)


def judge(lifecycle: Lifecycle, subject: Subject, now_ms: int, *, day_ms: int, order: Mapping[str, int]) -> Verdict:
    """What is to be done with a version now.

    `order` places every storage class, dear before cheap; a move only ever goes to a later place, and never to or from
    a class that has none. Due together, an end beats every move, and the cheapest class beats the others.
    """
    end = end_of(lifecycle, subject, day_ms)
    if end is not None and end.due_ms <= now_ms:
        return end
    place = order.get(subject.storage_class)
    moves = [
        move
        for move in moves_of(lifecycle, subject, day_ms)
        if place is not None and order.get(move.storage_class, -1) > place
    ]
    due = [move for move in moves if move.due_ms <= now_ms]
    if due:
        return max(due, key=lambda move: (order[move.storage_class], -move.due_ms))
    later = [move.due_ms for move in moves] + ([] if end is None else [end.due_ms])
    return Keep(min(later, default=None))


def end_of(lifecycle: Lifecycle, subject: Subject, day_ms: int) -> Expire | Remove | None:
    """The first end that any rule puts to a version, due or not; of several at one time that of the first rule."""
    ends = [
        (due_ms, rule.rule_id)
        for rule in lifecycle.rules
        if rule.is_enabled and matches(rule.filter, subject)
        if (due_ms := _end_by(rule, subject, day_ms)) is not None
    ]
    if not ends:
        return None
    due_ms, rule_id = min(ends, key=lambda end: end[0])
    if subject.noncurrent_ms or subject.is_delete_marker:
        return Remove(rule_id, due_ms)
    return Expire(rule_id, due_ms)


def _end_by(rule: Rule, subject: Subject, day_ms: int) -> int | None:
    if subject.noncurrent_ms:
        ending = rule.noncurrent_expiration
        if ending is None or not _is_beyond(ending, subject):
            return None
        return due_after(subject.noncurrent_ms, ending.days, day_ms)
    expiration = rule.expiration
    if expiration is None or (subject.is_delete_marker and not subject.is_alone):
        return None
    if subject.is_delete_marker and expiration.ends_markers:
        return due_after(subject.modified_ms, 0, day_ms)
    if expiration.days is not None:
        return due_after(subject.modified_ms, expiration.days, day_ms)
    return expiration.date_ms


def _is_beyond(action: NoncurrentExpiration | NoncurrentTransition, subject: Subject) -> bool:
    """Whether a noncurrent version is older than those that the action spares."""
    return action.newer_kept is None or subject.newer_noncurrent >= action.newer_kept


def moves_of(lifecycle: Lifecycle, subject: Subject, day_ms: int) -> Iterator[Move]:
    """Every move that the rules name for a version, due or not, in the order of the document."""
    if subject.is_delete_marker:
        return
    for rule in lifecycle.rules:
        if not rule.is_enabled or not matches(rule.filter, subject):
            continue
        actions = rule.noncurrent_transitions if subject.noncurrent_ms else rule.transitions
        for action in actions:
            due_ms = _move_by(action, subject, day_ms)
            if due_ms is not None and is_large_enough(
                lifecycle.minimum_size, rule.filter, subject, action.storage_class
            ):
                yield Move(rule.rule_id, due_ms, action.storage_class)


def _move_by(action: Transition | NoncurrentTransition, subject: Subject, day_ms: int) -> int | None:
    if isinstance(action, NoncurrentTransition):
        return due_after(subject.noncurrent_ms, action.days, day_ms) if _is_beyond(action, subject) else None
    if action.days is not None:
        return due_after(subject.modified_ms, action.days, day_ms)
    return action.date_ms


def is_large_enough(minimum: MinimumSize, selection: Filter, subject: Subject, storage_class: str) -> bool:
    """Whether a version may be moved by a rule: a rule that speaks of sizes decides alone."""
    if selection.size_over is not None or selection.size_under is not None or subject.size >= MOVABLE_BYTES_MIN:
        return True
    return minimum is MinimumSize.VARIES and storage_class in _ARCHIVES


def abort_of(lifecycle: Lifecycle, key: str, created_ms: int, day_ms: int) -> Expire | None:
    """The first end that any rule puts to an open upload of a key."""
    ends = [
        Expire(rule.rule_id, due_after(created_ms, rule.abort_days, day_ms))
        for rule in lifecycle.rules
        if rule.is_enabled and rule.abort_days is not None and key.startswith(rule.filter.prefix or "")
    ]
    return min(ends, key=lambda end: end.due_ms, default=None)
