"""From any exception to the S3 error a client is told: the one place where the two languages of errors meet."""

from gateway.auth.refusals import Refused
from gateway.http.call import BodyCut, BodyTooLong
from gateway.s3.errors import TRANSLATION, S3Code, S3Error
from tiers.errors import ConditionFailed, KeyNotFound, StorageError


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
    return S3Error(code)
