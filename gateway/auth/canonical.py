"""Canonical forms of query and headers, made from the bytes as received.

A path is never touched: what was signed is what was sent. A query that is already canonical is only sorted; any other
legal spelling is decoded and encoded once more, with `+` meaning a space as it does for whoever reads the query.
"""

import re
from typing import Final, NamedTuple
from urllib.parse import quote_from_bytes, unquote_to_bytes

from gateway.auth.refusals import Refused
from gateway.http.call import Call

_PLAIN: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~=&%"
_OTHER_ESCAPE: Final = re.compile(rb"%(?:2[DE]|3[0-9]|4[1-9A-F]|5[0-9AF]|6[1-9A-F]|7[0-9AE]|(?![0-9A-F]{2}))")
"""An escape that is not canonical: of an unreserved character, in lower case, or no escape at all."""

REPEATABLE: Final = frozenset({b"tagKeys"})
"""Names that may occur more than once: their values are a set, which sorting them signs. `values` holds one of them."""

_BROKEN_ESCAPE: Final = re.compile(rb"%(?![0-9A-Fa-f]{2})")

_SINGLE: Final = frozenset(
    {
        b"authorization",
        b"content-length",
        b"content-md5",
        b"content-type",
        b"date",
        b"host",
        b"range",
        b"x-amz-content-sha256",
        b"x-amz-copy-source",
        b"x-amz-date",
        b"x-amz-decoded-content-length",
        b"x-amz-security-token",
    }
)


class Query(NamedTuple):
    """A query in canonical form.

    `pairs` are sorted, each `name NUL value` (so that bytewise order is the order by name, then value). `values` maps
    canonical names to canonical values. `literal` is the sorted pairs as spelled by the client, None when it spelled
    them canonically: some clients sign the spelling they send.
    """

    pairs: list[bytes]
    values: dict[bytes, bytes]
    literal: list[bytes] | None = None


def parse_query(raw: bytes) -> Query:
    """The canonical form of a raw query string.

    Errors: Refused InvalidArgument for a name that occurs twice (their order is not signed, so which of them acts would
    not be) and is not repeatable, InvalidURI for a broken escape.
    """
    if not raw:
        return Query([], {})
    if raw.translate(None, _PLAIN) or _OTHER_ESCAPE.search(raw):
        return _normalise(raw)
    pairs = raw.replace(b"=", b"\0").split(b"&")
    try:
        values = dict([pair.split(b"\0") for pair in pairs])
    except ValueError:  # a name without "=", a bare "=" in a value, or an empty pair
        return _normalise(raw)
    pairs.sort()
    if len(values) != len(pairs):
        _refuse_repeated(pairs)
    return Query(pairs, values)


def _normalise(raw: bytes) -> Query:
    if _BROKEN_ESCAPE.search(raw):
        raise Refused("InvalidURI")
    pieces = [piece.partition(b"=") for piece in raw.split(b"&") if piece]
    pairs = sorted([_encode(name) + b"\0" + _encode(value) for name, _, value in pieces])
    values = dict(pair.split(b"\0") for pair in pairs)
    if len(values) != len(pairs):
        _refuse_repeated(pairs)
    literal = None if b"+" in raw or b"\0" in raw else sorted([name + b"\0" + value for name, _, value in pieces])
    return Query(pairs, values, literal)


def _encode(spelled: bytes) -> bytes:
    return quote_from_bytes(unquote_to_bytes(spelled.replace(b"+", b" ")), safe="").encode()


def _refuse_repeated(pairs: list[bytes]) -> None:
    names = [name for name, _, _ in [pair.partition(b"\0") for pair in pairs] if name not in REPEATABLE]
    if len(set(names)) != len(names):
        raise Refused("InvalidArgument", "A query parameter occurs more than once.")


def query_text(pairs: list[bytes]) -> bytes:
    """Pairs of a `Query` as the line of a canonical request."""
    return b"&".join(pairs).replace(b"\0", b"=")


def fold_headers(call: Call) -> None:
    """Join repeated headers with a comma, in `headers` and `fields` alike, so that handlers see what was signed.

    Errors: Refused InvalidRequest where a header that has one value occurs twice.
    """
    folded: dict[bytes, bytes] = {}
    for name, value in call.headers:
        if name not in folded:
            folded[name] = value
        elif name in _SINGLE:
            raise Refused("InvalidRequest", f"The header {name.decode('ascii')} occurs more than once.")
        else:
            folded[name] += b"," + value
    call.fields = folded
    call.headers = list(folded.items())


def header_value(value: bytes) -> bytes:
    """A header value as it stands in a canonical request: runs of white space are one space."""
    return b" ".join(value.split()) if b"  " in value or b"\t" in value else value
