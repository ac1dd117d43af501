"""Presigned requests: the query parameters of version 4 and version 2, their expiry, and headers moved into a query."""

from enum import Enum
from time import gmtime, strftime
from typing import Final
from urllib.parse import unquote_to_bytes

from gateway.auth.canonical import Query
from gateway.auth.payload import UNSIGNED_WORD
from gateway.auth.refusals import Refused
from gateway.auth.sigv4 import ALGORITHM, SKEW_SECONDS_MAX, Presented, parse_signed_headers, parse_stamp
from gateway.http.call import Call

EXPIRY_SECONDS_MAX: Final = 7 * 24 * 3600

_CREDENTIAL: Final = b"X-Amz-Credential"
_SIGNATURE: Final = b"X-Amz-Signature"
_REQUIRED: Final = (
    b"X-Amz-Algorithm",
    _CREDENTIAL,
    _SIGNATURE,
    b"X-Amz-Date",
    b"X-Amz-SignedHeaders",
    b"X-Amz-Expires",
)
_PLAIN_V4: Final = frozenset(_REQUIRED)
_PROOF_V4: Final = frozenset({b"x-amz-algorithm", b"x-amz-credential", b"x-amz-signature", b"x-amz-signedheaders"})
_PROOF_V2: Final = frozenset({b"awsaccesskeyid", b"signature"})
_REQUIRED_V2: Final = frozenset({b"AWSAccessKeyId", b"Expires", b"Signature"})

_NEVER_HEADERS: Final = frozenset(
    name.lower() for name in (*_REQUIRED, b"x-amz-content-sha256", b"x-amz-security-token")
)
"""Parameters that belong to the signature itself."""

_SELECTING: Final = frozenset({b"x-amz-copy-source", b"x-amz-rename-source"})
"""Headers that select an operation: the operation was resolved without them, so they cannot come in late."""


class QueryMechanism(Enum):
    """Which version of the signature stands in a query."""

    V4 = 4
    V2 = 2


def is_plain_v4(query: Query) -> bool:
    """Whether a query is exactly the parameters of version 4, as SDKs presign reading: the short way through here."""
    return len(query.pairs) == len(_REQUIRED) and not query.values.keys() - _PLAIN_V4


def find_mechanism(query: Query) -> QueryMechanism | None:
    """Which signature a query carries, judged by any part of one in any case.

    Errors: Refused InvalidArgument when it carries parts of both.
    """
    names = {name.lower() for name in query.values}
    is_v4 = not _PROOF_V4.isdisjoint(names)
    is_v2 = not _PROOF_V2.isdisjoint(names)
    if is_v4 and is_v2:
        raise two_mechanisms()
    return QueryMechanism.V4 if is_v4 else QueryMechanism.V2 if is_v2 else None


def two_mechanisms() -> Refused:
    """The refusal of a request that is authenticated in two ways."""
    return Refused(
        "InvalidArgument",
        "Only one auth mechanism allowed; only the X-Amz-Algorithm query parameter, Signature query string parameter "
        "or the Authorization header should be specified",
        ArgumentName="Authorization",
    )


def malformed(message: str) -> Refused:
    """The refusal of a query that has not the form of version 4."""
    return Refused("AuthorizationQueryParametersError", message)


def parse_query_v4(query: Query, now: float) -> Presented:
    """The parts of a presigned query of version 4, not expired at `now`.

    The credential is left as spelled, percent-encoded.
    Errors: Refused AuthorizationQueryParametersError for its form, AccessDenied for its time.
    """
    try:
        algorithm, credential, signature, stamp, signed_text, expires = [query.values[name] for name in _REQUIRED]
    except KeyError:
        raise malformed(
            "Query-string authentication version 4 requires the X-Amz-Algorithm, X-Amz-Credential, X-Amz-Signature, "
            "X-Amz-Date, X-Amz-SignedHeaders, and X-Amz-Expires parameters."
        ) from None
    if algorithm != ALGORITHM:
        raise malformed('X-Amz-Algorithm only supports "AWS4-HMAC-SHA256"')
    signed = parse_signed_headers(unquote_to_bytes(signed_text) if b"%" in signed_text else signed_text)
    if signed is None:
        raise malformed("X-Amz-SignedHeaders must be sorted lower-case names and include host.")
    seconds = parse_stamp(stamp)
    if seconds is None:
        raise malformed("X-Amz-Date must be in the ISO8601 Long Format \"yyyyMMdd'T'HHmmss'Z'\"")
    _judge_time(seconds, _parse_expires(expires), now)
    return Presented(credential, signed, stamp, seconds, signature)


