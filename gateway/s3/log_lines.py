"""One line of a server access log, in AWS's format: 26 fields, those that are unknown or do not apply `-`.

What a client sent is written so that it stays in its place: bytes that could end a field, a quotation or a line are
percent-encoded. Proofs of identity in a query are left out: whoever may read the log must not act with them.
"""

import re
from datetime import UTC, datetime
from typing import Final, NamedTuple
from urllib.parse import quote, unquote_to_bytes

from gateway.telemetry.redaction import REDACTED

HEADER_BYTES_MAX: Final = 1024
"""Of Referer, User-Agent and Host; more of them helps nobody."""

RESOURCES: Final = {
    "AbortMultipartUpload": "UPLOAD", "CompleteMultipartUpload": "UPLOAD", "CopyObject": "OBJECT",
    "CreateMultipartUpload": "UPLOADS", "DeleteBucket": "BUCKET", "DeleteBucketCors": "CORS",
    "DeleteBucketEncryption": "ENCRYPTION", "DeleteBucketIntelligentTieringConfiguration": "INTELLIGENT_TIERING",
    "DeleteBucketInventoryConfiguration": "INVENTORY", "DeleteBucketLifecycle": "LIFECYCLE",
    "DeleteBucketOwnershipControls": "OWNERSHIP_CONTROLS", "DeleteBucketPolicy": "BUCKETPOLICY",
    "DeleteBucketReplication": "REPLICATION", "DeleteBucketTagging": "TAGGING", "DeleteBucketWebsite": "WEBSITE",
    "DeleteObject": "OBJECT", "DeleteObjectTagging": "OBJECT_TAGGING", "DeleteObjects": "MULTI_OBJECT_DELETE",
    "DeletePublicAccessBlock": "PUBLIC_ACCESS_BLOCK", "GetBucketAccelerateConfiguration": "ACCELERATE",
    "GetBucketAcl": "ACL", "GetBucketCors": "CORS", "GetBucketEncryption": "ENCRYPTION",
    "GetBucketIntelligentTieringConfiguration": "INTELLIGENT_TIERING",
    "GetBucketInventoryConfiguration": "INVENTORY", "GetBucketLifecycleConfiguration": "LIFECYCLE",
    "GetBucketLocation": "LOCATION", "GetBucketLogging": "LOGGING_STATUS",
    "GetBucketNotificationConfiguration": "NOTIFICATION", "GetBucketOwnershipControls": "OWNERSHIP_CONTROLS",
    "GetBucketPolicy": "BUCKETPOLICY", "GetBucketPolicyStatus": "POLICY_STATUS",
    "GetBucketReplication": "REPLICATION", "GetBucketRequestPayment": "REQUEST_PAYMENT",
    "GetBucketTagging": "TAGGING", "GetBucketVersioning": "VERSIONING", "GetBucketWebsite": "WEBSITE",
    "GetObject": "OBJECT", "GetObjectAcl": "ACL", "GetObjectAttributes": "OBJECT_ATTRIBUTES",
    "GetObjectLegalHold": "LEGAL_HOLD", "GetObjectLockConfiguration": "OBJECT_LOCK_CONFIGURATION",
    "GetObjectRetention": "RETENTION", "GetObjectTagging": "OBJECT_TAGGING",
    "GetPublicAccessBlock": "PUBLIC_ACCESS_BLOCK", "HeadBucket": "BUCKET", "HeadObject": "OBJECT",
    "ListBucketIntelligentTieringConfigurations": "INTELLIGENT_TIERING",
    "ListBucketInventoryConfigurations": "INVENTORY", "ListMultipartUploads": "UPLOADS",
    "ListObjectVersions": "BUCKETVERSIONS", "ListObjects": "BUCKET", "ListObjectsV2": "BUCKET", "ListParts": "UPLOAD",
    "PostObject": "OBJECT", "PutBucketAccelerateConfiguration": "ACCELERATE", "PutBucketAcl": "ACL",
    "PutBucketCors": "CORS", "PutBucketEncryption": "ENCRYPTION",
    "PutBucketIntelligentTieringConfiguration": "INTELLIGENT_TIERING",
    "PutBucketInventoryConfiguration": "INVENTORY", "PutBucketLifecycleConfiguration": "LIFECYCLE",
    "PutBucketLogging": "LOGGING_STATUS", "PutBucketNotificationConfiguration": "NOTIFICATION",
    "PutBucketOwnershipControls": "OWNERSHIP_CONTROLS", "PutBucketPolicy": "BUCKETPOLICY",
    "PutBucketRequestPayment": "REQUEST_PAYMENT", "PutBucketTagging": "TAGGING", "PutBucketVersioning": "VERSIONING",
    "PutObject": "OBJECT", "PutObjectAcl": "ACL", "PutObjectLegalHold": "LEGAL_HOLD",
    "PutObjectLockConfiguration": "OBJECT_LOCK_CONFIGURATION", "PutObjectRetention": "RETENTION",
    "PutObjectTagging": "OBJECT_TAGGING", "PutPublicAccessBlock": "PUBLIC_ACCESS_BLOCK",
    "UploadPart": "PART", "UploadPartCopy": "PART",
}  # fmt: skip
"""What AWS calls the resource of an operation; one that is not here goes by its own name."""

