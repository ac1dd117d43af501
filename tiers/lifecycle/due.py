"""A bucket's lifecycle rules as the schedule that the due-time index and its acts ask: `rules` over rows."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import msgpack

from metadata.types import DueKind, Upload, Version
from tiers.lifecycle.documents import Lifecycle, Rule, unpack_lifecycle
from tiers.lifecycle.rules import Keep, Move, Subject, abort_of, end_of, judge, moves_of
from tiers.namespace.schedules import Compile, Descent, Standing

SOONEST: Final = Standing(newer_noncurrent=1 << 30, is_alone=True)
"""As no key stands: everything that depends on other versions is due at its time."""


class Timetable:
    """`tiers.namespace.schedules.Schedule` of one document. Immutable; a day is `day_ms` long."""

    def __init__(self, lifecycle: Lifecycle, day_ms: int) -> None:
        assert day_ms > 0
        self.lifecycle = lifecycle
        self.day_ms = day_ms
        self.kept = _kept(lifecycle)
        self._moving = replace(lifecycle, rules=tuple([_without_ends(rule) for rule in lifecycle.rules]))

    def times_of(self, version: Version) -> Mapping[DueKind, int]:
        """See `Schedule`."""
        subject = subject_of(version, SOONEST)
        times: dict[DueKind, int] = {}
        end = end_of(self.lifecycle, subject, self.day_ms)
        if end is not None:
            times[DueKind.END] = end.due_ms
        moves = moves_of(self.lifecycle, subject, self.day_ms)
        move_ms = min((move.due_ms for move in moves if move.storage_class != version.storage_class), default=None)
        if move_ms is not None:
            times[DueKind.MOVE] = move_ms
        return times

    def abort_ms(self, upload: Upload) -> int | None:
        """See `Schedule`."""
        end = abort_of(self.lifecycle, upload.key.decode(), upload.created_ms, self.day_ms)
        return None if end is None else end.due_ms

    def end_ms(self, version: Version, standing: Standing) -> int | None:
        """See `Schedule`."""
        end = end_of(self.lifecycle, subject_of(version, standing), self.day_ms)
        return None if end is None else end.due_ms

    def descent_of(
        self, version: Version, standing: Standing, now_ms: int, order: Mapping[str, int]
    ) -> Descent | int | None:
        """See `Schedule`. What is about to end does not move, unless its lock may keep it."""
        end_ms = self.end_ms(version, standing)
        if end_ms is not None and end_ms <= now_ms and not version.lock:
            return now_ms + self.day_ms
        subject = subject_of(version, standing)
        verdict = judge(self._moving, subject, now_ms, day_ms=self.day_ms, order=order)
        if isinstance(verdict, Move):
            return Descent(*verdict)
        assert isinstance(verdict, Keep), "no rule of these ends anything"
        return verdict.next_ms


def subject_of(version: Version, standing: Standing) -> Subject:
    """What rules look at of a version."""
    return Subject(
        key=version.key.decode(),
        size=version.size,
        modified_ms=version.modified_ms,
        storage_class=version.storage_class,
        tags=frozenset([(key, value) for key, value in msgpack.unpackb(version.tags)] if version.tags else ()),
        is_delete_marker=bool(version.is_delete_marker),
        noncurrent_ms=version.noncurrent_ms,
        newer_noncurrent=standing.newer_noncurrent,
        is_alone=standing.is_alone,
    )


def timetables(day_ms: int) -> Compile:
    """Makes schedules of documents, for days of that length."""
    return lambda document: Timetable(unpack_lifecycle(document), day_ms)


def day_ms_of(seconds_per_day: float) -> int:
    """Milliseconds of a lifecycle day, at least one."""
    return max(1, round(seconds_per_day * 1000))


def _kept(lifecycle: Lifecycle) -> tuple[int, ...]:
    rules = [rule for rule in lifecycle.rules if rule.is_enabled]
    actions = [action for rule in rules for action in (rule.noncurrent_expiration, *rule.noncurrent_transitions)]
    return tuple(sorted({action.newer_kept for action in actions if action is not None and action.newer_kept}))


def _without_ends(rule: Rule) -> Rule:
    return replace(rule, expiration=None, noncurrent_expiration=None)
