"""The actions that a request needs besides its operation's own, from its headers."""

from collections.abc import Mapping
from typing import Final

from gateway.auth.acl import BUCKET_OWNER_FULL_CONTROL, BUCKET_OWNER_READ, PRIVATE

MAKERS: Final = frozenset({"PutObject", "AppendObject", "PostObject", "CopyObject", "CreateMultipartUpload"})
"""Operations whose headers say what an object is to be."""

CREATORS: Final = MAKERS | {"UploadPart", "UploadPartCopy", "CompleteMultipartUpload", "RenameObject"}
"""Operations about an object that need not exist yet."""

CONDITIONAL: Final = frozenset(
    {
        *("PutObject", "AppendObject", "PostObject", "CopyObject", "CompleteMultipartUpload", "RenameObject"),
        "DeleteObject",
    }
)
"""Operations whose If-Match tells something about the object that exists."""

EXISTING: Final = frozenset(
    {
        "DeleteObjectTagging",
        "PutObjectAcl",
        "PutObjectLegalHold",
        "PutObjectRetention",
        "PutObjectTagging",
        "RestoreObject",
    }
)
"""Operations that change what has to exist: their refusal tells whether it does."""

READ_AHEAD: Final = frozenset({"PutObjectTagging", "PutObjectRetention", "PutObjectLegalHold"})
"""Operations whose document has values that a condition of a policy may ask for."""

BYPASS_GOVERNANCE: Final = "s3:BypassGovernanceRetention"
_PUT_ACL: Final = "s3:PutObjectAcl"
_BY_HEADER: Final[Mapping[bytes, str]] = {
    b"x-amz-tagging": "s3:PutObjectTagging",
    b"x-amz-object-lock-mode": "s3:PutObjectRetention",
    b"x-amz-object-lock-retain-until-date": "s3:PutObjectRetention",
    b"x-amz-object-lock-legal-hold": "s3:PutObjectLegalHold",
}
_GRANT: Final = b"x-amz-grant-"
_HARMLESS: Final = frozenset(name.encode() for name in (PRIVATE, BUCKET_OWNER_FULL_CONTROL, BUCKET_OWNER_READ))


def further_actions(operation: str, fields: Mapping[bytes, bytes], bucket_owner_id: str) -> list[str]:
    """What a request that makes an object needs besides: permission for its list, tags, retention and legal hold.

    A list that gives to nobody but the bucket's owner asks for none: it takes nothing from whoever sets the policy.
    """
    if operation not in MAKERS:
        return []
    found = [action for name, action in _BY_HEADER.items() if name in fields]
    if _shares(fields, bucket_owner_id.encode()):
        found.append(_PUT_ACL)
    return list(dict.fromkeys(found))


def _shares(fields: Mapping[bytes, bytes], bucket_owner_id: bytes) -> bool:
    if fields.get(b"x-amz-acl", PRIVATE.encode()) not in _HARMLESS:
        return True
    to_owner = {b"id=" + bucket_owner_id, b'id="' + bucket_owner_id + b'"'}
    return any(value.strip() not in to_owner for name, value in fields.items() if name.startswith(_GRANT))


def copies_tags(operation: str, fields: Mapping[bytes, bytes]) -> bool:
    """Whether a copy takes over the tags of its source."""
    return operation == "CopyObject" and fields.get(b"x-amz-tagging-directive", b"COPY") == b"COPY"
