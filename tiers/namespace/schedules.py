"""The due-time index: when lifecycle rules have to look at a version or an upload next.

Every change of a version or upload in a bucket that has rules moves its entries in the same commit. An entry may be
early and never late: it supposes what depends on other versions of the key (how many are newer, whether a delete
marker is alone) in the way that is due soonest. Who fires it judges the truth; what may have become due by another
version's change is entered again by that change. Buckets without rules have no entries and pay for none.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

from metadata.contract import Transaction
from metadata.tables import DUE
from metadata.types import Due, DueKind, Upload, Version
from tiers.catalogue import Catalogue
from tiers.commit.contract import Slot

EntryKey = tuple[int, bytes, int, str, int]
"""Primary key of an entry."""


class Standing(NamedTuple):
    """Where a version stands among those of its key.

    `newer_noncurrent` is the largest number out of `Schedule.kept` of noncurrent versions that are newer than it, at
    least; `is_alone` says that its key has no other version.
    """

    newer_noncurrent: int = 0
    is_alone: bool = False


class Descent(NamedTuple):
    """A move that a rule wants now: the version's next storage class."""

    rule_id: str
    due_ms: int
    storage_class: str


class Schedule(Protocol):
    """The lifecycle rules of one bucket, as far as the index and its entries need them. Pure."""

    kept: tuple[int, ...]
    """Every number of newer noncurrent versions that some rule asks for."""

    def times_of(self, version: Version) -> Mapping[DueKind, int]:
        """When each kind of entry of a version is due at the earliest, whatever else its key has."""

    def abort_ms(self, upload: Upload) -> int | None:
        """When an open upload is to be aborted."""

    def end_ms(self, version: Version, standing: Standing) -> int | None:
        """When a version is to end, as its key stands; None: not as long as that stays."""

    def descent_of(
        self, version: Version, standing: Standing, now_ms: int, order: Mapping[str, int]
    ) -> Descent | int | None:
        """The move of a version that is due now, else when the next one will be, None for never.

        `order` places the storage classes, dear before cheap.
        """


Compile = Callable[[bytes], Schedule]
"""Makes a schedule of a LIFECYCLE document. Errors: ValueError when it is unreadable."""


def index_key(bucket_id: int) -> EntryKey:
    """The entry that says that a bucket's other entries do not follow its rules yet."""
    return bucket_id, b"", 0, "", DueKind.INDEX.value


def cursor_name(bucket_id: int) -> str:
    """The cursor of whoever brings a bucket's entries up to its rules."""
    return f"lifecycle/{bucket_id}"


def version_key(version: Version, kind: DueKind) -> EntryKey:
    """The entry of a version."""
    return version.bucket_id, version.key, version.sequence, "", kind.value


def upload_key(upload: Upload) -> EntryKey:
    """The entry of an upload."""
    return upload.bucket_id, upload.key, 0, upload.upload_id, DueKind.END.value


def follow_version(
    transaction: Transaction, schedule: Schedule | None, before: Version | None, after: Version | None
) -> None:
    """Move the entries of one version that became another row of the same sequence; None is no row.

    Also for the sake of other versions of the key: what `after` may have become due by is entered anew.
    """
    if schedule is None:
        return
    new = {} if after is None else schedule.times_of(after)
    if before is not None:
        for kind in schedule.times_of(before).keys() - new.keys():
            transaction.delete(DUE, version_key(before, kind))
    if after is not None:
        for kind, due_ms in new.items():
            transaction.put(DUE, Due(*version_key(after, kind), due_ms))


def follow_upload(transaction: Transaction, schedule: Schedule | None, upload: Upload, *, is_open: bool) -> None:
    """Enter an upload that was opened, or take the entry of one that is open no more away."""
    due_ms = None if schedule is None else schedule.abort_ms(upload)
    if due_ms is None:
        return
    if is_open:
        transaction.put(DUE, Due(*upload_key(upload), due_ms))
    else:
        transaction.delete(DUE, upload_key(upload))


def mark_outdated(transaction: Transaction, slot: Slot, bucket_id: int) -> None:
    """The rules of a bucket changed: nothing of it fires until its entries follow them."""
    key = index_key(bucket_id)
    marked = transaction.get(DUE, key)
    # It rises, also under a clock that goes back: whoever is half through with the rules before begins again.
    transaction.put(DUE, Due(*key, slot.now_ms if marked is None else max(slot.now_ms, marked.due_ms + 1)))


def class_order(catalogue: Catalogue) -> Mapping[str, int]:
    """Storage classes by place, dear before cheap: by tier, then as the tier lists them; a tier's name comes first."""
    order: dict[str, int] = {}
    for tier in catalogue.tiers():
        first = len(order)
        order[tier.name] = first
        for place, name in enumerate(tier.storage_classes, first):
            order[name] = place
    return order
