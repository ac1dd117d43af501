"""Storage errors: one root (declared in `metadata.errors`), one level beneath it, named for what happened.

The gateway translates each of them once; a test holds the two lists equal.
"""

from metadata.errors import LogGap, MetadataRefused, MetadataUnavailable, StorageError

__all__ = [
    "AppendRefused",
    "BucketNameTaken",
    "BucketNotEmpty",
    "BucketNotFound",
    "BucketStateRefused",
    "BucketVersioned",
    "ChecksumMismatch",
    "ChecksumNotCombinable",
    "ConditionFailed",
    "ContentUnreadable",
    "DeleteMarkerFound",
    "DeviceFailed",
    "DeviceFull",
    "FragmentCorrupt",
    "FragmentNotFound",
    "InvalidPart",
    "InvalidPartOrder",
    "KeyNotFound",
    "KeyUnavailable",
    "LockNotEnabled",
    "LogGap",
    "MetadataRefused",
    "MetadataUnavailable",
    "OffsetMismatch",
    "PartTooSmall",
    "PlacementMoved",
    "PlacementShort",
    "QuorumNotReached",
    "QuotaExceeded",
    "SizeMismatch",
    "StorageClassUnknown",
    "StorageError",
    "StoreBusy",
    "TokenReused",
    "TooManyExtents",
    "UploadNotFound",
    "VersionLocked",
    "VersionNotFound",
]


class BucketNotFound(StorageError):
    """No bucket of that name."""


class BucketNameTaken(StorageError):
    """The name is in use. `owner_id` is the owner of the existing bucket."""

    def __init__(self, name: str, owner_id: str) -> None:
        super().__init__(name)
        self.owner_id = owner_id


class BucketNotEmpty(StorageError):
    """The bucket holds versions or delete markers."""


class KeyNotFound(StorageError):
    """The key has no current version. `is_delete_marker` tells whether a delete marker is on top."""

    def __init__(self, key: str, *, is_delete_marker: bool = False, version_id: str = "") -> None:
        super().__init__(key)
        self.is_delete_marker = is_delete_marker
        self.version_id = version_id


class KeyUnavailable(StorageError):
    """The key of an encrypted content cannot be had: lost, replaced, or its provider does not answer."""


class VersionLocked(StorageError):
    """Object Lock protects the version from what was asked; the argument names what holds it."""


class LockNotEnabled(StorageError):
    """The bucket has no Object Lock, and something of it was asked for."""


class BucketStateRefused(StorageError):
    """Versioning and Object Lock of the bucket do not go together with what was asked."""


class VersionNotFound(StorageError):
    """The key has no version of that id."""


class DeleteMarkerFound(StorageError):
    """The version named is a delete marker and has no content. `modified_ms` is when it was written."""

    def __init__(self, version_id: str, modified_ms: int) -> None:
        super().__init__(version_id)
        self.version_id = version_id
        self.modified_ms = modified_ms


class ConditionFailed(StorageError):
    """A condition of a write does not hold; `condition` names the header."""

    def __init__(self, condition: str) -> None:
        super().__init__(condition)
        self.condition = condition


class UploadNotFound(StorageError):
    """No open upload of that id under that key."""


class InvalidPart(StorageError):
    """A part named by Complete is absent or has another ETag or checksum."""


class InvalidPartOrder(StorageError):
    """The parts named by Complete do not ascend."""


class ChecksumMismatch(StorageError):
    """The object checksum declared with Complete is not the one that follows from its parts."""


class SizeMismatch(StorageError):
    """The object size declared with Complete is not the sum of its parts."""


class OffsetMismatch(StorageError):
    """An append does not begin where the content ends."""


class TooManyExtents(StorageError):
    """A version consists of so many pieces that nothing more is appended to it."""


class AppendRefused(StorageError):
    """Nothing is appended to what the argument says."""


class ChecksumNotCombinable(StorageError):
    """The checksum of the whole would not follow from that of the version and that of what is appended."""


class BucketVersioned(StorageError):
    """The bucket has or had versioning, and what was asked is only for buckets without."""


class TokenReused(StorageError):
    """A client token came again with another request."""


class PartTooSmall(StorageError):
    """A part other than the last is under 5 MiB."""


class StorageClassUnknown(StorageError):
    """No tier serves that storage class."""


class QuotaExceeded(StorageError):
    """A quota of the bucket, its owner or the owner's tenant would be exceeded; nothing changed."""


class StoreBusy(StorageError):
    """A byte or request budget is used up; nothing was staged."""


class PlacementShort(StorageError):
    """Too few devices are available for the layout."""


class PlacementMoved(StorageError):
    """Someone else changed the placement first."""


class QuorumNotReached(StorageError):
    """Fewer fragments became durable than the write quorum; nothing was committed."""


class DeviceFull(StorageError):
    """A device has no space left beyond its reserve."""


class DeviceFailed(StorageError):
    """A device answered with an input/output error."""


class FragmentNotFound(StorageError):
    """No published fragment of that name on the device."""


class FragmentCorrupt(StorageError):
    """A fragment's bytes or header do not match what was written."""


class ContentUnreadable(StorageError):
    """Fewer good fragments than needed remain for a range; never answered with wrong bytes."""
