"""What a client says about a content besides its bytes: content headers and user metadata.

They are stored as the header lines that a GET answers (`name: value` and CRLF, names in lower case), so that a read
sends them without parsing. Everything here guards those lines: no value that could break a line ever gets into them.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from gateway.s3.body import stored_content_encoding
from gateway.s3.errors import S3Code, S3Error

METADATA_BYTES_MAX: Final = 2048
DEFAULT_CONTENT_TYPE: Final = b"binary/octet-stream"
META: Final = b"x-amz-meta-"
REDIRECT: Final = b"x-amz-website-redirect-location"
_CONTENT_TYPE: Final = b"content-type"
_CONTENT_ENCODING: Final = b"content-encoding"
_CONTENT_NAMES: Final = (
    b"cache-control",
    b"content-disposition",
    _CONTENT_ENCODING,
    b"content-language",
    _CONTENT_TYPE,
    b"expires",
    REDIRECT,
)
OVERRIDES: Final[Mapping[str, bytes]] = {
    "response-cache-control": b"cache-control",
    "response-content-disposition": b"content-disposition",
    "response-content-encoding": b"content-encoding",
    "response-content-language": b"content-language",
    "response-content-type": b"content-type",
    "response-expires": b"expires",
}
_TOKEN: Final = re.compile(rb"[!#$%&'*+.^_`|~0-9a-z-]+")
_BREAKS: Final = re.compile(rb"[\r\n\x00]")


def from_fields(fields: Mapping[bytes, bytes]) -> bytes:
    """The header lines to store for a content. `fields` are the request's headers by lower-case name.

    Errors: MetadataTooLarge over 2 KiB of user metadata, InvalidArgument for a value that would break a line.
    """
    lines = [_line(name, value) for name, value in _content_headers(fields)]
    size = 0
    for name, value in fields.items():
        if name.startswith(META):
            size += len(name) - len(META) + len(value)
            lines.append(_line(name, value))
    if size > METADATA_BYTES_MAX:
        raise S3Error(S3Code.MetadataTooLarge, Size=str(size), MaxSizeAllowed=str(METADATA_BYTES_MAX))
    return b"".join(lines)


def redirect_line(fields: Mapping[bytes, bytes]) -> bytes:
    """The line of a website redirect, empty when there is none; a copy never inherits it."""
    return _line(REDIRECT, fields[REDIRECT]) if fields.get(REDIRECT) else b""


def _content_headers(fields: Mapping[bytes, bytes]) -> Iterator[tuple[bytes, bytes]]:
    for name in _CONTENT_NAMES:
        value = fields.get(name, b"")
        if name == _CONTENT_ENCODING:
            value = stored_content_encoding(value)
        elif name == _CONTENT_TYPE:
            value = value or DEFAULT_CONTENT_TYPE
        if value:
            yield name, value


def _line(name: bytes, value: bytes) -> bytes:
    if _TOKEN.fullmatch(name) is None or _BREAKS.search(value):
        raise S3Error(
            S3Code.InvalidArgument,
            "Header names must be tokens and header values must not hold CR, LF or NUL",
            ArgumentName=name.decode("latin-1"),
        )
    return b"%b: %b\r\n" % (name, value)


def parse(attributes: bytes) -> list[tuple[bytes, bytes]]:
    """Stored lines as pairs of name and value, in order."""
    pairs = (line.partition(b": ") for line in attributes.split(b"\r\n") if line)
    return [(name, value) for name, _, value in pairs]


def without(attributes: bytes, names: Iterable[bytes]) -> bytes:
    """Stored lines except those of some names."""
    dropped = frozenset(names)
    return b"".join(_line(name, value) for name, value in parse(attributes) if name not in dropped)


def overrides(query: Mapping[str, str], *, is_signed: bool) -> dict[bytes, bytes]:
    """The headers that the six `response-*` parameters ask to replace.

    Errors: InvalidRequest on an anonymous request, InvalidArgument for a value that would break a line.
    """
    wanted = {header: query[name].encode() for name, header in OVERRIDES.items() if name in query}
    if wanted and not is_signed:
        message = "Request specific response headers cannot be used for anonymous GET requests."
        raise S3Error(S3Code.InvalidRequest, message)
    for name, value in wanted.items():
        _line(name, value)
    return wanted


def overridden(attributes: bytes, wanted: Mapping[bytes, bytes]) -> bytes:
    """Stored lines with some headers replaced."""
    return without(attributes, wanted) + b"".join(_line(name, value) for name, value in wanted.items())
