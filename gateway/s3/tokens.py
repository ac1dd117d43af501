"""Continuation tokens: where a page ended, sealed so that nobody can make one up or use it for another listing."""

import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from typing import Final

from gateway.s3.errors import S3Code, S3Error

_SEAL_BYTES: Final = 16


def make_token(key: bytes, position: str, scope: Sequence[str]) -> str:
    """An opaque token for `position`, good only for the listing that `scope` describes."""
    packed = position.encode()
    return urlsafe_b64encode(_seal(key, packed, scope) + packed).decode()


def open_token(key: bytes, token: str, scope: Sequence[str]) -> str:
    """The position in a token. Errors: InvalidArgument for one we did not make for this scope.

    Whole tokens are compared: base64 has several spellings of the same bytes, and only ours is good.
    """
    try:
        position = urlsafe_b64decode(token.encode("ascii"))[_SEAL_BYTES:].decode()
    except ValueError as error:
        raise _refused(token) from error
    if not hmac.compare_digest(make_token(key, position, scope), token):
        raise _refused(token)
    return position


def _seal(key: bytes, packed: bytes, scope: Sequence[str]) -> bytes:
    lengths = ",".join(str(len(word.encode())) for word in scope)
    text = "\n".join([lengths, *scope]).encode() + b"\n" + packed
    return hmac.digest(key, text, "sha256")[:_SEAL_BYTES]


def _refused(token: str) -> S3Error:
    message = "The continuation token provided is incorrect"
    return S3Error(S3Code.InvalidArgument, message, ArgumentName="continuation-token", ArgumentValue=token)
