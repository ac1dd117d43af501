"""Multipart uploads: create, upload part, complete, abort, and their listings."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from gateway.s3 import headers, xml
from gateway.s3.errors import S3Code, S3Error
from gateway.s3.handlers.encryption import (
    envelope_of,
    key_of,
    key_of_write,
    lines_of_read,
    lines_of_write,
)
from gateway.s3.handlers.lifecycle import expiration_lines
from gateway.s3.owners import display_names, object_owners
from gateway.s3.request import Request
from gateway.s3.schemas.answers import Headers, NoContent, Plain, Xml
from gateway.s3.schemas.described import CHECKSUM_HEADERS
from gateway.s3.schemas.listing import name_text, prefix_pieces
from gateway.s3.schemas.multipart import (
    CHECKSUM_ELEMENTS,
    CompleteMultipartUpload,
    CreateMultipartUpload,
    ListMultipartUploads,
    ListParts,
    NamedUpload,
    UploadPart,
)
from gateway.s3.schemas.versions import checksum_elements
from metadata.types import Part, Upload
from tiers.errors import UploadNotFound
from tiers.namespace.types import DeclaredObject


async def create_multipart_upload(document: CreateMultipartUpload, request: Request) -> Xml:
    """Open an upload; what it is told about the object holds for the object."""
    content_key = await key_of_write(request, document.encryption)
    description = document.description
    if content_key is not None:
        description = replace(description, encryption=content_key.envelope.pack())
    upload = await request.namespace.multipart.create(request.bucket_name, request.key, description)
    body = xml.document(
        "InitiateMultipartUploadResult",
        f"<Bucket>{request.bucket_name}</Bucket>",
        xml.element("Key", request.key),
        f"<UploadId>{upload.upload_id}</UploadId>",
    )
    lines: Headers = []
    if document.description.checksum_algorithm:
        lines.append((b"x-amz-checksum-algorithm", upload.checksum_algorithm.encode()))
        lines.append((b"x-amz-checksum-type", upload.checksum_type.encode()))
    return Xml(body, [*lines, *lines_of_write(content_key, document.encryption)])


async def upload_part(document: UploadPart, request: Request) -> Plain:
    """Store one part; of two with one number the one that finishes last stays."""
    multipart = request.namespace.multipart
    upload = await multipart.get(request.bucket_name, request.key, document.upload_id)
    content_key = None
    if upload.encryption or document.customer is not None:
        content_key = await key_of(request, upload, document.customer)
    part = await multipart.put_part(
        request.bucket_name,
        request.key,
        document.upload_id,
        document.part_number,
        document.body,
        content_key=content_key,
    )
    lines: Headers = [(b"etag", f'"{part.etag}"'.encode())]
    if part.checksum:
        lines.append((CHECKSUM_HEADERS[upload.checksum_algorithm].encode(), part.checksum.encode()))
    envelope = None if content_key is None else content_key.envelope
    return Plain([*lines, *lines_of_read(envelope, document.customer)])


async def complete_multipart_upload(document: CompleteMultipartUpload, request: Request) -> Xml:
    """Make the object. Metadata only, so the answer needs no white space to keep the client waiting."""
    bucket_name, key, upload_id = request.bucket_name, request.key, document.upload_id
    try:
        upload: Upload | None = await request.namespace.multipart.get(bucket_name, key, upload_id)
    except UploadNotFound:
        upload = None  # unknown, or completed already: then the same list gets the same answer again
    if upload is not None:
        envelope_of(upload, document.customer)
        _check_declared(document, upload)
    algorithm = "" if upload is None else upload.checksum_algorithm
    version, is_versioned = await request.namespace.multipart.complete(
        bucket_name,
        key,
        upload_id,
        [part.completed(algorithm) for part in document.parts],
        document.conditions,
        DeclaredObject(document.checksums.get(algorithm), document.checksum_type, document.size),
        request.origin,
    )
    body = xml.document(
        "CompleteMultipartUploadResult",
        xml.element("Location", f"/{bucket_name}/{key}"),
        f"<Bucket>{bucket_name}</Bucket>",
        xml.element("Key", key),
        f"<ETag>&quot;{version.etag}&quot;</ETag>",
        checksum_elements(version),
    )
    lines = lines_of_read(envelope_of(version, document.customer), document.customer)
    lines += await expiration_lines(request, version)
    return Xml(body, [*lines, *([(b"x-amz-version-id", version.version_id.encode())] if is_versioned else [])])


def _check_declared(document: CompleteMultipartUpload, upload: Upload) -> None:
    """A checksum of another algorithm cannot be verified, so it is refused and not ignored."""
    others = sorted(set(document.checksums) - {upload.checksum_algorithm})
    if others:
        message = f"The upload was created with the {upload.checksum_algorithm} checksum algorithm, not {others[0]}."
        raise S3Error(S3Code.InvalidRequest, message)


async def abort_multipart_upload(document: NamedUpload, request: Request) -> NoContent:
    """Remove an upload and its parts."""
    await request.namespace.multipart.abort(request.bucket_name, request.key, document.upload_id)
    return NoContent()


async def list_parts(document: ListParts, request: Request) -> Xml:
    """One page of an upload's parts by number."""
    upload, parts, has_more = await request.namespace.listing.parts(
        request.bucket_name, request.key, document.upload_id, document.after, document.limit
    )
    last = parts[-1].part_number if parts else document.after
    people = await _people([upload], request)
    return Xml(
        xml.document(
            "ListPartsResult",
            f"<Bucket>{request.bucket_name}</Bucket>",
            f"<Key>{name_text(request.key, is_encoded=document.is_encoded)}</Key>",
            f"<UploadId>{upload.upload_id}</UploadId>",
            people[upload.initiator_id, upload.owner_id],
            f"<StorageClass>{upload.storage_class}</StorageClass>",
            f"<PartNumberMarker>{document.after}</PartNumberMarker>",
            f"<NextPartNumberMarker>{last}</NextPartNumberMarker><MaxParts>{document.limit}</MaxParts>",
            xml.boolean("IsTruncated", value=has_more),
            _checksum_words(upload),
            *(_part(part, upload.checksum_algorithm) for part in parts),
        )
    )


