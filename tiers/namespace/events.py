"""Events of buckets: which changes a bucket's notification rules ask for, and their rows in the outbox.

A mutation hands what it changed to `emit`, in its own step of the transaction: the event is committed with the change
or not at all. Sequence numbers are those of the commits, so the order of the rows is the order of the changes.
Refuses to know how an event looks to its receiver: that is the gateway's.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import msgpack

from metadata.contract import Transaction
from metadata.tables import EVENT, REVISION
from metadata.types import Bucket, Event, Revision, Version
from tiers.commit.contract import Slot
from tiers.namespace.revisions import Key

PUT: Final = "s3:ObjectCreated:Put"
POST: Final = "s3:ObjectCreated:Post"
COPY: Final = "s3:ObjectCreated:Copy"
COMPLETE: Final = "s3:ObjectCreated:CompleteMultipartUpload"
DELETE: Final = "s3:ObjectRemoved:Delete"
MARKER: Final = "s3:ObjectRemoved:DeleteMarkerCreated"
EXPIRED: Final = "s3:LifecycleExpiration:Delete"
EXPIRED_MARKER: Final = "s3:LifecycleExpiration:DeleteMarkerCreated"
TAGS_PUT: Final = "s3:ObjectTagging:Put"
TAGS_DELETED: Final = "s3:ObjectTagging:Delete"
ACL_PUT: Final = "s3:ObjectAcl:Put"
RETENTION_PUT: Final = "s3:ObjectRetention:Put"
TEST: Final = "s3:TestEvent"

OUTBOX: Final = "event outbox"
"""The revision row that counts the rows of the outbox."""

FORMAT: Final = 1


class Rule(NamedTuple):
    """One configuration of a bucket's notifications. `events` are names of the AWS model, `:*` for a whole family."""

    rule_id: str
    target: str
    events: tuple[str, ...]
    prefix: bytes
    suffix: bytes

    def matches(self, name: str, key: bytes) -> bool:
        """Whether the rule asks for this event of this key."""
        if not key.startswith(self.prefix) or not key.endswith(self.suffix):
            return False
        return name in self.events or f"{name.rpartition(':')[0]}:*" in self.events


class Notification(NamedTuple):
    """What is stored of a bucket's notification document: `form` is the gateway's, opaque here."""

    rules: tuple[Rule, ...]
    form: bytes


def pack_notification(notification: Notification) -> bytes:
    """As the bucket's document."""
    packed: bytes = msgpack.packb([FORMAT, [list(rule) for rule in notification.rules], notification.form])
    return packed


def unpack_notification(document: bytes) -> Notification:
    """Inverse of `pack_notification`. A document that does not fit is our bug and raises."""
    version, rules, form = msgpack.unpackb(document)
    assert version == FORMAT
    made = [Rule(rule_id, target, tuple(events), prefix, suffix) for rule_id, target, events, prefix, suffix in rules]
    return Notification(tuple(made), form)


class Origin(NamedTuple):
    """Who caused a change. `is_expiration` says that a lifecycle rule did, `is_form` that a browser's form did."""

    principal_id: str = ""
    source_address: str = ""
    request_id: str = ""
    is_form: bool = False
    is_expiration: bool = False


NOBODY: Final = Origin()
EXPIRATION: Final = Origin(principal_id="s3.amazonaws.com", is_expiration=True)
"""Origin of what lifecycle rules remove; AWS names the service then."""

_NAMES: Final = {
    (PUT, "form"): POST,
    (DELETE, "expiration"): EXPIRED,
    (MARKER, "expiration"): EXPIRED_MARKER,
}


def name_for(name: str, origin: Origin) -> str:
    """The event's name, which for some changes depends on who caused them."""
    cause = "form" if origin.is_form else "expiration" if origin.is_expiration else ""
    return _NAMES.get((name, cause), name)


class Happening(NamedTuple):
    """An event as it waits in the outbox. `targets` are those that have not got it yet.

    `version_id` is empty where the bucket gives out none. `size` of a removal is that of the version removed, 0 for a
    delete marker. `key` is empty in a test event.
    """

    targets: tuple[str, ...]
    name: str
    rule_id: str
    bucket_name: str
    owner_id: str
    key: bytes
    size: int
    etag: str
    version_id: str
    happened_ms: int
    origin: Origin


