"""Server access logging of buckets: where it goes. The lines are `gateway.s3.server_log`'s business."""

from gateway.auth.acl import Ownership, is_public, make_acl
from gateway.auth.public_access import NO_BLOCK
from gateway.s3.deposits import Deposits
from gateway.s3.encryption import SSE_KMS
from gateway.s3.errors import S3Code, S3Error
from gateway.s3.log_delivery import LogObject, may_deliver
from gateway.s3.log_targets import LogSource, LogTarget, log_key, pack_target
from gateway.s3.request import Nothing, Request
from gateway.s3.schemas.answers import Plain, Xml
from gateway.s3.schemas.described import invalid
from gateway.s3.schemas.logging import PutBucketLogging, render_target
from metadata.types import Bucket, DocumentKind
from tiers.errors import BucketNotFound


async def get_bucket_logging(_document: Nothing, request: Request) -> Xml:
    """The target as put, empty while logging is off."""
    return Xml(render_target((await request.configuration()).logging))


async def put_bucket_logging(document: PutBucketLogging, request: Request) -> Plain:
    """Log into a target from now on, or no more. Nobody but the bucket's owner may say so, whatever a policy permits.

    Errors: AccessDenied, also where the target's owner does not let logs in; InvalidTargetBucketForLogging,
    InvalidArgument, AccessControlListNotSupported.
    """
    principal = request.caller.principal
    if principal.principal_id != request.owned_bucket.owner_id and not principal.is_root:
        raise S3Error(S3Code.AccessDenied)
    stored = None
    if document.target is not None:
        await _judge(document.target, request)
        stored = pack_target(document.target)
    await request.namespace.buckets.put_documents(request.bucket_name, {DocumentKind.LOGGING: stored})
    return Plain()


async def _judge(target: LogTarget, request: Request) -> None:
    """Permission comes before anything that a target's configuration would tell a stranger."""
    name = target.bucket_name
    try:
        bucket = await request.namespace.buckets.get(name)
    except BucketNotFound:
        raise S3Error(S3Code.InvalidTargetBucketForLogging, TargetBucket=name) from None
    if name == request.bucket_name:
        raise invalid("TargetBucket", name, "The target bucket must not be the one that is logged.")
    await _require_permission(target, bucket, request)
    configuration = await request.services.configuration(bucket)
    if configuration.logging is not None:
        raise invalid("TargetBucket", name, "The target bucket must not be logged itself.")
    if request.services.content_keys.default_of(configuration.encryption).method == SSE_KMS:
        raise invalid("TargetBucket", name, "The target bucket must not be encrypted with SSE-KMS by default.")
    if target.grants and configuration.ownership is Ownership.ENFORCED:
        raise S3Error(S3Code.AccessControlListNotSupported)
    blocks = (configuration.public_access_block or NO_BLOCK).block_public_acls
    if blocks and is_public(make_acl(bucket.owner_id, [grant.grant for grant in target.grants])):
        raise S3Error(S3Code.AccessDenied)


async def _require_permission(target: LogTarget, bucket: Bucket, request: Request) -> None:
    """Whether a log object like the ones to come could be written now. Errors: AccessDenied."""
    services, owner_id = request.services, request.owned_bucket.owner_id
    source = LogSource(request.bucket_name, owner_id, services.region)
    now = services.clock()
    key = log_key(target, source, now, services.namespace.new_id_text()[:16].upper())
    deposits = Deposits(services.namespace, services.content_keys, services.configurations)
    if not await may_deliver(deposits, bucket, LogObject(source, target, key), now):
        raise S3Error(S3Code.AccessDenied, "The owner of the target bucket does not let logs of this bucket in.")
