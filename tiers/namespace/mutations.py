"""What all mutations of the namespace share: the bucket they act in, and the content that some of them bring."""

from collections.abc import Iterable, Sequence
from typing import Any

from metadata.contract import Transaction
from metadata.tables import BLOB, BUCKET, OBJECT, Table
from metadata.types import Blob, BlobState, Bucket, Extent, Version, pack_extents
from tiers.commit.contract import Slot
from tiers.errors import BucketNotFound, LockNotEnabled, PlacementMoved
from tiers.namespace.bucket_rules import NO_RULES
from tiers.namespace.content import insert_blob
from tiers.namespace.context import Context
from tiers.namespace.events import NOBODY, SILENT, Origin, emit, happened
from tiers.namespace.locks import lock_new_version
from tiers.namespace.quotas import judge_growth
from tiers.namespace.schedules import Schedule
from tiers.namespace.types import Description
from tiers.namespace.versions import put_bucket

Keys = Iterable[tuple[Table[Any], tuple[Any, ...]]]


class BucketMutation:
    """A mutation inside one bucket. Subclasses define `apply`; it calls `read_bucket` first.

    `origin` is who asked for it, for the events of the bucket.
    """

    __slots__ = (
        *("_found", "_rules", "body", "bucket_id_hint", "bucket_name", "etag", "key", "needs_md5", "origin", "tier"),
    )

    is_brief = False
    """Whether `apply` reads and puts a few rows at most, whatever the bucket holds."""

    def __init__(self, context: Context, bucket_name: str, key: str = "") -> None:
        self.bucket_name = bucket_name
        self.key = key.encode()
        recent = context.recent_buckets.get(bucket_name)
        self.bucket_id_hint = recent.bucket_id if recent is not None else 0
        self.body: bytes | None = None
        self.tier = ""
        self.needs_md5 = False
        self.etag = ""
        self.origin: Origin = NOBODY
        self._rules = context.rules
        self._found = NO_RULES

    def reads(self) -> Keys:
        """The bucket, and the key's current version where the bucket's id is known already."""
        yield BUCKET, (self.bucket_name,)
        if self.bucket_id_hint and self.key:
            yield OBJECT, (self.bucket_id_hint, self.key)

    def read_bucket(self, transaction: Transaction) -> Bucket:
        """The bucket as it stands now. Errors: BucketNotFound."""
        bucket = transaction.get(BUCKET, (self.bucket_name,))
        if bucket is None:
            raise BucketNotFound(self.bucket_name)
        self._found = self._rules.find(transaction, bucket)
        return bucket

    @property
    def has_lock(self) -> bool:
        """Whether the bucket read has Object Lock."""
        return self._found.retention is not None

    @property
    def schedule(self) -> Schedule | None:
        """The lifecycle rules of the bucket read."""
        return self._found.schedule

    def require_lock(self) -> None:
        """Errors: LockNotEnabled when the bucket read has no Object Lock."""
        if not self.has_lock:
            raise LockNotEnabled(self.bucket_name)

    def lock_version(self, asked: bytes, now_ms: int) -> bytes:
        """The lock of a version made now: what was asked for, else the bucket's default. Errors: LockNotEnabled."""
        if asked:
            self.require_lock()
        retention = self._found.retention
        return b"" if retention is None else lock_new_version(asked, retention, now_ms)

    def grow_bucket(self, transaction: Transaction, bucket: Bucket) -> None:
        """Store the bucket's row after a change that may have grown its counters. Errors: QuotaExceeded."""
        before = transaction.get(BUCKET, (bucket.name,))
        assert before is not None
        judge_growth(transaction, self._found.limits, before, bucket)
        put_bucket(transaction, bucket)

    def emit(self, transaction: Transaction, slot: Slot, name: str, bucket: Bucket, version: Version) -> None:
        """Write the event of a change of `version`, where the bucket asks for it; a step emits at most one."""
        if self._found.sink is SILENT:
            return
        happening = happened(name, bucket, version, slot, self.origin)
        if not emit(transaction, slot, self._found.sink, bucket, happening):
            self._rules.events_dropped += 1


def refuse_other_bucket(bucket: Bucket, description: Description) -> None:
    """A write goes into the bucket it was authorised with, or into one its writer made anew since.

    Errors: PlacementMoved.
    """
    seen = description.bucket
    if seen is None or seen.bucket_id == bucket.bucket_id:
        return
    if seen.owner_id != bucket.owner_id or description.writer_id != bucket.owner_id:
        raise PlacementMoved(f"bucket {bucket.name} was made anew")


class ContentMutation(BucketMutation):
    """A mutation that brings a content: either `body`, or a published blob with its extents, or shared extents.

    `etag` is the content's MD5 in hex; when `needs_md5` is set, the committer fills it in before `apply`. `size`,
    `etag` and `checksum` are the plaintext's also where `body`, blob or extents hold ciphertext; `encryption` is then
    what the row keeps of it.
    """

    __slots__ = ("blob", "checksum", "encryption", "extents", "size")

    def __init__(self, context: Context, bucket_name: str, key: str) -> None:
        super().__init__(context, bucket_name, key)
        self.size = 0
        self.checksum = ""
        self.encryption = b""
        self.blob: Blob | None = None
        self.extents: Sequence[Extent] = ()

    def place_content(self, transaction: Transaction, slot: Slot) -> bytes:
        """Packed extents of the content; inserts the blob's row when there is one. Call after every read."""
        if self.body is not None:
            assert slot.extent is not None
            assert slot.extent.length == len(self.body)
            return pack_extents((slot.extent,))
        if self.blob is not None:
            insert_blob(transaction, self.blob, slot.now_ms)
        return pack_extents(self.extents)


class AbandonBlob:
    """Hands a published blob whose commit was refused to reclaim: its row says that nothing references it."""

    __slots__ = ("_blob", "body", "tier")

    def __init__(self, blob: Blob) -> None:
        self._blob = blob
        self.body: bytes | None = None
        self.tier = blob.tier

    def reads(self) -> Keys:
        """The blob itself."""
        yield BLOB, (self._blob.blob_id,)

    def apply(self, transaction: Transaction, slot: Slot) -> None:
        """Insert the row as dead, unless the blob is known, which would mean that its commit happened."""
        if transaction.get(BLOB, (self._blob.blob_id,)) is None:
            dead = self._blob._replace(live_bytes=0, state=BlobState.DEAD, dead_ms=slot.now_ms)
            transaction.put(BLOB, dead)
