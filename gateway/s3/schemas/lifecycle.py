"""The lifecycle configuration of a bucket: from its document to checked values, and back.

Every fault is found here, before anything is stored; the code of each is AWS's.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b
from itertools import count
from typing import Final, Self

from gateway.s3 import headers, xml
from gateway.s3.errors import S3Code, S3Error
from gateway.s3.request import Request
from gateway.s3.tags import KEY_CHARACTERS_MAX, VALUE_CHARACTERS_MAX
from tiers.lifecycle.documents import (
    Expiration,
    Filter,
    FilterForm,
    Lifecycle,
    MinimumSize,
    NoncurrentExpiration,
    NoncurrentTransition,
    Rule,
    Transition,
)

RULES_MAX: Final = 1000
ID_CHARACTERS_MAX: Final = 255
MINIMUM_SIZE: Final = b"x-amz-transition-default-minimum-object-size"

_DAYS_MAX: Final = 2**31 - 1
_NEWER_MAX: Final = 100
_DAY_MS: Final = 86_400_000
_TAGS_MAX: Final = 50
_TAG: Final = {"Key": xml.REQUIRED_LEAF, "Value": xml.REQUIRED_LEAF}
_SIZES: Final = {"ObjectSizeGreaterThan": xml.LEAF, "ObjectSizeLessThan": xml.LEAF}
_TRANSITIONS_MAX: Final = 64
"""Of one rule; more than there are storage classes to go to."""

_RULE: Final = xml.Element(
    {
        "ID": xml.LEAF,
        "Prefix": xml.LEAF,
        "Status": xml.REQUIRED_LEAF,
        "Filter": xml.Element(
            {
                "Prefix": xml.LEAF,
                "Tag": xml.Element(_TAG),
                **_SIZES,
                "And": xml.Element({"Prefix": xml.LEAF, "Tag": xml.Element(_TAG, many=_TAGS_MAX), **_SIZES}),
            }
        ),
        "Expiration": xml.Element({"Date": xml.LEAF, "Days": xml.LEAF, "ExpiredObjectDeleteMarker": xml.LEAF}),
        "Transition": xml.Element(
            {"Date": xml.LEAF, "Days": xml.LEAF, "StorageClass": xml.REQUIRED_LEAF}, many=_TRANSITIONS_MAX
        ),
        "NoncurrentVersionTransition": xml.Element(
            {
                "NoncurrentDays": xml.REQUIRED_LEAF,
                "NewerNoncurrentVersions": xml.LEAF,
                "StorageClass": xml.REQUIRED_LEAF,
            },
            many=_TRANSITIONS_MAX,
        ),
        "NoncurrentVersionExpiration": xml.Element(
            {"NoncurrentDays": xml.REQUIRED_LEAF, "NewerNoncurrentVersions": xml.LEAF}
        ),
        "AbortIncompleteMultipartUpload": xml.Element({"DaysAfterInitiation": xml.REQUIRED_LEAF}),
    },
    many=RULES_MAX,
    is_required=True,
)
_ROOTS: Final = {
    "LifecycleConfiguration": xml.Element({"Rule": _RULE}),
    "BucketLifecycleConfiguration": xml.Element({"Rule": _RULE}),  # the name of the shape; some clients send it
}


@dataclass(frozen=True, slots=True)
class PutLifecycle:
    """The rules a bucket is to have."""

    lifecycle: Lifecycle

    @classmethod
    async def decode(cls, request: Request) -> Self:
        body = await request.read_document(xml.DOCUMENT_BYTES_MAX)
        minimum = parse_minimum_size(request.text(MINIMUM_SIZE, MinimumSize.ALL_128K))
        classes = request.namespace.storage_classes()
        return cls(Lifecycle(await xml.take(body, partial(parse_rules, storage_classes=classes)), minimum))


def parse_minimum_size(text: str) -> MinimumSize:
    """The header's word. Errors: InvalidArgument."""
    if text not in set(MinimumSize):
        raise S3Error(S3Code.InvalidArgument, ArgumentName=MINIMUM_SIZE.decode(), ArgumentValue=text)
    return MinimumSize(text)


