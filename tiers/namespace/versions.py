"""What a key looks like and how a version is put on top of it or taken out: the versioning rules, in one place.

Every function works inside one step of a transaction and keeps its order: first read (`read_key`, `version_below`),
then write (`push_version`, `pop_version`). Writers return the bucket with its new counters; the caller puts it.
"""

from typing import NamedTuple

from metadata.contract import Transaction
from metadata.tables import NONCURRENT, OBJECT
from metadata.types import NULL_VERSION, Bucket, Version, Versioning, unpack_extents
from tiers.namespace.content import add_references, drop_references, owner_of_version


class KeyState(NamedTuple):
    """What stands in the way of a new version of a key.

    `marker` is the delete marker on top (then there is no current version). `null` is the null version beneath the top,
    or the top marker itself, when a suspended bucket is about to replace it.
    """

    current: Version | None
    marker: Version | None
    null: Version | None


def read_key(transaction: Transaction, bucket: Bucket, key: bytes) -> KeyState:
    """State of one key; one look-up while the bucket was never versioned."""
    current = transaction.get(OBJECT, (bucket.bucket_id, key))
    if bucket.versioning == Versioning.NEVER:
        return KeyState(current, None, None)
    marker = null = None
    if current is None:
        marker = transaction.select_newest_noncurrent(bucket.bucket_id, key)
        assert marker is None or is_top_marker(marker), "without a current version the newest row is a delete marker"
    if bucket.versioning == Versioning.SUSPENDED and not (current is not None and current.version_id == NULL_VERSION):
        null = transaction.select_noncurrent(bucket.bucket_id, key, NULL_VERSION)
    return KeyState(current, marker, null)


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


def push_version(transaction: Transaction, bucket: Bucket, state: KeyState, version: Version) -> Bucket:
    """Make `version`, an object or a delete marker, the newest of its key; `state` is what `read_key` returned.

    What the bucket's versioning replaces is dropped, what it keeps becomes noncurrent at `version.modified_ms`.
    """
    now_ms = version.modified_ms
    assert now_ms > 0
    assert version.noncurrent_ms == 0
    add_references(transaction, owner_of_version(version), unpack_extents(version.extents))
    replaced, kept = judge_displaced(bucket.versioning, state)
    for old in replaced:
        bucket = _drop(transaction, bucket, old, now_ms)
    if kept is not None:
        transaction.put(NONCURRENT, kept._replace(noncurrent_ms=now_ms))
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
    transaction: Transaction, bucket: Bucket, version: Version, below: Version | None, now_ms: int
) -> Bucket:
    """Take `version` out for good; when it was the top of its key, `below` (see `version_below`) comes back."""
    was_current, was_top = is_current(version), version.noncurrent_ms == 0
    assert below is None or was_top
    if was_current:
        transaction.delete(OBJECT, (version.bucket_id, version.key))
    bucket = _drop(transaction, bucket, version, now_ms)
    revived = below is not None and not below.is_delete_marker
    if below is not None:
        if revived:
            transaction.delete(NONCURRENT, (below.bucket_id, below.key, below.sequence))
        transaction.put(OBJECT if revived else NONCURRENT, below._replace(noncurrent_ms=0))
    return counted(bucket, objects=int(revived) - int(was_current))


def _drop(transaction: Transaction, bucket: Bucket, version: Version, now_ms: int) -> Bucket:
    """Remove a noncurrent row and any version's references; the row of a current version is the caller's."""
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
