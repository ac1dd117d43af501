"""Changes of buckets and of their documents."""

from collections.abc import Mapping
from typing import Final

from metadata.contract import Transaction
from metadata.tables import BUCKET, BUCKET_DOCUMENT, UPLOAD
from metadata.types import Bucket, BucketDocument, DocumentKind, Part, Upload, Versioning
from tiers.commit.contract import Slot
from tiers.errors import BucketNameTaken, BucketNotEmpty, BucketStateRefused
from tiers.namespace.context import Context
from tiers.namespace.mutations import BucketMutation
from tiers.namespace.schedules import follow_upload, mark_outdated
from tiers.namespace.upload_mutations import drop_part
from tiers.namespace.versions import delete_bucket, put_bucket

UPLOADS_A_STEP: Final = 1_000
PARTS_A_STEP: Final = 10_000
DOCUMENTS_A_STEP: Final = 500
"""Open uploads, parts of them, and documents that one step of deleting a bucket removes: its time under the lock."""

BY_ID: Final = "/"
"""Stands in the kind of a document that a bucket has many of; the others are fewer than a step removes."""


class CreateBucket(BucketMutation):
    """Creates a bucket with its documents; its id is the commit's sequence, so no two buckets ever share one."""

    __slots__ = ("_documents", "_owner_id", "_region", "_versioning")

    def __init__(
        self,
        context: Context,
        bucket_name: str,
        *,
        owner_id: str,
        region: str,
        documents: Mapping[str, bytes],
        versioning: Versioning,
    ) -> None:
        super().__init__(context, bucket_name)
        self._owner_id, self._region = owner_id, region
        self._documents, self._versioning = documents, versioning

    def apply(self, transaction: Transaction, slot: Slot) -> Bucket:
        """Errors: BucketNameTaken."""
        existing = transaction.get(BUCKET, (self.bucket_name,))
        if existing is not None:
            raise BucketNameTaken(self.bucket_name, existing.owner_id)
        bucket = Bucket(
            name=self.bucket_name,
            bucket_id=slot.sequence,
            owner_id=self._owner_id,
            created_ms=slot.now_ms,
            versioning=self._versioning.value,
            region=self._region,
            object_count=0,
            version_count=0,
            byte_count=0,
            revision=slot.sequence,
        )
        put_bucket(transaction, bucket)
        for kind, document in self._documents.items():
            transaction.put(BUCKET_DOCUMENT, BucketDocument(bucket.bucket_id, str(kind), document))
        return bucket


class DeleteBucket(BucketMutation):
    """Deletes an empty bucket with its documents and its open uploads; when these are many, some of them at first.

    Documents that are not by id go with the bucket's row: while it is there, what they deny stays denied.
    """

    __slots__ = ()

    def apply(self, transaction: Transaction, slot: Slot) -> bool:
        """Whether the bucket is gone; else some of its uploads or documents are, and the next try goes on.

        Errors: BucketNotFound, BucketNotEmpty.
        """
        bucket = self.read_bucket(transaction)
        if transaction.has_versions(bucket.bucket_id):
            raise BucketNotEmpty(self.bucket_name)
        documents = transaction.select_documents(bucket.bucket_id, DOCUMENTS_A_STEP + 1)
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
            follow_upload(transaction, self.schedule, upload, is_open=False)
        if len(parts) < len(uploads):
            put_bucket(transaction, bucket)
            return False
        is_last = len(documents) <= DOCUMENTS_A_STEP
        for document in documents:
            if is_last or BY_ID in document.kind:
                transaction.delete(BUCKET_DOCUMENT, (document.bucket_id, document.kind))
        if is_last:
            delete_bucket(transaction, bucket)
        else:
            put_bucket(transaction, bucket._replace(revision=slot.sequence))
        return is_last


class SetVersioning(BucketMutation):
    """Enables or suspends versioning; there is no way back to never."""

    __slots__ = ("_state",)

    def __init__(self, context: Context, bucket_name: str, state: Versioning) -> None:
        super().__init__(context, bucket_name)
        assert state != Versioning.NEVER
        self._state = state

    def apply(self, transaction: Transaction, slot: Slot) -> Bucket:
        """Errors: BucketNotFound; BucketStateRefused for suspending it where Object Lock rests on it."""
        bucket = self.read_bucket(transaction)
        if self._state == Versioning.SUSPENDED and self.has_lock:
            raise BucketStateRefused("an Object Lock configuration is present, versioning cannot be suspended")
        bucket = bucket._replace(versioning=self._state.value, revision=slot.sequence)
        put_bucket(transaction, bucket)
        return bucket


class SwapDocument(BucketMutation):
    """Replaces one document if it still is what its reader saw; None stands for absent on both sides."""

    __slots__ = ("_document", "_kind", "_seen")

    def __init__(
        self, context: Context, bucket_name: str, kind: str, *, seen: bytes | None, document: bytes | None
    ) -> None:
        super().__init__(context, bucket_name)
        self._kind, self._seen, self._document = str(kind), seen, document

    def apply(self, transaction: Transaction, slot: Slot) -> bool:
        """Whether it was. Errors: BucketNotFound."""
        bucket = self.read_bucket(transaction)
        key = (bucket.bucket_id, self._kind)
        row = transaction.get(BUCKET_DOCUMENT, key)
        if (None if row is None else row.document) != self._seen:
            return False
        if self._document == self._seen:
            return True
        if self._document is None:
            transaction.delete(BUCKET_DOCUMENT, key)
        else:
            transaction.put(BUCKET_DOCUMENT, BucketDocument(*key, self._document))
        if self._kind == DocumentKind.LIFECYCLE:
            mark_outdated(transaction, slot, bucket.bucket_id)
        put_bucket(transaction, bucket._replace(revision=slot.sequence))
        return True


class SetDocuments(BucketMutation):
    """Puts configuration documents by kind, together; deletes those that are None."""

    __slots__ = ("_documents",)

    def __init__(self, context: Context, bucket_name: str, documents: Mapping[str, bytes | None]) -> None:
        super().__init__(context, bucket_name)
        assert documents.get(DocumentKind.OBJECT_LOCK, b"") is not None, "Object Lock is for good"
        self._documents = documents

    def apply(self, transaction: Transaction, slot: Slot) -> Bucket:
        """The bucket with its new revision. Errors: BucketNotFound. Deleting what is absent is fine and no change."""
        bucket = self.read_bucket(transaction)
        is_changed = False
        for kind, document in self._documents.items():
            key = (bucket.bucket_id, str(kind))
            stored = transaction.get(BUCKET_DOCUMENT, key)
            if kind == DocumentKind.LIFECYCLE and document != (None if stored is None else stored.document):
                mark_outdated(transaction, slot, bucket.bucket_id)
            if document is not None:
                transaction.put(BUCKET_DOCUMENT, BucketDocument(*key, document))
            elif stored is not None:
                transaction.delete(BUCKET_DOCUMENT, key)
            else:
                continue
            is_changed = True
        if is_changed:
            bucket = bucket._replace(revision=slot.sequence)
            put_bucket(transaction, bucket)
        return bucket
