"""What all mutations of the namespace share: the bucket they act in, and the content that some of them bring."""

from collections.abc import Iterable, Sequence
from typing import Any

from metadata.contract import Transaction
from metadata.tables import BLOB, BUCKET, OBJECT, Table
from metadata.types import Blob, BlobState, Bucket, Extent, pack_extents
from tiers.commit.contract import Slot
from tiers.errors import BucketNotFound
from tiers.namespace.content import insert_blob
from tiers.namespace.context import Context

Keys = Iterable[tuple[Table[Any], tuple[Any, ...]]]


class BucketMutation:
    """A mutation inside one bucket. Subclasses define `apply`; it calls `read_bucket` first."""

    __slots__ = ("body", "bucket_id_hint", "bucket_name", "etag", "key", "needs_md5", "tier")

    def __init__(self, context: Context, bucket_name: str, key: str = "") -> None:
        self.bucket_name = bucket_name
        self.key = key.encode()
        recent = context.recent_buckets.get(bucket_name)
        self.bucket_id_hint = recent.bucket_id if recent is not None else 0
        self.body: bytes | None = None
        self.tier = ""
        self.needs_md5 = False
        self.etag = ""

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
        return bucket


class ContentMutation(BucketMutation):
    """A mutation that brings a content: either `body`, or a published blob with its extents, or shared extents.

    `etag` is the content's MD5 in hex; when `needs_md5` is set, the committer fills it in before `apply`.
    """

    __slots__ = ("blob", "checksum", "extents", "size")

    def __init__(self, context: Context, bucket_name: str, key: str) -> None:
        super().__init__(context, bucket_name, key)
        self.size = 0
        self.checksum = ""
        self.blob: Blob | None = None
        self.extents: Sequence[Extent] = ()

    def place_content(self, transaction: Transaction, slot: Slot) -> bytes:
        """Packed extents of the content; inserts the blob's row when there is one. Call after every read."""
        if self.body is not None:
            assert slot.extent is not None
            assert slot.extent.length == self.size
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
