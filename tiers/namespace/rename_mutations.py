"""Renames inside one bucket: the version goes under another key in one commit, and none of its bytes move.

A rename that names a token leaves its answer behind, as the row of a completed upload that nobody opened: it is logged
like any other, no listing shows it, and the sweep of completed uploads forgets it.
"""

import hashlib
from typing import NamedTuple

import msgpack

from metadata.contract import Transaction
from metadata.tables import BUCKET, OBJECT, UPLOAD
from metadata.types import Bucket, Upload, UploadState, Version, Versioning
from tiers.commit.contract import Slot
from tiers.errors import BucketVersioned, ConditionFailed, KeyNotFound, TokenReused
from tiers.namespace.conditions import judge_conditions
from tiers.namespace.context import Context
from tiers.namespace.events import COPY, Origin
from tiers.namespace.locks import judge_removal
from tiers.namespace.mutations import BucketMutation, Keys, refuse_other_bucket
from tiers.namespace.object_mutations import refuse_lost_source
from tiers.namespace.types import Description, WriteConditions
from tiers.namespace.versions import NOTHING_LEFT, pop_version, push_version, read_key, reread_version


class SideConditions(NamedTuple):
    """Conditions on one side of a rename; None means absent. Times are whole seconds.

    `"*"` among the entity tags matches any version.
    """

    if_match: tuple[str, ...] | None = None
    if_none_match: tuple[str, ...] | None = None
    modified_since: int | None = None
    unmodified_since: int | None = None

    @property
    def of_tags(self) -> WriteConditions:
        """The conditions on entity tags alone."""
        return WriteConditions(self.if_match, self.if_none_match)


class Rename(NamedTuple):
    """What a rename asks for. `seen` is the source that was authorised, None where it was absent then.

    `bucket` is the row the rename was authorised with, `caller_id` who asks, `token` empty for none.
    """

    bucket: Bucket
    source: str
    target: str
    seen: Version | None
    caller_id: str
    source_conditions: SideConditions
    target_conditions: SideConditions
    token: str
    origin: Origin

    def record_id(self) -> str:
        """Where the answer under the token is kept: one place for each caller and bucket."""
        named = msgpack.packb([self.bucket.bucket_id, self.caller_id, self.token])
        return f"rename-{hashlib.sha256(named).hexdigest()}"

    def fingerprint(self) -> bytes:
        """What has to be the same when a token comes again."""
        packed = msgpack.packb([self.source, self.target, self.source_conditions, self.target_conditions])
        return hashlib.sha256(packed).digest()


def judge_side(conditions: SideConditions, version: Version | None, *, key: str, prefix: str = "") -> None:
    """Return when one side of a rename may go on; `version` is what stands under `key`. Pure.

    Errors: KeyNotFound when If-Match has nothing to match; ConditionFailed naming the header, behind `prefix`.
    """
    try:
        judge_conditions(conditions.of_tags, version, key)
    except ConditionFailed as error:
        raise ConditionFailed(prefix + error.condition) from None
    modified = None if version is None else version.modified_ms // 1000
    since = conditions.modified_since
    if since is not None and conditions.if_none_match is None and (modified is None or modified <= since):
        raise ConditionFailed(f"{prefix}If-Modified-Since")
    until = conditions.unmodified_since
    if until is not None and conditions.if_match is None and modified is not None and modified > until:
        raise ConditionFailed(f"{prefix}If-Unmodified-Since")


class RenameVersion(BucketMutation):
    """Puts the source's version under the target's key, over what is there, and takes it away from its own."""

    __slots__ = ("_rename",)

    def __init__(self, context: Context, bucket_name: str, rename: Rename) -> None:
        super().__init__(context, bucket_name, rename.target)
        assert rename.source != rename.target
        self._rename = rename
        self.origin = rename.origin

    def reads(self) -> Keys:
        """The bucket, both keys, and the answer kept under the token."""
        yield BUCKET, (self.bucket_name,)
        yield OBJECT, (self._rename.bucket.bucket_id, self.key)
        yield OBJECT, (self._rename.bucket.bucket_id, self._rename.source.encode())
        if self._rename.token:
            yield UPLOAD, (self._rename.record_id(),)

    def apply(self, transaction: Transaction, slot: Slot) -> None:
        """Rename, or do nothing when the same request under the same token was done before.

        Errors: BucketNotFound, PlacementMoved (another bucket or another source by now), BucketVersioned, TokenReused,
        KeyNotFound, ConditionFailed, VersionLocked; nothing changed then.
        """
        rename = self._rename
        bucket = self.read_bucket(transaction)
        refuse_other_bucket(bucket, Description(bucket.owner_id, writer_id=rename.caller_id, bucket=rename.bucket))
        if rename.token and self._was_done(transaction):
            return
        if bucket.versioning != Versioning.NEVER:
            raise BucketVersioned(self.bucket_name)
        source = self._find_source(transaction)
        state = read_key(transaction, bucket, self.key, self.schedule)
        judge_side(rename.target_conditions, state.current, key=rename.target)
        judge_removal(source.lock, slot.now_ms)
        moved = source._replace(key=self.key, sequence=slot.sequence, modified_ms=slot.now_ms)
        bucket = push_version(transaction, bucket, state, moved, self.schedule)
        bucket = pop_version(transaction, bucket, source, NOTHING_LEFT, slot.now_ms, schedule=self.schedule)
        self.grow_bucket(transaction, bucket)
        if rename.token:
            self._keep_answer(transaction, slot, moved)
        self.emit(transaction, slot, COPY, bucket, moved)

    def _find_source(self, transaction: Transaction) -> Version:
        rename = self._rename
        if rename.seen is None:
            raise KeyNotFound(rename.source)
        source = reread_version(transaction, rename.seen)
        if source is None:
            refuse_lost_source(transaction, rename.seen)
        judge_side(rename.source_conditions, source, key=rename.source, prefix="x-amz-rename-source-")
        return source

    def _was_done(self, transaction: Transaction) -> bool:
        kept = transaction.get(UPLOAD, (self._rename.record_id(),))
        if kept is None:
            return False
        if msgpack.unpackb(kept.completion)[0] != self._rename.fingerprint():
            raise TokenReused(self._rename.token)
        return True

    def _keep_answer(self, transaction: Transaction, slot: Slot, moved: Version) -> None:
        answer = Upload(
            upload_id=self._rename.record_id(),
            bucket_id=moved.bucket_id,
            key=moved.key,
            owner_id=moved.owner_id,
            created_ms=slot.now_ms,
            state=UploadState.COMPLETED,
            storage_class=moved.storage_class,
            tier=moved.tier,
            attributes=b"",
            tags=b"",
            acl=b"",
            lock=b"",
            encryption=b"",
            checksum_algorithm="",
            checksum_type="",
            completion=msgpack.packb([self._rename.fingerprint(), False, []]),
            completed_ms=slot.now_ms,
            initiator_id=self._rename.caller_id,
        )
        transaction.put(UPLOAD, answer)
