"""Objects: put, find, open, delete, copy, tag. One commit a change, one look-up a read."""

import asyncio
from base64 import b64encode
from collections.abc import Sequence

from metadata.types import Version, Versioning, unpack_extents
from tiers.datapath.body import CRC64NVME, MD5, Body
from tiers.datapath.contract import ContentStream
from tiers.errors import BucketNotFound, DeleteMarkerFound, PlacementMoved, StorageError, VersionNotFound
from tiers.namespace.checksums import FULL_OBJECT, full_checksum_prefix, parse_checksum
from tiers.namespace.conditions import judge_conditions
from tiers.namespace.context import Context
from tiers.namespace.intake import StoredBody, digest_content, open_content, submit_content
from tiers.namespace.object_mutations import CopyVersion, DeleteVersion, PutVersion, SetTags, absent_key
from tiers.namespace.types import (
    UNCONDITIONAL,
    DeleteOutcome,
    DeleteTarget,
    Description,
    Found,
    PutOutcome,
    WriteConditions,
)


def is_multipart(version: Version) -> bool:
    """Whether the ETag says that the content came as parts."""
    return "-" in version.etag


class Objects:
    """The object service of a namespace."""

    def __init__(self, context: Context) -> None:
        self._context = context

    async def put(
        self,
        bucket_name: str,
        key: str,
        body: Body,
        description: Description,
        conditions: WriteConditions = UNCONDITIONAL,
    ) -> PutOutcome:
        """Store `body` under `key`; visible, whole and durable when this returns.

        The checksum stored is the one `description` names, else CRC64NVME, over the whole content.
        Errors: StorageClassUnknown, BucketNotFound, KeyNotFound and ConditionFailed (conditions), those of the body
        (nothing changed); QuorumNotReached, MetadataUnavailable (outcome unknown).
        """
        algorithm = description.checksum_algorithm or CRC64NVME
        mutation = PutVersion(self._context, bucket_name, key, description, conditions)
        return await self._put(mutation, body, algorithm)

    async def _put(self, mutation: PutVersion, body: Body, algorithm: str) -> PutOutcome:
        async def check() -> None:
            located = await self._context.reader.locate(mutation.bucket_name, mutation.key)
            if located is None:
                raise BucketNotFound(mutation.bucket_name)
            judge_conditions(mutation.conditions, located.version, mutation.key.decode())

        mutation.checksum = full_checksum_prefix(algorithm)
        try:
            return await submit_content(self._context, mutation, body, algorithm=algorithm, check=check)
        except (BucketNotFound, PlacementMoved):
            self._context.forget_bucket(mutation.bucket_name)
            raise

    async def find(self, bucket_name: str, key: str, version_id: str | None = None) -> Found:
        """The current version of a key, or the version of that id.

        Errors: BucketNotFound; KeyNotFound (telling of a delete marker on top); VersionNotFound and DeleteMarkerFound
        for a version id. Cost: one statement, a second one for an absent key or an older version.
        """
        packed = key.encode()
        located = await self._context.reader.locate(bucket_name, packed)
        if located is None:
            raise BucketNotFound(bucket_name)
        bucket, version = located
        if version is not None and version_id in (None, version.version_id):
            return Found(bucket, version, is_latest=True)
        reader = self._context.reader
        if version_id is None:
            is_plain = bucket.versioning == Versioning.NEVER
            raise absent_key(key, None if is_plain else await reader.newest_noncurrent(bucket.bucket_id, packed))
        older = await reader.find_noncurrent(bucket.bucket_id, packed, version_id)
        if older is None:
            raise VersionNotFound(version_id)
        if older.is_delete_marker:
            raise DeleteMarkerFound(older.version_id, older.modified_ms)
        return Found(bucket, older, is_latest=False)

    async def open(self, version: Version, start: int, stop: int) -> ContentStream:
        """Verified bytes [start, stop) of a version; the caller closes the stream. Errors: ContentUnreadable."""
        assert 0 <= start <= stop <= version.size
        return await open_content(self._context, unpack_extents(version.extents), range(start, stop))

    async def delete(self, bucket_name: str, target: DeleteTarget) -> DeleteOutcome:
        """Delete a key or one of its versions; what is absent counts as deleted.

        Errors: BucketNotFound, KeyNotFound and ConditionFailed (conditions).
        """
        return await self._context.committer.submit(DeleteVersion(self._context, bucket_name, target))

    async def delete_many(
        self, bucket_name: str, targets: Sequence[DeleteTarget]
    ) -> list[DeleteOutcome | StorageError]:
        """Delete up to 1000 targets, submitted together; the answers are in their order, each for itself.

        Errors: BucketNotFound, for all of them.
        """
        assert len(targets) <= 1000
        if await self._context.reader.find_bucket(bucket_name) is None:
            raise BucketNotFound(bucket_name)
        submit = self._context.committer.submit
        futures = [submit(DeleteVersion(self._context, bucket_name, target)) for target in targets]
        answers: list[DeleteOutcome | StorageError] = []
        for answer in await asyncio.gather(*futures, return_exceptions=True):
            if isinstance(answer, BaseException) and not isinstance(answer, StorageError):
                raise answer
            answers.append(answer)
        return answers

    async def set_tags(self, bucket_name: str, key: str, version_id: str | None, tags: bytes) -> PutOutcome:
        """Replace the tags of a version (msgpack, empty for none); return it.

        Errors: BucketNotFound, KeyNotFound, VersionNotFound, DeleteMarkerFound.
        """
        mutation = SetTags(self._context, bucket_name, key, version_id=version_id, tags=tags)
        return await self._context.committer.submit(mutation)

    async def copy(
        self,
        source: Found,
        bucket_name: str,
        key: str,
        description: Description,
        conditions: WriteConditions = UNCONDITIONAL,
    ) -> PutOutcome:
        """Put a version with the content of `source`, sharing its bytes where tiers and checksums allow.

        The ETag is the content's MD5; a multipart source above 5 GiB keeps its own, its checksum and part boundaries.
        Errors: those of `put`; KeyNotFound when the source is gone, PlacementMoved when it was replaced meanwhile;
        ContentUnreadable when it must be read and cannot be.
        """
        version = source.version
        if self._context.catalogue.tier_of(description.storage_class) != version.tier:
            rewrite = PutVersion(self._context, bucket_name, key, description, conditions)
            return await self._copy_bytes(rewrite, version, description.checksum_algorithm)
        mutation = CopyVersion(self._context, version, bucket_name, key, description, conditions=conditions)
        await self._describe_copy(mutation, version, description.checksum_algorithm)
        return await self._context.committer.submit(mutation)

    async def _describe_copy(self, mutation: CopyVersion, source: Version, algorithm_wanted: str) -> None:
        """ETag and checksum of a copy that shares its source's bytes, read once where they do not follow."""
        if self._keeps_parts(source):
            mutation.kept = source
            return
        checksum = parse_checksum(source.checksum)
        algorithm = algorithm_wanted or (checksum.algorithm if checksum else CRC64NVME)
        names = set()
        if checksum is None or checksum.algorithm != algorithm or checksum.kind != FULL_OBJECT:
            names.add(algorithm)
        if is_multipart(source):
            names.add(MD5)
        mutation.etag, mutation.checksum = source.etag, source.checksum
        if names:
            results = await digest_content(self._context, unpack_extents(source.extents), frozenset(names))
            if MD5 in names:
                mutation.etag = results[MD5].hex()
            if algorithm in names:
                mutation.checksum = full_checksum_prefix(algorithm) + b64encode(results[algorithm]).decode()

    def _keeps_parts(self, source: Version) -> bool:
        return is_multipart(source) and source.size > self._context.limits.copy_read_bytes_max

    async def _copy_bytes(self, mutation: PutVersion, source: Version, algorithm_wanted: str) -> PutOutcome:
        """A copy into another tier rewrites the bytes there."""
        checksum = parse_checksum(source.checksum)
        mutation.kept = source if self._keeps_parts(source) else None
        stream = await self.open(source, 0, source.size)
        try:
            algorithm = algorithm_wanted or (checksum.algorithm if checksum else CRC64NVME)
            return await self._put(mutation, StoredBody(stream, source.size), algorithm)
        finally:
            stream.close()
