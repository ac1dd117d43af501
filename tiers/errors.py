"""Storage errors: one root (declared in `metadata.errors`), one level beneath it, named for what happened.

The gateway translates each of them once; a test holds the two lists equal.
"""

from metadata.errors import LogGap, MetadataRefused, MetadataUnavailable, StorageError

__all__ = [
    "BucketNameTaken",
    "BucketNotEmpty",
    "BucketNotFound",
    "ChecksumMismatch",
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
    "LogGap",
    "MetadataRefused",
    "MetadataUnavailable",
    "PartTooSmall",
    "PlacementMoved",
    "PlacementShort",
    "QuorumNotReached",
    "StorageClassUnknown",
    "StorageError",
    "StoreBusy",
    "UploadNotFound",
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


class PartTooSmall(StorageError):
    """A part other than the last is under 5 MiB."""


class StorageClassUnknown(StorageError):
    """No tier serves that storage class."""


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
