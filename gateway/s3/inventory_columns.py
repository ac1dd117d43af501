"""The columns of inventory reports: what each is called, and what it says of a version. Order as on AWS."""

import json
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Final, NamedTuple

from gateway.auth.acl import Acl, Grant, Group, Ownership, object_acl
from gateway.s3 import headers, tags
from gateway.s3.encryption import SSE_C, SSE_KMS, SSE_S3
from gateway.s3.inventory import Inventory
from metadata.types import Version
from tiers.datapath.encryption import Envelope
from tiers.lifecycle.documents import Lifecycle
from tiers.lifecycle.rules import Subject, end_of
from tiers.namespace.checksums import parse_checksum
from tiers.namespace.locks import FOREVER_MS, LegalHold, unpack_lock


class Kind(Enum):
    """What a column holds; by the type of Parquet's message schema."""

    TEXT = "binary {} (UTF8)"
    NUMBER = "int64 {}"
    TRUTH = "boolean {}"
    TIME = "int64 {} (TIMESTAMP_MILLIS)"


class Facts(NamedTuple):
    """What cells need to know besides their version: the bucket and its rules. `day_ms` is a lifecycle day."""

    bucket_name: str
    owner_id: str
    ownership: Ownership | None
    lifecycle: Lifecycle | None
    day_ms: int


Cell = str | int | bool | None
"""None is what does not apply or is not known. Times are in milliseconds since the epoch."""


class Column(NamedTuple):
    """One column; `needs_whole_row` says that a page of a listing does not tell its cells."""

    name: str
    parquet_name: str
    kind: Kind
    cell: Callable[[Version, Facts], Cell]
    needs_whole_row: bool = False


_ENCRYPTIONS: Final = {SSE_S3: "SSE-S3", SSE_KMS: "SSE-KMS", SSE_C: "SSE-C"}
_HOLDS: Final = {LegalHold.ON: "On", LegalHold.OFF: "Off"}
_ACL_VERSION: Final = "2022-11-10"


def _of_content(cell: Callable[[Version, Facts], Cell]) -> Callable[[Version, Facts], Cell]:
    """The same for versions with content; a delete marker has none."""
    return lambda row, facts: None if row.is_delete_marker else cell(row, facts)


def _encryption(row: Version, _facts: Facts) -> Cell:
    return _ENCRYPTIONS[Envelope.unpack(row.encryption).kind] if row.encryption else "NOT-SSE"


def _bucket_key(row: Version, _facts: Facts) -> Cell:
    envelope = Envelope.unpack(row.encryption) if row.encryption else None
    if envelope is None or envelope.kind != SSE_KMS:
        return None
    return "ENABLED" if envelope.is_bucket_key else "DISABLED"


def _checksum(row: Version, _facts: Facts) -> Cell:
    checksum = parse_checksum(row.checksum)
    return None if checksum is None else checksum.algorithm


def _list(row: Version, facts: Facts) -> Cell:
    acl: Acl = object_acl(row.acl, row.owner_id, facts.owner_id, facts.ownership)
    told = {"version": _ACL_VERSION, "status": "AVAILABLE", "grants": [_grant(grant) for grant in acl.grants]}
    return b64encode(json.dumps(told, separators=(",", ":")).encode()).decode("ascii")


def _grant(grant: Grant) -> Mapping[str, str]:
    is_group = grant.grantee in set(Group)
    name, kind = ("uri", "Group") if is_group else ("canonicalId", "CanonicalUser")
    return {name: grant.grantee, "type": kind, "permission": grant.permission.value}


def _owner(row: Version, facts: Facts) -> Cell:
    return facts.owner_id if facts.ownership is Ownership.ENFORCED else row.owner_id


