"""Object Lock: what protects a version from removal, who may change that, and the default a bucket gives; pure.

Every path that takes a version away asks `judge_removal` (`tiers.namespace.versions` does so for all of them). What
cannot be understood counts as locked for ever.
"""

from datetime import UTC, datetime
from enum import StrEnum
from typing import Final, NamedTuple

import msgpack

from tiers.errors import VersionLocked

DEFAULT_DAYS_MAX: Final = 36_500
DEFAULT_YEARS_MAX: Final = 100
FOREVER_MS: Final = 253_402_300_799_999
"""The last millisecond of the year 9999: the latest date that can be told."""

_DAY_MS: Final = 86_400_000


class Mode(StrEnum):
    """How a retention is enforced; `NONE` is no retention."""

    NONE = ""
    GOVERNANCE = "GOVERNANCE"  # whoever has the permission may shorten or lift it
    COMPLIANCE = "COMPLIANCE"  # nobody may, before its date


class LegalHold(StrEnum):
    """A hold without a date; `NONE` says that nobody ever set one, which is answered differently from `OFF`."""

    NONE = ""
    ON = "ON"
    OFF = "OFF"


class Lock(NamedTuple):
    """The lock state of one version. `retain_until_ms` is 0 exactly when there is no mode."""

    mode: Mode = Mode.NONE
    retain_until_ms: int = 0
    legal_hold: LegalHold = LegalHold.NONE


UNLOCKED: Final = Lock()
UNREADABLE: Final = Lock(Mode.COMPLIANCE, FOREVER_MS, LegalHold.ON)
"""What a stored state that nobody understands is taken for. It cannot be changed either."""


def pack_lock(lock: Lock) -> bytes:
    """A lock as a row stores it: msgpack of (mode, retain_until_ms, legal_hold), empty for none."""
    assert bool(lock.mode) == bool(lock.retain_until_ms)
    assert 0 <= lock.retain_until_ms <= FOREVER_MS
    if lock == UNLOCKED:
        return b""
    packed: bytes = msgpack.packb([lock.mode.value, lock.retain_until_ms, lock.legal_hold.value])
    return packed


def unpack_lock(packed: bytes) -> Lock:
    """Inverse of `pack_lock`; UNREADABLE for anything else."""
    if not packed:
        return UNLOCKED
    try:
        mode, until, hold = msgpack.unpackb(packed)
        lock = Lock(Mode(mode), until, LegalHold(hold))
    except (ValueError, TypeError, msgpack.UnpackException):
        return UNREADABLE
    if type(until) is not int or bool(lock.mode) != bool(until) or not 0 <= until <= FOREVER_MS:
        return UNREADABLE
    return lock


def is_retained(lock: Lock, now_ms: int) -> bool:
    """Whether a retention period is running; its last millisecond still counts."""
    return lock.mode is not Mode.NONE and now_ms <= lock.retain_until_ms


def judge_removal(packed: bytes, now_ms: int, *, bypasses_governance: bool = False) -> None:
    """Return when a version with this stored lock may be removed or replaced. Errors: VersionLocked."""
    if not packed:
        return
    lock = unpack_lock(packed)
    if lock.legal_hold is LegalHold.ON:
        raise VersionLocked("legal hold")
    if is_retained(lock, now_ms) and not (lock.mode is Mode.GOVERNANCE and bypasses_governance):
        raise VersionLocked(lock.mode.value)


class LockChange(NamedTuple):
    """A change of one version's lock: None leaves that half as it is. A `retention` of mode NONE lifts it."""

    retention: tuple[Mode, int] | None = None
    legal_hold: LegalHold | None = None
    bypasses_governance: bool = False


def change_lock(packed: bytes, change: LockChange, now_ms: int) -> bytes:
    """The stored lock after a change.

    A running COMPLIANCE period may only be prolonged; a running GOVERNANCE period only be prolonged unless bypassed.
    The legal hold is independent of both. Errors: VersionLocked, also when the stored state is unreadable.
    """
    lock = unpack_lock(packed)
    if lock == UNREADABLE:
        raise VersionLocked("unreadable lock state")
    if change.retention is not None:
        mode, until_ms = change.retention
        is_prolonged = mode is lock.mode and until_ms >= lock.retain_until_ms
        may_lift = lock.mode is Mode.GOVERNANCE and change.bypasses_governance
        if is_retained(lock, now_ms) and not is_prolonged and not may_lift:
            raise VersionLocked(lock.mode.value)
        lock = lock._replace(mode=mode, retain_until_ms=until_ms)
    if change.legal_hold is not None:
        lock = lock._replace(legal_hold=change.legal_hold)
    return pack_lock(lock)


class DefaultRetention(NamedTuple):
    """What a bucket with Object Lock gives its new versions; mode NONE is nothing. One of `days` and `years` is 0."""

    mode: Mode = Mode.NONE
    days: int = 0
    years: int = 0


NO_DEFAULT: Final = DefaultRetention()


def pack_default(default: DefaultRetention) -> bytes:
    """The OBJECT_LOCK document of a bucket; its presence alone says that the bucket has Object Lock."""
    assert bool(default.mode) == (default.days + default.years > 0)
    assert not (default.days and default.years)
    packed: bytes = msgpack.packb([default.mode.value, default.days, default.years])
    return packed


def unpack_default(document: bytes) -> DefaultRetention:
    """Inverse of `pack_default`.

    Errors: ValueError for anything else: a version that might need a retention must not be written without it.
    """
    try:
        mode, days, years = msgpack.unpackb(document)
        default = DefaultRetention(Mode(mode), days, years)
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise ValueError("the bucket's Object Lock document is unreadable") from error
    is_whole = type(days) is int and type(years) is int and 0 <= days <= DEFAULT_DAYS_MAX
    if not is_whole or not 0 <= years <= DEFAULT_YEARS_MAX or bool(default.mode) != (days + years > 0):
        raise ValueError("the bucket's Object Lock document is unreadable")
    return default


def lock_new_version(asked: bytes, default: DefaultRetention, now_ms: int) -> bytes:
    """The stored lock of a version committed now: what its writer asked for, else the bucket's default retention."""
    lock = unpack_lock(asked)
    if lock.mode is not Mode.NONE or default.mode is Mode.NONE:
        return asked
    return pack_lock(lock._replace(mode=default.mode, retain_until_ms=_end_of(default, now_ms)))


def _end_of(default: DefaultRetention, now_ms: int) -> int:
    """When a default retention that begins now ends. Years are calendar years; 29 February becomes 1 March."""
    if default.days:
        return min(now_ms + default.days * _DAY_MS, FOREVER_MS)
    seconds, rest_ms = divmod(now_ms, 1000)
    begin = datetime.fromtimestamp(seconds, UTC)
    year = begin.year + default.years
    if year > 9999:
        return FOREVER_MS
    try:
        end = begin.replace(year=year)
    except ValueError:
        end = begin.replace(year=year, month=3, day=1)
    return int(end.timestamp()) * 1000 + rest_ms
