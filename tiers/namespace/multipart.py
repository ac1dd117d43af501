"""Multipart uploads: parts are contents of their own until Complete turns their extents into one version."""

from base64 import b64encode
from collections.abc import Sequence

from metadata.tables import NONCURRENT, OBJECT, PART, UPLOAD
from metadata.types import BlobKind, Bucket, Extent, Upload, UploadState, Version, unpack_extents
from tiers.datapath.body import MD5, Body
from tiers.datapath.digests import crc64nvme
from tiers.datapath.encryption import ContentKey
from tiers.errors import BucketNotFound, KeyNotFound, PlacementMoved, UploadNotFound
from tiers.namespace.checksums import FULL_OBJECT, parse_checksum
from tiers.namespace.content import slice_extents
from tiers.namespace.context import Context
from tiers.namespace.events import NOBODY, Origin
from tiers.namespace.intake import Sealing, StoredBody, digest_content, open_content, submit_content
from tiers.namespace.quotas import Held, refuse_early
from tiers.namespace.types import (
    IN_THE_CLEAR,
    UNCONDITIONAL,
    UNDECLARED,
    CompletedPart,
    CopyKeys,
    DeclaredObject,
    Description,
    Found,
    PartOutcome,
    PutOutcome,
    WriteConditions,
)
from tiers.namespace.upload_mutations import AbortUpload, CompleteUpload, Completion, CreateUpload, PutPart

COPY_ATTEMPTS = 3
"""Tries of a part copy whose source is being moved; each starts from the source's row as it is then."""


