"""Buckets and their documents."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from metadata.tables import BUCKET_DOCUMENT
from metadata.types import Bucket, Versioning
from tiers.errors import BucketNotFound
from tiers.namespace.bucket_mutations import CreateBucket, DeleteBucket, SetDocuments, SetVersioning, SwapDocument
from tiers.namespace.context import Context
from tiers.namespace.events import Notification, Origin
from tiers.namespace.lock_mutations import SetObjectLock
from tiers.namespace.locks import DefaultRetention
from tiers.namespace.notification_mutations import SetNotification

PAGE: Final = 1000
"""Buckets, or documents of one bucket, read at a time."""

ROW_BYTES: Final = 150
"""What a document costs in memory besides its kind and bytes, about."""

NO_DOCUMENTS: Final[Mapping[str, bytes]] = MappingProxyType({})


class Buckets:
    """The bucket service of a namespace."""

    def __init__(self, context: Context) -> None:
        self._context = context

    async def create(
        self,
        name: str,
        owner_id: str,
        region: str,
        *,
        documents: Mapping[str, bytes] = NO_DOCUMENTS,
        versioning: Versioning = Versioning.NEVER,
    ) -> Bucket:
        """Create a bucket with its documents, by kind, in one commit. Errors: BucketNameTaken."""
        mutation = CreateBucket(
            self._context, name, owner_id=owner_id, region=region, documents=documents, versioning=versioning
        )
        return await self._context.committer.submit(mutation)

    async def get(self, name: str) -> Bucket:
        """The bucket with its counters as committed. Errors: BucketNotFound."""
        bucket = await self._context.reader.find_bucket(name)
        if bucket is None:
            self._context.forget_bucket(name)
            raise BucketNotFound(name)
        self._context.remember_bucket(bucket)
        return bucket

    async def recall(self, name: str) -> Bucket:
        """The bucket for whoever is about to write into it. Errors: BucketNotFound.

        As committed but for its counters: an older row would be authorised by an older configuration. It may be deleted
        or made anew before the write commits, which therefore compares it in its own transaction (`PutVersion` does).
        """
        bucket = await self._context.reader.recall_bucket(name)
        if bucket is None:
            self._context.forget_bucket(name)
            raise BucketNotFound(name)
        self._context.remember_bucket(bucket)
        return bucket

    async def list(self, owner_id: str | None, prefix: str, after: str, limit: int) -> list[Bucket]:
        """Up to `limit` buckets by name, after `after`, that begin with `prefix`; of one owner unless None."""
        found: list[Bucket] = []
        position = max(after, _before(prefix))
        while len(found) < limit:
            page = await self._context.reader.list_buckets(position, PAGE)
            for bucket in page:
                if bucket.name.startswith(prefix) and owner_id in (None, bucket.owner_id):
                    found.append(bucket)
            if len(page) < PAGE or (page[-1].name > prefix and not page[-1].name.startswith(prefix)):
                break
            position = page[-1].name
        return found[:limit]

    async def delete(self, name: str) -> None:
        """Delete an empty bucket; its open uploads are aborted with it.

        Errors: BucketNotFound, BucketNotEmpty, also when somebody writes while many uploads are being aborted.
        """
        while not await self._context.committer.submit(DeleteBucket(self._context, name)):
            pass
        self._context.forget_bucket(name)

    async def set_versioning(self, name: str, state: Versioning) -> Bucket:
        """Enable or suspend versioning. Errors: BucketNotFound; BucketStateRefused for suspending under Object Lock."""
        return await self._context.committer.submit(SetVersioning(self._context, name, state))

    async def set_object_lock(self, name: str, default: DefaultRetention) -> Bucket:
        """Give a bucket Object Lock and a default retention.

        Errors: BucketNotFound; BucketStateRefused unless versioning is enabled.
        """
        return await self._context.committer.submit(SetObjectLock(self._context, name, default))

    async def put_document(self, name: str, kind: str, document: bytes) -> None:
        """Store one configuration document as it is, replacing another of its kind. Errors: BucketNotFound."""
        await self.put_documents(name, {kind: document})

    async def put_documents(self, name: str, documents: Mapping[str, bytes | None]) -> Bucket:
        """Store documents by kind and delete those that are None, in one commit. Errors: BucketNotFound."""
        return await self._context.committer.submit(SetDocuments(self._context, name, documents))

    async def swap_document(self, name: str, kind: str, *, seen: bytes | None, document: bytes | None) -> bool:
        """Replace a document by another if it is still as seen, None standing for absent; whether it was.

        Errors: BucketNotFound.
        """
        return await self._context.committer.submit(
            SwapDocument(self._context, name, kind, seen=seen, document=document)
        )

    async def set_notification(
        self, name: str, notification: Notification, *, origin: Origin, is_announced: bool
    ) -> None:
        """Replace the notification rules; announced, each of their targets gets a test event of the same commit.

        Errors: BucketNotFound.
        """
        mutation = SetNotification(self._context, name, notification, is_announced=is_announced)
        mutation.origin = origin
        await self._context.committer.submit(mutation)

    async def get_document(self, name: str, kind: str) -> bytes | None:
        """The document as put, None when there is none. Errors: BucketNotFound."""
        bucket = await self.get(name)
        row = await self._context.reader.get_row(BUCKET_DOCUMENT, (bucket.bucket_id, str(kind)))
        return None if row is None else row.document

    async def delete_document(self, name: str, kind: str) -> None:
        """Remove a document; absent is fine. Errors: BucketNotFound."""
        await self.put_documents(name, {kind: None})

    async def documents(self, bucket: Bucket) -> Mapping[str, bytes]:
        """All documents of a bucket by kind, those by id too: as of its revision, or newer when it has changed since.

        Cost: none while the revision is the one read last; else a statement for each 1000 documents.
        """
        kept = self._context.documents.find(bucket)
        if kept is not None:
            return kept
        found: dict[str, bytes] = {}
        after = ""
        while True:
            page = await self._context.reader.list_documents(bucket.bucket_id, after, PAGE)
            found.update([(row.kind, row.document) for row in page])
            if len(page) < PAGE:
                break
            after = page[-1].kind
        documents = MappingProxyType(found)
        self._context.documents.keep(bucket, documents, documents_bytes(documents))
        return documents


def documents_bytes(documents: Mapping[str, bytes]) -> int:
    """About what a bucket's documents occupy in memory."""
    return sum(len(kind) + len(document) + ROW_BYTES for kind, document in documents.items())


def _before(prefix: str) -> str:
    """A name below every name that begins with `prefix`, and above nearly all that sort before them.

    Names consist of lower-case letters, digits, dots and hyphens, all of them below `~`.
    """
    return prefix[:-1] + chr(ord(prefix[-1]) - 1) + "~" if prefix else ""
