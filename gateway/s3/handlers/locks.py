"""Object Lock: the configuration of a bucket, retention and legal hold of a version, and who may bypass them."""

from gateway.s3.errors import S3Code, S3Error
from gateway.s3.handlers.objects import find_version
from gateway.s3.permissions import BYPASS_GOVERNANCE
from gateway.s3.request import Nothing, Request
from gateway.s3.schemas import locks as documents
from gateway.s3.schemas.answers import Headers, Plain, Xml
from gateway.s3.schemas.locks import PutLegalHold, PutLockConfiguration, PutRetention
from gateway.s3.schemas.objects import NamedVersion
from tiers.errors import LockNotEnabled
from tiers.namespace.locks import LegalHold, Lock, Mode, unpack_lock


async def get_object_lock_configuration(_document: Nothing, request: Request) -> Xml:
    """The configuration as put. Errors: ObjectLockConfigurationNotFoundError."""
    default = (await request.configuration()).object_lock
    if default is None:
        raise S3Error(S3Code.ObjectLockConfigurationNotFoundError, BucketName=request.bucket_name)
    return Xml(documents.render_configuration(default))


async def put_object_lock_configuration(document: PutLockConfiguration, request: Request) -> Plain:
    """Give the bucket Object Lock and a default retention."""
    await request.namespace.buckets.set_object_lock(request.bucket_name, document.default)
    return Plain()


async def get_object_retention(document: NamedVersion, request: Request) -> Xml:
    """The retention of a version, running or over. Errors: InvalidRequest, NoSuchObjectLockConfiguration."""
    lock = await _find_lock(document, request)
    if lock.mode is Mode.NONE:
        raise S3Error(S3Code.NoSuchObjectLockConfiguration, Key=request.key)
    return Xml(documents.render_retention(lock))


async def get_object_legal_hold(document: NamedVersion, request: Request) -> Xml:
    """The legal hold of a version. Errors: InvalidRequest, NoSuchObjectLockConfiguration."""
    lock = await _find_lock(document, request)
    if lock.legal_hold is LegalHold.NONE:
        raise S3Error(S3Code.NoSuchObjectLockConfiguration, Key=request.key)
    return Xml(documents.render_legal_hold(lock))


async def _find_lock(document: NamedVersion, request: Request) -> Lock:
    found = await find_version(request, document.version_id)
    if (await request.configuration()).object_lock is None:
        raise LockNotEnabled(request.bucket_name)
    return unpack_lock(found.version.lock)


async def put_object_retention(document: PutRetention, request: Request) -> Plain:
    """Set, prolong or, with the right, shorten or lift a version's retention."""
    change = document.change
    if document.asks_bypass:
        change = change._replace(bypasses_governance=await request.may(BYPASS_GOVERNANCE))
    await request.namespace.objects.set_lock(
        request.bucket_name, request.key, document.version_id, change, origin=request.origin
    )
    return Plain(_named(document.version_id))


async def put_object_legal_hold(document: PutLegalHold, request: Request) -> Plain:
    """Set or lift a version's legal hold."""
    await request.namespace.objects.set_lock(request.bucket_name, request.key, document.version_id, document.change)
    return Plain(_named(document.version_id))


def _named(version_id: str | None) -> Headers:
    return [] if version_id is None else [(b"x-amz-version-id", version_id.encode())]
