"""Changes of versions: put, copy, delete, tags. All decisions are made in `apply`, on rows read there."""

from metadata.contract import Transaction
from metadata.tables import BUCKET, NONCURRENT, OBJECT
from metadata.types import NULL_VERSION, Bucket, Version, Versioning, unpack_extents
from tiers.commit.contract import Slot
from tiers.errors import DeleteMarkerFound, KeyNotFound, PlacementMoved, VersionNotFound
from tiers.namespace.conditions import judge_conditions
from tiers.namespace.context import Context
from tiers.namespace.mutations import BucketMutation, ContentMutation
from tiers.namespace.types import (
    DeleteOutcome,
    DeleteTarget,
    Description,
    PutOutcome,
    WriteConditions,
)
from tiers.namespace.versions import (
    KeyState,
    find_version,
    is_current,
    is_top_marker,
    pop_version,
    push_version,
    read_key,
    reread_version,
    version_below,
)


class PutVersion(ContentMutation):
    """Puts a content under a key. `kept` is the source of a copy whose ETag, checksum and parts stay as they are."""

    __slots__ = ("_description", "_version_id", "conditions", "kept")

    def __init__(
        self, context: Context, bucket_name: str, key: str, description: Description, conditions: WriteConditions
    ) -> None:
        super().__init__(context, bucket_name, key)
        self.tier = context.catalogue.tier_of(description.storage_class)
        self.kept: Version | None = None
        self._description = description
        self.conditions = conditions
        self._version_id = context.new_version_id()

    def apply(self, transaction: Transaction, slot: Slot) -> PutOutcome:
        """Errors: BucketNotFound, PlacementMoved (another owner's bucket by now), those of `judge_conditions`."""
        bucket = self.read_bucket(transaction)
        if bucket.owner_id != self._description.owner_id:
            raise PlacementMoved(f"bucket {self.bucket_name} was made anew by another owner")
        state = read_key(transaction, bucket, self.key)
        judge_conditions(self.conditions, state.current, self.key.decode())
        return self.commit_version(transaction, slot, bucket, state)

    def commit_version(self, transaction: Transaction, slot: Slot, bucket: Bucket, state: KeyState) -> PutOutcome:
        """The writing half of `apply`."""
        extents = self.place_content(transaction, slot)
        is_versioned = bucket.versioning == Versioning.ENABLED
        description, kept = self._description, self.kept
        version = Version(
            bucket.bucket_id,
            self.key,
            slot.sequence,
            self._version_id if is_versioned else NULL_VERSION,
            0,
            self.size,
            self.etag if kept is None else kept.etag,
            slot.now_ms,
            description.storage_class,
            self.tier,
            description.owner_id,
            description.attributes,
            self.checksum if kept is None else kept.checksum,
            b"" if kept is None else kept.parts,
            description.tags,
            extents,
            0,
        )
        transaction.put(BUCKET, push_version(transaction, bucket, state, version))
        return PutOutcome(version, is_versioned)


class CopyVersion(PutVersion):
    """Puts a version that shares the extents of another, which must still be there when this commits."""

    __slots__ = ("_source",)

    def __init__(
        self,
        context: Context,
        source: Version,
        bucket_name: str,
        key: str,
        description: Description,
        *,
        conditions: WriteConditions,
    ) -> None:
        super().__init__(context, bucket_name, key, description, conditions)
        assert source.tier == self.tier
        self._source = source
        self.size = source.size

    def apply(self, transaction: Transaction, slot: Slot) -> PutOutcome:
        """Errors: those of PutVersion; KeyNotFound when the source is gone, PlacementMoved when it was replaced."""
        bucket = self.read_bucket(transaction)
        source = reread_version(transaction, self._source)
        if source is None:
            refuse_lost_source(transaction, self._source)
        else:
            self.extents = unpack_extents(source.extents)
        state = read_key(transaction, bucket, self.key)
        judge_conditions(self.conditions, state.current, self.key.decode())
        return self.commit_version(transaction, slot, bucket, state)


def refuse_lost_source(transaction: Transaction, source: Version) -> None:
    """Raise for a source of a copy that went away since it was found; the caller of the copy may try again."""
    if transaction.get(OBJECT, (source.bucket_id, source.key)) is None:
        raise KeyNotFound(source.key.decode())
    raise PlacementMoved("the source of a copy was replaced meanwhile")


