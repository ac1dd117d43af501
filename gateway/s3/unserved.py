"""Headers that would change the effect of a request and are not served: refused by name, never ignored.

`x-amz-bypass-governance-retention` is none of them: it only lifts a lock, and no version can be locked yet.
"""

from collections.abc import Mapping
from typing import Final

from gateway.s3.errors import S3Code, S3Error
from gateway.s3.schemas.described import invalid, unserved

_PREFIXES: Final = (
    b"x-amz-object-lock-",
    b"x-amz-server-side-encryption",
    b"x-amz-copy-source-server-side-encryption",
)
_NAMES: Final = frozenset(
    {
        b"x-amz-bucket-namespace",
        b"x-amz-if-match-last-modified-time",
        b"x-amz-if-match-size",
        b"x-amz-mfa",
        b"x-amz-write-offset-bytes",
    }
)
_FREQUENT: Final = frozenset({b"x-amz-content-sha256", b"x-amz-date", b"x-amz-checksum-mode", b"x-amz-checksum-crc32"})
"""Headers of nearly every request, passed over at once."""

_LOCK_ENABLED: Final = b"x-amz-bucket-object-lock-enabled"
_ACL: Final = b"x-amz-acl"
_GRANT: Final = b"x-amz-grant-"
_IDLE_ACLS: Final = frozenset({b"private", b"bucket-owner-full-control"})
_CANNED_ACLS: Final = _IDLE_ACLS | {
    b"public-read",
    b"public-read-write",
    b"authenticated-read",
    b"aws-exec-read",
    b"bucket-owner-read",
    b"log-delivery-write",
}


def refuse_unserved(fields: Mapping[bytes, bytes], *, enforces_owner: bool) -> None:
    """Raise for the first header that asks for something not served.

    `enforces_owner` says that buckets take no ACLs at all, which decides how an ACL is refused. Errors: NotImplemented,
    AccessControlListNotSupported, InvalidArgument for an ACL that does not exist.
    """
    for name in fields:
        if name[:6] != b"x-amz-" or name in _FREQUENT:
            continue
        if name in _NAMES or name.startswith(_PREFIXES):
            raise unserved(name.decode())
        if name == _LOCK_ENABLED and fields[name].lower() != b"false":
            raise unserved(name.decode())
        if name == _ACL or name.startswith(_GRANT):
            _refuse_acl(name, fields[name], enforces_owner=enforces_owner)


def _refuse_acl(name: bytes, value: bytes, *, enforces_owner: bool) -> None:
    """The ACLs that say what holds anyway are accepted and do nothing."""
    if name == _ACL and value in _IDLE_ACLS:
        return
    if name == _ACL and value not in _CANNED_ACLS:
        raise invalid(name.decode(), value.decode("latin-1"))
    if enforces_owner:
        raise S3Error(S3Code.AccessControlListNotSupported)
    raise unserved(name.decode())
