"""Rows of the metadata database as immutable values.

Every row is a NamedTuple in the column order of its table, primary key first, holding only int, str and bytes. The
same value is therefore the parameter list of a compiled statement, the redo image in the commit log, and a row of a
snapshot: nothing is converted in between. Times are integer milliseconds since the epoch. Keys are UTF-8 bytes, so
that both databases compare them bytewise and a NUL is an ordinary byte.
"""

import struct
from collections.abc import Iterable
from enum import IntEnum, StrEnum
from typing import Final, NamedTuple, NewType

BlobId = NewType("BlobId", bytes)
"""16 random bytes; never reused."""

NULL_VERSION: Final = "null"
"""Version id of a version written while versioning was not enabled."""


class Versioning(IntEnum):
    """Versioning state of a bucket."""

    NEVER = 0
    ENABLED = 1
    SUSPENDED = 2


class BlobKind(IntEnum):
    """How a blob's bytes lie on its devices."""

    PACK = 0  # r copies of an append-only file shared by many small objects
    STRIPED = 1  # k+m fragments of one large content


class BlobState(IntEnum):
    """Life of a blob."""

    OPEN = 0  # a pack that still grows
    SEALED = 1
    DEAD = 2  # nothing references it; reclaimed once its grace is over
    PENDING = 3  # being written by the moves that name it; nothing references it yet


class DeviceState(IntEnum):
    """What placement may do with a device."""

    ACTIVE = 0
    DRAINING = 1  # readable, takes no new blob
    OFFLINE = 2


class UploadState(IntEnum):
    """Life of a multipart upload."""

    OPEN = 0
    COMPLETED = 1  # kept a while so that a repeated Complete gets the same answer


class DueKind(IntEnum):
    """What an entry of the due-time index is for."""

    INDEX = 0  # a bucket whose entries do not follow its rules yet; nothing of it fires meanwhile
    END = 1  # a version may have to expire, an upload to be aborted
    MOVE = 2  # a version may have to move to another storage class


class DocumentKind(StrEnum):
    """Sub-resources of a bucket that are stored as documents.

    Configurations that a bucket has many of are stored under `INVENTORY_PREFIX` or `INTELLIGENT_TIERING_PREFIX` and
    their id.
    """

    TAGGING = "tagging"
    POLICY = "policy"
    PUBLIC_ACCESS_BLOCK = "public-access-block"
    OWNERSHIP = "ownership"
    ACL = "acl"
    CORS = "cors"
    ENCRYPTION = "encryption"
    LIFECYCLE = "lifecycle"
    OBJECT_LOCK = "object-lock"
    NOTIFICATION = "notification"
    LOGGING = "logging"
    WEBSITE = "website"
    REPLICATION = "replication"
    REQUEST_PAYMENT = "request-payment"
    ACCELERATE = "accelerate"
    QUOTA = "quota"


INVENTORY_PREFIX: Final = "inventory/"
INTELLIGENT_TIERING_PREFIX: Final = "intelligent-tiering/"


class Extent(NamedTuple):
    """A run of bytes of one blob; a content is an ordered list of extents.

    `checksum` is the CRC64NVME of exactly these bytes for an extent of a pack, and 0 for an extent of a striped blob,
    whose blocks carry their own checksums.
    """

    blob_id: BlobId
    offset: int
    length: int
    checksum: int


_EXTENT: Final = struct.Struct("<16sQQQ")
EXTENT_BYTES: Final = _EXTENT.size


def pack_extents(extents: Iterable[Extent]) -> bytes:
    """Extents as the bytes stored in a row: 40 bytes each, in content order."""
    return b"".join([_EXTENT.pack(*extent) for extent in extents])


def unpack_extents(packed: bytes) -> list[Extent]:
    """Inverse of `pack_extents`; a length that is no multiple of 40 is our bug and is asserted."""
    assert len(packed) % _EXTENT.size == 0
    return [Extent(BlobId(blob), at, length, crc) for blob, at, length, crc in _EXTENT.iter_unpack(packed)]


class Bucket(NamedTuple):
    """A bucket, its configuration that every request needs, and its exact usage counters.

    `name` is the primary key; `bucket_id` is fresh for each creation, so that a bucket created anew under an old name
    shares nothing with it. Counters change in the transaction that changes the objects they count: `object_count` is
    current versions, `version_count` all versions and delete markers, `byte_count` the bytes of all versions and of
    the parts of open uploads. `revision` is the sequence of the commit that last changed the configuration: versioning
    or any document; creation counts.
    """

    name: str
    bucket_id: int
    owner_id: str
    created_ms: int
    versioning: int
    region: str
    object_count: int
    version_count: int
    byte_count: int
    revision: int


class BucketDocument(NamedTuple):
    """One configuration document of a bucket; `kind` is a `DocumentKind`, or a prefix and an id."""

    bucket_id: int
    kind: str
    document: bytes


class Version(NamedTuple):
    """One version of a key: a row of `object` while it is current, of `noncurrent_version` otherwise.

    A delete marker never stands in `object` (so that it costs a listing nothing): it is the newest row of its key in
    `noncurrent_version`, and the key has no row in `object`. `sequence` is unique for every version and grows with the
    commit order; it alone orders versions. `attributes` is the client's descriptive metadata, opaque below the
    gateway. `checksum` is `ALGORITHM:TYPE:base64` or empty. `parts` and `tags` are msgpack, empty when there are
    none: parts `[[number, size, checksum base64 or ""], ...]`, tags `[[key, value], ...]`. `acl` and
    `lock` are msgpack, empty for none and the defaults. `encryption` is a packed `tiers.datapath.encryption.Envelope`,
    empty for none; `extents` then hold ciphertext, which is longer than `size`. `noncurrent_ms` is 0 while the version
    is current, else the commit time at which it stopped being so.
    """

    bucket_id: int
    key: bytes
    sequence: int
    version_id: str
    is_delete_marker: int
    size: int
    etag: str
    modified_ms: int
    storage_class: str
    tier: str
    owner_id: str
    attributes: bytes
    checksum: str
    parts: bytes
    tags: bytes
    acl: bytes
    lock: bytes
    encryption: bytes
    extents: bytes
    noncurrent_ms: int


