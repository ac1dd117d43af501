"""What a key looks like and how a version is put on top of it or taken out: the versioning rules, in one place.

Every function works inside one step of a transaction and keeps its order: first read (`read_key`, `version_below`),
then write (`push_version`, `pop_version`). Writers return the bucket with its new counters; the caller stores it with
`put_bucket`, once, at its end.
"""

from typing import Final, NamedTuple

from metadata.contract import Transaction
from metadata.tables import BUCKET, NONCURRENT, OBJECT
from metadata.types import NULL_VERSION, Bucket, Version, Versioning, unpack_extents
from tiers.commit.usage import move_usage
from tiers.namespace.content import add_references, drop_references, owner_of_version
from tiers.namespace.locks import judge_removal
from tiers.namespace.schedules import Schedule, follow_version


class KeyState(NamedTuple):
    """What stands in the way of a new version of a key.

    `marker` is the delete marker on top (then there is no current version). `null` is the null version beneath the top,
    or the top marker itself, when a suspended bucket is about to replace it. `outlived` are the noncurrent versions
    that a push makes older than as many as some lifecycle rule spares.
    """

    current: Version | None
    marker: Version | None
    null: Version | None
    outlived: tuple[Version, ...] = ()


def read_key(transaction: Transaction, bucket: Bucket, key: bytes, schedule: Schedule | None) -> KeyState:
    """State of one key; one look-up while the bucket was never versioned.

    Under rules that spare noncurrent versions one more for each number that they spare.
    """
    current = transaction.get(OBJECT, (bucket.bucket_id, key))
    if bucket.versioning == Versioning.NEVER:
        return KeyState(current, None, None)
    marker = null = None
    if current is None:
        marker = transaction.select_newest_noncurrent(bucket.bucket_id, key)
        assert marker is None or is_top_marker(marker), "without a current version the newest row is a delete marker"
    if bucket.versioning == Versioning.SUSPENDED and not (current is not None and current.version_id == NULL_VERSION):
        null = transaction.select_noncurrent(bucket.bucket_id, key, NULL_VERSION)
    outlived = _outlived(transaction, bucket, key, schedule, has_current=current is not None)
    return KeyState(current, marker, null, outlived)


def _outlived(
    transaction: Transaction, bucket: Bucket, key: bytes, schedule: Schedule | None, *, has_current: bool
) -> tuple[Version, ...]:
    if schedule is None:
        return ()
    # The top is about to become the newest noncurrent version; a delete marker on top stands among them already.
    places = [kept - has_current for kept in schedule.kept]
    found = [transaction.select_noncurrent_at(bucket.bucket_id, key, place) for place in places]
    return tuple(row for row in found if row is not None)


def is_top_marker(version: Version) -> bool:
    """Whether this row is a delete marker that hides its key."""
    return bool(version.is_delete_marker) and version.noncurrent_ms == 0


def is_current(version: Version) -> bool:
    """Whether this row stands in the table of current versions."""
    return not version.is_delete_marker and version.noncurrent_ms == 0


def find_version(transaction: Transaction, bucket: Bucket, key: bytes, version_id: str) -> Version | None:
    """The version or delete marker of that id, current or not."""
    current = transaction.get(OBJECT, (bucket.bucket_id, key))
    if current is not None and current.version_id == version_id:
        return current
    if bucket.versioning == Versioning.NEVER:
        return None
    return transaction.select_noncurrent(bucket.bucket_id, key, version_id)


def reread_version(transaction: Transaction, seen: Version) -> Version | None:
    """The row that a version read earlier has now; None when it is gone."""
    current = transaction.get(OBJECT, (seen.bucket_id, seen.key))
    if current is not None and current.sequence == seen.sequence:
        return current
    return transaction.get(NONCURRENT, (seen.bucket_id, seen.key, seen.sequence))


def version_below(transaction: Transaction, version: Version) -> Version | None:
    """The version that becomes the newest when `version`, the top of its key, is removed."""
    if is_current(version):
        return transaction.select_newest_noncurrent(version.bucket_id, version.key)
    below: Version | None = None
    low, high = 0, version.sequence
    # Halving: the contract reads rows forwards only, and a key may have any number of versions.
    while low < high:
        middle = (low + high) // 2
        following = transaction.scan(NONCURRENT, (version.bucket_id, version.key, middle), 1)
        row = following[0] if following else None
        if row is not None and _same_key(row, version) and row.sequence < version.sequence:
            below, low = row, row.sequence
        else:
            high = middle
    return below


def _same_key(row: Version, other: Version) -> bool:
    return row.bucket_id == other.bucket_id and row.key == other.key


class Rest(NamedTuple):
    """What a removal leaves of a key, as far as it matters.

    `below` becomes the newest when the top goes. `alone` is a delete marker that will have nothing left to hide; under
    lifecycle rules only.
    """

    below: Version | None = None
    alone: Version | None = None


NOTHING_LEFT: Final = Rest()


def rest_of(transaction: Transaction, bucket: Bucket, version: Version, schedule: Schedule | None) -> Rest:
    """What is left of the key when `version` is removed."""
    if bucket.versioning == Versioning.NEVER:
        return NOTHING_LEFT
    if is_current(version) or is_top_marker(version):
        return Rest(version_below(transaction, version))
    if schedule is None:
        return NOTHING_LEFT
    first = transaction.scan(NONCURRENT, (version.bucket_id, version.key, -1), 3)
    others = [row for row in first if _same_key(row, version) and row.sequence != version.sequence]
    return Rest(alone=others[0]) if len(others) == 1 and is_top_marker(others[0]) else NOTHING_LEFT


