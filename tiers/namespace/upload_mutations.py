"""Changes of multipart uploads: create, put part, complete, abort, expire."""

import hashlib
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import msgpack

from metadata.contract import Transaction
from metadata.tables import BUCKET, PART, UPLOAD
from metadata.types import (
    NULL_VERSION,
    Bucket,
    Part,
    Upload,
    UploadState,
    Version,
    Versioning,
    unpack_extents,
)
from tiers.commit.contract import Slot
from tiers.errors import ChecksumMismatch, InvalidPart, InvalidPartOrder, PartTooSmall, PlacementMoved, UploadNotFound
from tiers.namespace.checksums import Checksum, object_checksum, type_of
from tiers.namespace.conditions import judge_conditions
from tiers.namespace.content import add_references, drop_references, owner_of_part
from tiers.namespace.context import Context
from tiers.namespace.mutations import BucketMutation, ContentMutation, Keys
from tiers.namespace.object_mutations import refuse_lost_source
from tiers.namespace.types import CompletedPart, Description, PartOutcome, PutOutcome, WriteConditions
from tiers.namespace.versions import counted, push_version, read_key, reread_version


class Completion(NamedTuple):
    """What Complete asks for. `checksum` is the declared base64 checksum of the object or None."""

    parts: Sequence[CompletedPart]
    conditions: WriteConditions
    checksum: str | None
    checksum_type: str


class CreateUpload(BucketMutation):
    """Opens an upload; an upload without an algorithm gets CRC64NVME, as an object does."""

    __slots__ = ("_description", "_tier", "_upload_id")

    def __init__(self, context: Context, bucket_name: str, key: str, description: Description) -> None:
        super().__init__(context, bucket_name, key)
        self._description = description
        self._tier = context.catalogue.tier_of(description.storage_class)
        self._upload_id = context.new_version_id()

    def apply(self, transaction: Transaction, slot: Slot) -> Upload:
        """Errors: BucketNotFound."""
        bucket = self.read_bucket(transaction)
        description = self._description
        algorithm = description.checksum_algorithm or "CRC64NVME"
        upload = Upload(
            upload_id=self._upload_id,
            bucket_id=bucket.bucket_id,
            key=self.key,
            owner_id=description.owner_id,
            created_ms=slot.now_ms,
            state=UploadState.OPEN,
            storage_class=description.storage_class,
            tier=self._tier,
            attributes=description.attributes,
            tags=description.tags,
            checksum_algorithm=algorithm,
            checksum_type=type_of(algorithm, description.checksum_type),
            completion=b"",
            completed_ms=0,
        )
        transaction.put(UPLOAD, upload)
        return upload


def read_upload(transaction: Transaction, bucket: Bucket, key: bytes, upload_id: str) -> Upload:
    """The upload, open or completed. Errors: UploadNotFound, also under another bucket or key."""
    upload = transaction.get(UPLOAD, (upload_id,))
    if upload is None or upload.bucket_id != bucket.bucket_id or upload.key != key:
        raise UploadNotFound(upload_id)
    return upload


def read_open_upload(transaction: Transaction, bucket: Bucket, key: bytes, upload_id: str) -> Upload:
    """The upload while it is open. Errors: UploadNotFound."""
    upload = read_upload(transaction, bucket, key, upload_id)
    if upload.state != UploadState.OPEN:
        raise UploadNotFound(upload_id)
    return upload


class PutPart(ContentMutation):
    """Puts one part of an open upload, replacing the one of its number: the part that commits last wins."""

    __slots__ = ("_part_number", "_source", "upload_id")

    def __init__(
        self, context: Context, bucket_name: str, upload: Upload, part_number: int, source: Version | None = None
    ) -> None:
        super().__init__(context, bucket_name, upload.key.decode())
        self.tier = upload.tier
        self.upload_id = upload.upload_id
        self._part_number = part_number
        self._source = source

    def reads(self) -> Keys:
        """The bucket, the upload and the part."""
        yield BUCKET, (self.bucket_name,)
        yield UPLOAD, (self.upload_id,)
        yield PART, (self.upload_id, self._part_number)

    def apply(self, transaction: Transaction, slot: Slot) -> PartOutcome:
        """Errors: BucketNotFound, UploadNotFound; for a part that shares extents, those of a lost source."""
        bucket = self.read_bucket(transaction)
        upload = read_open_upload(transaction, bucket, self.key, self.upload_id)
        if self._source is not None:
            self._check_source(transaction, self._source)
        old = transaction.get(PART, (self.upload_id, self._part_number))
        extents = self.place_content(transaction, slot)
        part = Part(
            self.upload_id,
            self._part_number,
            slot.sequence,
            self.size,
            self.etag,
            slot.now_ms,
            self.checksum,
            extents,
        )
        add_references(transaction, owner_of_part(upload, part), unpack_extents(extents))
        if old is not None:
            bucket = drop_part(transaction, bucket, upload, old, now_ms=slot.now_ms)
        transaction.put(PART, part)
        transaction.put(BUCKET, counted(bucket, byte_count=part.size))
        return PartOutcome(part.etag, part.checksum, part.modified_ms)

    def _check_source(self, transaction: Transaction, source: Version) -> None:
        now = reread_version(transaction, source)
        if now is None:
            refuse_lost_source(transaction, source)
        elif now.extents != source.extents:
            raise PlacementMoved("the source of a copied part was moved meanwhile")