def parse_rules(body: bytes, storage_classes: Collection[str]) -> tuple[Rule, ...]:
    """The rules of a document in its order, each with an id. `storage_classes` are those that exist.

    Errors: MalformedXML, InvalidArgument, InvalidRequest.
    """
    rules = [_rule(node, storage_classes) for node in xml.read(body, _ROOTS).all("Rule")]
    named = {rule.rule_id for rule in rules if rule.rule_id}
    if len(named) != sum(1 for rule in rules if rule.rule_id):
        raise _argument("ID", "", "Rule ID must be unique. Found same ID for more than one rule")
    return tuple(_with_ids(rules, named))


def _with_ids(rules: Iterable[Rule], taken: set[str]) -> Iterable[Rule]:
    """The same rules; one without an id gets one made of its content, so that the same document gets the same ids."""
    for rule in rules:
        if rule.rule_id:
            yield rule
        else:
            made = (blake2b(f"{rule!r}/{attempt}".encode(), digest_size=24).hexdigest() for attempt in count())
            rule_id = next(name for name in made if name not in taken)
            taken.add(rule_id)
            yield replace(rule, rule_id=rule_id)


def _rule(node: xml.Node, storage_classes: Collection[str]) -> Rule:
    rule_id = node.get("ID")
    if len(rule_id) > ID_CHARACTERS_MAX:
        raise _argument("ID", rule_id, f"ID length should not exceed allowed limit of {ID_CHARACTERS_MAX}")
    if node.get("Status") not in {"Enabled", "Disabled"} or not xml.is_speakable(rule_id):
        raise xml.malformed()
    rule = Rule(
        rule_id,
        node.get("Status") == "Enabled",
        _filter(node),
        _expiration(node),
        tuple(_transition(each, storage_classes) for each in node.all("Transition")),
        tuple(_noncurrent_transition(each, storage_classes) for each in node.all("NoncurrentVersionTransition")),
        _noncurrent_expiration(node),
        _abort_days(node),
    )
    _check_actions(rule)
    _check_times(rule)
    return rule


# ------------------------------------------------------------------------------------------------------------- filters


def _filter(node: xml.Node) -> Filter:
    """What a rule applies to: its own prefix, or exactly one filter. Errors: MalformedXML, InvalidRequest."""
    filters = node.all("Filter")
    if node.has("Prefix") == bool(filters):
        raise xml.malformed()
    if not filters:
        return _selection(FilterForm.PREFIX, node)
    if len(filters[0].children) > 1:
        raise xml.malformed()
    both = filters[0].all("And")
    if not both:
        return _selection(FilterForm.FILTER, filters[0])
    if len(both[0].children) < 2:
        raise xml.malformed()
    return _selection(FilterForm.AND, both[0])


def _selection(form: FilterForm, node: xml.Node) -> Filter:
    tags = tuple((tag.get("Key"), tag.get("Value")) for tag in node.all("Tag"))
    over, under = _size(node, "ObjectSizeGreaterThan", 0), _size(node, "ObjectSizeLessThan", 1)
    if len({key for key, _ in tags}) != len(tags):
        raise S3Error(S3Code.InvalidRequest, "Duplicate Tag Keys are not allowed.")
    if over is not None and under is not None and under <= over:
        message = "'ObjectSizeLessThan' has to be a value greater than 'ObjectSizeGreaterThan'."
        raise S3Error(S3Code.InvalidRequest, message)
    prefix = node.get("Prefix") if node.has("Prefix") else None
    for key, value in tags:
        if not key or len(key) > KEY_CHARACTERS_MAX or len(value) > VALUE_CHARACTERS_MAX:
            raise S3Error(S3Code.InvalidTag, "The TagKey or TagValue of a lifecycle filter is invalid.", TagKey=key)
    if not all(map(xml.is_speakable, [prefix or "", *(key + value for key, value in tags)])):
        raise xml.malformed()
    return Filter(form, prefix, tags, over, under)


def _size(node: xml.Node, name: str, least: int) -> int | None:
    if not node.has(name):
        return None
    size = headers.number(node.get(name).strip())
    if size is None:
        raise xml.malformed()
    if not least <= size < 2**63:
        raise _argument(name, node.get(name))
    return size


# ------------------------------------------------------------------------------------------------------------- actions


def _expiration(node: xml.Node) -> Expiration | None:
    found = node.all("Expiration")
    if not found:
        return None
    action = found[0]
    markers = action.get("ExpiredObjectDeleteMarker")
    if action.has("ExpiredObjectDeleteMarker") and markers not in {"true", "false"}:
        raise xml.malformed()
    days = _days(action, "Days", 1)
    if markers == "true" and len(action.children) > 1:
        raise xml.malformed()
    return Expiration(days, _date(action), markers == "true" if markers else None)