async def _people(uploads: Sequence[Upload], request: Request) -> Mapping[tuple[str, str], str]:
    """Initiator and Owner elements by both ids."""
    pairs = {(upload.initiator_id, upload.owner_id) for upload in uploads}
    names = await display_names(request, {initiator_id for initiator_id, _ in pairs})
    owners = await object_owners(request, {owner_id for _, owner_id in pairs})
    return {
        (initiator_id, owner_id): xml.owner(initiator_id, names[initiator_id], "Initiator") + owners[owner_id]
        for initiator_id, owner_id in pairs
    }


def _checksum_words(upload: Upload) -> str:
    kind = xml.optional("ChecksumType", upload.checksum_type)
    return xml.optional("ChecksumAlgorithm", upload.checksum_algorithm) + kind


def _part(part: Part, algorithm: str) -> str:
    checksum = xml.element(CHECKSUM_ELEMENTS[algorithm], part.checksum) if part.checksum else ""
    return (
        f"<Part><PartNumber>{part.part_number}</PartNumber>"
        f"<LastModified>{headers.iso_time(part.modified_ms)}</LastModified>"
        f"<ETag>&quot;{part.etag}&quot;</ETag><Size>{part.size}</Size>{checksum}</Part>"
    )


async def list_multipart_uploads(document: ListMultipartUploads, request: Request) -> Xml:
    """Open uploads by key, then by start."""
    query, is_encoded = document.query, document.is_encoded
    page = await request.namespace.listing.uploads(query)
    people = await _people(page.entries, request)
    delimiter = name_text(query.delimiter, is_encoded=is_encoded)
    following = ""
    if page.is_truncated:
        following = f"<NextKeyMarker>{name_text(page.next_key, is_encoded=is_encoded)}</NextKeyMarker>"
        following += xml.optional("NextUploadIdMarker", page.next_upload)
    return Xml(
        xml.document(
            "ListMultipartUploadsResult",
            f"<Bucket>{query.bucket}</Bucket>",
            f"<KeyMarker>{name_text(query.after, is_encoded=is_encoded)}</KeyMarker>",
            xml.element("UploadIdMarker", query.after_version),
            following,
            f"<Prefix>{name_text(query.prefix, is_encoded=is_encoded)}</Prefix>",
            f"<Delimiter>{delimiter}</Delimiter>" if delimiter else "",
            "<EncodingType>url</EncodingType>" if is_encoded else "",
            f"<MaxUploads>{query.limit}</MaxUploads>",
            xml.boolean("IsTruncated", value=page.is_truncated),
            *(
                _upload(upload, people[upload.initiator_id, upload.owner_id], is_encoded=is_encoded)
                for upload in page.entries
            ),
            *prefix_pieces(page.common_prefixes, is_encoded=is_encoded),
        )
    )


def _upload(upload: Upload, people: str, *, is_encoded: bool) -> str:
    return (
        f"<Upload><Key>{name_text(upload.key.decode(), is_encoded=is_encoded)}</Key>"
        f"<UploadId>{upload.upload_id}</UploadId>{people}"
        f"<StorageClass>{upload.storage_class}</StorageClass>"
        f"<Initiated>{headers.iso_time(upload.created_ms)}</Initiated>{_checksum_words(upload)}</Upload>"
    )
