"""Inventory configurations of a bucket, as put and as whoever writes the reports reads them."""

import re
from dataclasses import dataclass
from typing import Final

from gateway.s3 import xml
from gateway.s3.errors import S3Code, S3Error

FORMATS: Final = frozenset({"CSV", "Parquet"})
FIELDS: Final = (
    *("Size", "LastModifiedDate", "StorageClass", "ETag", "IsMultipartUploaded", "ReplicationStatus"),
    *("EncryptionStatus", "ObjectLockRetainUntilDate", "ObjectLockMode", "ObjectLockLegalHoldStatus"),
    *("IntelligentTieringAccessTier", "BucketKeyStatus", "ChecksumAlgorithm", "ObjectAccessControlList"),
    *("ObjectOwner", "LifecycleExpirationDate", "Tier"),
)
"""Columns that may be asked for beside bucket and key. The rest of AWS's list speaks of what is not served here.

Tier is no field of AWS: where a version lies, by the name of the tier.
"""

_EVENT_HOLD: Final = frozenset(
    {"ObjectLockEventHoldStatus", "ObjectLockEventHoldDuration", "IntelligentTieringReferenceDate"}
)
_ARN: Final = re.compile(r"arn:aws[a-z-]*:s3:::([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])")
_PREFIX_BYTES_MAX: Final = 512

_TARGET: Final = xml.Element(
    {
        "AccountId": xml.LEAF,
        "Bucket": xml.REQUIRED_LEAF,
        "Format": xml.REQUIRED_LEAF,
        "Prefix": xml.LEAF,
        "Encryption": xml.Element({"SSE-S3": xml.LEAF, "SSE-KMS": xml.Element({"KeyId": xml.REQUIRED_LEAF})}),
    },
    is_required=True,
)
ROOTS: Final = {
    "InventoryConfiguration": xml.Element(
        {
            "Destination": xml.Element({"S3BucketDestination": _TARGET}, is_required=True),
            "IsEnabled": xml.REQUIRED_LEAF,
            "Filter": xml.Element({"Prefix": xml.REQUIRED_LEAF}),
            "Id": xml.REQUIRED_LEAF,
            "IncludedObjectVersions": xml.REQUIRED_LEAF,
            "OptionalFields": xml.Element({"Field": xml.Element(many=len(FIELDS) + len(_EVENT_HOLD))}),
            "Schedule": xml.Element({"Frequency": xml.REQUIRED_LEAF}, is_required=True),
        }
    )
}


@dataclass(frozen=True, slots=True)
class Inventory:
    """What one configuration asks for. `prefix` selects keys, `target_prefix` is where the reports go."""

    inventory_id: str
    is_enabled: bool
    prefix: str
    with_all_versions: bool
    fields: tuple[str, ...]
    is_weekly: bool
    target_bucket: str
    target_prefix: str
    report_format: str
    is_encrypted: bool


def parse(root: xml.Node) -> Inventory:
    """The configuration in a document read against `ROOTS`.

    Errors: MalformedXML for a value outside its list, InvalidArgument for a destination that is no bucket,
    NotImplemented for ORC, KMS and columns of unserved features.
    """
    target = root.all("Destination")[0].all("S3BucketDestination")[0]
    arn = _ARN.fullmatch(target.get("Bucket"))
    if arn is None:
        raise S3Error(S3Code.InvalidArgument, "Invalid bucket ARN.", ArgumentName="Bucket")
    filters, optional = root.all("Filter"), root.all("OptionalFields")
    return Inventory(
        inventory_id=root.get("Id"),
        is_enabled=_choice(root.get("IsEnabled"), "false", "true"),
        prefix=_prefix(filters[0].get("Prefix")) if filters else "",
        with_all_versions=_choice(root.get("IncludedObjectVersions"), "Current", "All"),
        fields=_fields(optional[0]) if optional else (),
        is_weekly=_choice(root.all("Schedule")[0].get("Frequency"), "Daily", "Weekly"),
        target_bucket=arn[1],
        target_prefix=_prefix(target.get("Prefix")),
        report_format=_format(target.get("Format")),
        is_encrypted=_is_encrypted(target),
    )


def _choice(text: str, no: str, yes: str) -> bool:
    """Which of two words a value is. Errors: MalformedXML for any other."""
    if text not in {no, yes}:
        raise xml.malformed()
    return text == yes


def _prefix(text: str) -> str:
    if len(text.encode()) > _PREFIX_BYTES_MAX or not xml.is_speakable(text):
        raise S3Error(S3Code.InvalidArgument, "Invalid prefix.", ArgumentName="Prefix")
    return text


def _format(text: str) -> str:
    if text == "ORC":
        raise S3Error(S3Code.NotImplemented, "Inventory reports in ORC are not implemented.", Element="Format")
    if text not in FORMATS:
        raise xml.malformed()
    return text


def _fields(node: xml.Node) -> tuple[str, ...]:
    names = tuple(field.text for field in node.all("Field"))
    for name in names:
        if name in _EVENT_HOLD:
            raise S3Error(S3Code.NotImplemented, f"The inventory field {name} is not implemented.", Element="Field")
    if not set(names) <= set(FIELDS) or len(set(names)) != len(names):
        raise xml.malformed()
    return names


def _is_encrypted(target: xml.Node) -> bool:
    ways = [way.name for node in target.all("Encryption") for way in node.children]
    if "SSE-KMS" in ways:
        raise S3Error(S3Code.NotImplemented, "Inventory reports under KMS are not implemented.", Element="SSE-KMS")
    return bool(ways)
