"""Appends: a version is replaced by one with a further extent at its end, in the commit that judges the offset.

What stands already is neither read nor written again. A version that was appended to is an object of parts, each append
one of them: its ETag ends in their number, and its checksum, which has to be one that combines, covers the whole.
"""

import hashlib
from base64 import b64decode, b64encode
from typing import Any, Final

import msgpack

from metadata.contract import Transaction
from metadata.types import Bucket, Extent, Version, Versioning, pack_extents, unpack_extents
from tiers.commit.contract import Slot
from tiers.datapath.digests import COMBINABLE, combine
from tiers.errors import AppendRefused, ChecksumNotCombinable, OffsetMismatch, PlacementMoved, TooManyExtents
from tiers.namespace.checksums import FULL_OBJECT, full_checksum_prefix, parse_checksum
from tiers.namespace.conditions import judge_conditions
from tiers.namespace.context import Context
from tiers.namespace.events import PUT
from tiers.namespace.locks import judge_removal
from tiers.namespace.mutations import ContentMutation, refuse_other_bucket
from tiers.namespace.object_mutations import PutVersion
from tiers.namespace.types import Description, PutOutcome, WriteConditions
from tiers.namespace.versions import KeyState, push_version, read_key

EXTENTS_MAX: Final = 10_000
"""Extents and parts that a version may have to be appended to; AWS has the same bound. The row is 700 KB then."""


def judge_offset(current: Version | None, offset: int) -> None:
    """Return when `offset` is where the content ends. Errors: OffsetMismatch."""
    if offset != (0 if current is None else current.size):
        raise OffsetMismatch(str(offset))


def check_appendable(bucket: Bucket, version: Version) -> str:
    """The algorithm of the checksum that an append to `version` has to continue.

    Errors: AppendRefused for a bucket that has or had versioning and for an encrypted content; ChecksumNotCombinable,
    TooManyExtents.
    """
    refuse_versioned(bucket)
    if version.encryption:
        raise AppendRefused("an encrypted object")
    checksum = parse_checksum(version.checksum)
    if checksum is None or checksum.kind != FULL_OBJECT or checksum.algorithm not in COMBINABLE:
        raise ChecksumNotCombinable(version.checksum)
    if max(len(parts_of(version)), len(unpack_extents(version.extents))) >= EXTENTS_MAX:
        raise TooManyExtents(str(EXTENTS_MAX))
    return checksum.algorithm


def refuse_versioned(bucket: Bucket) -> None:
    """Errors: AppendRefused."""
    if bucket.versioning != Versioning.NEVER:
        raise AppendRefused("an object in a bucket that has or had versioning")


def parts_of(version: Version) -> list[Any]:
    """The parts that a version counts as before an append: a content put whole is one, nothing is none."""
    if version.parts:
        parts: list[Any] = msgpack.unpackb(version.parts)
        return parts
    checksum = parse_checksum(version.checksum)
    assert checksum is not None
    return [[1, version.size, checksum.value]] if version.size else []


def appended(version: Version, size: int, md5: bytes, checksum: bytes, extents: list[Extent]) -> Version:
    """The version with `size` further bytes, MD5 and checksum being theirs; key, times and sequence as they were."""
    stored = parse_checksum(version.checksum)
    assert stored is not None
    whole = combine(stored.algorithm, [(b64decode(stored.value), version.size), (checksum, size)])
    parts = parts_of(version)
    parts.append([parts[-1][0] + 1 if parts else 1, size, b64encode(checksum).decode()])
    before = bytes.fromhex(version.etag.partition("-")[0])
    etag = hashlib.md5(before + md5, usedforsecurity=False).hexdigest()
    return version._replace(
        size=version.size + size,
        etag=f"{etag}-{len(parts)}",
        checksum=full_checksum_prefix(stored.algorithm) + b64encode(whole).decode(),
        parts=msgpack.packb(parts),
        extents=version.extents + pack_extents(extents),
    )


class PutAtStart(PutVersion):
    """Puts a content where there is none: the append at offset 0, which describes the object as any put does."""

    __slots__ = ()

    def commit_version(self, transaction: Transaction, slot: Slot, bucket: Bucket, state: KeyState) -> PutOutcome:
        """See `PutVersion`. Errors: OffsetMismatch, AppendRefused."""
        refuse_versioned(bucket)
        judge_offset(state.current, 0)
        return super().commit_version(transaction, slot, bucket, state)


class AppendVersion(ContentMutation):
    """Adds the content that it brings to the version found, which must still be as it was."""

    __slots__ = ("_algorithm", "_conditions", "_description", "_seen", "offset")

    def __init__(
        self,
        context: Context,
        bucket_name: str,
        seen: Version,
        description: Description,
        conditions: WriteConditions,
        *,
        offset: int,
    ) -> None:
        super().__init__(context, bucket_name, seen.key.decode())
        self.tier = seen.tier
        self.offset = offset
        self.origin = description.origin
        self._seen, self._description, self._conditions = seen, description, conditions
        stored = parse_checksum(seen.checksum)
        assert stored is not None
        self._algorithm = stored.algorithm

    def apply(self, transaction: Transaction, slot: Slot) -> PutOutcome:
        """Errors: BucketNotFound, PlacementMoved (another bucket, or an object with another tier or checksum by now).

        Also those of `judge_conditions`, `judge_offset` and `check_appendable`, VersionLocked, QuotaExceeded.
        """
        bucket = self.read_bucket(transaction)
        refuse_other_bucket(bucket, self._description)
        state = read_key(transaction, bucket, self.key, self.schedule)
        judge_conditions(self._conditions, state.current, self.key.decode())
        judge_offset(state.current, self.offset)
        current = state.current
        assert current is not None, "only the offset 0 is the end of nothing"
        if check_appendable(bucket, current) != self._algorithm or current.tier != self.tier:
            raise PlacementMoved("the object was replaced meanwhile by one that is stored otherwise")
        judge_removal(current.lock, slot.now_ms)
        added = unpack_extents(self.place_content(transaction, slot))
        version = appended(current, self.size, bytes.fromhex(self.etag), b64decode(self.checksum), added)
        version = version._replace(sequence=slot.sequence, modified_ms=slot.now_ms)
        self.grow_bucket(transaction, push_version(transaction, bucket, state, version, self.schedule))
        self.emit(transaction, slot, PUT, bucket, version)
        return PutOutcome(version, is_versioned=False)
