"""From any exception to the S3 error a client is told: the one place where the two languages of errors meet."""

from collections.abc import Mapping
from typing import Final

from gateway.auth.refusals import Refused
from gateway.http.call import BodyCut, BodyTooLong
from gateway.s3.errors import TRANSLATION, S3Code, S3Error
from tiers.errors import (
    AppendRefused,
    BucketVersioned,
    ChecksumNotCombinable,
    ConditionFailed,
    KeyNotFound,
    LockNotEnabled,
    SizeMismatch,
    StorageError,
    VersionLocked,
)

_MESSAGES: Final[Mapping[type[StorageError], str]] = {
    AppendRefused: "Appending to encrypted objects, and to objects in buckets with versioning, is not implemented.",
    BucketVersioned: "RenameObject is only for buckets that never had versioning.",
    ChecksumNotCombinable: "Only objects with a full object checksum of CRC32, CRC32C or CRC64NVME can be appended to.",
    SizeMismatch: "The provided 'x-amz-mp-object-size' header does not match what was computed.",
    LockNotEnabled: "Bucket is missing Object Lock Configuration",
    VersionLocked: "Access Denied because object protected by object lock.",
}
"""What AWS says where a code serves several faults; the code's own message elsewhere."""


def translate(error: Exception) -> S3Error:
    """The error to answer. Anything no table knows is our bug: InternalError, without detail."""
    if isinstance(error, S3Error):
        return error
    if isinstance(error, Refused):
        return S3Error(S3Code[error.code], error.message, **error.elements)
    if isinstance(error, StorageError):
        return _storage(error)
    if isinstance(error, BodyCut):
        return S3Error(S3Code.IncompleteBody)
    if isinstance(error, BodyTooLong):
        return S3Error(S3Code.MalformedXML)
    return S3Error(S3Code.InternalError)


def is_translated(error: Exception) -> bool:
    """Whether a table knows the error; what it does not know is logged and counted."""
    return isinstance(error, (S3Error, Refused, BodyCut, BodyTooLong)) or type(error) in TRANSLATION


def _storage(error: StorageError) -> S3Error:
    code = TRANSLATION.get(type(error), S3Code.InternalError)
    if isinstance(error, ConditionFailed):
        return S3Error(code, Condition=error.condition)
    if isinstance(error, KeyNotFound):
        return S3Error(code, Key=str(error.args[0]))
    return S3Error(code, _MESSAGES.get(type(error)))
