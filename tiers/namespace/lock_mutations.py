"""Changes of Object Lock: a bucket's configuration, and the lock of one version. Decided on rows read in `apply`."""

from metadata.contract import Transaction
from metadata.tables import NONCURRENT, OBJECT
from metadata.types import Bucket, DocumentKind, Versioning
from tiers.commit.contract import Slot
from tiers.errors import BucketStateRefused
from tiers.namespace.bucket_mutations import SetDocuments
from tiers.namespace.context import Context
from tiers.namespace.events import RETENTION_PUT
from tiers.namespace.locks import DefaultRetention, LockChange, change_lock, pack_default
from tiers.namespace.mutations import BucketMutation
from tiers.namespace.object_mutations import find_named
from tiers.namespace.schedules import follow_version
from tiers.namespace.types import PutOutcome
from tiers.namespace.versions import is_current


class SetObjectLock(SetDocuments):
    """Gives a bucket Object Lock, for good, and a default retention for what is written from now on."""

    __slots__ = ()

    def __init__(self, context: Context, bucket_name: str, default: DefaultRetention) -> None:
        super().__init__(context, bucket_name, {DocumentKind.OBJECT_LOCK: pack_default(default)})

    def apply(self, transaction: Transaction, slot: Slot) -> Bucket:
        """Errors: BucketNotFound; BucketStateRefused unless versioning is enabled."""
        if self.read_bucket(transaction).versioning != Versioning.ENABLED:
            raise BucketStateRefused("versioning must be enabled to apply an Object Lock configuration")
        return super().apply(transaction, slot)


class SetLock(BucketMutation):
    """Changes retention or legal hold of one version; nothing else of it."""

    __slots__ = ("_change", "_version_id")

    def __init__(
        self, context: Context, bucket_name: str, key: str, *, version_id: str | None, change: LockChange
    ) -> None:
        super().__init__(context, bucket_name, key)
        self._version_id, self._change = version_id, change

    def apply(self, transaction: Transaction, slot: Slot) -> PutOutcome:
        """Errors: BucketNotFound, LockNotEnabled, KeyNotFound, VersionNotFound, DeleteMarkerFound, VersionLocked."""
        bucket = self.read_bucket(transaction)
        self.require_lock()
        version = find_named(transaction, bucket, self.key, self._version_id)
        version = version._replace(lock=change_lock(version.lock, self._change, slot.now_ms))
        transaction.put(OBJECT if is_current(version) else NONCURRENT, version)
        follow_version(transaction, self.schedule, None, version)  # what its lock held back may be due
        if self._change.retention is not None:
            self.emit(transaction, slot, RETENTION_PUT, bucket, version)
        return PutOutcome(version, bucket.versioning == Versioning.ENABLED)
