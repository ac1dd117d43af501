"""Documents of multipart operations."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

from gateway.s3 import headers, xml
from gateway.s3.checksums import parse_checksum_type
from gateway.s3.encryption import CustomerKey, Wish
from gateway.s3.errors import S3Code, S3Error
from gateway.s3.request import Request
from gateway.s3.schemas import described, encryption
from gateway.s3.schemas.listing import encoding_of
from gateway.s3.schemas.objects import PARTS_MAX
from tiers.datapath.body import Body
from tiers.namespace.types import CompletedPart, Description, ListQuery, WriteConditions

PAGE_MAX: Final = 1000
CHECKSUM_ELEMENTS: Final[Mapping[str, str]] = {name: f"Checksum{name}" for name in described.CHECKSUM_HEADERS}

_PART: Final = xml.Element(
    {"PartNumber": xml.REQUIRED_LEAF, "ETag": xml.REQUIRED_LEAF, **dict.fromkeys(CHECKSUM_ELEMENTS.values(), xml.LEAF)},
    many=PARTS_MAX,
    is_required=True,
)
_COMPLETE_ROOTS: Final = {
    "CompleteMultipartUpload": xml.Element({"Part": _PART}),
    "CompletedMultipartUpload": xml.Element({"Part": _PART}),  # the name of the shape; some clients send it
}


async def upload_id_of(request: Request) -> str:
    """The upload a request names, which is for whoever opened it and for the bucket's owner.

    Errors: NoSuchUpload for what is no id, AccessDenied for somebody else's upload.
    """
    text = request.query["uploadId"]
    if not described.is_id(text):
        raise S3Error(S3Code.NoSuchUpload)
    bucket = request.owned_bucket
    if request.caller_id == bucket.owner_id or request.caller.principal.is_root:
        return text
    if await request.namespace.multipart.initiator_of(bucket, request.key, text) != request.caller_id:
        raise S3Error(S3Code.AccessDenied)
    return text


def part_number_of(request: Request) -> int:
    """The part a request names. Errors: InvalidArgument outside 1 to 10000."""
    text = request.query["partNumber"]
    number = headers.number(text)
    if number is None or not 1 <= number <= PARTS_MAX:
        message = f"Part number must be an integer between 1 and {PARTS_MAX}, inclusive"
        raise described.invalid("partNumber", text, message)
    return number


@dataclass(frozen=True, slots=True)
class CreateMultipartUpload:
    """What the object is to be, besides its bytes."""

    description: Description
    encryption: Wish | None = None

    @classmethod
    async def decode(cls, request: Request) -> Self:
        described.refuse_version_id(request)
        algorithm = described.checksum_algorithm(request)
        word = request.fields.get(b"x-amz-checksum-type")
        kind = "" if word is None else parse_checksum_type(word, algorithm)
        description = await described.description(request, checksum_algorithm=algorithm, checksum_type=kind)
        return cls(description, encryption.wish(request))


@dataclass(frozen=True, slots=True)
class UploadPart:
    """One part's bytes."""

    upload_id: str
    part_number: int
    body: Body
    customer: CustomerKey | None = None

    @classmethod
    async def decode(cls, request: Request) -> Self:
        upload_id, customer = await upload_id_of(request), encryption.customer_key(request)
        return cls(upload_id, part_number_of(request), request.open_body(), customer)


@dataclass(frozen=True, slots=True)
class UploadPartCopy:
    """A part whose bytes come from a stored version; `range` empty means all of it."""

    upload_id: str
    part_number: int
    source: described.Source
    range: str
    customer: CustomerKey | None = None
    source_customer: CustomerKey | None = None

    @classmethod
    async def decode(cls, request: Request) -> Self:
        return cls(
            await upload_id_of(request),
            part_number_of(request),
            described.copy_source(request),
            request.text(b"x-amz-copy-source-range"),
            encryption.customer_key(request),
            encryption.source_key(request),
        )


