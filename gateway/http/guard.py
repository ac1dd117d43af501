"""The header guard: what a request's head must look like before anybody reads it.

Stands in front of the parser and is stricter than it, so that two parsers can never disagree about a request that
passed. Refuses with a status of its own and the connection closes; nothing here knows S3.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from gateway.http.limits import Limits

HEAD_END = b"\r\n\r\n"
CONTENT_LENGTH_MAX = 2**63 - 1

TOKEN = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]"

# Possessive repeats: each byte is looked at once, whatever the client sends. No `#`: a fragment never travels.
_head = re.compile(
    rb"[A-Z]{1,32}+ (/[!-\"$-~]*+) HTTP/1\.([01])\r\n(?:" + TOKEN + rb"++:[\t -~\x80-\xff]*+\r\n)*+\r\n"
).fullmatch
_other_version = re.compile(rb"[!-~]+ [!-~]+ HTTP/(?!1\.[01]\r\n)[0-9]\.[0-9]\r\n").match
_bare_line_feed = re.compile(rb"(?<!\r)\n|\r(?=[^\n])").search
_host = re.compile(rb"(?:[A-Za-z0-9._\-]{1,255}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?").fullmatch
_digits = re.compile(rb"[0-9]{1,19}").fullmatch
_codings = re.compile(rb"(?:gzip|x-gzip|deflate|compress|x-compress|identity|br|zstd|chunked|[ \t,])+").fullmatch

HOSTS_SEEN_MAX = 256
_hosts_seen: set[bytes] = set()

SINGLE = frozenset(
    (
        *(b"host", b"content-length", b"transfer-encoding", b"authorization", b"content-md5", b"content-type"),
        *(b"range", b"expect", b"date", b"if-match", b"if-none-match", b"if-modified-since", b"if-unmodified-since"),
        *(b"content-encoding", b"content-range", b"if-range", b"upgrade"),
    )
)
"""Names where a second line would change the meaning. So is every `x-amz-*` name except user metadata and lists."""

LISTS = frozenset((b"x-amz-object-attributes", b"x-amz-optional-object-attributes"))
"""Lists that some SDKs send as one line an entry."""


class Refusal(NamedTuple):
    """A request that is not read further: its status and a fixed text for the client."""

    status: int
    reason: str


class Head(NamedTuple):
    """What the lines of a well-formed head say."""

    fields: dict[bytes, bytes]
    content_length: int | None
    is_chunked: bool
    is_kept_alive: bool
    awaits_continue: bool


def scan_partial(received: bytes, limits: Limits, seen: int = 0) -> Refusal | None:
    """Judge a head that has not ended yet: refuse what can never become legal, without waiting for its end.

    The first `seen` bytes were judged before: a head that drips in would cost the square of its length.
    """
    if _bare_line_feed(received, max(0, seen - 1)):
        return Refusal(400, "Bare line break in the request head.")
    line_end = received.find(b"\r\n", 0, limits.target_bytes + 64)
    if line_end < 0 and len(received) > limits.target_bytes + 64:
        return Refusal(414, "The request target is too long.")
    if len(received) > limits.header_block_bytes:
        return Refusal(431, "The header block is too large.")
    return None


def scan(block: bytes, limits: Limits) -> int | Refusal:
    """Judge a whole head, empty line included, byte by byte; the minor version of HTTP/1 when it is well-formed."""
    match = _head(block)
    if match is None:
        return _malformed(block, limits)
    if match.end(1) - match.start(1) > limits.target_bytes:
        return Refusal(414, "The request target is too long.")
    if len(block) > limits.header_block_bytes or block.count(b"\n") - 2 > limits.header_count:
        return Refusal(431, "Too many or too large headers.")
    return 1 if block[match.start(2)] == ord("1") else 0


def _malformed(block: bytes, limits: Limits) -> Refusal:
    """The status of a head that does not fit the grammar: size first, so that a bomb is named for what it is."""
    first_line = block.find(b"\r\n")
    if first_line > limits.target_bytes + 64:
        return Refusal(414, "The request target is too long.")
    if len(block) > limits.header_block_bytes:
        return Refusal(431, "Too many or too large headers.")
    if _other_version(block):
        return Refusal(505, "Only HTTP/1.1 and HTTP/1.0 are spoken here.")
    return Refusal(400, "Malformed request head.")


def judge(headers: Sequence[tuple[bytes, bytes]], *, version_minor: int) -> Head | Refusal:
    """Judge the parsed lines (names in lower case, values stripped): what they say about the message's frame."""
    fields = dict(headers)
    if len(fields) != len(headers):
        merged = _merge(headers)
        if isinstance(merged, Refusal):
            return merged
        fields = merged
    host = fields.get(b"host", b"")
    if host not in _hosts_seen:
        if _host(host) is None:
            return Refusal(400, "Exactly one valid Host header is required.")
        _remember(host)
    length: int | None = None
    frame = fields.get(b"content-length")
    coding = fields.get(b"transfer-encoding")
    if frame is not None:
        if coding is not None or _digits(frame) is None or (length := int(frame)) > CONTENT_LENGTH_MAX:
            return Refusal(400, "Invalid Content-Length.")
    elif coding is not None:
        refusal = _judge_coding(coding.lower(), version_minor)
        if refusal is not None:
            return refusal
    # Any other expectation may be passed over (RFC 9110, 10.1.1), and S3 clients are used to that.
    awaits_continue = version_minor == 1 and fields.get(b"expect", b"").lower() == b"100-continue"
    is_kept_alive = version_minor == 1
    connection = fields.get(b"connection")
    if connection is not None and b"close" in [token.strip() for token in connection.lower().split(b",")]:
        is_kept_alive = False
    return Head(fields, length, coding is not None, is_kept_alive, awaits_continue)


def _remember(host: bytes) -> None:
    """Clients name few hosts; one that invents many only empties the memory."""
    if len(_hosts_seen) >= HOSTS_SEEN_MAX:
        _hosts_seen.clear()
    _hosts_seen.add(host)


def _judge_coding(coding: bytes, version_minor: int) -> Refusal | None:
    if coding == b"chunked" and version_minor == 1:
        return None
    if version_minor == 1 and _codings(coding) and coding.count(b"chunked") <= 1:
        return Refusal(501, "Only the chunked transfer coding is supported.")
    return Refusal(400, "Invalid Transfer-Encoding.")


def _merge(headers: Sequence[tuple[bytes, bytes]]) -> dict[bytes, bytes] | Refusal:
    """Repeated lines of a list header join with a comma; a repeated single-valued header is refused."""
    fields: dict[bytes, bytes] = {}
    for name, value in headers:
        earlier = fields.get(name)
        if earlier is None:
            fields[name] = value
        elif name in SINGLE or _is_single(name):
            return Refusal(400, "A header that must be single was sent twice.")
        else:
            fields[name] = earlier + b"," + value
    return fields


def _is_single(name: bytes) -> bool:
    return name.startswith(b"x-amz-") and not name.startswith(b"x-amz-meta-") and name not in LISTS