class Multipart:
    """The multipart service of a namespace."""

    def __init__(self, context: Context) -> None:
        self._context = context

    async def create(self, bucket_name: str, key: str, description: Description) -> Upload:
        """Open an upload. Its checksum algorithm is CRC64NVME when `description` names none.

        Errors: BucketNotFound, StorageClassUnknown.
        """
        return await self._context.committer.submit(CreateUpload(self._context, bucket_name, key, description))

    async def get(self, bucket_name: str, key: str, upload_id: str) -> Upload:
        """An open upload. Errors: BucketNotFound, UploadNotFound."""
        bucket = await self._context.reader.find_bucket(bucket_name)
        if bucket is None:
            raise BucketNotFound(bucket_name)
        upload = await self._context.reader.get_row(UPLOAD, (upload_id,))
        if (
            upload is None
            or upload.state != UploadState.OPEN
            or (upload.bucket_id, upload.key) != (bucket.bucket_id, key.encode())
        ):
            raise UploadNotFound(upload_id)
        return upload

    async def initiator_of(self, bucket: Bucket, key: str, upload_id: str) -> str:
        """Who opened an upload, open or completed. Errors: UploadNotFound."""
        upload = await self._context.reader.get_row(UPLOAD, (upload_id,))
        if upload is None or (upload.bucket_id, upload.key) != (bucket.bucket_id, key.encode()):
            raise UploadNotFound(upload_id)
        return upload.initiator_id

    async def put_part(
        self,
        bucket_name: str,
        key: str,
        upload_id: str,
        part_number: int,
        body: Body,
        *,
        content_key: ContentKey | None = None,
    ) -> PartOutcome:
        """Store one part; of two with one number the one that commits last stays.

        `content_key` is that of an encrypted upload.

        Errors: BucketNotFound, UploadNotFound, those of the body (nothing changed); QuorumNotReached,
        MetadataUnavailable (outcome unknown).
        """
        upload = await self.get(bucket_name, key, upload_id)
        mutation = PutPart(self._context, bucket_name, upload, part_number)
        return await self._submit(mutation, body, upload, content_key)

    async def _submit(
        self, mutation: PutPart, body: Body, upload: Upload, content_key: ContentKey | None
    ) -> PartOutcome:
        async def check() -> None:
            """The upload was found a moment ago; its bucket may be full."""
            bucket = await self._context.reader.find_bucket(mutation.bucket_name)
            old = await self._context.reader.get_row(PART, (mutation.upload_id, mutation.part_number))
            if bucket is not None:
                grown = Held(0, (body.length or 0) - (0 if old is None else old.size))
                await refuse_early(self._context.reader, bucket, grown)

        assert bool(upload.encryption) == (content_key is not None)
        algorithm = upload.checksum_algorithm
        sealing = None if content_key is None else Sealing(content_key, mutation.part_number)
        return await submit_content(self._context, mutation, body, algorithm=algorithm, check=check, sealing=sealing)

    async def copy_part(  # noqa: PLR0917  # the handlers were written against this order
        self,
        bucket_name: str,
        key: str,
        upload_id: str,
        part_number: int,
        source: Found,
        start: int,
        stop: int,
        *,
        keys: CopyKeys = IN_THE_CLEAR,
    ) -> PartOutcome:
        """Store bytes [start, stop) of `source` as a part, sharing them where the tiers are the same and both clear.

        The bytes are read once for their MD5 and checksum, unless they are the whole of a plain source that has both.
        Errors: those of `put_part`; KeyNotFound when the source is gone, PlacementMoved when it was replaced;
        ContentUnreadable.
        """
        upload = await self.get(bucket_name, key, upload_id)
        version = source.version
        assert 0 <= start <= stop <= version.size
        if version.tier != upload.tier or keys != IN_THE_CLEAR:
            # An encrypted part is a run of its own upload's key: the source's ciphertext would not open there.
            mutation = PutPart(self._context, bucket_name, upload, part_number)
            return await self._copy_bytes(mutation, upload, version, range(start, stop), keys)
        for _ in range(COPY_ATTEMPTS - 1):
            try:
                return await self._share(bucket_name, upload, part_number, version, range(start, stop))
            except PlacementMoved:
                version = await self._reread(version)
        return await self._share(bucket_name, upload, part_number, version, range(start, stop))

    async def _copy_bytes(
        self, mutation: PutPart, upload: Upload, source: Version, wanted: range, keys: CopyKeys
    ) -> PartOutcome:
        assert bool(source.encryption) == (keys.source is not None)
        stream = await open_content(self._context, unpack_extents(source.extents), wanted, keys.source)
        try:
            return await self._submit(mutation, StoredBody(stream, len(wanted)), upload, keys.target)
        finally:
            stream.close()

    async def _share(
        self, bucket_name: str, upload: Upload, part_number: int, source: Version, wanted: range
    ) -> PartOutcome:
        mutation = PutPart(self._context, bucket_name, upload, part_number, source)
        mutation.size = len(wanted)
        mutation.extents = await self._cut(source, wanted)
        checksum = parse_checksum(source.checksum)
        algorithm = upload.checksum_algorithm
        if (
            len(wanted) == source.size
            and "-" not in source.etag
            and checksum is not None
            and (checksum.algorithm, checksum.kind) == (algorithm, FULL_OBJECT)
        ):
            mutation.etag, mutation.checksum = source.etag, checksum.value
        else:
            results = await digest_content(self._context, mutation.extents, frozenset({MD5, algorithm}))
            mutation.etag = results[MD5].hex()
            mutation.checksum = b64encode(results[algorithm]).decode()
        return await self._context.committer.submit(mutation)

    async def _cut(self, source: Version, wanted: range) -> Sequence[Extent]:
        """The source's extents for a range; a cut run of a pack gets the checksum of its own bytes."""
        whole = unpack_extents(source.extents)
        cut = slice_extents(whole, wanted.start, wanted.stop)
        ends = {index for index in (0, len(cut) - 1) if cut and cut[index] not in whole}
        packs = await self._packs({cut[index].blob_id for index in ends})
        at = wanted.start
        for index, extent in enumerate(cut):
            if index in ends and extent.blob_id in packs:
                cut[index] = extent._replace(checksum=await self._checksum(whole, range(at, at + extent.length)))
            at += extent.length
        return cut

    async def _packs(self, blob_ids: set[bytes]) -> set[bytes]:
        blobs = await self._context.reader.get_blobs(list(blob_ids)) if blob_ids else []
        return {blob.blob_id for blob in blobs if blob.kind == BlobKind.PACK}

    async def _checksum(self, extents: Sequence[Extent], wanted: range) -> int:
        """CRC64NVME of a short range, read through the verified whole run that it lies in."""
        stream = await open_content(self._context, extents, wanted)
        try:
            content = await StoredBody(stream, len(wanted)).read_all(len(wanted))
        finally:
            stream.close()
        return crc64nvme(content)

    async def _reread(self, version: Version) -> Version:
        reader = self._context.reader
        current = await reader.get_row(OBJECT, (version.bucket_id, version.key))
        if current is not None and current.sequence == version.sequence:
            return current
        older = await reader.get_row(NONCURRENT, (version.bucket_id, version.key, version.sequence))
        if older is None:
            raise KeyNotFound(version.key.decode())
        return older

    async def complete(  # noqa: PLR0917  # the handlers were written against this order
        self,
        bucket_name: str,
        key: str,
        upload_id: str,
        parts: list[CompletedPart],
        conditions: WriteConditions = UNCONDITIONAL,
        declared: DeclaredObject = UNDECLARED,
        origin: Origin = NOBODY,
    ) -> PutOutcome:
        """Make the version. The same list again gets the same answer for a while; unused parts are dropped.

        Errors: BucketNotFound, UploadNotFound, InvalidPart, InvalidPartOrder, PartTooSmall, SizeMismatch,
        ChecksumMismatch, KeyNotFound and ConditionFailed (the upload stays open); QuorumNotReached and
        MetadataUnavailable (outcome unknown).
        """
        completion = Completion(tuple(parts), conditions, declared, origin)
        mutation = CompleteUpload(self._context, bucket_name, key, upload_id, completion)
        return await self._context.committer.submit(mutation)

    async def abort(self, bucket_name: str, key: str, upload_id: str) -> None:
        """Remove an open upload and its parts. Errors: BucketNotFound, UploadNotFound."""
        await self._context.committer.submit(AbortUpload(self._context, bucket_name, key, upload_id))
