"""Object Lock as pure decisions: tables of every mode, and properties that no state may break."""

from datetime import UTC, datetime

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiers.errors import VersionLocked
from tiers.namespace.locks import (
    FOREVER_MS,
    UNLOCKED,
    UNREADABLE,
    DefaultRetention,
    LegalHold,
    Lock,
    LockChange,
    Mode,
    change_lock,
    is_retained,
    judge_removal,
    lock_new_version,
    pack_default,
    pack_lock,
    unpack_default,
    unpack_lock,
)

NOW = 1_700_000_000_000
LATER = NOW + 86_400_000
GOVERNANCE, COMPLIANCE = Mode.GOVERNANCE, Mode.COMPLIANCE

times = st.integers(1, FOREVER_MS)
holds = st.sampled_from(LegalHold)
retentions = st.one_of(st.just((Mode.NONE, 0)), st.tuples(st.sampled_from([GOVERNANCE, COMPLIANCE]), times))
locks = st.builds(lambda retention, hold: Lock(retention[0], retention[1], hold), retentions, holds)


def is_removable(packed: bytes, now_ms: int = NOW, *, bypass: bool = False) -> bool:
    try:
        judge_removal(packed, now_ms, bypasses_governance=bypass)
    except VersionLocked:
        return False
    return True


@pytest.mark.parametrize(
    ("lock", "plain", "bypassing"),
    [
        (UNLOCKED, True, True),
        (Lock(GOVERNANCE, LATER), False, True),
        (Lock(GOVERNANCE, NOW), False, True),
        (Lock(GOVERNANCE, NOW - 1), True, True),
        (Lock(COMPLIANCE, LATER), False, False),
        (Lock(COMPLIANCE, NOW), False, False),
        (Lock(COMPLIANCE, NOW - 1), True, True),
        (Lock(legal_hold=LegalHold.ON), False, False),
        (Lock(legal_hold=LegalHold.OFF), True, True),
        (Lock(GOVERNANCE, LATER, LegalHold.ON), False, False),
        (Lock(GOVERNANCE, LATER, LegalHold.OFF), False, True),
        (Lock(COMPLIANCE, NOW - 1, LegalHold.ON), False, False),
        (UNREADABLE, False, False),
    ],
)
def test_removal(lock: Lock, plain: bool, bypassing: bool) -> None:
    packed = pack_lock(lock)
    assert (is_removable(packed), is_removable(packed, bypass=True)) == (plain, bypassing)


@pytest.mark.parametrize(
    "packed",
    [
        b"x",
        b"\xc1",
        b"\x93",
        msgpack.packb([]),
        msgpack.packb(["GOVERNANCE", LATER]),
        msgpack.packb(["governance", LATER, ""]),
        msgpack.packb(["GOVERNANCE", 0, ""]),
        msgpack.packb(["", LATER, ""]),
        msgpack.packb(["GOVERNANCE", "soon", ""]),
        msgpack.packb(["GOVERNANCE", True, ""]),
        msgpack.packb(["GOVERNANCE", -1, ""]),
        msgpack.packb(["GOVERNANCE", LATER, "on"]),
        msgpack.packb(["GOVERNANCE", LATER, "", 1]),
        msgpack.packb([["GOVERNANCE"], LATER, ""]),
        msgpack.packb({"mode": ""}),
        msgpack.packb(None),
    ],
)
def test_unreadable_is_locked_and_cannot_be_changed(packed: bytes) -> None:
    assert unpack_lock(packed) == UNREADABLE
    assert not is_removable(packed, FOREVER_MS, bypass=True)
    for change in (
        LockChange(legal_hold=LegalHold.OFF),
        LockChange(retention=(Mode.NONE, 0), bypasses_governance=True),
    ):
        with pytest.raises(VersionLocked):
            change_lock(packed, change, FOREVER_MS)


@given(st.binary(min_size=1, max_size=40))
def test_no_bytes_unlock_by_accident(packed: bytes) -> None:
    lock = unpack_lock(packed)
    assert lock == UNREADABLE or Lock(*msgpack.unpackb(packed)) == lock


@given(locks)
def test_round_trip(lock: Lock) -> None:
    assert unpack_lock(pack_lock(lock)) == lock


