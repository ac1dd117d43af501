"""Documents that operations on objects take."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, Self

from gateway.auth.acl import Owned
from gateway.s3 import attributes, headers, tags, xml
from gateway.s3.encryption import CustomerKey, Wish
from gateway.s3.errors import S3Code, S3Error
from gateway.s3.lock_headers import asked_lock, bypass_of
from gateway.s3.request import Request
from gateway.s3.schemas import described, encryption
from gateway.s3.schemas.acls import owned_object
from tiers.datapath.body import Body
from tiers.namespace.types import UNCONDITIONAL_DELETE, DeleteConditions, DeleteTarget, Description, WriteConditions

PARTS_MAX: Final = 10_000
KEYS_MAX: Final = 1000
PAGE_MAX: Final = 1000
ATTRIBUTES: Final = frozenset({"ETag", "Checksum", "ObjectParts", "StorageClass", "ObjectSize"})

_DELETE_OBJECT: Final = xml.Element(
    {
        "Key": xml.REQUIRED_LEAF,
        "VersionId": xml.LEAF,
        "ETag": xml.LEAF,
        "LastModifiedTime": xml.LEAF,
        "Size": xml.LEAF,
    },
    many=KEYS_MAX,
    is_required=True,
)
_DELETE_ROOTS: Final = {"Delete": xml.Element({"Object": _DELETE_OBJECT, "Quiet": xml.LEAF})}


@dataclass(frozen=True, slots=True)
class NamedVersion:
    """One version of the key; None means the current one."""

    version_id: str | None

    @classmethod
    async def decode(cls, request: Request) -> Self:
        return cls(described.version_id(request))


@dataclass(frozen=True, slots=True)
class ReadObject:
    """What GetObject and HeadObject ask: a version, a piece of it, under conditions.

    `range` is the header as sent and holds only for a version that `if_range` names, empty for any; `part_number` 0
    means none. `overrides` replace stored headers in the answer.
    """

    version_id: str | None
    range: str
    part_number: int
    conditions: headers.ReadConditions
    overrides: Mapping[bytes, bytes]
    with_checksum: bool
    if_range: str = ""
    customer: CustomerKey | None = None

    @classmethod
    async def decode(cls, request: Request) -> Self:
        fields, query = request.fields, request.query
        wanted = attributes.overrides(query, is_signed=bool(request.caller_id)) if query else {}
        document = cls(
            described.version_id(request),
            request.text(b"range"),
            _part_number(query) if "partNumber" in query else 0,
            headers.read_conditions(fields),
            wanted,
            fields.get(b"x-amz-checksum-mode", b"").upper() == b"ENABLED",
            request.text(b"if-range"),
            encryption.read_key(request),
        )
        if document.range and document.part_number:
            raise S3Error(S3Code.InvalidRequest, "Cannot specify both Range header and partNumber query parameter")
        return document


def _part_number(query: Mapping[str, str]) -> int:
    number = headers.number(query["partNumber"])
    if number is None or not 1 <= number <= PARTS_MAX:
        message = f"Part number must be an integer between 1 and {PARTS_MAX}, inclusive"
        raise described.invalid("partNumber", query["partNumber"], message)
    return number


@dataclass(frozen=True, slots=True)
class PutObject:
    """A content to store under the key."""

    description: Description
    conditions: WriteConditions
    body: Body
    encryption: Wish | None = None

    @classmethod
    async def decode(cls, request: Request) -> Self:
        described.refuse_version_id(request)
        conditions = described.conditions_of_write(request)
        body = request.open_body()
        description = await described.description(request, checksum_algorithm=body.algorithm)
        return cls(description, conditions, body, encryption.wish(request))


@dataclass(frozen=True, slots=True)
class DeleteObject:
    """A key or version to delete."""

    target: DeleteTarget

    @classmethod
    async def decode(cls, request: Request) -> Self:
        named = described.version_id(request)
        conditions = described.conditions_of_delete(request)
        return cls(DeleteTarget(request.key, named, conditions, bypass_of(request.fields)))


@dataclass(frozen=True, slots=True)
class DeleteObjects:
    """Up to 1000 deletions, each judged alone."""

    targets: tuple[DeleteTarget, ...]
    is_quiet: bool

    @classmethod
    async def decode(cls, request: Request) -> Self:
        body = await request.read_document(xml.DELETE_BYTES_MAX)
        bypasses = bypass_of(request.fields)
        return cls(*await xml.take(body, partial(_targets, bypasses=bypasses)))


def _targets(body: bytes, *, bypasses: bool) -> tuple[tuple[DeleteTarget, ...], bool]:
    """The deletions of a document in its order, and whether only failures are to be told. Errors: MalformedXML."""
    root = xml.read(body, _DELETE_ROOTS, xml.DELETE_BYTES_MAX)
    quiet = root.get("Quiet", "false")
    if quiet not in {"true", "false"}:
        raise xml.malformed()
    return tuple([_target(node, bypasses=bypasses) for node in root.all("Object")]), quiet == "true"


def _target(node: xml.Node, *, bypasses: bool) -> DeleteTarget:
    if not node.get("Key") or node.get("VersionId", "null") == "":
        raise xml.malformed()
    return DeleteTarget(node.get("Key"), node.get("VersionId") or None, _conditions(node), bypasses)


def _conditions(node: xml.Node) -> DeleteConditions:
    """The conditions on one key of a list. Errors: MalformedXML for one that says nothing."""
    if not (node.has("ETag") or node.has("Size") or node.has("LastModifiedTime")):
        return UNCONDITIONAL_DELETE
    tags_named = headers.entity_tags(node.get("ETag")) if node.has("ETag") else None
    size = headers.number(node.get("Size").strip()) if node.has("Size") else None
    modified = headers.parse_time(node.get("LastModifiedTime").strip()) if node.has("LastModifiedTime") else None
    if tags_named == () or (size is None and node.has("Size")) or (modified is None and node.has("LastModifiedTime")):
        raise xml.malformed()
    return DeleteConditions(tags_named, size, modified)


@dataclass(frozen=True, slots=True)
class CopyObject:
    """A copy. None in `attributes` or `tags` means those of the source; `redirect` is the redirect line of the copy."""

    source: described.Source
    owned: Owned
    attributes: bytes | None
    redirect: bytes
    tags: bytes | None
    storage_class: str
    checksum_algorithm: str
    conditions: WriteConditions
    encryption: Wish | None = None
    source_customer: CustomerKey | None = None
    lock: bytes = b""

    @classmethod
    async def decode(cls, request: Request) -> Self:
        described.refuse_version_id(request)
        return cls(
            described.copy_source(request),
            await owned_object(request),
            attributes.from_fields(request.fields) if _replaces(request, b"x-amz-metadata-directive") else None,
            attributes.redirect_line(request.fields),
            described.tags_of_header(request) if _replaces(request, b"x-amz-tagging-directive") else None,
            described.storage_class(request),
            described.checksum_algorithm(request),
            described.conditions_of_write(request),
            encryption.wish(request),
            encryption.source_key(request),
            await asked_lock(request),
        )


def _replaces(request: Request, directive: bytes) -> bool:
    """Whether a directive says REPLACE. Errors: InvalidArgument for anything but COPY and REPLACE."""
    value = request.text(directive, "COPY")
    if value not in {"COPY", "REPLACE"}:
        raise described.invalid(directive.decode(), value, f"Unknown {directive.decode()}.")
    return value == "REPLACE"


@dataclass(frozen=True, slots=True)
class GetObjectAttributes:
    """Which attributes of a version to tell, and which page of its parts."""

    version_id: str | None
    wanted: frozenset[str]
    parts_max: int
    part_marker: int
    customer: CustomerKey | None = None

    @classmethod
    async def decode(cls, request: Request) -> Self:
        name = b"x-amz-object-attributes"
        values = [value for field, value in request.call.headers if field == name]
        words = [word.strip() for word in b",".join(values).decode("latin-1").split(",")]
        if not set(words) <= ATTRIBUTES:
            raise described.invalid(name.decode(), ",".join(words), "Invalid attribute name specified.")
        return cls(
            described.version_id(request),
            frozenset(words),
            _bounded(request, b"x-amz-max-parts", PAGE_MAX),
            _bounded(request, b"x-amz-part-number-marker", 0),
            encryption.read_key(request),
        )


def _bounded(request: Request, name: bytes, default: int) -> int:
    text = request.text(name)
    if not text:
        return default
    number = headers.number(text)
    if number is None:
        raise described.invalid(name.decode(), text)
    return min(number, PAGE_MAX if default else PARTS_MAX)


@dataclass(frozen=True, slots=True)
class PutObjectTagging:
    """The tags a version is to have, as a row stores them."""

    version_id: str | None
    tags: bytes

    @classmethod
    async def decode(cls, request: Request) -> Self:
        named = described.version_id(request)
        body = await request.read_document(xml.DOCUMENT_BYTES_MAX)
        return cls(named, tags.pack(tags.parse_document(body, tags.OBJECT_TAGS_MAX)))
