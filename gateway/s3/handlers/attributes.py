"""GetObjectAttributes."""

from gateway.s3 import headers, xml
from gateway.s3.handlers.encryption import envelope_of
from gateway.s3.handlers.objects import find_version
from gateway.s3.request import Request
from gateway.s3.schemas.answers import Xml
from gateway.s3.schemas.objects import GetObjectAttributes
from gateway.s3.schemas.versions import PartRecord, checksum_of, parts_of, version_header
from metadata.types import Version


async def get_object_attributes(document: GetObjectAttributes, request: Request) -> Xml:
    """The attributes asked for, in the order of the AWS model."""
    found = await find_version(request, document.version_id)
    version, wanted = found.version, document.wanted
    envelope_of(version, document.customer)
    pieces = [
        xml.element("ETag", version.etag) if "ETag" in wanted else "",
        _checksum(version) if "Checksum" in wanted else "",
        _parts(document, version) if "ObjectParts" in wanted else "",
        xml.element("StorageClass", version.storage_class) if "StorageClass" in wanted else "",
        f"<ObjectSize>{version.size}</ObjectSize>" if "ObjectSize" in wanted else "",
    ]
    modified = (b"last-modified", headers.http_date(version.modified_ms // 1000).encode())
    body = xml.document("GetObjectAttributesResponse", *pieces)
    return Xml(body, [modified, *version_header(found.bucket, version)])


def _checksum(version: Version) -> str:
    """The checksum without the `-N` that headers carry."""
    checksum = checksum_of(version)
    if checksum is None:
        return ""
    value = checksum.value.partition("-")[0]
    kind = xml.element("ChecksumType", checksum.kind)
    return f"<Checksum>{xml.element(f'Checksum{checksum.algorithm}', value)}{kind}</Checksum>"


def _parts(document: GetObjectAttributes, version: Version) -> str:
    parts = parts_of(version)
    if not parts:
        return ""
    following = [part for part in parts if part.number > document.part_marker]
    page = following[: document.parts_max]
    last = page[-1].number if page else document.part_marker
    checksum = checksum_of(version)
    algorithm = "" if checksum is None else checksum.algorithm
    # AWS calls the total PartsCount in the document and TotalPartsCount in the model; the wire name counts.
    pieces = [
        f"<PartsCount>{len(parts)}</PartsCount><PartNumberMarker>{document.part_marker}</PartNumberMarker>",
        f"<NextPartNumberMarker>{last}</NextPartNumberMarker><MaxParts>{document.parts_max}</MaxParts>",
        xml.boolean("IsTruncated", value=len(following) > len(page)),
        *(_part(part, algorithm) for part in page),
    ]
    return f"<ObjectParts>{''.join(pieces)}</ObjectParts>"


def _part(part: PartRecord, algorithm: str) -> str:
    checksum = xml.element(f"Checksum{algorithm}", part.checksum) if algorithm and part.checksum else ""
    return f"<Part><PartNumber>{part.number}</PartNumber><Size>{part.size}</Size>{checksum}</Part>"
