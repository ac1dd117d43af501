"""Cross-origin rules of a bucket: packed and unpacked, and judged purely for requests and preflights.

The first rule that matches decides, in the order of the document.
Source: "Using cross-origin resource sharing (CORS)" of the S3 user guide.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

import msgpack

from gateway.s3.errors import S3Code, S3Error

ORIGIN: Final = b"origin"
WANTED_METHOD: Final = b"access-control-request-method"
WANTED_HEADERS: Final = b"access-control-request-headers"
METHODS: Final = frozenset({"GET", "PUT", "HEAD", "POST", "DELETE"})

VARY: Final = (b"vary", b"Origin, Access-Control-Request-Headers, Access-Control-Request-Method")

_NOT_ENABLED: Final = "CORSResponse: CORS is not enabled for this bucket."
_NOT_ALLOWED: Final = (
    "CORSResponse: This CORS request is not allowed. This is usually because the evalution of Origin, request method / "
    "Access-Control-Request-Method or Access-Control-Request-Headers are not whitelisted by the resource's CORS spec."
)

Lines = list[tuple[bytes, bytes]]


class CorsRule(NamedTuple):
    """One rule as put. None means that the element was absent; orders are the document's."""

    rule_id: str | None
    methods: tuple[str, ...]
    origins: tuple[str, ...]
    headers: tuple[str, ...]
    exposed: tuple[str, ...]
    max_age: int | None


CorsRules = tuple[CorsRule, ...]


def pack(rules: Iterable[CorsRule]) -> bytes:
    """Rules as a bucket document stores them."""
    packed: bytes = msgpack.packb([list(rule) for rule in rules])
    return packed


def unpack(document: bytes) -> CorsRules:
    """Inverse of `pack`."""
    return tuple(CorsRule(*rule) for rule in msgpack.unpackb(document, use_list=False))


def matches(pattern: str, text: str) -> bool:
    """Whether a text fits a pattern with at most one `*`, which stands for any run of characters."""
    first, star, last = pattern.partition("*")
    if not star:
        return text == pattern
    return len(text) >= len(first) + len(last) and text.startswith(first) and text.endswith(last)


def find_rule(rules: CorsRules, origin: str, method: str, headers: Iterable[str] = ()) -> tuple[CorsRule, str] | None:
    """The first rule that allows a request, and the origin pattern that matched; `headers` are in lower case."""
    wanted = tuple(headers)
    for rule in rules:
        if method not in rule.methods:
            continue
        allowed = [pattern.lower() for pattern in rule.headers]
        if not all(any(matches(pattern, name) for pattern in allowed) for name in wanted):
            continue
        for pattern in rule.origins:
            if matches(pattern, origin):
                return rule, pattern
    return None


def lines_of_request(rules: CorsRules | None, fields: Mapping[bytes, bytes], method: str) -> Lines:
    """The header lines that cross-origin rules add to an answer; none without rules.

    A page that names the method it is about to use is judged by that one. `Vary` goes with every answer of a bucket
    that has rules, so that no cache gives one origin what was made for another.
    """
    if rules is None:
        return []
    wanted = fields.get(WANTED_METHOD, method.encode()).decode("latin-1")
    found = find_rule(rules, fields[ORIGIN].decode("latin-1"), wanted)
    return [VARY] if found is None else [*_lines(*found, fields[ORIGIN]), VARY]


def lines_of_preflight(rules: CorsRules | None, fields: Mapping[bytes, bytes]) -> Lines:
    """The header lines that allow what a preflight asks for.

    Errors: BadRequest when it does not say what it asks for, AccessForbidden when no rule allows it.
    """
    origin, method = fields.get(ORIGIN), fields.get(WANTED_METHOD)
    if not origin:
        raise S3Error(S3Code.BadRequest, "Insufficient information. Origin request header needed.")
    if not method or method.decode("latin-1") not in METHODS:
        named = "null" if method is None else method.decode("latin-1")
        raise S3Error(S3Code.BadRequest, f"Invalid Access-Control-Request-Method: {named}")
    if rules is None:
        raise _forbidden(_NOT_ENABLED, method)
    asked = fields.get(WANTED_HEADERS, b"")
    names = [name.strip().lower() for name in asked.decode("latin-1").split(",") if name.strip()]
    found = find_rule(rules, origin.decode("latin-1"), method.decode("latin-1"), names)
    if found is None:
        raise _forbidden(_NOT_ALLOWED, method)
    rule, pattern = found
    lines = _lines(rule, pattern, origin)
    if names:
        lines.append((b"access-control-allow-headers", ", ".join(names).encode("latin-1")))
    if rule.max_age is not None:
        lines.append((b"access-control-max-age", str(rule.max_age).encode()))
    return [*lines, VARY]


def _lines(rule: CorsRule, pattern: str, origin: bytes) -> Lines:
    """What both kinds of answer say. Credentials are allowed only to an origin that the document describes."""
    lines = [(b"access-control-allow-origin", b"*" if pattern == "*" else origin)]
    lines.append((b"access-control-allow-methods", ", ".join(rule.methods).encode()))
    if rule.exposed:
        lines.append((b"access-control-expose-headers", ", ".join(rule.exposed).encode()))
    if pattern != "*":
        lines.append((b"access-control-allow-credentials", b"true"))
    return lines


def _forbidden(message: str, method: bytes) -> S3Error:
    return S3Error(S3Code.AccessForbidden, message, Method=method.decode("latin-1"), ResourceType="BUCKET")
