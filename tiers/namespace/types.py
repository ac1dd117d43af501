"""Requests to the namespace and what it answers: plain values, no protocol word in them."""

from dataclasses import dataclass, field
from typing import NamedTuple

from metadata.types import Bucket, Version

SMALL_CONTENT_BYTES_MAX = 128 * 1024
"""Contents up to here go into a pack with their commit; larger ones become striped blobs."""


@dataclass(frozen=True, slots=True)
class WriteConditions:
    """Conditions on the current version, judged inside the committing transaction. None means absent.

    An element `"*"` matches any current version; other elements are ETags without quotes.
    """

    if_match: tuple[str, ...] | None = None
    if_none_match: tuple[str, ...] | None = None


UNCONDITIONAL = WriteConditions()


@dataclass(frozen=True, slots=True)
class Description:
    """What a client says about a content besides its bytes.

    `attributes` is opaque here (see `metadata.types.Version`). `checksum_algorithm` is empty or one of CRC32, CRC32C,
    SHA1, SHA256, CRC64NVME; `checksum_type` is FULL_OBJECT or COMPOSITE, empty for the algorithm's default.
    `tags` is the msgpack form of a Version row.
    """

    owner_id: str
    storage_class: str = "STANDARD"
    attributes: bytes = b""
    tags: bytes = b""
    checksum_algorithm: str = ""
    checksum_type: str = ""


class PutOutcome(NamedTuple):
    """A committed version, and whether the bucket gives out version ids (versioning enabled)."""

    version: Version
    is_versioned: bool


class DeleteOutcome(NamedTuple):
    """What a delete did. `version_id` is empty when no version id is to be answered.

    `is_delete_marker` is true when a delete marker was written, or when the version removed was one.
    """

    version_id: str
    is_delete_marker: bool


class Found(NamedTuple):
    """A version that has content, in its bucket."""

    bucket: Bucket
    version: Version
    is_latest: bool


@dataclass(frozen=True, slots=True)
class DeleteTarget:
    """One key, or one version of it, to delete."""

    key: str
    version_id: str | None = None
    conditions: WriteConditions = field(default=UNCONDITIONAL)


class CompletedPart(NamedTuple):
    """A part as Complete names it: ETag without quotes, checksum base64 or empty."""

    part_number: int
    etag: str
    checksum: str


class PartOutcome(NamedTuple):
    """An uploaded part. `checksum` is base64 of the upload's algorithm or empty."""

    etag: str
    checksum: str
    modified_ms: int


@dataclass(frozen=True, slots=True)
class ListQuery:
    """One page of a listing. Empty strings mean absent; `limit` is 0 to 1000."""

    bucket: str
    prefix: str = ""
    delimiter: str = ""
    after: str = ""
    after_version: str = ""
    limit: int = 1000


@dataclass(frozen=True, slots=True)
class ListPage:
    """Entries and common prefixes in one order; together at most `limit`.

    `next_key` (and `next_version`) is where a following page continues: the last key or common prefix returned; empty
    when nothing follows.
    """

    entries: list[Version]
    common_prefixes: list[str]
    is_truncated: bool
    next_key: str = ""
    next_version: str = ""
