"""Changes of multipart uploads: create, put part, complete, abort, expire."""

import hashlib
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import msgpack

from metadata.contract import Transaction
from metadata.tables import BUCKET, OBJECT, PART, UPLOAD, stored_row
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
from tiers.datapath.encryption import Envelope, Run
from tiers.errors import (
    ChecksumMismatch,
    InvalidPart,
    InvalidPartOrder,
    PartTooSmall,
    PlacementMoved,
    SizeMismatch,
    UploadNotFound,
)
from tiers.namespace.checksums import Checksum, object_checksum, type_of
from tiers.namespace.conditions import judge_conditions
from tiers.namespace.content import add_references, drop_references, owner_of_part
from tiers.namespace.context import Context
from tiers.namespace.events import COMPLETE, NOBODY, Origin
from tiers.namespace.mutations import BucketMutation, ContentMutation, Keys, refuse_other_bucket
from tiers.namespace.object_mutations import refuse_lost_source
from tiers.namespace.schedules import Schedule, follow_upload
from tiers.namespace.types import (
    UNDECLARED,
    CompletedPart,
    DeclaredObject,
    Description,
    PartOutcome,
    PutOutcome,
    WriteConditions,
)
from tiers.namespace.versions import counted, push_version, put_bucket, read_key, reread_version


class Completion(NamedTuple):
    """What Complete asks for."""

    parts: Sequence[CompletedPart]
    conditions: WriteConditions
    declared: DeclaredObject = UNDECLARED
    origin: Origin = NOBODY


class CreateUpload(BucketMutation):
    """Opens an upload; an upload without an algorithm gets CRC64NVME, as an object does."""

    __slots__ = ("_description", "_tier", "_upload_id")
    is_brief = True

    def __init__(self, context: Context, bucket_name: str, key: str, description: Description) -> None:
        super().__init__(context, bucket_name, key)
        self._description = description
        self._tier = context.catalogue.tier_of(description.storage_class)
        self._upload_id = context.new_version_id()

    def apply(self, transaction: Transaction, slot: Slot) -> Upload:
        """Errors: BucketNotFound, LockNotEnabled, PlacementMoved (another bucket by now)."""
        bucket = self.read_bucket(transaction)
        description = self._description
        refuse_other_bucket(bucket, description)
        if description.lock:
            self.require_lock()
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
            acl=description.acl,
            lock=description.lock,
            encryption=description.encryption,
            checksum_algorithm=algorithm,
            checksum_type=type_of(algorithm, description.checksum_type),
            completion=b"",
            completed_ms=0,
            initiator_id=description.writer_id,
        )
        transaction.put(UPLOAD, upload)
        follow_upload(transaction, self.schedule, upload, is_open=True)
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

    __slots__ = ("_source", "part_number", "upload_id")
    is_brief = True

    def __init__(
        self, context: Context, bucket_name: str, upload: Upload, part_number: int, source: Version | None = None
    ) -> None:
        super().__init__(context, bucket_name, upload.key.decode())
        self.tier = upload.tier
        self.upload_id = upload.upload_id
        self.part_number = part_number
        self._source = source

    def reads(self) -> Keys:
        """The bucket, the upload and the part."""
        yield BUCKET, (self.bucket_name,)
        yield UPLOAD, (self.upload_id,)
        yield PART, (self.upload_id, self.part_number)

    def apply(self, transaction: Transaction, slot: Slot) -> PartOutcome:
        """Errors: BucketNotFound, UploadNotFound; for a part that shares extents, those of a lost source."""
        bucket = self.read_bucket(transaction)
        upload = read_open_upload(transaction, bucket, self.key, self.upload_id)
        if self._source is not None:
            self._check_source(transaction, self._source)
        old = transaction.get(PART, (self.upload_id, self.part_number))
        extents = self.place_content(transaction, slot)
        part = Part(
            upload_id=self.upload_id,
            part_number=self.part_number,
            sequence=slot.sequence,
            size=self.size,
            etag=self.etag,
            modified_ms=slot.now_ms,
            checksum=self.checksum,
            extents=extents,
            encryption=self.encryption,
        )
        add_references(transaction, owner_of_part(upload, part), unpack_extents(extents))
        if old is not None:
            bucket = drop_part(transaction, bucket, upload, old, now_ms=slot.now_ms)
        transaction.put(PART, part)
        self.grow_bucket(transaction, counted(bucket, byte_count=part.size))
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


def drop_upload(
    transaction: Transaction, bucket: Bucket, upload: Upload, schedule: Schedule | None, *, now_ms: int
) -> Bucket:
    """Remove an open upload with its parts and its entry in the index; return the bucket without their bytes."""
    for part in transaction.select_parts(upload.upload_id):
        bucket = drop_part(transaction, bucket, upload, part, now_ms=now_ms)
    transaction.delete(UPLOAD, (upload.upload_id,))
    follow_upload(transaction, schedule, upload, is_open=False)
    return bucket


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
        put_bucket(transaction, drop_upload(transaction, bucket, upload, self.schedule, now_ms=slot.now_ms))


