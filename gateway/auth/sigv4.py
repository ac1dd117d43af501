"""AWS Signature Version 4: dates, scopes, signing keys, signatures of requests and of aws-chunked bodies.

Source: "Authenticating Requests (AWS Signature Version 4)" of the S3 API reference.
"""

import hmac
from calendar import timegm
from collections.abc import Sequence
from hashlib import sha256
from typing import Final, NamedTuple

from gateway.auth.canonical import Query, header_value, query_text
from gateway.auth.keyring import Credential, KeyRing
from gateway.auth.refusals import Refused, not_signed
from gateway.http.call import Call

ALGORITHM: Final = b"AWS4-HMAC-SHA256"
EMPTY_SHA256: Final = sha256(b"").hexdigest().encode()
SKEW_SECONDS_MAX: Final = 15 * 60

_CACHED_MAX: Final = 4096
"""Derived keys and parsed SignedHeaders lists kept; beyond it a cache starts over."""


class Scope(NamedTuple):
    """The parts of a credential as a request names it."""

    access_key_id: str
    day: bytes
    region: bytes
    service: bytes
    terminator: bytes


class SigningKey(NamedTuple):
    """What one access key signs with on one day. `scope` is day/region/s3/aws4_request."""

    credential: Credential
    day: bytes
    scope: bytes
    key: bytes


class SigningKeys:
    """Derived keys by credential string; dropped whenever the key ring changes."""

    def __init__(self, keyring: KeyRing) -> None:
        self._keyring = keyring
        self._generation = keyring.generation
        self._keys: dict[bytes, SigningKey] = {}

    def find(self, credential: bytes) -> SigningKey | None:
        """The derived key of a credential string (as spelled in the request), if it was kept before."""
        if self._generation != self._keyring.generation:
            self._keys.clear()
            self._generation = self._keyring.generation
        return self._keys.get(credential)

    def keep(self, credential: bytes, scope: Scope, found: Credential) -> SigningKey:
        """Derive and keep; `found` comes from the ring's present generation."""
        if self.find(credential) is None and len(self._keys) >= _CACHED_MAX:
            self._keys.clear()
        text = b"/".join(scope[1:])
        kept = self._keys[credential] = SigningKey(found, scope.day, text, derive_key(found.secret, scope))
        return kept


def derive_key(secret: bytes, scope: Scope) -> bytes:
    """The signing key of one day, region and service."""
    key = b"AWS4" + secret
    for step in scope[1:]:
        key = hmac.digest(key, step, "sha256")
    return key


def parse_scope(credential: bytes) -> Scope | None:
    """The parts of `id/day/region/service/aws4_request`; the id may itself hold slashes. None when malformed."""
    parts = credential.rsplit(b"/", 4)
    if len(parts) != 5 or not parts[0] or len(parts[1]) != 8 or not parts[1].isdigit():
        return None
    if not credential.isascii() or not credential.decode("ascii").isprintable():
        return None
    return Scope(parts[0].decode("ascii"), *parts[1:])


_midnights: dict[bytes, int] = {}


def parse_stamp(stamp: bytes) -> int | None:
    """Seconds since the epoch of a basic ISO 8601 stamp (20250131T235959Z), None when malformed."""
    if len(stamp) != 16 or stamp[8:9] != b"T" or stamp[15:] != b"Z" or not stamp[9:15].isdigit():
        return None
    midnight = _midnights.get(stamp[:8])
    if midnight is None:
        midnight = _midnight(stamp[:8])
        if midnight is None:
            return None
    hour, minute, second = int(stamp[9:11]), int(stamp[11:13]), int(stamp[13:15])
    if hour > 23 or minute > 59 or second > 60:
        return None
    return midnight + 3600 * hour + 60 * minute + second


def _midnight(day: bytes) -> int | None:
    if not day.isdigit():
        return None
    year, month, date = int(day[:4]), int(day[4:6]), int(day[6:])
    if year < 1970 or not 1 <= month <= 12 or not 1 <= date <= 31:
        return None
    if len(_midnights) >= _CACHED_MAX:
        _midnights.clear()
    midnight = _midnights[day] = timegm((year, month, date, 0, 0, 0))
    return midnight


class SignedHeaders(NamedTuple):
    """A SignedHeaders list: as spelled, in order, and as a set."""

    text: bytes
    names: tuple[bytes, ...]
    members: frozenset[bytes]


_signed_headers: dict[bytes, SignedHeaders] = {}


