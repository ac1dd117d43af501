"""Notification documents of buckets, and the records that receivers get.

A document is checked against the 31 event names of the AWS model and the targets that the operator configured, and is
stored as rules for the commit (`tiers.namespace.events`) beside its canonical XML, which is what GET answers.
"""

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple
from urllib.parse import quote_plus

from gateway.s3 import xml
from gateway.s3.errors import S3Code, S3Error
from tiers.namespace.events import TEST, Happening, Notification, Rule, unpack_notification

RULES_MAX: Final = 100
"""Configurations of one bucket, as on AWS."""

ID_LENGTH_MAX: Final = 255
EVENT_VERSION: Final = "2.4"

EVENTS: Final = frozenset({
    "s3:ReducedRedundancyLostObject", "s3:ObjectCreated:*", "s3:ObjectCreated:Put", "s3:ObjectCreated:Post",
    "s3:ObjectCreated:Copy", "s3:ObjectCreated:CompleteMultipartUpload", "s3:ObjectRemoved:*",
    "s3:ObjectRemoved:Delete", "s3:ObjectRemoved:DeleteMarkerCreated", "s3:ObjectRestore:*", "s3:ObjectRestore:Post",
    "s3:ObjectRestore:Completed", "s3:ObjectRestore:Delete", "s3:Replication:*",
    "s3:Replication:OperationFailedReplication", "s3:Replication:OperationNotTracked",
    "s3:Replication:OperationMissedThreshold", "s3:Replication:OperationReplicatedAfterThreshold",
    "s3:LifecycleTransition", "s3:IntelligentTiering", "s3:ObjectAcl:Put", "s3:LifecycleExpiration:*",
    "s3:LifecycleExpiration:Delete", "s3:LifecycleExpiration:DeleteMarkerCreated", "s3:ObjectTagging:*",
    "s3:ObjectTagging:Put", "s3:ObjectTagging:Delete", "s3:ObjectAnnotation:*", "s3:ObjectAnnotation:Put",
    "s3:ObjectAnnotation:Delete", "s3:ObjectRetention:Put",
})  # fmt: skip
"""Every event name of the AWS model; a test holds the two equal."""

_ARN: Final = re.compile(r"arn:(isotherm|minio):sqs:([a-z0-9-]{0,32}):([A-Za-z0-9_-]{1,64}):webhook")

_FILTER: Final = xml.Element(
    {"S3Key": xml.Element({"FilterRule": xml.Element({"Name": xml.REQUIRED_LEAF, "Value": xml.LEAF}, many=3)})}
)


class _Kind(NamedTuple):
    """One of the three lists of a document, and the element that names its target."""

    list_name: str
    target_name: str


_KINDS: Final = (
    _Kind("TopicConfiguration", "Topic"),
    _Kind("QueueConfiguration", "Queue"),
    _Kind("CloudFunctionConfiguration", "CloudFunction"),
)


def _rule_schema(kind: _Kind) -> xml.Element:
    children = {
        "Id": xml.LEAF,
        kind.target_name: xml.REQUIRED_LEAF,
        "Event": xml.Element(many=len(EVENTS) + 1, is_required=True),
        "Filter": _FILTER,
    }
    return xml.Element(children, many=RULES_MAX + 1)


_ROOTS: Final = {
    "NotificationConfiguration": xml.Element(
        {**{kind.list_name: _rule_schema(kind) for kind in _KINDS}, "EventBridgeConfiguration": xml.LEAF}
    )
}


class Targets(NamedTuple):
    """Where notifications may go: names the operator configured, and the region that their ARNs may name."""

    names: Collection[str]
    region: str


class _Read(NamedTuple):
    kind: _Kind
    arn: str
    rule: Rule
    filters: Sequence[tuple[str, str]]


def parse_document(body: bytes, targets: Targets, new_id: Callable[[], str], *, is_checked: bool) -> Notification:
    """A notification document as it is stored; absent ids are made by `new_id`.

    Not `is_checked`, a target that is not configured is taken for one that will be. Errors: MalformedXML,
    InvalidArgument for unknown events, targets and filters, for ids that repeat, and for rules that overlap.
    """
    root = xml.read(body, _ROOTS)
    read = [
        _read_rule(node, kind, targets, new_id, is_checked=is_checked)
        for kind in _KINDS
        for node in root.all(kind.list_name)
    ]
    if len(read) > RULES_MAX:
        raise _refused(f"A bucket has at most {RULES_MAX} notification configurations.")
    rules = tuple(found.rule for found in read)
    if len({rule.rule_id for rule in rules}) < len(rules):
        raise _refused("Same ID used for multiple configurations. IDs must be unique")
    _refuse_overlap(rules)
    pieces = [*map(_render, read), *(["<EventBridgeConfiguration/>"] if root.has("EventBridgeConfiguration") else [])]
    return Notification(rules, "".join(pieces).encode())


def _read_rule(node: xml.Node, kind: _Kind, targets: Targets, new_id: Callable[[], str], *, is_checked: bool) -> _Read:
    rule_id = node.get("Id") or new_id()
    if len(rule_id) > ID_LENGTH_MAX:
        raise _refused(f"An ID has at most {ID_LENGTH_MAX} characters.", "Id", rule_id[:ID_LENGTH_MAX])
    events = tuple(dict.fromkeys(child.text for child in node.all("Event")))
    for event in events:
        if event not in EVENTS:
            raise _refused("The event is not supported for notifications", "Event", event)
    arn = node.get(kind.target_name)
    filters = list(_filters_of(node))
    named = dict(filters)
    rule = Rule(
        rule_id,
        _target_of(arn, targets, is_checked=is_checked),
        events,
        named.get("prefix", "").encode(),
        named.get("suffix", "").encode(),
    )
    return _Read(kind, arn, rule, filters)


