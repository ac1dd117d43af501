"""Changes of versions: put, copy, delete, tags. All decisions are made in `apply`, on rows read there."""

from typing import NoReturn

from metadata.contract import Transaction
from metadata.tables import NONCURRENT, OBJECT
from metadata.types import NULL_VERSION, Bucket, Version, Versioning, unpack_extents
from tiers.commit.contract import Slot
from tiers.errors import DeleteMarkerFound, KeyNotFound, PlacementMoved, VersionNotFound
from tiers.namespace.conditions import judge_conditions, judge_delete
from tiers.namespace.context import Context
from tiers.namespace.events import ACL_PUT, COPY, DELETE, MARKER, PUT, TAGS_DELETED, TAGS_PUT
from tiers.namespace.mutations import BucketMutation, ContentMutation, refuse_other_bucket
from tiers.namespace.schedules import follow_version
from tiers.namespace.types import (
    DeleteOutcome,
    DeleteTarget,
    Description,
    PutOutcome,
    WriteConditions,
)
from tiers.namespace.versions import (
    NOTHING_LEFT,
    KeyState,
    find_version,
    is_current,
    pop_version,
    push_version,
    put_bucket,
    read_key,
    reread_version,
    rest_of,
)


class PutVersion(ContentMutation):
    """Puts a content under a key. `kept` is the source of a copy whose ETag, checksum and parts stay as they are."""

    __slots__ = ("_description", "_version_id", "conditions", "event", "kept")
    is_brief = True

    def __init__(
        self, context: Context, bucket_name: str, key: str, description: Description, conditions: WriteConditions
    ) -> None:
        super().__init__(context, bucket_name, key)
        self.tier = context.catalogue.tier_of(description.storage_class)
        self.kept: Version | None = None
        self.event = PUT
        self.origin = description.origin
        self.encryption = description.encryption
        self._description = description
        self.conditions = conditions
        self._version_id = context.new_version_id()

    def apply(self, transaction: Transaction, slot: Slot) -> PutOutcome:
        """Errors: BucketNotFound, PlacementMoved (another bucket by now), those of `judge_conditions`."""
        bucket = self.read_bucket(transaction)
        refuse_other_bucket(bucket, self._description)
        state = read_key(transaction, bucket, self.key, self.schedule)
        judge_conditions(self.conditions, state.current, self.key.decode())
        return self.commit_version(transaction, slot, bucket, state)

    def commit_version(self, transaction: Transaction, slot: Slot, bucket: Bucket, state: KeyState) -> PutOutcome:
        """The writing half of `apply`. Errors: LockNotEnabled, VersionLocked."""
        lock = self.lock_version(self._description.lock, slot.now_ms)
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
            description.acl,
            lock,
            self.encryption,
            extents,
            0,
        )
        self.grow_bucket(transaction, push_version(transaction, bucket, state, version, self.schedule))
        self.emit(transaction, slot, self.event, bucket, version)
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
        self.event = COPY
        self._source = source
        self.size = source.size

    def apply(self, transaction: Transaction, slot: Slot) -> PutOutcome:
        """Errors: those of PutVersion; KeyNotFound when the source is gone, PlacementMoved when it was replaced."""
        bucket = self.read_bucket(transaction)
        refuse_other_bucket(bucket, self._description)
        source = reread_version(transaction, self._source)
        if source is None:
            refuse_lost_source(transaction, self._source)
        else:
            self.extents = unpack_extents(source.extents)
            self.encryption = source.encryption
        state = read_key(transaction, bucket, self.key, self.schedule)
        judge_conditions(self.conditions, state.current, self.key.decode())
        return self.commit_version(transaction, slot, bucket, state)


def refuse_lost_source(transaction: Transaction, source: Version) -> NoReturn:
    """Raise for a source of a copy that went away since it was found; the caller of the copy may try again."""
    if transaction.get(OBJECT, (source.bucket_id, source.key)) is None:
        raise KeyNotFound(source.key.decode())
    raise PlacementMoved("the source of a copy was replaced meanwhile")


