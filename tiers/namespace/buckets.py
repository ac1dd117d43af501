"""Buckets and their documents."""

from metadata.tables import BUCKET_DOCUMENT
from metadata.types import Bucket, Versioning
from tiers.errors import BucketNotFound
from tiers.namespace.bucket_mutations import CreateBucket, DeleteBucket, SetDocument, SetVersioning
from tiers.namespace.context import Context

PAGE = 1000
"""Buckets read at a time while listing."""


class Buckets:
    """The bucket service of a namespace."""

    def __init__(self, context: Context) -> None:
        self._context = context

    async def create(self, name: str, owner_id: str, region: str) -> Bucket:
        """Create a bucket, versioning never enabled. Errors: BucketNameTaken."""
        return await self._context.committer.submit(CreateBucket(self._context, name, owner_id=owner_id, region=region))

    async def get(self, name: str) -> Bucket:
        """The bucket with its counters as committed. Errors: BucketNotFound."""
        bucket = await self._context.reader.find_bucket(name)
        if bucket is None:
            self._context.forget_bucket(name)
            raise BucketNotFound(name)
        self._context.remember_bucket(bucket)
        return bucket

    async def recall(self, name: str) -> Bucket:
        """The bucket as this process saw it last: its name and owner, for whoever is about to write into it.

        It may have been deleted since, or made anew by somebody else: the write has to compare the owner in its own
        transaction (`PutVersion` does). Saves a look-up a write. Errors: BucketNotFound.
        """
        return self._context.recent_buckets.get(name) or await self.get(name)

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
        """Enable or suspend versioning. Errors: BucketNotFound."""
        return await self._context.committer.submit(SetVersioning(self._context, name, state))

    async def put_document(self, name: str, kind: str, document: bytes) -> None:
        """Store one configuration document as it is, replacing another of its kind. Errors: BucketNotFound."""
        await self._context.committer.submit(SetDocument(self._context, name, kind, document))

    async def get_document(self, name: str, kind: str) -> bytes | None:
        """The document as put, None when there is none. Errors: BucketNotFound."""
        bucket = await self.get(name)
        row = await self._context.reader.get_row(BUCKET_DOCUMENT, (bucket.bucket_id, str(kind)))
        return None if row is None else row.document

    async def delete_document(self, name: str, kind: str) -> None:
        """Remove a document; absent is fine. Errors: BucketNotFound."""
        await self._context.committer.submit(SetDocument(self._context, name, kind, None))


def _before(prefix: str) -> str:
    """A name below every name that begins with `prefix`, and above nearly all that sort before them.

    Names consist of lower-case letters, digits, dots and hyphens, all of them below `~`.
    """
    return prefix[:-1] + chr(ord(prefix[-1]) - 1) + "~" if prefix else ""