def pack_happening(happening: Happening) -> bytes:
    """As the payload of a row."""
    fields = [list(happening.targets), *happening[1:-1], list(happening.origin)]
    packed: bytes = msgpack.packb([FORMAT, *fields])
    return packed


def unpack_happening(payload: bytes) -> Happening:
    """Inverse of `pack_happening`."""
    version, targets, *fields, origin = msgpack.unpackb(payload)
    assert version == FORMAT
    return Happening._make([tuple(targets), *fields, Origin(*origin)])


class Sink(NamedTuple):
    """What a mutation needs to write events: the rules of its bucket, and how many rows the outbox may hold."""

    rules: tuple[Rule, ...]
    outbox_max: int


SILENT: Final = Sink((), 0)


def emit(transaction: Transaction, slot: Slot, sink: Sink, bucket: Bucket, happening: Happening) -> bool:
    """Write the event for the rules that ask for it; false when one does and the outbox is full.

    Of what does not fit the outbox the oldest is kept. Puts only, so that it may follow the mutation's own puts.
    """
    asking = [rule for rule in sink.rules if rule.matches(happening.name, happening.key)]
    if not asking:
        return True
    targets = tuple(dict.fromkeys(rule.target for rule in asking))
    happening = happening._replace(targets=targets, rule_id=asking[0].rule_id)
    return put_event(transaction, slot, bucket.bucket_id, happening, outbox_max=sink.outbox_max)


def put_event(transaction: Transaction, slot: Slot, bucket_id: int, happening: Happening, *, outbox_max: int) -> bool:
    """Write one row, unless the outbox is full; at most one a commit sequence."""
    waiting = outbox_count(transaction)
    if waiting >= outbox_max:
        return False
    assert transaction.get(EVENT, (slot.sequence,)) is None
    payload = pack_happening(happening)
    transaction.put(EVENT, Event(slot.sequence, bucket_id, payload, attempts=0, not_before_ms=0))
    transaction.put(REVISION, Revision(OUTBOX, waiting + 1))
    return True


def outbox_count(transaction: Transaction) -> int:
    """Rows of the outbox."""
    row = transaction.get(REVISION, (OUTBOX,))
    return 0 if row is None else row.value


def happened(name: str, bucket: Bucket, version: Version, slot: Slot, origin: Origin) -> Happening:
    """The event of a change of one version."""
    return Happening(
        targets=(),
        name=name_for(name, origin),
        rule_id="",
        bucket_name=bucket.name,
        owner_id=bucket.owner_id,
        key=version.key,
        size=version.size,
        etag=version.etag,
        version_id=version.version_id if bucket.versioning else "",
        happened_ms=slot.now_ms,
        origin=origin,
    )


def announcement(bucket: Bucket, targets: Iterable[str], slot: Slot, origin: Origin) -> Happening:
    """The event that tells new targets that they were configured."""
    named = tuple(dict.fromkeys(targets))
    return Happening(named, TEST, "", bucket.name, bucket.owner_id, b"", 0, "", "", slot.now_ms, origin)


class Settled(NamedTuple):
    """What became of one row: `targets` are still to be told (none: the row goes), after `attempts` that failed."""

    seen: Event
    targets: tuple[str, ...]
    attempts: int
    not_before_ms: int


class SettleEvents:
    """Removes rows that were delivered or given up, and notes tries that failed."""

    __slots__ = ("_settled", "body", "tier")

    def __init__(self, settled: Sequence[Settled]) -> None:
        self._settled = settled
        self.body: bytes | None = None
        self.tier = ""

    def reads(self) -> Iterable[Key]:
        """The rows and their count."""
        yield REVISION, (OUTBOX,)
        for settled in self._settled:
            yield EVENT, (settled.seen.sequence,)

    def apply(self, transaction: Transaction, slot: Slot) -> int:
        """How many rows are gone. A row that is not as it was seen is left alone."""
        del slot
        removed = 0
        for seen, targets, attempts, not_before_ms in self._settled:
            if transaction.get(EVENT, (seen.sequence,)) != seen:
                continue
            if not targets:
                transaction.delete(EVENT, (seen.sequence,))
                removed += 1
                continue
            payload = pack_happening(unpack_happening(seen.payload)._replace(targets=targets))
            transaction.put(EVENT, Event(seen.sequence, seen.bucket_id, payload, attempts, not_before_ms))
        if removed:
            transaction.put(REVISION, Revision(OUTBOX, max(outbox_count(transaction) - removed, 0)))
        return removed