def drop_part(transaction: Transaction, bucket: Bucket, upload: Upload, part: Part, *, now_ms: int) -> Bucket:
    """Remove a part with its references; return the bucket without its bytes."""
    drop_references(transaction, owner_of_part(upload, part), unpack_extents(part.extents), now_ms=now_ms)
    transaction.delete(PART, (part.upload_id, part.part_number))
    return counted(bucket, byte_count=-part.size)


class AbortUpload(BucketMutation):
    """Removes an open upload with its parts."""

    __slots__ = ("_upload_id",)

    def __init__(self, context: Context, bucket_name: str, key: str, upload_id: str) -> None:
        super().__init__(context, bucket_name, key)
        self._upload_id = upload_id

    def apply(self, transaction: Transaction, slot: Slot) -> None:
        """Errors: BucketNotFound, UploadNotFound."""
        bucket = self.read_bucket(transaction)
        upload = read_open_upload(transaction, bucket, self.key, self._upload_id)
        for part in transaction.select_parts(self._upload_id):
            bucket = drop_part(transaction, bucket, upload, part, now_ms=slot.now_ms)
        transaction.delete(UPLOAD, (self._upload_id,))
        transaction.put(BUCKET, bucket)


class CompleteUpload(BucketMutation):
    """Makes a version of an upload's parts: metadata only, whatever their size.

    The upload's row stays with the answer, so that a repeated Complete with the same list gets it again.
    """

    __slots__ = ("_completion", "_part_bytes_min", "_upload_id", "_version_id")

    def __init__(self, context: Context, bucket_name: str, key: str, upload_id: str, completion: Completion) -> None:
        super().__init__(context, bucket_name, key)
        self._upload_id = upload_id
        self._completion = completion
        self._part_bytes_min = context.limits.part_bytes_min
        self._version_id = context.new_version_id()

    def apply(self, transaction: Transaction, slot: Slot) -> PutOutcome:
        """Make the version, or repeat the answer of the Complete that made it.

        Errors: BucketNotFound, UploadNotFound, InvalidPartOrder, InvalidPart, PartTooSmall, ChecksumMismatch, and those
        of `judge_conditions`; after each of them the upload is as it was.
        """
        wanted = self._completion
        bucket = self.read_bucket(transaction)
        upload = read_upload(transaction, bucket, self.key, self._upload_id)
        if upload.state == UploadState.COMPLETED:
            return recall_answer(upload, wanted.parts)
        parts = transaction.select_parts(self._upload_id)
        chosen = choose_parts(parts, wanted.parts, part_bytes_min=self._part_bytes_min)
        checksum = object_checksum(upload.checksum_algorithm, upload.checksum_type, chosen)
        check_declared(checksum, wanted.checksum, wanted.checksum_type)
        state = read_key(transaction, bucket, self.key)
        judge_conditions(wanted.conditions, state.current, self.key.decode())
        is_versioned = bucket.versioning == Versioning.ENABLED
        version = make_version(
            upload,
            chosen,
            version_id=self._version_id if is_versioned else NULL_VERSION,
            checksum=str(checksum),
            slot=slot,
        )
        bucket = push_version(transaction, bucket, state, version)
        for part in parts:
            bucket = drop_part(transaction, bucket, upload, part, now_ms=slot.now_ms)
        outcome = PutOutcome(version, is_versioned)
        completed = upload._replace(
            state=UploadState.COMPLETED, completion=keep_answer(outcome, wanted.parts), completed_ms=slot.now_ms
        )
        transaction.put(UPLOAD, completed)
        transaction.put(BUCKET, bucket)
        return outcome


