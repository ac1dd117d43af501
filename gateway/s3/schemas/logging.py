"""The document of PutBucketLogging, and what GetBucketLogging answers."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Self

from gateway.auth.acl import GRANTS_MAX, Permission
from gateway.s3 import xml
from gateway.s3.log_targets import EVENT_TIME, PARTITIONED, SIMPLE, LogGrant, LogTarget
from gateway.s3.request import Request
from gateway.s3.schemas.acls import GRANTEE, GRANTEE_KINDS, WrittenGrant, resolve, written_grantee
from gateway.s3.schemas.described import invalid

PREFIX_BYTES_MAX: Final = 512
"""Leaves room for the longest name below it within the 1024 bytes of a key."""

_PERMISSIONS: Final = frozenset({"FULL_CONTROL", "READ", "WRITE"})
_DATE_SOURCES: Final = frozenset({EVENT_TIME, "DeliveryTime"})
_TYPES: Final = {kind: name for name, kind in GRANTEE_KINDS.items()}

_GRANT: Final = xml.Element({"Grantee": GRANTEE, "Permission": xml.REQUIRED_LEAF}, many=GRANTS_MAX)
_ENABLED: Final = xml.Element(
    {
        "TargetBucket": xml.REQUIRED_LEAF,
        "TargetPrefix": xml.REQUIRED_LEAF,
        "TargetGrants": xml.Element({"Grant": _GRANT}),
        "TargetObjectKeyFormat": xml.Element(
            {SIMPLE: xml.LEAF, PARTITIONED: xml.Element({"PartitionDateSource": xml.LEAF})}
        ),
    }
)
_ROOTS: Final = {"BucketLoggingStatus": xml.Element({"LoggingEnabled": _ENABLED})}


@dataclass(frozen=True, slots=True)
class PutBucketLogging:
    """Where logs are to go, None for nowhere. All grantees exist."""

    target: LogTarget | None

    @classmethod
    async def decode(cls, request: Request) -> Self:
        root = xml.read(await request.read_document(xml.DOCUMENT_BYTES_MAX), _ROOTS)
        enabled = root.all("LoggingEnabled")
        return cls(await _target(enabled[0], request) if enabled else None)


async def _target(node: xml.Node, request: Request) -> LogTarget:
    """The target of a LoggingEnabled element.

    Errors: MalformedXML, InvalidArgument for a prefix that no key could begin with, those of `resolve`.
    """
    prefix, (key_format, date_source) = node.get("TargetPrefix"), _format_of(node)
    if len(prefix.encode()) > PREFIX_BYTES_MAX or not xml.is_speakable(prefix):
        raise invalid("TargetPrefix", "", "The prefix is too long or holds characters that no name may have.")
    nodes = [grant for grants in node.all("TargetGrants") for grant in grants.all("Grant")]
    written = [_written(grant) for grant in nodes]
    resolved = await resolve(written, request.namespace.principals, {request.owned_bucket.owner_id})
    grants = tuple(
        LogGrant(
            said.kind, said.value, grant.all("Grantee")[0].get("DisplayName"), said.permission.value, found.grantee
        )
        for grant, said, found in zip(nodes, written, resolved, strict=True)
    )
    return LogTarget(node.get("TargetBucket"), prefix, grants, key_format, date_source)


def _written(node: xml.Node) -> WrittenGrant:
    permission = node.get("Permission")
    if permission not in _PERMISSIONS:
        raise xml.malformed()
    return WrittenGrant(*written_grantee(node.all("Grantee")[0]), Permission(permission))


def _format_of(node: xml.Node) -> tuple[str, str]:
    """Key format and date source. Errors: MalformedXML unless there is exactly one format and a known source."""
    formats = node.all("TargetObjectKeyFormat")
    if not formats:
        return "", ""
    chosen = formats[0].children
    if len(chosen) != 1 or chosen[0].text:
        raise xml.malformed()
    source = chosen[0].get("PartitionDateSource")
    if chosen[0].has("PartitionDateSource") and source not in _DATE_SOURCES:
        raise xml.malformed()
    return chosen[0].name, source


def render_target(target: LogTarget | None) -> bytes:
    """The document as GET answers it."""
    return xml.document("BucketLoggingStatus", "" if target is None else "".join(_pieces(target)))


def _pieces(target: LogTarget) -> Iterator[str]:
    yield "<LoggingEnabled>"
    yield xml.element("TargetBucket", target.bucket_name)
    if target.grants:
        yield f"<TargetGrants>{''.join(map(_rendered_grant, target.grants))}</TargetGrants>"
    yield xml.element("TargetPrefix", target.prefix)
    if target.key_format:
        source = xml.optional("PartitionDateSource", target.date_source)
        yield f"<TargetObjectKeyFormat><{target.key_format}>{source}</{target.key_format}></TargetObjectKeyFormat>"
    yield "</LoggingEnabled>"


def _rendered_grant(grant: LogGrant) -> str:
    name = xml.optional("DisplayName", grant.display_name)
    grantee = xml.typed_grantee(_TYPES[grant.kind], xml.element(grant.kind, grant.value), name)
    return f"<Grant>{grantee}{xml.element('Permission', grant.permission)}</Grant>"