class DeleteVersion(BucketMutation):
    """Deletes a key as its bucket's versioning says, or one version of it for good."""

    __slots__ = ("_bypasses_governance", "_conditions", "_marker_id", "_version_id")
    is_brief = True

    def __init__(self, context: Context, bucket_name: str, target: DeleteTarget) -> None:
        super().__init__(context, bucket_name, target.key)
        self._conditions = target.conditions
        self._bypasses_governance = target.bypasses_governance
        self._version_id = target.version_id
        self._marker_id = context.new_version_id()

    def apply(self, transaction: Transaction, slot: Slot) -> DeleteOutcome:
        """Errors: BucketNotFound, VersionLocked, and those of `judge_delete`. Deleting what is absent succeeds."""
        bucket = self.read_bucket(transaction)
        if self._version_id is not None:
            return self._delete_version(transaction, slot, bucket, self._version_id)
        state = read_key(transaction, bucket, self.key, self.schedule)
        judge_delete(self._conditions, state.current, key=self.key.decode(), version_id=None)
        if bucket.versioning == Versioning.NEVER:
            if state.current is not None:
                put_bucket(
                    transaction,
                    pop_version(transaction, bucket, state.current, NOTHING_LEFT, slot.now_ms, schedule=self.schedule),
                )
                self.emit(transaction, slot, DELETE, bucket, state.current)
            return DeleteOutcome("", is_delete_marker=False)
        marker = new_marker(bucket, self.key, slot, self._marker_id)
        put_bucket(transaction, push_version(transaction, bucket, state, marker, self.schedule))
        self.emit(transaction, slot, MARKER, bucket, marker)
        return DeleteOutcome(marker.version_id, is_delete_marker=True)

    def _delete_version(self, transaction: Transaction, slot: Slot, bucket: Bucket, version_id: str) -> DeleteOutcome:
        version = find_version(transaction, bucket, self.key, version_id)
        judge_delete(self._conditions, version, key=self.key.decode(), version_id=version_id)
        if version is None:
            return DeleteOutcome(version_id, is_delete_marker=False)
        rest = rest_of(transaction, bucket, version, self.schedule)
        bypasses, schedule = self._bypasses_governance, self.schedule
        after = pop_version(
            transaction, bucket, version, rest, slot.now_ms, schedule=schedule, bypasses_governance=bypasses
        )
        put_bucket(transaction, after)
        self.emit(transaction, slot, DELETE, bucket, version)
        return DeleteOutcome(version_id, is_delete_marker=bool(version.is_delete_marker))


def new_marker(bucket: Bucket, key: bytes, slot: Slot, marker_id: str) -> Version:
    """A delete marker of a bucket that was ever versioned; without `marker_id` where that is suspended."""
    return Version(
        bucket_id=bucket.bucket_id,
        key=key,
        sequence=slot.sequence,
        version_id=marker_id if bucket.versioning == Versioning.ENABLED else NULL_VERSION,
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
        acl=b"",
        lock=b"",
        encryption=b"",
        extents=b"",
        noncurrent_ms=0,
    )


class SetAcl(BucketMutation):
    """Replaces the access control list of the one version that it was authorised for."""

    __slots__ = ("_acl", "_version")
    is_brief = True

    def __init__(self, context: Context, bucket_name: str, version: Version, acl: bytes) -> None:
        super().__init__(context, bucket_name, version.key.decode())
        self._version, self._acl = version, acl

    def apply(self, transaction: Transaction, slot: Slot) -> Version:
        """Errors: BucketNotFound; PlacementMoved when the version is not there any more."""
        bucket = self.read_bucket(transaction)
        found = reread_version(transaction, self._version)
        if found is None:
            raise PlacementMoved("the version was removed or replaced meanwhile")
        version = found._replace(acl=self._acl)
        transaction.put(OBJECT if is_current(version) else NONCURRENT, version)
        if version != found:
            self.emit(transaction, slot, ACL_PUT, bucket, version)
        return version


class SetTags(BucketMutation):
    """Replaces the tags of one version."""

    __slots__ = ("_tags", "_version_id")
    is_brief = True

    def __init__(self, context: Context, bucket_name: str, key: str, *, version_id: str | None, tags: bytes) -> None:
        super().__init__(context, bucket_name, key)
        self._version_id, self._tags = version_id, tags

    def apply(self, transaction: Transaction, slot: Slot) -> PutOutcome:
        """Errors: BucketNotFound, KeyNotFound, VersionNotFound, DeleteMarkerFound."""
        bucket = self.read_bucket(transaction)
        found = find_named(transaction, bucket, self.key, self._version_id)
        version = found._replace(tags=self._tags)
        follow_version(transaction, self.schedule, found, version)
        transaction.put(OBJECT if is_current(version) else NONCURRENT, version)
        self.emit(transaction, slot, TAGS_PUT if self._tags else TAGS_DELETED, bucket, version)
        return PutOutcome(version, bucket.versioning == Versioning.ENABLED)


def find_named(transaction: Transaction, bucket: Bucket, key: bytes, version_id: str | None) -> Version:
    """The version of that id, None for the current one. Errors: KeyNotFound, VersionNotFound, DeleteMarkerFound."""
    if version_id is None:
        state = read_key(transaction, bucket, key, None)
        if state.current is None:
            raise absent_key(key.decode(), state.marker)
        return state.current
    version = find_version(transaction, bucket, key, version_id)
    if version is None:
        raise VersionNotFound(version_id)
    if version.is_delete_marker:
        raise DeleteMarkerFound(version.version_id, version.modified_ms)
    return version


def absent_key(key: str, marker: Version | None) -> KeyNotFound:
    """The error for a key without a current version, `marker` being the delete marker on top of it."""
    if marker is None:
        return KeyNotFound(key)
    return KeyNotFound(key, is_delete_marker=True, version_id=marker.version_id)
