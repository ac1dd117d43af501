"""CopyObject and UploadPartCopy: read permission on the source, write permission on the target."""

from gateway.s3 import attributes, headers, xml
from gateway.s3.errors import S3Code, S3Error
from gateway.s3.headers import Verdict
from gateway.s3.request import Request
from gateway.s3.schemas.answers import Headers, Xml
from gateway.s3.schemas.described import Source
from gateway.s3.schemas.multipart import UploadPartCopy
from gateway.s3.schemas.objects import CopyObject
from gateway.s3.schemas.versions import Copied
from metadata.types import Versioning
from tiers.errors import BucketNotFound, DeleteMarkerFound, StorageError
from tiers.namespace.types import Description, Found

_ONTO_ITSELF = (
    "This copy request is illegal because it is trying to copy an object to itself without changing the object's "
    "metadata, storage class, website redirect location or encryption attributes."
)


async def find_source(source: Source, request: Request) -> Found:
    """The version to copy, once the caller may read it and the conditions hold.

    Errors: AccessDenied before anything tells whether the key exists; PreconditionFailed, never NotModified.
    """
    namespace = request.namespace
    try:
        found = await namespace.objects.find(source.bucket, source.key, source.version_id)
    except BucketNotFound:
        raise
    except DeleteMarkerFound as error:
        request.authorise_source(await namespace.buckets.get(source.bucket))
        message = "The source of a copy request may not specifically refer to a delete marker by version id."
        raise S3Error(S3Code.InvalidRequest, message) from error
    except StorageError:
        request.authorise_source(await namespace.buckets.get(source.bucket))
        raise
    request.authorise_source(found.bucket)
    verdict = headers.judge(source.conditions, found.version.etag, found.version.modified_ms)
    if verdict is Verdict.NOT_MODIFIED:
        failed = "x-amz-copy-source-If-None-Match"
        if source.conditions.if_none_match is None:
            failed = "x-amz-copy-source-If-Modified-Since"
        raise S3Error(S3Code.PreconditionFailed, Condition=failed)
    if verdict is Verdict.FAILED:
        failed = f"x-amz-copy-source-{headers.failed_condition(source.conditions)}"
        raise S3Error(S3Code.PreconditionFailed, Condition=failed)
    return found


async def copy_object(document: CopyObject, request: Request) -> Copied:
    """Make a version with the source's content; a copy onto itself must change something."""
    found = await find_source(document.source, request)
    _refuse_idle(document, found, request)
    source = found.version
    if document.attributes is None:
        stored = attributes.without(source.attributes, [attributes.REDIRECT]) + document.redirect
    else:
        stored = document.attributes
    description = Description(
        owner_id=request.owned_bucket.owner_id,
        storage_class=document.storage_class,
        attributes=stored,
        tags=source.tags if document.tags is None else document.tags,
        checksum_algorithm=document.checksum_algorithm,
    )
    version, is_versioned = await request.namespace.objects.copy(
        found, request.bucket_name, request.key, description, document.conditions
    )
    return Copied(version, is_versioned, source_version(found))


def _refuse_idle(document: CopyObject, found: Found, request: Request) -> None:
    source = document.source
    if (source.bucket, source.key) != (request.bucket_name, request.key) or not found.is_latest:
        return
    changes_class = document.storage_class != found.version.storage_class
    if document.attributes is None and not document.redirect and not changes_class:
        raise S3Error(S3Code.InvalidRequest, _ONTO_ITSELF)


def source_version(found: Found) -> str:
    """The version id of a copy's source, empty when its bucket tells none."""
    return "" if found.bucket.versioning == Versioning.NEVER else found.version.version_id


async def upload_part_copy(document: UploadPartCopy, request: Request) -> Xml:
    """Store a piece of the source as a part."""
    found = await find_source(document.source, request)
    size = found.version.size
    start, stop = headers.parse_copy_range(document.range, size) if document.range else (0, size)
    part = await request.namespace.multipart.copy_part(
        request.bucket_name, request.key, document.upload_id, document.part_number, found, start, stop
    )
    body = xml.document(
        "CopyPartResult",
        f"<LastModified>{headers.iso_time(part.modified_ms)}</LastModified>",
        f"<ETag>&quot;{part.etag}&quot;</ETag>",
    )
    named = source_version(found)
    lines: Headers = [(b"x-amz-copy-source-version-id", named.encode())] if named else []
    return Xml(body, lines)