@dataclass(frozen=True, slots=True)
class NamedPart:
    """One line of a Complete: ETag without quotes, checksums by algorithm."""

    number: int
    etag: str
    checksums: Mapping[str, str]

    def completed(self, algorithm: str) -> CompletedPart:
        """The part with its checksum of the upload's algorithm."""
        return CompletedPart(self.number, self.etag, self.checksums.get(algorithm, ""))


@dataclass(frozen=True, slots=True)
class CompleteMultipartUpload:
    """The parts that make the object.

    `checksums` are those declared for the whole object by algorithm, `size` None means undeclared.
    """

    upload_id: str
    parts: tuple[NamedPart, ...]
    conditions: WriteConditions
    checksums: Mapping[str, str]
    checksum_type: str
    size: int | None
    customer: CustomerKey | None = None

    @classmethod
    async def decode(cls, request: Request) -> Self:
        upload_id = await upload_id_of(request)
        conditions = described.conditions_of_write(request)
        body = await request.read_document(xml.COMPLETE_BYTES_MAX)
        parts = await xml.take(body, _named_parts)
        fields = request.fields
        declared = {
            algorithm: fields[name.encode()].decode("latin-1")
            for algorithm, name in described.CHECKSUM_HEADERS.items()
            if name.encode() in fields
        }
        return cls(
            upload_id,
            parts,
            conditions,
            declared,
            request.text(b"x-amz-checksum-type").upper(),
            _declared_size(request),
            encryption.customer_key(request),
        )


def _named_parts(body: bytes) -> tuple[NamedPart, ...]:
    """The parts of a document in its order. Errors: MalformedXML."""
    root = xml.read(body, _COMPLETE_ROOTS, xml.COMPLETE_BYTES_MAX)
    return tuple([_named_part(node) for node in root.all("Part")])


def _named_part(node: xml.Node) -> NamedPart:
    number = headers.number(node.get("PartNumber").strip())
    tags = headers.entity_tags(node.get("ETag").strip())
    if number is None or len(tags) != 1:
        raise xml.malformed()
    checksums = {name: node.get(element) for name, element in CHECKSUM_ELEMENTS.items() if node.get(element)}
    return NamedPart(number, tags[0], checksums)


def _declared_size(request: Request) -> int | None:
    text = request.text(b"x-amz-mp-object-size")
    size = headers.number(text)
    if size is None and b"x-amz-mp-object-size" in request.fields:
        raise described.invalid("x-amz-mp-object-size", text)
    return size


@dataclass(frozen=True, slots=True)
class NamedUpload:
    """One upload of the key."""

    upload_id: str

    @classmethod
    async def decode(cls, request: Request) -> Self:
        return cls(await upload_id_of(request))


@dataclass(frozen=True, slots=True)
class ListParts:
    """One page of an upload's parts."""

    upload_id: str
    after: int
    limit: int
    is_encoded: bool

    @classmethod
    async def decode(cls, request: Request) -> Self:
        return cls(
            await upload_id_of(request),
            request.number("part-number-marker", 0, least=0, most=PARTS_MAX),
            request.number("max-parts", PAGE_MAX, least=0, most=PAGE_MAX),
            encoding_of(request),
        )


@dataclass(frozen=True, slots=True)
class ListMultipartUploads:
    """One page of a bucket's open uploads. An upload-id marker without a key marker is ignored, as AWS says."""

    query: ListQuery
    is_encoded: bool

    @classmethod
    async def decode(cls, request: Request) -> Self:
        query = request.query
        key_marker = query.get("key-marker", "")
        upload_marker = query.get("upload-id-marker", "") if key_marker else ""
        if not described.is_id(upload_marker):
            raise described.invalid("upload-id-marker", upload_marker)
        listed = ListQuery(
            request.bucket_name,
            query.get("prefix", ""),
            query.get("delimiter", ""),
            key_marker,
            upload_marker,
            request.number("max-uploads", PAGE_MAX, least=0, most=PAGE_MAX),
        )
        return cls(listed, encoding_of(request))