def _filters_of(node: xml.Node) -> Iterator[tuple[str, str]]:
    """Name, as spelled by AWS in lower case, and value of each filter rule. Errors: InvalidArgument."""
    seen: set[str] = set()
    for found in node.all("Filter"):
        for key in found.all("S3Key"):
            for filter_rule in key.all("FilterRule"):
                name = filter_rule.get("Name").lower()
                if name not in {"prefix", "suffix"}:
                    message = "filter rule name must be either prefix or suffix"
                    raise _refused(message, "FilterRule.Name", filter_rule.get("Name"))
                if name in seen:
                    raise _refused(f"Cannot specify more than one {name} rule in a filter.", "FilterRule.Name", name)
                if len(filter_rule.get("Value").encode()) > 1024:
                    raise _refused("The value of a filter rule has at most 1024 bytes.", "FilterRule.Value", name)
                seen.add(name)
                yield name, filter_rule.get("Value")


def _target_of(arn: str, targets: Targets, *, is_checked: bool) -> str:
    """The name of the target that an ARN names. Errors: InvalidArgument."""
    match = _ARN.fullmatch(arn)
    is_ours = match is not None and match[2] in {"", targets.region}
    if match is None or not is_ours or (is_checked and match[3] not in targets.names):
        raise _refused("Unable to validate the following destination configurations", "ARN", arn)
    return match[3]


def _refuse_overlap(rules: Sequence[Rule]) -> None:
    """No event of any key may be asked for twice. Errors: InvalidArgument."""
    for at, rule in enumerate(rules):
        for other in rules[:at]:
            if overlaps(rule, other):
                raise _refused(
                    "Configurations overlap. Configurations on the same bucket cannot share a common event type.",
                    "Id", rule.rule_id,
                )  # fmt: skip


def overlaps(one: Rule, other: Rule) -> bool:
    """Whether some event of some key would go to both rules; pure."""
    if not any(_share_event(event, another) for event in one.events for another in other.events):
        return False
    is_prefix = one.prefix.startswith(other.prefix) or other.prefix.startswith(one.prefix)
    return is_prefix and (one.suffix.endswith(other.suffix) or other.suffix.endswith(one.suffix))


def _share_event(one: str, other: str) -> bool:
    return one == other or (
        (one.endswith(":*") or other.endswith(":*")) and one.rpartition(":")[0] == other.rpartition(":")[0]
    )


def _render(read: _Read) -> str:
    filters = "".join(
        f"<FilterRule>{xml.element('Name', name.capitalize())}{xml.element('Value', value)}</FilterRule>"
        for name, value in read.filters
    )
    pieces = [
        xml.element("Id", read.rule.rule_id),
        xml.element(read.kind.target_name, read.arn),
        *(xml.element("Event", event) for event in read.rule.events),
        f"<Filter><S3Key>{filters}</S3Key></Filter>" if filters else "",
    ]
    return f"<{read.kind.list_name}>{''.join(pieces)}</{read.kind.list_name}>"


def render_document(stored: bytes | None) -> bytes:
    """The document as GET answers it, empty when none is stored."""
    form = "" if stored is None else unpack_notification(stored).form.decode()
    return xml.document("NotificationConfiguration", form)


def _refused(message: str, name: str = "", value: str = "") -> S3Error:
    elements = {"ArgumentName": name, "ArgumentValue": value} if name else {}
    return S3Error(S3Code.InvalidArgument, message, **elements)


def record_of(happening: Happening, sequence: int, region: str) -> dict[str, Any]:
    """The body of a notification as AWS sends it: one record, or the test message."""
    when = _iso(happening.happened_ms)
    if happening.name == TEST:
        return {
            "Service": "Amazon S3",
            "Event": TEST,
            "Time": when,
            "Bucket": happening.bucket_name,
            "RequestId": happening.origin.request_id,
            "HostId": "",
        }
    return {"Records": [_record(happening, sequence, region, when)]}


def _record(happening: Happening, sequence: int, region: str, when: str) -> Mapping[str, Any]:
    origin = happening.origin
    content: dict[str, Any] = {"key": quote_plus(happening.key, safe="/"), "size": happening.size}
    if happening.etag:
        content["eTag"] = happening.etag
    if happening.version_id:
        content["versionId"] = happening.version_id
    content["sequencer"] = f"{sequence:016X}"
    return {
        "eventVersion": EVENT_VERSION,
        "eventSource": "aws:s3",
        "awsRegion": region,
        "eventTime": when,
        "eventName": happening.name.removeprefix("s3:"),
        "userIdentity": {"principalId": origin.principal_id or "anonymous"},
        "requestParameters": {"sourceIPAddress": origin.source_address},
        "responseElements": {"x-amz-request-id": origin.request_id, "x-amz-id-2": ""},
        "s3": {
            "s3SchemaVersion": "1.0",
            "configurationId": happening.rule_id,
            "bucket": {
                "name": happening.bucket_name,
                "ownerIdentity": {"principalId": happening.owner_id},
                "arn": f"arn:aws:s3:::{happening.bucket_name}",
            },
            "object": content,
        },
    }


def encode_record(happening: Happening, sequence: int, region: str) -> bytes:
    """`record_of` as the bytes that are sent and signed."""
    return json.dumps(record_of(happening, sequence, region), separators=(",", ":")).encode()


def _iso(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