class CompleteUpload(BucketMutation):
    """Makes a version of an upload's parts: metadata only, whatever their size.

    The upload's row stays with the answer, so that a repeated Complete with the same list gets it again.
    """

    __slots__ = ("_completion", "_part_bytes_min", "_upload_id", "_version_id")

    def __init__(self, context: Context, bucket_name: str, key: str, upload_id: str, completion: Completion) -> None:
        super().__init__(context, bucket_name, key)
        self._upload_id = upload_id
        self._completion = completion
        self.origin = completion.origin
        self._part_bytes_min = context.limits.part_bytes_min
        self._version_id = context.new_version_id()

    def apply(self, transaction: Transaction, slot: Slot) -> PutOutcome:
        """Make the version, or repeat the answer of the Complete that made it.

        Errors: BucketNotFound, UploadNotFound, InvalidPartOrder, InvalidPart, PartTooSmall, SizeMismatch,
        ChecksumMismatch, VersionLocked, and those of `judge_conditions`; after each of them the upload is as it was.
        """
        wanted = self._completion
        bucket = self.read_bucket(transaction)
        upload = read_upload(transaction, bucket, self.key, self._upload_id)
        if upload.state == UploadState.COMPLETED:
            return recall_answer(upload, wanted.parts)
        parts = transaction.select_parts(self._upload_id)
        chosen = choose_parts(parts, wanted.parts, part_bytes_min=self._part_bytes_min)
        checksum = object_checksum(upload.checksum_algorithm, upload.checksum_type, chosen)
        check_declared(wanted.declared, checksum, sum(part.size for part in chosen))
        state = read_key(transaction, bucket, self.key, self.schedule)
        judge_conditions(wanted.conditions, state.current, self.key.decode())
        is_versioned = bucket.versioning == Versioning.ENABLED
        version = make_version(
            upload,
            chosen,
            version_id=self._version_id if is_versioned else NULL_VERSION,
            checksum=str(checksum),
            slot=slot,
        )
        version = version._replace(lock=self.lock_version(upload.lock, slot.now_ms))
        bucket = push_version(transaction, bucket, state, version, self.schedule)
        for part in parts:
            bucket = drop_part(transaction, bucket, upload, part, now_ms=slot.now_ms)
        outcome = PutOutcome(version, is_versioned)
        completed = upload._replace(
            state=UploadState.COMPLETED, completion=keep_answer(outcome, wanted.parts, upload), completed_ms=slot.now_ms
        )
        transaction.put(UPLOAD, completed)
        follow_upload(transaction, self.schedule, upload, is_open=False)
        self.grow_bucket(transaction, bucket)
        self.emit(transaction, slot, COMPLETE, bucket, version)
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


def check_declared(declared: DeclaredObject, checksum: Checksum, size: int) -> None:
    """Compare what was declared for the whole object with what follows from its parts.

    Errors: SizeMismatch, ChecksumMismatch.
    """
    if declared.size not in {None, size}:
        raise SizeMismatch(f"the parts have {size} bytes")
    if declared.checksum_type and declared.checksum_type != checksum.kind:
        raise ChecksumMismatch(f"the upload's checksum type is {checksum.kind}")
    if declared.checksum and declared.checksum not in (checksum.value, checksum.value.partition("-")[0]):
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
        acl=upload.acl,
        lock=upload.lock,
        encryption=sealed_envelope(upload, parts),
        extents=b"".join([part.extents for part in parts]),
        noncurrent_ms=0,
    )


def sealed_envelope(upload: Upload, parts: Sequence[Part]) -> bytes:
    """What a version keeps of its encryption: the envelope of the upload, and of each part its run; empty for none."""
    if not upload.encryption:
        return b""
    runs = tuple([Run(part.part_number, part.size, part.encryption) for part in parts])
    return Envelope.unpack(upload.encryption)._replace(runs=runs).pack()


def keep_answer(outcome: PutOutcome, parts: Sequence[CompletedPart], upload: Upload) -> bytes:
    """The answer of a Complete as kept in the upload's row; without what no answer shows."""
    shown = outcome.version._replace(extents=b"", parts=b"", attributes=b"", tags=b"", acl=b"")._replace(
        encryption=upload.encryption  # how, but not of every part
    )
    packed: bytes = msgpack.packb([_fingerprint(parts), outcome.is_versioned, list(shown)])
    return packed


def recall_answer(upload: Upload, parts: Sequence[CompletedPart]) -> PutOutcome:
    """The answer kept, if the list is the same again. Errors: UploadNotFound."""
    fingerprint, is_versioned, row = msgpack.unpackb(upload.completion)
    if fingerprint != _fingerprint(parts):
        raise UploadNotFound(upload.upload_id)
    return PutOutcome(stored_row(OBJECT, row), is_versioned)


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