@pytest.mark.parametrize(
    ("held", "wanted", "plain", "bypassing"),
    [
        ((Mode.NONE, 0), (GOVERNANCE, LATER), True, True),
        ((Mode.NONE, 0), (COMPLIANCE, LATER), True, True),
        ((GOVERNANCE, LATER), (GOVERNANCE, LATER + 1), True, True),
        ((GOVERNANCE, LATER), (GOVERNANCE, LATER), True, True),
        ((GOVERNANCE, LATER), (GOVERNANCE, LATER - 1), False, True),
        ((GOVERNANCE, LATER), (COMPLIANCE, LATER + 1), False, True),
        ((GOVERNANCE, LATER), (Mode.NONE, 0), False, True),
        ((GOVERNANCE, NOW - 1), (Mode.NONE, 0), True, True),
        ((GOVERNANCE, NOW - 1), (COMPLIANCE, LATER), True, True),
        ((COMPLIANCE, LATER), (COMPLIANCE, LATER + 1), True, True),
        ((COMPLIANCE, LATER), (COMPLIANCE, LATER - 1), False, False),
        ((COMPLIANCE, LATER), (GOVERNANCE, LATER + 1), False, False),
        ((COMPLIANCE, LATER), (Mode.NONE, 0), False, False),
        ((COMPLIANCE, NOW - 1), (GOVERNANCE, LATER), True, True),
    ],
)
def test_change_of_retention(held: tuple[Mode, int], wanted: tuple[Mode, int], plain: bool, bypassing: bool) -> None:
    for bypass, expected in ((False, plain), (True, bypassing)):
        change = LockChange(retention=wanted, bypasses_governance=bypass)
        before = pack_lock(Lock(*held, LegalHold.ON))
        if expected:
            assert unpack_lock(change_lock(before, change, NOW)) == Lock(*wanted, LegalHold.ON)
        else:
            with pytest.raises(VersionLocked):
                change_lock(before, change, NOW)


@given(locks, retentions, holds, st.booleans(), times)
def test_compliance_is_never_shortened(
    lock: Lock, wanted: tuple[Mode, int], hold: LegalHold, bypass: bool, now_ms: int
) -> None:
    """Whatever sequence of one change: a running COMPLIANCE period holds until its date, and to the bypassing too."""
    try:
        after = change_lock(pack_lock(lock), LockChange(wanted, hold, bypass), now_ms)
    except VersionLocked:
        return
    if lock.mode is COMPLIANCE and is_retained(lock, now_ms):
        assert not is_removable(after, lock.retain_until_ms, bypass=True)
    if lock.mode is GOVERNANCE and is_retained(lock, now_ms) and not bypass:
        assert not is_removable(after, lock.retain_until_ms)


@given(locks, holds)
def test_legal_hold_leaves_retention_alone(lock: Lock, hold: LegalHold) -> None:
    if lock != UNREADABLE:
        assert unpack_lock(change_lock(pack_lock(lock), LockChange(legal_hold=hold), NOW)) == lock._replace(
            legal_hold=hold
        )


def ms(*date: int) -> int:
    return int(datetime(*date, tzinfo=UTC).timestamp()) * 1000  # type: ignore[misc, arg-type]  # year, month, day


@pytest.mark.parametrize(
    ("default", "now_ms", "until_ms"),
    [
        (DefaultRetention(GOVERNANCE, days=1), NOW, NOW + 86_400_000),
        (DefaultRetention(COMPLIANCE, days=36_500), NOW, NOW + 36_500 * 86_400_000),
        (DefaultRetention(GOVERNANCE, years=1), ms(2024, 3, 1) + 7, ms(2025, 3, 1) + 7),
        (DefaultRetention(GOVERNANCE, years=1), ms(2024, 2, 29), ms(2025, 3, 1)),
        (DefaultRetention(GOVERNANCE, years=4), ms(2024, 2, 29), ms(2028, 2, 29)),
        (DefaultRetention(COMPLIANCE, years=100), ms(9950, 1, 1), FOREVER_MS),
        (DefaultRetention(COMPLIANCE, days=36_500), ms(9950, 1, 1), FOREVER_MS),
    ],
)
def test_default_retention(default: DefaultRetention, now_ms: int, until_ms: int) -> None:
    assert unpack_lock(lock_new_version(b"", default, now_ms)) == Lock(default.mode, until_ms)
    held = pack_lock(Lock(legal_hold=LegalHold.ON))
    assert unpack_lock(lock_new_version(held, default, now_ms)) == Lock(default.mode, until_ms, LegalHold.ON)
    asked = pack_lock(Lock(GOVERNANCE, LATER))
    assert lock_new_version(asked, default, now_ms) == asked


def test_without_default_a_version_gets_what_was_asked() -> None:
    assert lock_new_version(b"", DefaultRetention(), NOW) == b""


@pytest.mark.parametrize(
    "default",
    [DefaultRetention(), DefaultRetention(GOVERNANCE, days=1), DefaultRetention(COMPLIANCE, years=100)],
)
def test_default_round_trip(default: DefaultRetention) -> None:
    assert unpack_default(pack_default(default)) == default


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"x",
        msgpack.packb(["GOVERNANCE", 0, 0]),
        msgpack.packb(["", 1, 0]),
        msgpack.packb(["GOVERNANCE", -1, 2]),
        msgpack.packb(["GOVERNANCE", 1 << 40, 0]),
        msgpack.packb(["GOVERNANCE", 0, 101]),
        msgpack.packb(["other", 1, 0]),
        msgpack.packb([1, 2]),
    ],
)
def test_an_unreadable_default_lets_nothing_be_written(document: bytes) -> None:
    with pytest.raises(ValueError, match="unreadable"):
        unpack_default(document)
