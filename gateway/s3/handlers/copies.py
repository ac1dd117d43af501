"""CopyObject and UploadPartCopy: read permission on the source, write permission on the target."""

from gateway.s3 import attributes, headers, xml
from gateway.s3.errors import S3Code, S3Error
from gateway.s3.handlers.encryption import key_of, keys_of_copy, lines_of_read, lines_of_write
from gateway.s3.handlers.lifecycle import expiration_lines
from gateway.s3.headers import Verdict
from gateway.s3.request import Request
from gateway.s3.schemas.answers import Headers, Xml
from gateway.s3.schemas.described import Source
from gateway.s3.schemas.multipart import UploadPartCopy
from gateway.s3.schemas.objects import CopyObject
from gateway.s3.schemas.versions import Copied
from metadata.types import Versioning
from tiers.errors import BucketNotFound, DeleteMarkerFound, StorageError
from tiers.namespace.types import CopyKeys, Description, Found

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
        await request.authorise_source(await namespace.buckets.get(source.bucket), None)
        message = "The source of a copy request may not specifically refer to a delete marker by version id."
        raise S3Error(S3Code.InvalidRequest, message) from error
    except StorageError:
        await request.authorise_source(await namespace.buckets.get(source.bucket), None)
        raise
    await request.authorise_source(found.bucket, found.version)
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
        owner_id=document.owned.owner_id,
        acl=document.owned.acl,
        lock=document.lock,
        writer_id=request.caller_id,
        bucket=request.owned_bucket,
        storage_class=document.storage_class,
        attributes=stored,
        tags=source.tags if document.tags is None else document.tags,
        checksum_algorithm=document.checksum_algorithm,
        origin=request.origin,
    )
    keys = await keys_of_copy(request, source, document.source_customer, document.encryption)
    version, is_versioned = await request.namespace.objects.copy(
        found, request.bucket_name, request.key, description, document.conditions, keys=keys
    )
    lines = lines_of_write(keys.target, document.encryption) + await expiration_lines(request, version)
    return Copied(version, is_versioned, source_version(found), lines)


def _refuse_idle(document: CopyObject, found: Found, request: Request) -> None:
    source = document.source
    if (source.bucket, source.key) != (request.bucket_name, request.key) or not found.is_latest:
        return
    changes_class = document.storage_class != found.version.storage_class
    changes_encryption = document.encryption is not None
    if document.attributes is None and not document.redirect and not changes_class and not changes_encryption:
        raise S3Error(S3Code.InvalidRequest, _ONTO_ITSELF)


def source_version(found: Found) -> str:
    """The version id of a copy's source, empty when its bucket tells none."""
    return "" if found.bucket.versioning == Versioning.NEVER else found.version.version_id


async def upload_part_copy(document: UploadPartCopy, request: Request) -> Xml:
    """Store a piece of the source as a part."""
    found = await find_source(document.source, request)
    multipart = request.namespace.multipart
    upload = await multipart.get(request.bucket_name, request.key, document.upload_id)
    upload_key = await key_of(request, upload, document.customer)
    keys = CopyKeys(await key_of(request, found.version, document.source_customer), upload_key)
    size = found.version.size
    start, stop = headers.parse_copy_range(document.range, size) if document.range else (0, size)
    part = await multipart.copy_part(
        request.bucket_name, request.key, document.upload_id, document.part_number, found, start, stop, keys=keys
    )
    body = xml.document(
        "CopyPartResult",
        f"<LastModified>{headers.iso_time(part.modified_ms)}</LastModified>",
        f"<ETag>&quot;{part.etag}&quot;</ETag>",
    )
    named = source_version(found)
    lines: Headers = [(b"x-amz-copy-source-version-id", named.encode())] if named else []
    envelope = None if upload_key is None else upload_key.envelope
    return Xml(body, [*lines, *lines_of_read(envelope, document.customer)])
