"""Changes of buckets and of their documents."""

from typing import Final

from metadata.contract import Transaction
from metadata.tables import BUCKET, BUCKET_DOCUMENT, UPLOAD
from metadata.types import Bucket, BucketDocument, DocumentKind, Part, Upload, Versioning
from tiers.commit.contract import Slot
from tiers.errors import BucketNameTaken, BucketNotEmpty
from tiers.namespace.context import Context
from tiers.namespace.mutations import BucketMutation
from tiers.namespace.upload_mutations import drop_part

UPLOADS_A_STEP: Final = 1_000
PARTS_A_STEP: Final = 10_000
"""Open uploads, and parts of them, that one step of deleting a bucket removes: they bound its time under the lock."""


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
    """Deletes an empty bucket with its documents and its open uploads; when these are many, some of them at first."""

    __slots__ = ()

    def apply(self, transaction: Transaction, slot: Slot) -> bool:
        """Whether the bucket is gone; else some of its uploads are, and the next try goes on.

        Errors: BucketNotFound, BucketNotEmpty.
        """
        bucket = self.read_bucket(transaction)
        if transaction.has_versions(bucket.bucket_id):
            raise BucketNotEmpty(self.bucket_name)
        uploads = transaction.select_open_uploads(bucket.bucket_id, UPLOADS_A_STEP + 1)
        parts: dict[Upload, list[Part]] = {}
        count = 0
        for upload in uploads[:UPLOADS_A_STEP]:
            if count < PARTS_A_STEP:
                parts[upload] = transaction.select_parts(upload.upload_id)
                count += len(parts[upload])
        for upload, parts_of_upload in parts.items():
            for part in parts_of_upload:
                bucket = drop_part(transaction, bucket, upload, part, now_ms=slot.now_ms)
            transaction.delete(UPLOAD, (upload.upload_id,))
        if len(parts) < len(uploads):
            transaction.put(BUCKET, bucket)
            return False
        for kind in DocumentKind:
            if transaction.get(BUCKET_DOCUMENT, (bucket.bucket_id, kind.value)) is not None:
                transaction.delete(BUCKET_DOCUMENT, (bucket.bucket_id, kind.value))
        transaction.delete(BUCKET, (self.bucket_name,))
        return True


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
