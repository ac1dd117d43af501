"""What a mutation has to know of its bucket's configuration: quotas, notification, retention and lifecycle rules.

Compiled from rows read in the mutation's own transaction and kept a revision of the bucket: a bucket whose
configuration stays costs a write one look-up in memory, and a change holds for the very next commit of any process.
"""

import logging
from typing import Final, NamedTuple

from metadata.contract import Transaction
from metadata.tables import BUCKET_DOCUMENT
from metadata.types import Bucket, DocumentKind
from tiers.namespace.events import SILENT, Rule, Sink, unpack_notification
from tiers.namespace.locks import DefaultRetention, unpack_default
from tiers.namespace.quotas import FREE, Limits, read_limits
from tiers.namespace.revised import Revised
from tiers.namespace.schedules import Compile, Schedule

logger = logging.getLogger(__name__)

OUTBOX_MAX: Final = 1_000_000
"""Rows of about 400 bytes that may wait for delivery."""

RULE_BYTES: Final = 400
"""What a rule or a tenant's member costs in memory, about."""


SCHEDULE_BYTES: Final = 10
"""What a schedule occupies for each byte of its document, about."""


class BucketRules(NamedTuple):
    """The rules of one bucket, for the commit thread.

    `retention` is None where the bucket has no Object Lock, `schedule` where it has no lifecycle rules, or none that
    can be read: nothing is done by those.
    """

    limits: Limits = FREE
    sink: Sink = SILENT
    retention: DefaultRetention | None = None
    schedule: Schedule | None = None


NO_RULES: Final = BucketRules()


class RulesOfBuckets:
    """The rules of buckets by revision. Used by one thread, the one that commits.

    `events_dropped` counts the events that the outbox had no room for.
    """

    def __init__(self, compile_schedule: Compile, *, outbox_max: int = OUTBOX_MAX) -> None:
        self.events_dropped = 0
        self._kept: Revised[BucketRules] = Revised()
        self._compile = compile_schedule
        self._outbox_max = outbox_max

    def find(self, transaction: Transaction, bucket: Bucket) -> BucketRules:
        """The rules of a bucket as read in this transaction; before the first put of a step."""
        kept = self._kept.find(bucket)
        if kept is not None:
            return kept
        lifecycle = transaction.get(BUCKET_DOCUMENT, (bucket.bucket_id, DocumentKind.LIFECYCLE.value))
        document = None if lifecycle is None else lifecycle.document
        rules = self._read(transaction, bucket, document)
        size = (len(rules.limits.members) + len(rules.sink.rules)) * RULE_BYTES
        self._kept.keep(bucket, rules, size + len(document or b"") * SCHEDULE_BYTES)
        return rules

    def _read(self, transaction: Transaction, bucket: Bucket, lifecycle: bytes | None) -> BucketRules:
        limits = read_limits(transaction, bucket)
        asked = self._notification_rules(transaction, bucket)
        retention = _default_retention(transaction, bucket)
        schedule = None if lifecycle is None else self._schedule(bucket, lifecycle)
        if limits == FREE and not asked and retention is None and schedule is None:
            return NO_RULES
        sink = Sink(asked, self._outbox_max) if asked else SILENT
        return BucketRules(FREE if limits == FREE else limits, sink, retention, schedule)

    def _schedule(self, bucket: Bucket, document: bytes) -> Schedule | None:
        try:
            return self._compile(document)
        except ValueError as error:
            logger.error("no lifecycle rule of bucket %s is acted on: %s", bucket.name, error)
            return None

    def _notification_rules(self, transaction: Transaction, bucket: Bucket) -> tuple[Rule, ...]:
        row = transaction.get(BUCKET_DOCUMENT, (bucket.bucket_id, DocumentKind.NOTIFICATION.value))
        return () if row is None else unpack_notification(row.document).rules


def _default_retention(transaction: Transaction, bucket: Bucket) -> DefaultRetention | None:
    """Errors: ValueError for a document that cannot be read: nothing is written into such a bucket."""
    row = transaction.get(BUCKET_DOCUMENT, (bucket.bucket_id, DocumentKind.OBJECT_LOCK.value))
    return None if row is None else unpack_default(row.document)