class ExtentReference(NamedTuple):
    """Who references a byte range of a blob: the reverse of `extents`. Derived, never logged.

    A version's reference has an empty `upload_id`; a part's reference has the upload's key and its `part_number`.
    `owner_sequence` is the sequence of the version or part.
    """

    blob_id: BlobId
    blob_offset: int
    owner_sequence: int
    length: int
    bucket_id: int
    key: bytes
    upload_id: str
    part_number: int


class Blob(NamedTuple):
    """An immutable byte sequence in one tier, with one layout and one placement.

    `layout` is `copies:R` or `K+M:SEGMENT_BYTES`. `size` is the blob's logical bytes; for an open pack, the offset
    at which its last committed batch begins (recovery scans on from there). `live_bytes` is the sum of the lengths of
    the extents that reference it. `placement` is the device ids in fragment order joined by one space; an empty name
    stands for a fragment that is missing. `last_sequence` is, for a pack, the sequence of the last batch it holds.
    `dead_ms` is 0 until nothing references it. `worker` is the number of the process that writes an open pack.
    """

    blob_id: BlobId
    tier: str
    kind: int
    layout: str
    size: int
    live_bytes: int
    state: int
    placement: str
    generation: int
    created_ms: int
    dead_ms: int
    last_sequence: int
    worker: int


class Device(NamedTuple):
    """One place for fragments and the failure domains it lies in."""

    device_id: str
    tier: str
    kind: str
    location: str
    state: int
    host: str
    rack: str
    zone: str
    site: str
    created_ms: int


class TierRow(NamedTuple):
    """A tier's descriptor as JSON, see `tiers.catalogue`."""

    name: str
    descriptor: str


class Upload(NamedTuple):
    """One multipart upload.

    `acl`, `lock` and `encryption` become those of the version, see there. `completion` is the msgpack answer kept
    after Complete, empty while the upload is open. `owner_id` is to own the version; `initiator_id` opened the upload,
    empty when nobody signed for it.
    """

    upload_id: str
    bucket_id: int
    key: bytes
    owner_id: str
    created_ms: int
    state: int
    storage_class: str
    tier: str
    attributes: bytes
    tags: bytes
    acl: bytes
    lock: bytes
    encryption: bytes
    checksum_algorithm: str
    checksum_type: str
    completion: bytes
    completed_ms: int
    initiator_id: str = ""


class Part(NamedTuple):
    """One part of an upload.

    `checksum` is base64 of the upload's algorithm, or empty. `encryption` is the salt of an encrypted part, whose
    `extents` hold ciphertext; empty for none.
    """

    upload_id: str
    part_number: int
    sequence: int
    size: int
    etag: str
    modified_ms: int
    checksum: str
    extents: bytes
    encryption: bytes


class Principal(NamedTuple):
    """An identity that owns buckets and access keys. `state` is 1 enabled, 0 disabled.

    `email` and `tenant` are empty when there is none. `quotas` is msgpack, empty for none.
    """

    principal_id: str
    name: str
    is_root: int
    state: int
    created_ms: int
    email: str = ""
    tenant: str = ""
    quotas: bytes = b""


class AccessKey(NamedTuple):
    """An access key; `secret` is an AES-256-GCM envelope bound to principal and key id. `state` 1 active, 0 revoked."""

    access_key_id: str
    principal_id: str
    secret: bytes
    state: int
    created_ms: int


class Usage(NamedTuple):
    """What the buckets of one owner hold together: sums of their counters, changed with them. Derived, never logged.

    An owner without a row holds nothing.
    """

    owner_id: str
    object_count: int
    byte_count: int


class Event(NamedTuple):
    """A notification that waits for its delivery. `not_before_ms` is 0 until a delivery failed."""

    sequence: int
    bucket_id: int
    payload: bytes
    attempts: int
    not_before_ms: int


class Due(NamedTuple):
    """When lifecycle rules have to look at a version, an upload or a bucket next: `due_ms` may be early, never late.

    A version's entry has an empty `upload_id`, an upload's a `sequence` of 0. That of a bucket (DueKind.INDEX) has
    neither, nor a key; its `due_ms` rises with every change of the rules.
    """

    bucket_id: int
    key: bytes
    sequence: int
    upload_id: str
    kind: int
    due_ms: int


class Repair(NamedTuple):
    """A fragment known to be missing or bad."""

    blob_id: BlobId
    fragment_index: int
    reason: str
    since_ms: int


class ChainHead(NamedTuple):
    """The last batch of the commit log that this database holds: one row, `chain_id` 0."""

    chain_id: int
    sequence: int
    batch_id: bytes


class Revision(NamedTuple):
    """A counter that rises whenever what it names changes (`credentials`, `topology`), so that processes reload."""

    name: str
    value: int


class Cursor(NamedTuple):
    """Persisted position of a worker. Not logged: a lost cursor starts its worker over."""

    name: str
    position: bytes


class Lease(NamedTuple):
    """Bounded right of one process to do one job. Not logged."""

    name: str
    holder: str
    expires_ms: int