def _transition(action: xml.Node, storage_classes: Collection[str]) -> Transition:
    if not action.has("Days") and not action.has("Date"):
        raise xml.malformed()
    return Transition(_storage_class(action, storage_classes), _days(action, "Days", 0), _date(action))


def _noncurrent_transition(action: xml.Node, storage_classes: Collection[str]) -> NoncurrentTransition:
    days = _days(action, "NoncurrentDays", 0)
    assert days is not None
    return NoncurrentTransition(_storage_class(action, storage_classes), days, _newer(action))


def _noncurrent_expiration(node: xml.Node) -> NoncurrentExpiration | None:
    for action in node.all("NoncurrentVersionExpiration"):
        days = _days(action, "NoncurrentDays", 1)
        assert days is not None
        return NoncurrentExpiration(days, _newer(action))
    return None


def _abort_days(node: xml.Node) -> int | None:
    found = node.all("AbortIncompleteMultipartUpload")
    return _days(found[0], "DaysAfterInitiation", 1) if found else None


def _storage_class(action: xml.Node, known: Collection[str]) -> str:
    name = action.get("StorageClass").strip()
    if name not in known:
        raise S3Error(S3Code.MalformedXML, f"The storage class {name[:100]} does not exist.", StorageClass=name)
    return name


def _days(action: xml.Node, name: str, least: int) -> int | None:
    """A count of days. Errors: MalformedXML for what is no whole number, InvalidArgument under `least`."""
    if not action.has(name):
        return None
    text = action.get(name).strip()
    number = headers.number(text.removeprefix("-"))
    if number is None:
        raise xml.malformed()
    if text.startswith("-") or not least <= number <= _DAYS_MAX:
        sort = "positive" if least else "nonnegative"
        raise _argument(name, text, f"'{name}' for {action.name} action must be a {sort} integer")
    return number


def _newer(action: xml.Node) -> int | None:
    if not action.has("NewerNoncurrentVersions"):
        return None
    text = action.get("NewerNoncurrentVersions").strip()
    number = headers.number(text.removeprefix("-"))
    if number is None:
        raise xml.malformed()
    if text.startswith("-") or not 1 <= number <= _NEWER_MAX:
        raise _argument("NewerNoncurrentVersions", text, f"must be between 1 and {_NEWER_MAX}")
    return number


def _date(action: xml.Node) -> int | None:
    """The midnight that a Date names, in milliseconds. Errors: InvalidArgument."""
    if not action.has("Date"):
        return None
    text = action.get("Date").strip()
    at_ms = headers.parse_iso_time(text)
    if at_ms is None:
        raise _argument("Date", text, "The date must be in ISO 8601 format")
    if at_ms % _DAY_MS or at_ms < 0:
        raise _argument("Date", text, "'Date' must be at midnight GMT")
    return at_ms


def _argument(name: str, value: str, message: str | None = None) -> S3Error:
    return S3Error(S3Code.InvalidArgument, message, ArgumentName=name, ArgumentValue=xml.legible(value))


# ----------------------------------------------------------------------------------------------- rules as a whole


def _check_actions(rule: Rule) -> None:
    """A rule acts, and not on what its filter cannot see. Errors: InvalidRequest."""
    expiration = rule.expiration
    ends = expiration is not None and (expiration.days, expiration.date_ms) != (None, None)
    ends_markers = expiration is not None and bool(expiration.ends_markers)
    others = (rule.transitions, rule.noncurrent_transitions, rule.noncurrent_expiration, rule.abort_days)
    if not ends and not ends_markers and not any(others):
        raise S3Error(S3Code.InvalidRequest, "At least one action needs to be specified in a rule.")
    selection = rule.filter
    is_narrow = bool(selection.tags) or selection.size_over is not None or selection.size_under is not None
    if is_narrow and rule.abort_days is not None:
        message = "AbortIncompleteMultipartUpload cannot be specified with Tags or object sizes."
        raise S3Error(S3Code.InvalidRequest, message)
    if is_narrow and ends_markers:
        message = "ExpiredObjectDeleteMarker cannot be specified with Tags or object sizes."
        raise S3Error(S3Code.InvalidRequest, message)


