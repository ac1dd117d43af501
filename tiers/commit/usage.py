"""What the buckets of one owner hold together, changed with the counters of each bucket."""

from metadata.contract import Transaction
from metadata.tables import USAGE
from metadata.types import Bucket, Usage


def move_usage(transaction: Transaction, before: Bucket | None, after: Bucket | None) -> None:
    """Count a bucket's row out as it was and in as it is now; None where there is none. Selects nothing."""
    if before is not None and after is not None and before.owner_id == after.owner_id:
        objects, byte_count = after.object_count - before.object_count, after.byte_count - before.byte_count
        _add(transaction, after.owner_id, objects, byte_count)
        return
    if before is not None:
        _add(transaction, before.owner_id, -before.object_count, -before.byte_count)
    if after is not None:
        _add(transaction, after.owner_id, after.object_count, after.byte_count)


def _add(transaction: Transaction, owner_id: str, objects: int, byte_count: int) -> None:
    if not objects and not byte_count:
        return
    usage = transaction.get(USAGE, (owner_id,)) or Usage(owner_id, 0, 0)
    changed = Usage(owner_id, usage.object_count + objects, usage.byte_count + byte_count)
    assert min(changed.object_count, changed.byte_count) >= 0
    if changed.object_count or changed.byte_count:
        transaction.put(USAGE, changed)
    else:
        transaction.delete(USAGE, (owner_id,))
