"""Headers that would change the effect of a request and are not served: refused by name, never ignored."""

from collections.abc import Container, Mapping
from typing import Final

from gateway.s3.schemas.described import unserved

_PREFIXES: Final = (b"x-amz-object-lock-event-hold",)
_NAMES: Final = frozenset(
    {
        b"x-amz-bucket-namespace",
        b"x-amz-mfa",
        b"x-amz-write-offset-bytes",
    }
)
_FREQUENT: Final = frozenset({b"x-amz-content-sha256", b"x-amz-date", b"x-amz-checksum-mode", b"x-amz-checksum-crc32"})
"""Headers of nearly every request, passed over at once."""


def refuse_unserved(fields: Mapping[bytes, bytes], served: Container[str] = ()) -> None:
    """Raise NotImplemented for the first header that asks for something not served.

    `served` are the headers that select the operation: it reads them, where others would ignore them.
    """
    for name in fields:
        if name[:6] != b"x-amz-" or name in _FREQUENT:
            continue
        if (name in _NAMES and name.decode() not in served) or name.startswith(_PREFIXES):
            raise unserved(name.decode())
