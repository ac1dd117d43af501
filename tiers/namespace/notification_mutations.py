"""The change of a bucket's notification rules, with the test events that announce it."""

from metadata.contract import Transaction
from metadata.types import Bucket, DocumentKind
from tiers.commit.contract import Slot
from tiers.namespace.bucket_mutations import SetDocuments
from tiers.namespace.bucket_rules import OUTBOX_MAX
from tiers.namespace.context import Context
from tiers.namespace.events import Notification, announcement, pack_notification, put_event


class SetNotification(SetDocuments):
    """Replaces the notification document; when `is_announced`, every target of it is sent a test event."""

    __slots__ = ("_is_announced", "_notification")

    def __init__(self, context: Context, bucket_name: str, notification: Notification, *, is_announced: bool) -> None:
        packed = pack_notification(notification)
        super().__init__(context, bucket_name, {DocumentKind.NOTIFICATION.value: packed})
        self._notification = notification
        self._is_announced = is_announced

    def apply(self, transaction: Transaction, slot: Slot) -> Bucket:
        """Errors: BucketNotFound."""
        bucket = super().apply(transaction, slot)
        targets = [rule.target for rule in self._notification.rules]
        if targets and self._is_announced:
            happening = announcement(bucket, targets, slot, self.origin)
            put_event(transaction, slot, bucket.bucket_id, happening, outbox_max=OUTBOX_MAX)
        return bucket