def parse_signed_headers(text: bytes) -> SignedHeaders | None:
    """The names of a SignedHeaders list; None unless they are lower-case, ascending, and hold `host`."""
    known = _signed_headers.get(text)
    if known is not None:
        return known
    names = tuple(text.split(b";"))
    if text != text.lower() or b"" in names or b"host" not in names or list(names) != sorted(set(names)):
        return None
    if len(_signed_headers) >= _CACHED_MAX:
        _signed_headers.clear()
    parsed = _signed_headers[text] = SignedHeaders(text, names, frozenset(names))
    return parsed


def refuse_unsigned(call: Call, signed: SignedHeaders, payload_word: bytes) -> None:
    """Refuse acting headers that are outside the signature.

    `x-amz-content-sha256` is inside it, listed or not, where its value is the payload line.
    """
    members = signed.members
    unsigned = [name for name in call.fields if name[:6] in _ACTING and name not in members and _acts(name)]
    if not unsigned:
        return
    if unsigned == [b"x-amz-content-sha256"] and call.fields[b"x-amz-content-sha256"] == payload_word:
        return
    raise not_signed(sorted(name.decode("latin-1") for name in unsigned))


_ACTING: Final = frozenset({b"x-amz-", b"x-tier"})


def _acts(name: bytes) -> bool:
    return name.startswith((b"x-amz-", b"x-tier-"))


class Presented(NamedTuple):
    """What a version 4 request presents; none of it is verified yet.

    `credential` is the credential string with plain slashes, `stamp` the signing time as text and `seconds` since the
    epoch.
    """

    credential: bytes
    signed: SignedHeaders
    stamp: bytes
    seconds: int
    signature: bytes


def verify_request(call: Call, presented: Presented, key: SigningKey, query: Query, payload_word: bytes) -> None:
    """Accept the signature over the canonical query, or over its literal spelling where that differs.

    Errors: Refused SignatureDoesNotMatch, also when a signed header is absent.
    """
    expected = _signature(call, presented, key, query_text(query.pairs), payload_word)
    if hmac.compare_digest(expected, presented.signature):
        return
    if query.literal is not None:
        expected = _signature(call, presented, key, query_text(query.literal), payload_word)
        if hmac.compare_digest(expected, presented.signature):
            return
    raise mismatch(key.credential)


def _signature(call: Call, presented: Presented, key: SigningKey, query: bytes, payload_word: bytes) -> bytes:
    fields = call.fields
    signed = presented.signed
    try:
        headers = [name + b":" + header_value(fields[name]) for name in signed.names]
    except KeyError:
        raise mismatch(key.credential) from None
    method = call.method.encode("ascii")
    canonical = b"\n".join([method, call.raw_path, query, *headers, b"", signed.text, payload_word])
    digest = sha256(canonical).hexdigest().encode()
    text = b"\n".join([ALGORITHM, presented.stamp, key.scope, digest])
    return hmac.digest(key.key, text, "sha256").hex().encode()


def mismatch(credential: Credential) -> Refused:
    """The one refusal of a wrong signature."""
    return Refused("SignatureDoesNotMatch", AWSAccessKeyId=credential.access_key_id)


class ChunkSignatures:
    """The chain of signatures of one aws-chunked body; starts at the signature of the request."""

    def __init__(self, key: SigningKey, stamp: bytes, seed: bytes) -> None:
        self._key = key
        self._scope = b"\n" + stamp + b"\n" + key.scope + b"\n"
        self._previous = seed

    def accept_chunk(self, signature: bytes, digest: bytes) -> bool:
        """Whether `signature` is right for the next chunk, whose SHA-256 in hex is `digest`.

        The chain goes on from the right signature; after a wrong one the body is refused.
        """
        return self._accept(b"AWS4-HMAC-SHA256-PAYLOAD", signature, (EMPTY_SHA256, digest))

    def accept_trailer(self, signature: bytes, digest: bytes) -> bool:
        """Whether `signature` is right for the trailer, whose canonical lines have the SHA-256 `digest` in hex."""
        return self._accept(b"AWS4-HMAC-SHA256-TRAILER", signature, (digest,))

    def _accept(self, word: bytes, signature: bytes, digests: Sequence[bytes]) -> bool:
        text = word + self._scope + b"\n".join([self._previous, *digests])
        expected = hmac.digest(self._key.key, text, "sha256").hex().encode()
        self._previous = expected
        return hmac.compare_digest(expected, signature)