def push_version(
    transaction: Transaction, bucket: Bucket, state: KeyState, version: Version, schedule: Schedule | None
) -> Bucket:
    """Make `version`, an object or a delete marker, the newest of its key; `state` is what `read_key` returned.

    What the bucket's versioning replaces is dropped, what it keeps becomes noncurrent at `version.modified_ms`; the
    entries of `schedule`, the bucket's lifecycle rules, follow.
    Errors: VersionLocked when what is to be replaced is locked.
    """
    now_ms = version.modified_ms
    assert now_ms > 0
    assert version.noncurrent_ms == 0
    replaced, kept = judge_displaced(bucket.versioning, state)
    for old in replaced:
        judge_removal(old.lock, now_ms)
    add_references(transaction, owner_of_version(version), unpack_extents(version.extents))
    for old in replaced:
        bucket = _drop(transaction, bucket, old, now_ms, schedule)
    if kept is not None:
        noncurrent = kept._replace(noncurrent_ms=now_ms)
        transaction.put(NONCURRENT, noncurrent)
        follow_version(transaction, schedule, kept, noncurrent)
    for old in state.outlived:
        if old not in replaced and old != kept:
            follow_version(transaction, schedule, None, old)
    follow_version(transaction, schedule, None, version)
    if state.current is not None and version.is_delete_marker:
        transaction.delete(OBJECT, (version.bucket_id, version.key))
    transaction.put(NONCURRENT if version.is_delete_marker else OBJECT, version)
    return counted(
        bucket,
        objects=int(not version.is_delete_marker) - int(state.current is not None),
        versions=1,
        byte_count=version.size,
    )


def judge_displaced(versioning: int, state: KeyState) -> tuple[list[Version], Version | None]:
    """The versions that a new one replaces, and the one that it pushes down; pure."""
    top = state.current or state.marker
    if versioning == Versioning.NEVER:
        return ([state.current] if state.current is not None else []), None
    if versioning == Versioning.ENABLED:
        return [], top
    replaced = [state.null] if state.null is not None else []
    if top is None or top.version_id != NULL_VERSION:
        return replaced, top
    return ([top] if is_current(top) else replaced), None


def pop_version(
    transaction: Transaction,
    bucket: Bucket,
    version: Version,
    rest: Rest,
    now_ms: int,
    *,
    schedule: Schedule | None,
    bypasses_governance: bool = False,
) -> Bucket:
    """Take `version` out for good; when it was the top of its key, what is below comes back (`rest` is of `rest_of`).

    The entries of `schedule`, the bucket's lifecycle rules, follow. Errors: VersionLocked.
    """
    below = rest.below
    judge_removal(version.lock, now_ms, bypasses_governance=bypasses_governance)
    was_current, was_top = is_current(version), version.noncurrent_ms == 0
    assert below is None or was_top
    if was_current:
        transaction.delete(OBJECT, (version.bucket_id, version.key))
    bucket = _drop(transaction, bucket, version, now_ms, schedule)
    revived = below is not None and not below.is_delete_marker
    if below is not None:
        if revived:
            transaction.delete(NONCURRENT, (below.bucket_id, below.key, below.sequence))
        newest = below._replace(noncurrent_ms=0)
        transaction.put(OBJECT if revived else NONCURRENT, newest)
        follow_version(transaction, schedule, below, newest)
    follow_version(transaction, schedule, None, rest.alone)
    return counted(bucket, objects=int(revived) - int(was_current))


def _drop(transaction: Transaction, bucket: Bucket, version: Version, now_ms: int, schedule: Schedule | None) -> Bucket:
    """Remove a noncurrent row, and any version's references and entries; a current version's row is the caller's."""
    follow_version(transaction, schedule, version, None)
    drop_references(transaction, owner_of_version(version), unpack_extents(version.extents), now_ms=now_ms)
    if not is_current(version):
        transaction.delete(NONCURRENT, (version.bucket_id, version.key, version.sequence))
    return counted(bucket, versions=-1, byte_count=-version.size)


def counted(bucket: Bucket, *, objects: int = 0, versions: int = 0, byte_count: int = 0) -> Bucket:
    """The bucket with its usage counters changed."""
    changed = bucket._replace(
        object_count=bucket.object_count + objects,
        version_count=bucket.version_count + versions,
        byte_count=bucket.byte_count + byte_count,
    )
    assert min(changed.object_count, changed.version_count, changed.byte_count) >= 0
    return changed


def put_bucket(transaction: Transaction, bucket: Bucket) -> None:
    """Store a bucket's row, and with it what its counters change in its owner's usage."""
    move_usage(transaction, transaction.get(BUCKET, (bucket.name,)), bucket)
    transaction.put(BUCKET, bucket)


def delete_bucket(transaction: Transaction, bucket: Bucket) -> None:
    """Remove a bucket's row, and what is stored of it from its owner's usage."""
    move_usage(transaction, transaction.get(BUCKET, (bucket.name,)), None)
    transaction.delete(BUCKET, (bucket.name,))