class DeleteVersion(BucketMutation):
    """Deletes a key as its bucket's versioning says, or one version of it for good."""

    __slots__ = ("_conditions", "_marker_id", "_version_id")

    def __init__(self, context: Context, bucket_name: str, target: DeleteTarget) -> None:
        super().__init__(context, bucket_name, target.key)
        self._conditions = target.conditions
        self._version_id = target.version_id
        self._marker_id = context.new_version_id()

    def apply(self, transaction: Transaction, slot: Slot) -> DeleteOutcome:
        """Errors: BucketNotFound, and those of `judge_conditions`. Deleting what is absent succeeds."""
        bucket = self.read_bucket(transaction)
        if self._version_id is not None:
            return self._delete_version(transaction, slot, bucket, self._version_id)
        state = read_key(transaction, bucket, self.key)
        judge_conditions(self._conditions, state.current, self.key.decode())
        if bucket.versioning == Versioning.NEVER:
            if state.current is not None:
                transaction.put(BUCKET, pop_version(transaction, bucket, state.current, None, slot.now_ms))
            return DeleteOutcome("", is_delete_marker=False)
        marker = self._marker(bucket, slot)
        transaction.put(BUCKET, push_version(transaction, bucket, state, marker))
        return DeleteOutcome(marker.version_id, is_delete_marker=True)

    def _delete_version(self, transaction: Transaction, slot: Slot, bucket: Bucket, version_id: str) -> DeleteOutcome:
        version = find_version(transaction, bucket, self.key, version_id)
        is_marker = version is not None and bool(version.is_delete_marker)
        judge_conditions(self._conditions, None if is_marker else version, self.key.decode())
        if version is None:
            return DeleteOutcome(version_id, is_delete_marker=False)
        below = None
        if bucket.versioning != Versioning.NEVER and (is_current(version) or is_top_marker(version)):
            below = version_below(transaction, version)
        transaction.put(BUCKET, pop_version(transaction, bucket, version, below, slot.now_ms))
        return DeleteOutcome(version_id, is_delete_marker=is_marker)

    def _marker(self, bucket: Bucket, slot: Slot) -> Version:
        is_versioned = bucket.versioning == Versioning.ENABLED
        return Version(
            bucket_id=bucket.bucket_id,
            key=self.key,
            sequence=slot.sequence,
            version_id=self._marker_id if is_versioned else NULL_VERSION,
            is_delete_marker=1,
            size=0,
            etag="",
            modified_ms=slot.now_ms,
            storage_class="",
            tier="",
            owner_id=bucket.owner_id,
            attributes=b"",
            checksum="",
            parts=b"",
            tags=b"",
            extents=b"",
            noncurrent_ms=0,
        )


class SetTags(BucketMutation):
    """Replaces the tags of one version."""

    __slots__ = ("_tags", "_version_id")

    def __init__(self, context: Context, bucket_name: str, key: str, *, version_id: str | None, tags: bytes) -> None:
        super().__init__(context, bucket_name, key)
        self._version_id, self._tags = version_id, tags

    def apply(self, transaction: Transaction, slot: Slot) -> PutOutcome:
        """Errors: BucketNotFound, KeyNotFound, VersionNotFound, DeleteMarkerFound."""
        bucket = self.read_bucket(transaction)
        version = self._find(transaction, bucket)._replace(tags=self._tags)
        transaction.put(OBJECT if is_current(version) else NONCURRENT, version)
        return PutOutcome(version, bucket.versioning == Versioning.ENABLED)

    def _find(self, transaction: Transaction, bucket: Bucket) -> Version:
        if self._version_id is None:
            state = read_key(transaction, bucket, self.key)
            if state.current is None:
                raise absent_key(self.key.decode(), state.marker)
            return state.current
        version = find_version(transaction, bucket, self.key, self._version_id)
        if version is None:
            raise VersionNotFound(self._version_id)
        if version.is_delete_marker:
            raise DeleteMarkerFound(version.version_id, version.modified_ms)
        return version


def absent_key(key: str, marker: Version | None) -> KeyNotFound:
    """The error for a key without a current version, `marker` being the delete marker on top of it."""
    if marker is None:
        return KeyNotFound(key)
    return KeyNotFound(key, is_delete_marker=True, version_id=marker.version_id)
