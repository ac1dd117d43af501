"""Requests to the namespace and what it answers: plain values, no protocol word in them."""

from dataclasses import dataclass, field
from typing import NamedTuple

from metadata.types import Bucket, Version
from tiers.datapath.encryption import ContentKey
from tiers.namespace.events import NOBODY, Origin

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
class DeleteConditions:
    """Conditions on the version that a delete is about: the one named, else the current one. None means absent.

    `if_match` is as in `WriteConditions`; `size` is in bytes; `modified_seconds` is compared by whole seconds.
    """

    if_match: tuple[str, ...] | None = None
    size: int | None = None
    modified_seconds: int | None = None


UNCONDITIONAL_DELETE = DeleteConditions()


@dataclass(frozen=True, slots=True)
class Description:
    """What a client says about a content besides its bytes.

    `attributes` is opaque here (see `metadata.types.Version`). `checksum_algorithm` is empty or one of
    `tiers.datapath.digests.DIGEST_NAMES`; `checksum_type` is FULL_OBJECT or COMPOSITE, empty for the algorithm's
    default. `owner_id` is to own the version, `writer_id` writes it (empty: anonymous), and `bucket` is the row the
    write was authorised with, None for writes of the store itself. `tags`, `acl` and `lock` are the msgpack forms of
    a Version row; a copy has those of its own description, not its source's. `encryption` is the envelope of an
    upload; other writes get theirs from the key they are sealed with, or from the source whose bytes they share.
    """

    owner_id: str
    storage_class: str = "STANDARD"
    attributes: bytes = b""
    tags: bytes = b""
    checksum_algorithm: str = ""
    checksum_type: str = ""
    acl: bytes = b""
    lock: bytes = b""
    encryption: bytes = b""
    writer_id: str = ""
    bucket: Bucket | None = None
    origin: Origin = NOBODY


class CopyKeys(NamedTuple):
    """The keys of a copy's source and of what it becomes; None is in the clear.

    Where both are one and the same the copy may share the source's bytes; else they are opened and sealed anew.
    """

    source: ContentKey | None = None
    target: ContentKey | None = None

    @property
    def may_share(self) -> bool:
        """Whether the copy is encrypted as its source is."""
        return self.source is self.target


IN_THE_CLEAR = CopyKeys()


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
    """One key, or one version of it, to delete. `bypasses_governance` says that the caller asked to and may."""

    key: str
    version_id: str | None = None
    conditions: DeleteConditions = field(default=UNCONDITIONAL_DELETE)
    bypasses_governance: bool = False


class CompletedPart(NamedTuple):
    """A part as Complete names it: ETag without quotes, checksum base64 or empty."""

    part_number: int
    etag: str
    checksum: str


class DeclaredObject(NamedTuple):
    """What Complete declares of the object: base64 checksum (a composite one with or without its `-N`), type, bytes."""

    checksum: str | None = None
    checksum_type: str = ""
    size: int | None = None


UNDECLARED = DeclaredObject()


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