def _expiration(row: Version, facts: Facts) -> Cell:
    """When the rules end a current version, as HEAD tells it."""
    if facts.lifecycle is None or row.noncurrent_ms:
        return None
    tagged = frozenset(tags.unpack(row.tags))
    subject = Subject(row.key.decode(), row.size, row.modified_ms, row.storage_class, tagged)
    end = end_of(facts.lifecycle, subject, facts.day_ms)
    return None if end is None else min(end.due_ms, FOREVER_MS)


_FIRST: Final = (
    Column("Bucket", "bucket", Kind.TEXT, lambda _row, facts: facts.bucket_name),
    Column("Key", "key", Kind.TEXT, lambda row, _facts: row.key.decode()),
)
_OF_VERSIONS: Final = (
    Column("VersionId", "version_id", Kind.TEXT, lambda row, _facts: row.version_id),
    Column("IsLatest", "is_latest", Kind.TRUTH, lambda row, _facts: not row.noncurrent_ms),
    Column("IsDeleteMarker", "is_delete_marker", Kind.TRUTH, lambda row, _facts: bool(row.is_delete_marker)),
)
# fmt: off
_OPTIONAL: Final = (
    Column("Size", "size", Kind.NUMBER, _of_content(lambda row, _facts: row.size)),
    Column("LastModifiedDate", "last_modified_date", Kind.TIME, lambda row, _facts: row.modified_ms),
    Column("ETag", "e_tag", Kind.TEXT, _of_content(lambda row, _facts: row.etag)),
    Column("StorageClass", "storage_class", Kind.TEXT, _of_content(lambda row, _facts: row.storage_class)),
    Column("IsMultipartUploaded", "is_multipart_uploaded", Kind.TRUTH,
           _of_content(lambda row, _facts: "-" in row.etag)),
    Column("ReplicationStatus", "replication_status", Kind.TEXT, lambda _row, _facts: None),
    Column("EncryptionStatus", "encryption_status", Kind.TEXT, _of_content(_encryption)),
    Column("ObjectLockRetainUntilDate", "object_lock_retain_until_date", Kind.TIME,
           lambda row, _facts: unpack_lock(row.lock).retain_until_ms or None),
    Column("ObjectLockMode", "object_lock_mode", Kind.TEXT,
           lambda row, _facts: unpack_lock(row.lock).mode.value or None),
    Column("ObjectLockLegalHoldStatus", "object_lock_legal_hold_status", Kind.TEXT,
           lambda row, _facts: _HOLDS.get(unpack_lock(row.lock).legal_hold)),
    Column("IntelligentTieringAccessTier", "intelligent_tiering_access_tier", Kind.TEXT, lambda _row, _facts: None),
    Column("BucketKeyStatus", "bucket_key_status", Kind.TEXT, _of_content(_bucket_key)),
    Column("ChecksumAlgorithm", "checksum_algorithm", Kind.TEXT, _of_content(_checksum)),
    Column("ObjectAccessControlList", "object_access_control_list", Kind.TEXT, _of_content(_list),
           needs_whole_row=True),
    Column("ObjectOwner", "object_owner", Kind.TEXT, _owner),
    Column("LifecycleExpirationDate", "lifecycle_expiration_date", Kind.TIME, _of_content(_expiration),
           needs_whole_row=True),
    Column("Tier", "tier", Kind.TEXT, _of_content(lambda row, _facts: row.tier)),
)
# fmt: on
"""Columns by the field that asks for them. Replication and the access tiers of AWS's archive are not known here."""


def columns_of(inventory: Inventory) -> Sequence[Column]:
    """The columns of a report, in its order."""
    asked = [column for column in _OPTIONAL if column.name in inventory.fields]
    return (*_FIRST, *(_OF_VERSIONS if inventory.with_all_versions else ()), *asked)


def text_of(column: Column, value: Cell) -> str:
    """A cell as CSV has it."""
    if value is None:
        return ""
    if column.kind is Kind.TRUTH:
        return "true" if value else "false"
    return headers.iso_time(int(value)) if column.kind is Kind.TIME else str(value)
