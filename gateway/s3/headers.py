"""Header values with a grammar: dates, ranges, entity tags and conditions. Pure functions of text and rows.

Ranges and entity tags are scanned once from left to right without regular expressions, so that no value costs more than
its length.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import formatdate, parsedate_to_datetime
from enum import Enum, auto
from functools import lru_cache
from typing import Final, NamedTuple

from gateway.s3.errors import S3Code, S3Error
from tiers.namespace.types import UNCONDITIONAL, WriteConditions

_ISO_CHARACTERS_MAX: Final = 40
_ISO_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:\d\d)?)?", re.ASCII)
_DIGITS_MAX: Final = 20  # more digits than any size has; longer numbers are only compared, never computed


@lru_cache(maxsize=4096)
def http_date(seconds: int) -> str:
    """A time in seconds as an IMF-fixdate, the only form S3 answers in headers."""
    return formatdate(seconds, usegmt=True)


@lru_cache(maxsize=4096)
def _iso_second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def iso_time(milliseconds: int) -> str:
    """A time as XML answers give it: ISO 8601 with milliseconds and Z."""
    seconds, rest = divmod(milliseconds, 1000)
    return f"{_iso_second(seconds)}.{rest:03d}Z"


def parse_http_date(value: str) -> int | None:
    """Seconds of an HTTP date in any of its three forms, None when it is not one."""
    try:
        parsed = parsedate_to_datetime(value)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return int((parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp())


def parse_time(text: str) -> int | None:
    """Seconds of an HTTP date or of an ISO 8601 time, None when it is neither."""
    at_ms = parse_iso_time(text)
    return parse_http_date(text) if at_ms is None else at_ms // 1000


def parse_iso_time(text: str) -> int | None:
    """Milliseconds of an ISO 8601 date or time in its extended form, UTC unless it says otherwise; None for others."""
    if len(text) > _ISO_CHARACTERS_MAX or _ISO_TIME.fullmatch(text) is None:
        return None
    try:
        parsed = datetime.fromisoformat(text)
        aware = parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)
        since = aware - datetime.fromtimestamp(0, UTC)
    except (ValueError, OverflowError):
        return None
    return since // timedelta(milliseconds=1)


# -------------------------------------------------------------------------------------------------------------- ranges


class ByteRange(NamedTuple):
    """Bytes [start, stop) of a content."""

    start: int
    stop: int


def number(text: str) -> int | None:
    """A run of ASCII digits as a number, None for anything else. Numbers beyond 20 digits come back as 10**20."""
    if not (text.isascii() and text.isdigit()):
        return None
    digits = text.lstrip("0")
    return 10**_DIGITS_MAX if len(digits) > _DIGITS_MAX else int(digits or "0")


def parse_range(value: str, size: int) -> ByteRange | None:
    """What a Range header asks of a content of `size` bytes; None means the whole content.

    Several ranges and bad syntax mean the whole content, an end past the size is cut. Errors: InvalidRange when a
    well-formed range holds no byte of the content.
    """
    unit, equals, spec = value.partition("=")
    if not equals or unit.strip().lower() != "bytes":
        return None
    first, dash, last = spec.strip().partition("-")
    start, end = number(first), number(last)
    if not dash or (first and start is None) or (last and end is None):
        return None
    if start is None:
        return None if end is None else _suffix(end, size, value)
    if end is not None and end < start:
        return None
    if start >= size:
        raise unsatisfiable(value, size)
    return ByteRange(start, size if end is None else min(end + 1, size))


def _suffix(length: int, size: int, value: str) -> ByteRange:
    if length == 0 or size == 0:
        raise unsatisfiable(value, size)
    return ByteRange(max(0, size - length), size)


def unsatisfiable(value: str, size: int) -> S3Error:
    """The error for a range that holds no byte; the endpoint adds `Content-Range: bytes */size`."""
    return S3Error(S3Code.InvalidRange, RangeRequested=value, ActualObjectSize=str(size))


def parse_copy_range(value: str, size: int) -> ByteRange:
    """What `x-amz-copy-source-range` asks: `bytes=a-b` within the source and nothing else.

    Errors: InvalidArgument for any other syntax, InvalidRange past the end.
    """
    first, dash, last = value.removeprefix("bytes=").partition("-")
    start, end = number(first), number(last)
    if not value.startswith("bytes=") or not dash or start is None or end is None or end < start:
        message = "The x-amz-copy-source-range value must be of the form bytes=first-last"
        raise S3Error(S3Code.InvalidArgument, message, ArgumentName="x-amz-copy-source-range", ArgumentValue=value)
    if end >= size:
        raise unsatisfiable(value, size)
    return ByteRange(start, end + 1)


# ---------------------------------------------------------------------------------------------------------- conditions


def entity_tags(value: str) -> tuple[str, ...]:
    """The entity tags of a condition, without quotes and weakness; `*` stays `*`."""
    return tuple(_bare(tag.strip()) for tag in value.split(",") if tag.strip())


def _bare(tag: str) -> str:
    strong = tag.removeprefix("W/")
    return strong[1:-1] if len(strong) >= 2 and strong[0] == strong[-1] == '"' else strong


class Verdict(Enum):
    """What the conditions of a read want."""

    SEND = auto()
    NOT_MODIFIED = auto()
    FAILED = auto()


@dataclass(frozen=True, slots=True)
class ReadConditions:
    """Conditions on the version read; None means absent. Dates are whole seconds; an invalid date is as if absent."""

    if_match: tuple[str, ...] | None = None
    if_none_match: tuple[str, ...] | None = None
    if_modified_since: int | None = None
    if_unmodified_since: int | None = None


ANY_VERSION: Final = ReadConditions()
_READ_NAMES: Final = (b"if-match", b"if-none-match", b"if-modified-since", b"if-unmodified-since")
_COPY_NAMES: Final = tuple(b"x-amz-copy-source-" + name for name in _READ_NAMES)


def read_conditions(fields: Mapping[bytes, bytes]) -> ReadConditions:
    """The conditions of a GET or HEAD."""
    return _conditions(fields, _READ_NAMES)


def source_conditions(fields: Mapping[bytes, bytes]) -> ReadConditions:
    """The conditions on the source of a copy."""
    return _conditions(fields, _COPY_NAMES)


def _conditions(fields: Mapping[bytes, bytes], names: tuple[bytes, ...]) -> ReadConditions:
    if fields.keys().isdisjoint(names):
        return ANY_VERSION
    values = [fields[name].decode("latin-1") if name in fields else None for name in names]
    match, none_match, modified, unmodified = values
    return ReadConditions(
        None if match is None else entity_tags(match),
        None if none_match is None else entity_tags(none_match),
        None if modified is None else parse_http_date(modified),
        None if unmodified is None else parse_http_date(unmodified),
    )


def judge(conditions: ReadConditions, etag: str, modified_ms: int) -> Verdict:
    """Judge the conditions of a read against one version.

    A true If-Match beats a false If-Unmodified-Since; a false If-None-Match beats a true If-Modified-Since.
    """
    if conditions is ANY_VERSION:
        return Verdict.SEND
    modified = modified_ms // 1000
    if conditions.if_match is not None:
        if not _names(conditions.if_match, etag):
            return Verdict.FAILED
    elif conditions.if_unmodified_since is not None and modified > conditions.if_unmodified_since:
        return Verdict.FAILED
    if conditions.if_none_match is not None:
        return Verdict.NOT_MODIFIED if _names(conditions.if_none_match, etag) else Verdict.SEND
    if conditions.if_modified_since is not None and modified <= conditions.if_modified_since:
        return Verdict.NOT_MODIFIED
    return Verdict.SEND


def is_same(if_range: str, etag: str, modified_ms: int) -> bool:
    """Whether If-Range names this version (empty: any): else the client holds the beginning of another content."""
    if not if_range or if_range.strip('"') == etag:
        return True
    return parse_http_date(if_range) == modified_ms // 1000


def failed_condition(conditions: ReadConditions) -> str:
    """The header to name in PreconditionFailed."""
    return "If-Match" if conditions.if_match is not None else "If-Unmodified-Since"


def _names(tags: tuple[str, ...], etag: str) -> bool:
    return "*" in tags or etag in tags


def write_conditions(fields: Mapping[bytes, bytes]) -> WriteConditions:
    """The conditions of a write on the current version. Errors: InvalidArgument for a condition without a value."""
    if b"if-match" not in fields and b"if-none-match" not in fields:
        return UNCONDITIONAL
    return WriteConditions(_write_tags(fields, b"if-match"), _write_tags(fields, b"if-none-match"))


def _write_tags(fields: Mapping[bytes, bytes], name: bytes) -> tuple[str, ...] | None:
    if name not in fields:
        return None
    tags = entity_tags(fields[name].decode("latin-1"))
    if not tags:
        raise S3Error(S3Code.InvalidArgument, ArgumentName=name.decode(), ArgumentValue="")
    return tags
