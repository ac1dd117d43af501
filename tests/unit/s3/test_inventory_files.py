"""Columns and data files of inventory reports, cell by cell."""

import base64
import csv
import gzip
import io
import json
from dataclasses import replace
from typing import Any

import pytest

from gateway.auth.acl import Ownership, canned_acl, pack_acl
from gateway.s3.inventory import FIELDS, Inventory
from gateway.s3.inventory_columns import Facts, columns_of
from gateway.s3.inventory_files import FORMATS
from metadata.types import Version
from tiers.datapath.encryption import Envelope
from tiers.namespace.locks import LegalHold, Lock, Mode, pack_lock

ALL = Inventory("i", True, "", True, FIELDS, False, "t", "p", "CSV", False)
FACTS = Facts("bucket", "owner", None, None, 1)
PLAIN = Version(
    1, b"=a b\n", 5, "v1", 0, 9, "0" * 32 + "-2", 1_700_000_000_000, "STANDARD_IA", "warm", "writer", b"",
    "SHA256:COMPOSITE:x-2", b"", b"", b"", b"", b"", b"", 0,
)  # fmt: skip
MARKER = PLAIN._replace(is_delete_marker=1, size=0, etag="", tier="", checksum="", noncurrent_ms=7)


def cells(row: Version, facts: Facts = FACTS, asked: Inventory = ALL) -> dict[str, str]:
    """A row as CSV has it, by column."""
    columns = columns_of(asked)
    encoder = FORMATS["CSV"].encoder(columns, facts)
    content = gzip.decompress(encoder.add([row]) + encoder.finish()).decode()
    (read,) = csv.reader(io.StringIO(content))
    return dict(zip([column.name for column in columns], read, strict=True))


def test_a_row() -> None:
    assert cells(PLAIN) | {"ObjectAccessControlList": ""} == {
        "Bucket": "bucket", "Key": "%3Da%20b%0A", "VersionId": "v1", "IsLatest": "true", "IsDeleteMarker": "false",
        "Size": "9", "LastModifiedDate": "2023-11-14T22:13:20.000Z", "ETag": "0" * 32 + "-2",
        "StorageClass": "STANDARD_IA", "IsMultipartUploaded": "true", "ReplicationStatus": "",
        "EncryptionStatus": "NOT-SSE", "ObjectLockRetainUntilDate": "", "ObjectLockMode": "",
        "ObjectLockLegalHoldStatus": "", "IntelligentTieringAccessTier": "", "BucketKeyStatus": "",
        "ChecksumAlgorithm": "SHA256", "ObjectAccessControlList": "", "ObjectOwner": "writer",
        "LifecycleExpirationDate": "", "Tier": "warm",
    }  # fmt: skip


def test_a_delete_marker_has_no_content() -> None:
    told = {name: cell for name, cell in cells(MARKER).items() if cell}
    assert told.keys() == {
        "Bucket", "Key", "VersionId", "IsLatest", "IsDeleteMarker", "LastModifiedDate", "ObjectOwner",
    }  # fmt: skip
    assert (told["IsLatest"], told["IsDeleteMarker"]) == ("false", "true")


@pytest.mark.parametrize(
    ("envelope", "status", "bucket_key"),
    [
        (Envelope("AES256", "", b"w", b"n"), "SSE-S3", ""),
        (Envelope("aws:kms", "k", b"w", b"n"), "SSE-KMS", "DISABLED"),
        (Envelope("aws:kms", "k", b"w", b"n", is_bucket_key=True), "SSE-KMS", "ENABLED"),
        (Envelope("SSE-C", "", b"w", b"n"), "SSE-C", ""),
    ],
)
def test_encryption(envelope: Envelope, status: str, bucket_key: str) -> None:
    told = cells(PLAIN._replace(encryption=envelope.pack()))
    assert (told["EncryptionStatus"], told["BucketKeyStatus"]) == (status, bucket_key)


def test_locks_lists_and_owners() -> None:
    lock = pack_lock(Lock(Mode.COMPLIANCE, 1_700_000_000_000, LegalHold.ON))
    told = cells(PLAIN._replace(lock=lock, acl=pack_acl(canned_acl("public-read", "writer", "owner"))))
    assert told["ObjectLockRetainUntilDate"] == "2023-11-14T22:13:20.000Z"
    assert (told["ObjectLockMode"], told["ObjectLockLegalHoldStatus"]) == ("COMPLIANCE", "On")
    acl: dict[str, Any] = json.loads(base64.b64decode(told["ObjectAccessControlList"]))
    assert {(grant["type"], grant["permission"]) for grant in acl["grants"]} == {
        ("Group", "READ"),
        ("CanonicalUser", "FULL_CONTROL"),
    }
    enforced = cells(PLAIN, FACTS._replace(ownership=Ownership.ENFORCED))
    assert enforced["ObjectOwner"] == "owner"


def test_current_versions_and_few_columns() -> None:
    assert list(cells(PLAIN, asked=replace(ALL, with_all_versions=False, fields=("Tier", "Size")))) == [
        "Bucket",
        "Key",
        "Size",
        "Tier",
    ]


def test_parquet_holds_the_same_values_with_their_types() -> None:
    parquet: Any = pytest.importorskip("pyarrow.parquet")
    columns = columns_of(ALL)
    encoder = FORMATS["Parquet"].encoder(columns, FACTS)
    content = encoder.add([PLAIN]) + encoder.add([MARKER]) + encoder.finish()
    first, second = parquet.read_table(io.BytesIO(content)).to_pylist()
    assert (first["key"], first["size"], first["is_latest"], first["tier"]) == ("=a b\n", 9, True, "warm")
    assert first["last_modified_date"].timestamp() == 1_700_000_000
    assert (second["size"], second["is_delete_marker"], second["e_tag"]) == (None, True, None)


def test_schemas_of_the_manifest() -> None:
    columns = columns_of(ALL)
    assert FORMATS["CSV"].schema(columns).startswith("Bucket, Key, VersionId, IsLatest, IsDeleteMarker, Size, ")
    message = FORMATS["Parquet"].schema(columns)
    assert message.startswith("message s3.inventory { required binary bucket (UTF8); required binary key (UTF8); opt")
    assert "optional int64 last_modified_date (TIMESTAMP_MILLIS);" in message


def test_every_field_has_a_column() -> None:
    assert {column.name for column in columns_of(ALL)} >= set(FIELDS)
