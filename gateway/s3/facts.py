"""What one request says under the condition keys of a policy: verified credentials, the socket, the request, the clock.

Every value is computed when a policy asks for it. Nothing here comes from a header that the protocol does not give that
meaning; the address is that of the peer.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final
from urllib.parse import unquote

from gateway.auth.authenticator import Authenticated, Mechanism
from gateway.auth.policy.keys import EXISTING_TAG, HEADER_KEYS, REQUEST_TAG
from gateway.http.call import Call
from gateway.s3 import headers, tags, xml
from gateway.s3.addressing import parse_copy_source

TLS_VERSION_LEAST: Final = "1.2"
"""The oldest TLS a connection can have: what a policy that wants a newer one has to assume."""

_SECONDS_A_DAY: Final = 86400
_AUTH_TYPES: Final[Mapping[Mechanism, str]] = {
    Mechanism.HEADER_V4: "REST-HEADER",
    Mechanism.HEADER_V2: "REST-HEADER",
    Mechanism.QUERY_V4: "REST-QUERY-STRING",
    Mechanism.QUERY_V2: "REST-QUERY-STRING",
    Mechanism.FORM_V4: "POST",
    Mechanism.FORM_V2: "POST",
}
_V2: Final = frozenset({Mechanism.HEADER_V2, Mechanism.QUERY_V2, Mechanism.FORM_V2})
_LOCK_ROOTS: Final = {
    "Retention": xml.Element({"Mode": xml.LEAF, "RetainUntilDate": xml.LEAF}),
    "LegalHold": xml.Element({"Status": xml.LEAF}),
}


@dataclass(slots=True)
class Facts:
    """The condition context of one request about one resource.

    `existing_tags` are those of the version concerned, as its row has them. `document` is the body of a request that
    sets tags or locks, where it was read for this. `prefix` overrides that of the query: the key itself, when the
    question is whether the caller could have listed it.
    """

    call: Call
    query: Mapping[str, str]
    fields: Mapping[bytes, bytes]
    caller: Authenticated
    owner_id: str
    region: str
    now: float
    version_id: str | None = None
    existing_tags: bytes = b""
    document: bytes | None = None
    prefix: str | None = None
    _known: dict[str, Sequence[str]] = field(default_factory=dict)

    def values(self, key: str) -> Sequence[str]:
        """The values of a key in lower case; empty when the request has none. Errors: S3Error for a bad header."""
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._compute(key)
        return known

    def _compute(self, key: str) -> Sequence[str]:
        compute = _KEYS.get(key)
        if compute is not None:
            return compute(self)
        if key in HEADER_KEYS:
            return _header(self, key.removeprefix("s3:").encode())
        if key.startswith(EXISTING_TAG):
            return _tag(tags.unpack(self.existing_tags), key.removeprefix(EXISTING_TAG))
        if key.startswith(REQUEST_TAG):
            return _tag(_request_tags(self), key.removeprefix(REQUEST_TAG))
        return ()


def _header(facts: Facts, name: bytes) -> Sequence[str]:
    value = facts.fields.get(name)
    return () if value is None else (value.decode("latin-1"),)


def _parameter(name: str) -> Callable[[Facts], Sequence[str]]:
    return lambda facts: (facts.query[name],) if name in facts.query else ()


def _field(name: bytes) -> Callable[[Facts], Sequence[str]]:
    return lambda facts: _header(facts, name)


def _tag(pairs: tags.Tags, name: str) -> Sequence[str]:
    """The value of a tag; condition keys know no case, so tags that differ by it only are all meant."""
    return tuple(value for key, value in pairs if key.lower() == name)


def _request_tags(facts: Facts) -> tags.Tags:
    if facts.document is not None and facts.call.operation == "PutObjectTagging":
        return tags.parse_document(facts.document, tags.OBJECT_TAGS_MAX)
    value = facts.fields.get(b"x-amz-tagging")
    return tags.parse_header(value) if value else []


def _identity(facts: Facts) -> Sequence[str]:
    return _some(facts.caller.principal.principal_id)


def _name(facts: Facts) -> Sequence[str]:
    principal = facts.caller.principal
    return (principal.name,) if principal.principal_id else ()


def _arn(facts: Facts) -> Sequence[str]:
    principal = facts.caller.principal
    if not principal.principal_id:
        return ()
    account, name = principal.principal_id, principal.name
    return (f"arn:aws:iam::{account}:root" if principal.is_root else f"arn:aws:iam::{account}:user/{name}",)


def _kind(facts: Facts) -> Sequence[str]:
    principal = facts.caller.principal
    return ("Anonymous" if not principal.principal_id else "Account" if principal.is_root else "User",)


def _some(text: str) -> Sequence[str]:
    return (text,) if text else ()


def _prefix(facts: Facts) -> Sequence[str]:
    return (facts.prefix,) if facts.prefix is not None else _parameter("prefix")(facts)


def _copy_source(facts: Facts) -> Sequence[str]:
    """The source decoded, with and without the slash in front: policies are written both ways."""
    value = facts.fields.get(b"x-amz-copy-source")
    if value is None:
        return ()
    source = parse_copy_source(value)
    path = f"{source.bucket}/{source.key}"
    return path, "/" + path


def _signature_age(facts: Facts) -> Sequence[str]:
    """Milliseconds since the request was signed, where the signature tells."""
    stamp = facts.fields.get(b"x-amz-date", b"").decode("latin-1") or _stamp_of_query(facts.call.query)
    try:
        signed = datetime.strptime(stamp, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC).timestamp()
    except ValueError:
        return ()
    return (str(int((facts.now - signed) * 1000)),)


def _stamp_of_query(raw: bytes) -> str:
    pairs = (piece.partition("=") for piece in raw.decode("latin-1").split("&"))
    return next((unquote(value) for name, _, value in pairs if name == "X-Amz-Date"), "")


def _signature_version(facts: Facts) -> Sequence[str]:
    if facts.caller.mechanism is Mechanism.ANONYMOUS:
        return ()
    return ("AWS" if facts.caller.mechanism in _V2 else "AWS4-HMAC-SHA256",)


def _locks(facts: Facts) -> Mapping[str, str]:
    """Mode, date and legal hold that a request asks for, in its headers or in its document."""
    if facts.document is not None and facts.call.operation in {"PutObjectRetention", "PutObjectLegalHold"}:
        root = xml.read(facts.document, _LOCK_ROOTS)
        asked = {"mode": root.get("Mode"), "until": root.get("RetainUntilDate"), "hold": root.get("Status")}
    else:
        names = {"mode": b"mode", "until": b"retain-until-date", "hold": b"legal-hold"}
        asked = {
            word: facts.fields.get(b"x-amz-object-lock-" + name, b"").decode("latin-1") for word, name in names.items()
        }
    return {word: value for word, value in asked.items() if value}


def _lock(word: str) -> Callable[[Facts], Sequence[str]]:
    return lambda facts: _some(_locks(facts).get(word, ""))


def _remaining_days(facts: Facts) -> Sequence[str]:
    """Days until the date asked for, a part of one counted whole."""
    try:
        until = datetime.fromisoformat(_locks(facts).get("until", ""))
    except ValueError:
        return ()
    seconds = (until if until.tzinfo else until.replace(tzinfo=UTC)).timestamp() - facts.now
    return (str(-int(-seconds // _SECONDS_A_DAY)),)


_KEYS: Final[Mapping[str, Callable[[Facts], Sequence[str]]]] = {
    "aws:currenttime": lambda facts: (headers.iso_time(int(facts.now * 1000)),),
    "aws:epochtime": lambda facts: (str(int(facts.now)),),
    "aws:principalaccount": _identity,
    "aws:principalarn": _arn,
    "aws:principalisawsservice": lambda _facts: ("false",),
    "aws:principaltype": _kind,
    "aws:referer": _field(b"referer"),
    "aws:requestedregion": lambda facts: (facts.region,),
    "aws:resourceaccount": lambda facts: (facts.owner_id,),
    "aws:securetransport": lambda facts: ("true" if facts.call.scheme == "https" else "false",),
    "aws:sourceip": lambda facts: _some(facts.call.peer),
    "aws:useragent": _field(b"user-agent"),
    "aws:userid": _identity,
    "aws:username": _name,
    "aws:viaawsservice": lambda _facts: ("false",),
    "s3:authtype": lambda facts: _some(_AUTH_TYPES.get(facts.caller.mechanism, "")),
    "s3:delimiter": _parameter("delimiter"),
    "s3:if-match": _field(b"if-match"),
    "s3:if-none-match": _field(b"if-none-match"),
    "s3:max-keys": _parameter("max-keys"),
    "s3:object-lock-legal-hold": _lock("hold"),
    "s3:object-lock-mode": _lock("mode"),
    "s3:object-lock-remaining-retention-days": _remaining_days,
    "s3:object-lock-retain-until-date": _lock("until"),
    "s3:prefix": _prefix,
    "s3:requestobjecttagkeys": lambda facts: tuple(key for key, _ in _request_tags(facts)),
    "s3:resourceaccount": lambda facts: (facts.owner_id,),
    "s3:signatureage": _signature_age,
    "s3:signatureversion": _signature_version,
    "s3:tlsversion": lambda facts: (TLS_VERSION_LEAST,) if facts.call.scheme == "https" else (),
    "s3:versionid": lambda facts: _some(facts.version_id or ""),
    "s3:x-amz-copy-source": _copy_source,
}
"""The keys that a request can have; a known key that is not here no request has (see `gateway.auth.policy.keys`)."""
