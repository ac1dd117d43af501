"""A bucket's lifecycle configuration as values, and as the bytes that are stored of it.

The values keep what the client put, form and order included, so that a read answers exactly that. They are valid by
construction of whoever parsed them: the gateway checks a document before it becomes one.
"""

from dataclasses import astuple, dataclass
from enum import StrEnum
from typing import Any, Final

import msgpack

_FORMAT: Final = 1


class FilterForm(StrEnum):
    """Where in the document a rule says what it applies to."""

    PREFIX = "prefix"  # the deprecated element of the rule itself
    FILTER = "filter"  # a filter of at most one kind
    AND = "and"  # several kinds


class MinimumSize(StrEnum):
    """Which versions are too small to be moved by a rule that says nothing about sizes."""

    ALL_128K = "all_storage_classes_128K"
    VARIES = "varies_by_storage_class"


@dataclass(frozen=True, slots=True)
class Filter:
    """What a rule applies to; everything where all are absent. Sizes are bytes, and strict."""

    form: FilterForm = FilterForm.FILTER
    prefix: str | None = None
    tags: tuple[tuple[str, str], ...] = ()
    size_over: int | None = None
    size_under: int | None = None


@dataclass(frozen=True, slots=True)
class Expiration:
    """End of a current version after `days`, or at `date_ms`; `ends_markers` is ExpiredObjectDeleteMarker."""

    days: int | None = None
    date_ms: int | None = None
    ends_markers: bool | None = None


@dataclass(frozen=True, slots=True)
class Transition:
    """Move of a current version; exactly one of `days` and `date_ms` is given."""

    storage_class: str
    days: int | None = None
    date_ms: int | None = None


@dataclass(frozen=True, slots=True)
class NoncurrentTransition:
    """Move of a noncurrent version, except the newest `newer_kept` of them (None: no exception)."""

    storage_class: str
    days: int
    newer_kept: int | None = None


@dataclass(frozen=True, slots=True)
class NoncurrentExpiration:
    """End of a noncurrent version, except the newest `newer_kept` of them (None: no exception)."""

    days: int
    newer_kept: int | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """One lifecycle rule. Days count from creation, or from the moment a version became noncurrent."""

    rule_id: str
    is_enabled: bool
    filter: Filter = Filter()
    expiration: Expiration | None = None
    transitions: tuple[Transition, ...] = ()
    noncurrent_transitions: tuple[NoncurrentTransition, ...] = ()
    noncurrent_expiration: NoncurrentExpiration | None = None
    abort_days: int | None = None


@dataclass(frozen=True, slots=True)
class Lifecycle:
    """All rules of a bucket, in the order put."""

    rules: tuple[Rule, ...]
    minimum_size: MinimumSize = MinimumSize.ALL_128K


def pack_lifecycle(lifecycle: Lifecycle) -> bytes:
    """The LIFECYCLE document of a bucket."""
    packed: bytes = msgpack.packb([_FORMAT, lifecycle.minimum_size.value, [astuple(rule) for rule in lifecycle.rules]])
    return packed


def unpack_lifecycle(document: bytes) -> Lifecycle:
    """Inverse of `pack_lifecycle`. Errors: ValueError for anything else; nothing may be done by half a document."""
    try:
        version, minimum_size, rules = msgpack.unpackb(document, use_list=False)
        if version != _FORMAT:
            raise ValueError(f"unknown format {version}")
        return Lifecycle(tuple(_rule(fields) for fields in rules), MinimumSize(minimum_size))
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise ValueError("the bucket's lifecycle document is unreadable") from error


def _rule(fields: tuple[Any, ...]) -> Rule:
    rule_id, is_enabled, selection, expiration, moves, noncurrent_moves, noncurrent_end, abort_days = fields
    form, prefix, tags, size_over, size_under = selection
    return Rule(
        rule_id,
        is_enabled,
        Filter(FilterForm(form), prefix, tags, size_over, size_under),
        None if expiration is None else Expiration(*expiration),
        tuple(Transition(*move) for move in moves),
        tuple(NoncurrentTransition(*move) for move in noncurrent_moves),
        None if noncurrent_end is None else NoncurrentExpiration(*noncurrent_end),
        abort_days,
    )
