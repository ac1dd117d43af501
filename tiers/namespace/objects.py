"""Objects: put, find, open, delete, copy, tag. One commit a change, one look-up a read."""

import asyncio
from base64 import b64encode
from collections.abc import Sequence

from metadata.types import EXTENT_BYTES, Bucket, Version, Versioning, unpack_extents
from tiers.datapath.body import CRC64NVME, MD5, Body
from tiers.datapath.contract import ContentStream
from tiers.datapath.encryption import ContentKey
from tiers.errors import BucketNotFound, DeleteMarkerFound, PlacementMoved, StorageError, VersionNotFound
from tiers.namespace.append_mutations import AppendVersion, PutAtStart, check_appendable, judge_offset
from tiers.namespace.checksums import FULL_OBJECT, full_checksum_prefix, parse_checksum
from tiers.namespace.conditions import judge_conditions
from tiers.namespace.context import Context
from tiers.namespace.events import COPY, NOBODY, Origin
from tiers.namespace.intake import Sealing, StoredBody, digest_content, open_content, submit_content
from tiers.namespace.lock_mutations import SetLock
from tiers.namespace.locks import LockChange
from tiers.namespace.object_mutations import CopyVersion, DeleteVersion, PutVersion, SetAcl, SetTags, absent_key
from tiers.namespace.quotas import Held, growth, refuse_early
from tiers.namespace.rename_mutations import Rename, RenameVersion
from tiers.namespace.types import (
    IN_THE_CLEAR,
    UNCONDITIONAL,
    CopyKeys,
    DeleteOutcome,
    DeleteTarget,
    Description,
    Found,
    PutOutcome,
    WriteConditions,
)
from tiers.namespace.versions import is_current, is_top_marker


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
        *,
        content_key: ContentKey | None = None,
    ) -> PutOutcome:
        """Store `body` under `key`; visible, whole and durable when this returns.

        With `content_key`, which is fresh, only ciphertext is kept. The checksum stored is the one `description` names,
        else CRC64NVME, over the whole content.
        Errors: StorageClassUnknown, BucketNotFound, KeyNotFound and ConditionFailed (conditions), those of the body
        (nothing changed); QuorumNotReached, MetadataUnavailable (outcome unknown).
        """
        algorithm = description.checksum_algorithm or CRC64NVME
        mutation = PutVersion(self._context, bucket_name, key, description, conditions)
        return await self._put(mutation, body, algorithm, content_key)

    async def _put(
        self, mutation: PutVersion, body: Body, algorithm: str, content_key: ContentKey | None
    ) -> PutOutcome:
        async def check() -> None:
            located = await self._context.reader.locate(mutation.bucket_name, mutation.key)
            if located is None:
                raise BucketNotFound(mutation.bucket_name)
            judge_conditions(mutation.conditions, located.version, mutation.key.decode())
            await refuse_early(self._context.reader, located.bucket, growth(*located, body.length or 0))

        mutation.checksum = full_checksum_prefix(algorithm)
        try:
            sealing = None if content_key is None else Sealing(content_key)
            return await submit_content(
                self._context, mutation, body, algorithm=algorithm, check=check, sealing=sealing
            )
        except (BucketNotFound, PlacementMoved):
            self._context.forget_bucket(mutation.bucket_name)
            raise

    async def append(
        self,
        bucket_name: str,
        key: str,
        body: Body,
        description: Description,
        conditions: WriteConditions = UNCONDITIONAL,
        *,
        offset: int,
    ) -> PutOutcome:
        """Add `body` to the end of the object, which must be at `offset`; at 0 make it as `description` says.

        An object that is there stays described as it is; its checksum goes on in its own algorithm. Nothing that is
        stored is read. Errors: those of `put`; OffsetMismatch, AppendRefused, ChecksumNotCombinable, TooManyExtents,
        VersionLocked; PlacementMoved when the object was replaced meanwhile by one that is stored otherwise.
        """
        context = self._context
        if offset == 0:
            mutation = PutAtStart(context, bucket_name, key, description, conditions)
            return await self._put(mutation, body, description.checksum_algorithm or CRC64NVME, None)
        located = await context.reader.locate(bucket_name, key.encode())
        if located is None:
            raise BucketNotFound(bucket_name)
        bucket, seen = located
        judge_conditions(conditions, seen, key)
        judge_offset(seen, offset)
        assert seen is not None, "only the offset 0 is the end of nothing"
        algorithm = check_appendable(bucket, seen)

        async def check() -> None:
            await refuse_early(context.reader, bucket, Held(0, body.length or 0))

        append = AppendVersion(context, bucket_name, seen, description, conditions, offset=offset)
        return await submit_content(context, append, body, algorithm=algorithm, check=check)

    async def rename(self, rename: Rename) -> None:
        """Put a version under another key of its bucket, over what is there; one commit, and no bytes move.

        Errors: BucketNotFound, BucketVersioned, KeyNotFound, ConditionFailed, TokenReused, VersionLocked;
        PlacementMoved when bucket or source were replaced since they were authorised.
        """
        await self._context.committer.submit(RenameVersion(self._context, rename.bucket.name, rename))

    async def find_many(self, bucket: Bucket, keys: Sequence[str]) -> list[Version | None]:
        """The current version of each of up to 1000 keys in their order, without attributes, parts and extents.

        Cost: one round trip, whatever their number.
        """
        assert len(keys) <= 1000
        packed = [key.encode() for key in keys]
        found = {row.key: row for row in await self._context.reader.get_summaries(bucket.bucket_id, packed)}
        return [found.get(key) for key in packed]

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
            newest = None if is_plain else await reader.newest_noncurrent(bucket.bucket_id, packed)
            # Between the two statements the marker may have been covered by a version: that one is none.
            raise absent_key(key, newest if newest is not None and is_top_marker(newest) else None)
        named = await reader.find_version(bucket.bucket_id, packed, version_id)
        if named is None:
            raise VersionNotFound(version_id)
        if named.is_delete_marker:
            raise DeleteMarkerFound(named.version_id, named.modified_ms)
        return Found(bucket, named, is_latest=is_current(named))

    async def open(
        self, version: Version, start: int, stop: int, content_key: ContentKey | None = None
    ) -> ContentStream:
        """Verified bytes [start, stop) of a version; the caller closes the stream.

        `content_key` is that of an encrypted version. Errors: ContentUnreadable.
        """
        assert 0 <= start <= stop <= version.size
        assert bool(version.encryption) == (content_key is not None)
        return await open_content(self._context, unpack_extents(version.extents), range(start, stop), content_key)

    def read_now(self, version: Version, start: int, stop: int) -> bytes | None:
        """Verified bytes of a small version in the clear that are in memory; None where `open` must be asked."""
        assert not version.encryption
        if len(version.extents) != EXTENT_BYTES:
            return None
        return self._context.contents.read_now(unpack_extents(version.extents)[0], start, stop)

    async def delete(self, bucket_name: str, target: DeleteTarget, *, origin: Origin = NOBODY) -> DeleteOutcome:
        """Delete a key or one of its versions; what is absent counts as deleted.

        Errors: BucketNotFound, VersionLocked; KeyNotFound, VersionNotFound and ConditionFailed (conditions).
        """
        return await self._context.committer.submit(self._deletion(bucket_name, target, origin))

    async def delete_many(
        self, bucket_name: str, targets: Sequence[DeleteTarget], *, origin: Origin = NOBODY
    ) -> list[DeleteOutcome | StorageError]:
        """Delete up to 1000 targets, submitted together; the answers are in their order, each for itself.

        Errors: BucketNotFound, for all of them.
        """
        assert len(targets) <= 1000
        if await self._context.reader.find_bucket(bucket_name) is None:
            raise BucketNotFound(bucket_name)
        submit = self._context.committer.submit
        futures = [submit(self._deletion(bucket_name, target, origin)) for target in targets]
        answers: list[DeleteOutcome | StorageError] = []
        for answer in await asyncio.gather(*futures, return_exceptions=True):
            if isinstance(answer, BaseException) and not isinstance(answer, StorageError):
                raise answer
            answers.append(answer)
        return answers

    def _deletion(self, bucket_name: str, target: DeleteTarget, origin: Origin) -> DeleteVersion:
        mutation = DeleteVersion(self._context, bucket_name, target)
        mutation.origin = origin
        return mutation

    async def set_tags(
        self, bucket_name: str, key: str, version_id: str | None, tags: bytes, *, origin: Origin = NOBODY
    ) -> PutOutcome:
        """Replace the tags of a version (msgpack, empty for none); return it.

        Errors: BucketNotFound, KeyNotFound, VersionNotFound, DeleteMarkerFound.
        """
        mutation = SetTags(self._context, bucket_name, key, version_id=version_id, tags=tags)
        mutation.origin = origin
        return await self._context.committer.submit(mutation)

    async def set_lock(
        self, bucket_name: str, key: str, version_id: str | None, change: LockChange, *, origin: Origin = NOBODY
    ) -> PutOutcome:
        """Change retention or legal hold of a version; return it.

        Errors: BucketNotFound, LockNotEnabled, KeyNotFound, VersionNotFound, DeleteMarkerFound, VersionLocked.
        """
        mutation = SetLock(self._context, bucket_name, key, version_id=version_id, change=change)
        mutation.origin = origin
        return await self._context.committer.submit(mutation)

    async def set_acl(self, found: Found, acl: bytes, *, origin: Origin = NOBODY) -> Version:
        """Replace the access control list of a version found (msgpack, empty for the private one); return it.

        Errors: BucketNotFound, PlacementMoved when it is not there any more.
        """
        mutation = SetAcl(self._context, found.bucket.name, found.version, acl)
        mutation.origin = origin
        return await self._context.committer.submit(mutation)

    async def copy(
        self,
        source: Found,
        bucket_name: str,
        key: str,
        description: Description,
        conditions: WriteConditions = UNCONDITIONAL,
        *,
        keys: CopyKeys = IN_THE_CLEAR,
    ) -> PutOutcome:
        """Put a version with the content of `source`, sharing its bytes where tiers, keys and checksums allow.

        The ETag is the content's MD5; a multipart source above 5 GiB keeps its own, its checksum and part boundaries.
        Errors: those of `put`; KeyNotFound when the source is gone, PlacementMoved when it was replaced meanwhile;
        ContentUnreadable when it must be read and cannot be.
        """
        version = source.version
        if self._context.catalogue.tier_of(description.storage_class) != version.tier or not keys.may_share:
            rewrite = PutVersion(self._context, bucket_name, key, description, conditions)
            rewrite.event = COPY
            return await self._copy_bytes(rewrite, version, description.checksum_algorithm, keys)
        mutation = CopyVersion(self._context, version, bucket_name, key, description, conditions=conditions)
        await self._describe_copy(mutation, version, description.checksum_algorithm, keys.source)
        return await self._context.committer.submit(mutation)

    async def _describe_copy(
        self, mutation: CopyVersion, source: Version, algorithm_wanted: str, content_key: ContentKey | None
    ) -> None:
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
            extents = unpack_extents(source.extents)
            results = await digest_content(self._context, extents, frozenset(names), content_key)
            if MD5 in names:
                mutation.etag = results[MD5].hex()
            if algorithm in names:
                mutation.checksum = full_checksum_prefix(algorithm) + b64encode(results[algorithm]).decode()

    def _keeps_parts(self, source: Version) -> bool:
        return is_multipart(source) and source.size > self._context.limits.copy_read_bytes_max

    async def _copy_bytes(
        self, mutation: PutVersion, source: Version, algorithm_wanted: str, keys: CopyKeys
    ) -> PutOutcome:
        """A copy into another tier, or under another key, rewrites the bytes."""
        checksum = parse_checksum(source.checksum)
        mutation.kept = source if self._keeps_parts(source) else None
        stream = await self.open(source, 0, source.size, keys.source)
        try:
            algorithm = algorithm_wanted or (checksum.algorithm if checksum else CRC64NVME)
            return await self._put(mutation, StoredBody(stream, source.size), algorithm, keys.target)
        finally:
            stream.close()
