"""Changes of buckets and of their documents."""

from metadata.contract import Transaction
from metadata.tables import BUCKET, BUCKET_DOCUMENT, PART, UPLOAD
from metadata.types import Bucket, BucketDocument, DocumentKind, Versioning, unpack_extents
from tiers.commit.contract import Slot
from tiers.errors import BucketNameTaken, BucketNotEmpty
from tiers.namespace.content import drop_references, owner_of_part
from tiers.namespace.context import Context
from tiers.namespace.mutations import BucketMutation


class CreateBucket(BucketMutation):
    """Creates a bucket; its id is the commit's sequence, so no two buckets ever share one."""

    __slots__ = ("_owner_id", "_region")

    def __init__(self, context: Context, bucket_name: str, *, owner_id: str, region: str) -> None:
        super().__init__(context, bucket_name)
        self._owner_id, self._region = owner_id, region

    def apply(self, transaction: Transaction, slot: Slot) -> Bucket:
        """Errors: BucketNameTaken."""
        existing = transaction.get(BUCKET, (self.bucket_name,))
        if existing is not None:
            raise BucketNameTaken(self.bucket_name, existing.owner_id)
        bucket = Bucket(
            self.bucket_name, slot.sequence, self._owner_id, slot.now_ms, Versioning.NEVER, self._region, 0, 0, 0
        )
        transaction.put(BUCKET, bucket)
        return bucket


class DeleteBucket(BucketMutation):
    """Deletes an empty bucket with its documents and its open uploads."""

    __slots__ = ()

    def apply(self, transaction: Transaction, slot: Slot) -> None:
        """Errors: BucketNotFound, BucketNotEmpty."""
        bucket = self.read_bucket(transaction)
        if transaction.has_versions(bucket.bucket_id):
            raise BucketNotEmpty(self.bucket_name)
        uploads = transaction.select_open_uploads(bucket.bucket_id)
        parts = [(upload, transaction.select_parts(upload.upload_id)) for upload in uploads]
        for upload, parts_of_upload in parts:
            for part in parts_of_upload:
                extents = unpack_extents(part.extents)
                drop_references(transaction, owner_of_part(upload, part), extents, now_ms=slot.now_ms)
                transaction.delete(PART, (part.upload_id, part.part_number))
            transaction.delete(UPLOAD, (upload.upload_id,))
        for kind in DocumentKind:
            if transaction.get(BUCKET_DOCUMENT, (bucket.bucket_id, kind.value)) is not None:
                transaction.delete(BUCKET_DOCUMENT, (bucket.bucket_id, kind.value))
        transaction.delete(BUCKET, (self.bucket_name,))


class SetVersioning(BucketMutation):
    """Enables or suspends versioning; there is no way back to never."""

    __slots__ = ("_state",)

    def __init__(self, context: Context, bucket_name: str, state: Versioning) -> None:
        super().__init__(context, bucket_name)
        assert state != Versioning.NEVER
        self._state = state

    def apply(self, transaction: Transaction, slot: Slot) -> Bucket:
        """Errors: BucketNotFound."""
        bucket = self.read_bucket(transaction)._replace(versioning=self._state.value)
        transaction.put(BUCKET, bucket)
        return bucket


class SetDocument(BucketMutation):
    """Puts one configuration document, or deletes it when `document` is None."""

    __slots__ = ("_document", "_kind")

    def __init__(self, context: Context, bucket_name: str, kind: str, document: bytes | None) -> None:
        super().__init__(context, bucket_name)
        self._kind, self._document = str(kind), document

    def apply(self, transaction: Transaction, slot: Slot) -> None:
        """Errors: BucketNotFound. Deleting an absent document is fine."""
        bucket = self.read_bucket(transaction)
        if self._document is not None:
            transaction.put(BUCKET_DOCUMENT, BucketDocument(bucket.bucket_id, self._kind, self._document))
        elif transaction.get(BUCKET_DOCUMENT, (bucket.bucket_id, self._kind)) is not None:
            transaction.delete(BUCKET_DOCUMENT, (bucket.bucket_id, self._kind))