def _parse_expires(text: bytes) -> int:
    digits = text.removeprefix(b"-")
    if not digits.isdigit():
        raise malformed("X-Amz-Expires should be a number")
    expires = int(text) if len(text) <= 9 else EXPIRY_SECONDS_MAX + 1
    if not 0 < expires <= EXPIRY_SECONDS_MAX:
        raise Refused("AccessDenied", "X-Amz-Expires must be greater than 0 and at most a week (in seconds); 604800")
    return expires


def _judge_time(seconds: int, expires: int, now: float) -> None:
    if seconds - now > SKEW_SECONDS_MAX:
        raise Refused("AccessDenied", "Request is not yet valid")
    if now > seconds + expires:
        raise _expired(seconds + expires, now)


def _expired(at: int, now: float) -> Refused:
    return Refused("AccessDenied", "Request has expired", Expires=_iso(at), ServerTime=_iso(now))


def _iso(seconds: float) -> str:
    return strftime("%Y-%m-%dT%H:%M:%SZ", gmtime(seconds))


def spelled_payload_word(query: Query, fields: dict[bytes, bytes]) -> bytes:
    """The payload line of a presigned request: the query's word, else the header's, else unsigned."""
    for name in (b"X-Amz-Content-Sha256", b"x-amz-content-sha256"):
        if name in query.values:
            return query.values[name]
    return fields.get(b"x-amz-content-sha256", UNSIGNED_WORD)


def drop_signature(query: Query) -> None:
    """Take the signature itself out of the pairs: it covers all others."""
    query.pairs.remove(_SIGNATURE + b"\0" + query.values[_SIGNATURE])
    if query.literal is not None:
        query.literal[:] = [pair for pair in query.literal if not pair.startswith(_SIGNATURE + b"\0")]


def parse_query_v2(query: Query, now: float) -> tuple[str, bytes, bytes]:
    """Access key id, Expires line and signature of a presigned query of version 2, not expired at `now`.

    Errors: Refused AccessDenied.
    """
    if not query.values.keys() >= _REQUIRED_V2:
        raise Refused(
            "AccessDenied",
            "Query-string authentication requires the Signature, Expires and AWSAccessKeyId parameters",
        )
    expires = query.values[b"Expires"]
    if not expires.isdigit() or len(expires) > 10:
        raise Refused("AccessDenied", "Invalid date (should be seconds since epoch)")
    if now > int(expires):
        raise _expired(int(expires), now)
    access_key_id = unquote_to_bytes(query.values[b"AWSAccessKeyId"]).decode("latin-1")
    if not access_key_id.isascii() or not access_key_id.isprintable():
        raise Refused("InvalidAccessKeyId")
    return access_key_id, expires, unquote_to_bytes(query.values[b"Signature"])


def move_into_headers(call: Call, query: Query) -> None:
    """Make headers of the `x-amz-*` parameters that presigners move into a query; they are signed as part of it.

    Errors: Refused InvalidArgument where a header of that name says something else or a value holds a control
    character, NotImplemented for a header that would change the operation.
    """
    for spelled, value in query.values.items():
        name = spelled.lower()
        if name[:6] != b"x-amz-" or b"%" in name or name in _NEVER_HEADERS:
            continue
        if name in _SELECTING:
            raise Refused("NotImplemented", "This header is not served in a query.", Header=name.decode("ascii"))
        plain = unquote_to_bytes(value).strip(b" ")
        if call.fields.get(name, plain) != plain or min(plain, default=32) < 32:
            raise Refused("InvalidArgument", "A header moved into the query is invalid.", ArgumentName=name.decode())
        if name not in call.fields:
            call.fields[name] = plain
            call.headers.append((name, plain))