COPIES: Final = frozenset({"CopyObject", "UploadPartCopy"})
"""Operations whose verb is COPY, whatever their method."""

BATCH_DELETE: Final = "BATCH.DELETE.OBJECT"

_UNSAFE: Final = re.compile(rb'[^\x21-\x7e]|"')
_UNSAFE_IN_TEXT: Final = re.compile(rb'[^\x20-\x7e]|"')
_PROOFS: Final = frozenset({b"x-amz-signature", b"x-amz-security-token", b"signature"})
_REDACTED: Final = REDACTED.encode()


class LogLine(NamedTuple):
    """The fields of a line that say something here. Bytes are as a client sent them; sizes None for unknown.

    `seconds` is when the request came. `method` and `operation` name the operation, `resource` overrides its name.
    """

    owner_id: str
    bucket: str
    seconds: float
    peer: str
    requester: str
    request_id: str
    operation: str
    key: str
    method: str
    raw_path: bytes
    query: bytes
    status: int
    error_code: str
    sent_bytes: int
    size: int | None
    total_seconds: float
    turnaround_seconds: float
    referer: bytes
    user_agent: bytes
    version_id: str
    host_id: str
    signature: str
    authentication: str
    host: bytes


def operation_word(operation: str, method: str, suffix: str = "") -> str:
    """What AWS calls an operation: `REST.<verb>.<resource>`. The read side of a copy has the suffix `_GET`."""
    verb = "COPY" if operation in COPIES else method
    return f"REST.{verb}.{RESOURCES.get(operation, operation.upper())}{suffix}"


def format_line(line: LogLine) -> bytes:
    """The line with its end."""
    when = datetime.fromtimestamp(line.seconds, UTC)
    request_line = b"%b %b%b HTTP/1.1" % (
        _field(line.method.encode()).encode(),
        _field(line.raw_path).encode(),
        b"?" + _field(_without_proofs(line.query)).encode() if line.query else b"",
    )
    fields = (
        _or_dash(_field(line.owner_id.encode())),
        line.bucket,
        when.strftime("[%d/%b/%Y:%H:%M:%S +0000]"),
        _or_dash(_field(line.peer.encode())),
        _or_dash(_field(line.requester.encode())),
        line.request_id,
        line.operation,
        _or_dash(quote(line.key, safe="/")),
        f'"{request_line.decode("ascii")}"',
        str(line.status),
        line.error_code or "-",
        str(line.sent_bytes or "-"),
        "-" if line.size is None else str(line.size),
        str(int(line.total_seconds * 1000)),
        str(int(line.turnaround_seconds * 1000)),
        _quoted(line.referer),
        _quoted(line.user_agent),
        _or_dash(_field(line.version_id.encode())),
        line.host_id,
        line.signature or "-",
        "-",  # the cipher suite, which the protocol class does not know
        line.authentication or "-",
        _or_dash(_field(line.host[:HEADER_BYTES_MAX])),
        "-",  # the version of TLS
        "-",  # the access point: there are none
        "-",  # whether a list was needed
    )
    return " ".join(fields).encode("ascii") + b"\n"


def _or_dash(text: str) -> str:
    return text or "-"


def _encoded(match: re.Match[bytes]) -> bytes:
    return b"%%%02X" % match[0][0]


def _field(raw: bytes) -> str:
    """Bytes as part of a field: no space, no quotation mark, nothing but visible ASCII."""
    return _UNSAFE.sub(_encoded, raw).decode("ascii")


def _quoted(raw: bytes) -> str:
    return f'"{_UNSAFE_IN_TEXT.sub(_encoded, raw[:HEADER_BYTES_MAX]).decode("ascii") or "-"}"'


def _without_proofs(query: bytes) -> bytes:
    pairs = [pair.partition(b"=") for pair in query.split(b"&")]
    return b"&".join(
        name + mark + (_REDACTED if unquote_to_bytes(name).lower() in _PROOFS else value) for name, mark, value in pairs
    )