def _check_times(rule: Rule) -> None:
    """Days or dates, never both; a class once; the end after every move. Errors: InvalidRequest, InvalidArgument."""
    end = rule.expiration or Expiration()
    days = {end.days, *(move.days for move in rule.transitions)} - {None}
    dates = {end.date_ms, *(move.date_ms for move in rule.transitions)} - {None}
    if days and dates:
        message = "Found mixed 'Date' and 'Days' based Expiration and Transition actions in lifecycle rule"
        raise S3Error(S3Code.InvalidRequest, message)
    moves: tuple[Sequence[Transition | NoncurrentTransition], ...] = (rule.transitions, rule.noncurrent_transitions)
    for each in moves:
        if len({move.storage_class for move in each}) != len(each):
            message = "'StorageClass' must be different for 'Transition' actions in same 'Rule'"
            raise S3Error(S3Code.InvalidRequest, message)
    _check_order("Expiration", end.days, [move.days for move in rule.transitions])
    _check_order("Expiration", end.date_ms, [move.date_ms for move in rule.transitions])
    if rule.noncurrent_expiration is not None:
        last = rule.noncurrent_expiration.days
        _check_order("NoncurrentVersionExpiration", last, [move.days for move in rule.noncurrent_transitions])


def _check_order(name: str, end: int | None, moves: Iterable[int | None]) -> None:
    if end is not None and any(move is not None and move >= end for move in moves):
        message = f"The time of the {name} action must be later than that of every Transition action"
        raise S3Error(S3Code.InvalidArgument, message, ArgumentName=name)


# ------------------------------------------------------------------------------------------------------------ document


def render(lifecycle: Lifecycle) -> bytes:
    """The document as it was put, with the ids that were given."""
    return xml.document("LifecycleConfiguration", *(_rule_text(rule) for rule in lifecycle.rules))


def _rule_text(rule: Rule) -> str:
    pieces = [xml.element("ID", rule.rule_id), _filter_text(rule.filter)]
    pieces.append(xml.element("Status", "Enabled" if rule.is_enabled else "Disabled"))
    if rule.expiration is not None:
        markers = rule.expiration.ends_markers
        flag = "" if markers is None else xml.boolean("ExpiredObjectDeleteMarker", value=markers)
        when = _when(rule.expiration.days, rule.expiration.date_ms)
        pieces.append(f"<Expiration>{when}{flag}</Expiration>")
    for move in rule.transitions:
        target = xml.element("StorageClass", move.storage_class)
        pieces.append(f"<Transition>{_when(move.days, move.date_ms)}{target}</Transition>")
    for later in rule.noncurrent_transitions:
        target = xml.element("StorageClass", later.storage_class)
        text = f"{_noncurrent(later)}{target}"
        pieces.append(f"<NoncurrentVersionTransition>{text}</NoncurrentVersionTransition>")
    if rule.noncurrent_expiration is not None:
        text = _noncurrent(rule.noncurrent_expiration)
        pieces.append(f"<NoncurrentVersionExpiration>{text}</NoncurrentVersionExpiration>")
    if rule.abort_days is not None:
        text = _number("DaysAfterInitiation", rule.abort_days)
        pieces.append(f"<AbortIncompleteMultipartUpload>{text}</AbortIncompleteMultipartUpload>")
    return f"<Rule>{''.join(pieces)}</Rule>"


def _filter_text(selection: Filter) -> str:
    text = "" if selection.prefix is None else xml.element("Prefix", selection.prefix)
    if selection.form is FilterForm.PREFIX:
        return text
    for key, value in selection.tags:
        text += f"<Tag>{xml.element('Key', key)}{xml.element('Value', value)}</Tag>"
    text += _number("ObjectSizeGreaterThan", selection.size_over) + _number("ObjectSizeLessThan", selection.size_under)
    return f"<Filter><And>{text}</And></Filter>" if selection.form is FilterForm.AND else f"<Filter>{text}</Filter>"


def _when(days: int | None, date_ms: int | None) -> str:
    return _number("Days", days) + ("" if date_ms is None else f"<Date>{headers.iso_time(date_ms)}</Date>")


def _noncurrent(action: NoncurrentTransition | NoncurrentExpiration) -> str:
    return _number("NoncurrentDays", action.days) + _number("NewerNoncurrentVersions", action.newer_kept)


def _number(name: str, value: int | None) -> str:
    return "" if value is None else f"<{name}>{value}</{name}>"