def choose_parts(parts: Sequence[Part], wanted: Sequence[CompletedPart], *, part_bytes_min: int) -> list[Part]:
    """The parts that a completed list names, in order; pure.

    A part that was sent again may be listed again: of entries with one number the last counts, as it did for the part.
    Errors: InvalidPartOrder, InvalidPart, PartTooSmall.
    """
    if not wanted:
        raise InvalidPart("the list of parts is empty")
    if any(following.part_number < named.part_number for named, following in pairwise(wanted)):
        raise InvalidPartOrder("part numbers do not ascend")
    by_number = {part.part_number: part for part in parts}
    chosen: list[Part] = []
    for number, named in {named.part_number: named for named in wanted}.items():
        part = by_number.get(number)
        if part is None or part.etag != named.etag or named.checksum not in ("", part.checksum):
            raise InvalidPart(str(number))
        chosen.append(part)
    for part in chosen[:-1]:
        if part.size < part_bytes_min:
            raise PartTooSmall(str(part.part_number))
    return chosen


def check_declared(checksum: Checksum, declared: str | None, declared_type: str) -> None:
    """Compare what was declared for the whole object with what follows from its parts. Errors: ChecksumMismatch."""
    if declared_type and declared_type != checksum.kind:
        raise ChecksumMismatch(f"the upload's checksum type is {checksum.kind}")
    if declared and declared not in (checksum.value, checksum.value.partition("-")[0]):
        raise ChecksumMismatch(f"{checksum.algorithm} of the object is {checksum.value}")


def make_version(upload: Upload, parts: Sequence[Part], *, version_id: str, checksum: str, slot: Slot) -> Version:
    """The version that an upload becomes."""
    digest = hashlib.md5(b"".join([bytes.fromhex(part.etag) for part in parts]), usedforsecurity=False)
    return Version(
        bucket_id=upload.bucket_id,
        key=upload.key,
        sequence=slot.sequence,
        version_id=version_id,
        is_delete_marker=0,
        size=sum(part.size for part in parts),
        etag=f"{digest.hexdigest()}-{len(parts)}",
        modified_ms=slot.now_ms,
        storage_class=upload.storage_class,
        tier=upload.tier,
        owner_id=upload.owner_id,
        attributes=upload.attributes,
        checksum=checksum,
        parts=msgpack.packb([(part.part_number, part.size, part.checksum) for part in parts]),
        tags=upload.tags,
        extents=b"".join([part.extents for part in parts]),
        noncurrent_ms=0,
    )


def keep_answer(outcome: PutOutcome, parts: Sequence[CompletedPart]) -> bytes:
    """The answer of a Complete as kept in the upload's row; without what no answer shows."""
    shown = outcome.version._replace(extents=b"", parts=b"", attributes=b"", tags=b"")
    packed: bytes = msgpack.packb([_fingerprint(parts), outcome.is_versioned, list(shown)])
    return packed


def recall_answer(upload: Upload, parts: Sequence[CompletedPart]) -> PutOutcome:
    """The answer kept, if the list is the same again. Errors: UploadNotFound."""
    fingerprint, is_versioned, row = msgpack.unpackb(upload.completion)
    if fingerprint != _fingerprint(parts):
        raise UploadNotFound(upload.upload_id)
    return PutOutcome(Version._make(row), is_versioned)


def _fingerprint(parts: Sequence[CompletedPart]) -> bytes:
    text = "\n".join([f"{part.part_number} {part.etag}" for part in parts])
    return hashlib.sha256(text.encode()).digest()


class ExpireUpload:
    """Forgets the kept answer of a completed upload."""

    __slots__ = ("_completed_before_ms", "_upload_id", "body", "tier")

    def __init__(self, upload: Upload, *, completed_before_ms: int) -> None:
        self._upload_id = upload.upload_id
        self._completed_before_ms = completed_before_ms
        self.body: bytes | None = None
        self.tier = upload.tier

    def reads(self) -> Keys:
        """The upload."""
        yield UPLOAD, (self._upload_id,)

    def apply(self, transaction: Transaction, slot: Slot) -> bool:
        """Whether the row was removed; it stays unless it is completed and old enough now."""
        upload = transaction.get(UPLOAD, (self._upload_id,))
        if upload is None or upload.state != UploadState.COMPLETED or upload.completed_ms >= self._completed_before_ms:
            return False
        transaction.delete(UPLOAD, (self._upload_id,))
        return True
