"""Bucket policies, whether they make a bucket public, and the block that keeps buckets from being public."""

from gateway.auth.acl import is_public
from gateway.auth.decision import counted_acl
from gateway.auth.policy.stored import StoredPolicy, pack_policy
from gateway.auth.public_access import NO_BLOCK, pack_block
from gateway.s3 import xml
from gateway.s3.errors import S3Code, S3Error
from gateway.s3.request import Nothing, Request
from gateway.s3.schemas.answers import NoContent, Plain, Xml
from gateway.s3.schemas.policies import PolicyText, PutBucketPolicy, PutPublicAccessBlock, render_block
from metadata.types import DocumentKind


async def get_bucket_policy(_document: Nothing, request: Request) -> PolicyText:
    """The policy, byte for byte as it was put. Errors: NoSuchBucketPolicy."""
    _refuse_other_accounts(request)
    stored: StoredPolicy | None = (await request.configuration()).policy
    if stored is None:
        raise S3Error(S3Code.NoSuchBucketPolicy, BucketName=request.bucket_name)
    return PolicyText(stored.text)


async def put_bucket_policy(document: PutBucketPolicy, request: Request) -> NoContent:
    """Replace the policy. Errors: AccessDenied for a public one where these are blocked."""
    _refuse_other_accounts(request)
    block = (await request.configuration()).public_access_block or NO_BLOCK
    if block.block_public_policy and document.policy.is_public:
        raise S3Error(S3Code.AccessDenied)
    # Only the owner can give up what is the owner's.
    binds_owner = document.confirms and request.caller_id == request.owned_bucket.owner_id
    packed = pack_policy(document.text, binds_owner=binds_owner)
    await request.namespace.buckets.put_document(request.bucket_name, DocumentKind.POLICY, packed)
    return NoContent()


async def delete_bucket_policy(_document: Nothing, request: Request) -> NoContent:
    """Remove the policy, if any."""
    _refuse_other_accounts(request)
    await request.namespace.buckets.delete_document(request.bucket_name, DocumentKind.POLICY)
    return NoContent()


def _refuse_other_accounts(request: Request) -> None:
    """A policy is its bucket owner's business, also where it grants these actions to others: as on AWS."""
    if request.caller_id != request.owned_bucket.owner_id and not request.caller.principal.is_root:
        raise S3Error(S3Code.MethodNotAllowed, Method=request.operation.method, ResourceType="BUCKETPOLICY")


async def get_bucket_policy_status(_document: Nothing, request: Request) -> Xml:
    """Whether the bucket is public, by its policy or by its list as it counts; false where it has neither."""
    bucket = request.owned_bucket
    rules = (await request.configuration()).access(bucket.owner_id)
    is_open = (rules.policy is not None and rules.policy.is_public) or is_public(counted_acl(rules, bucket.owner_id))
    return Xml(xml.document("PolicyStatus", xml.boolean("IsPublic", value=is_open)))


async def get_public_access_block(_document: Nothing, request: Request) -> Xml:
    """The block. Errors: NoSuchPublicAccessBlockConfiguration."""
    block = (await request.configuration()).public_access_block
    if block is None:
        raise S3Error(S3Code.NoSuchPublicAccessBlockConfiguration, BucketName=request.bucket_name)
    return Xml(render_block(block))


async def put_public_access_block(document: PutPublicAccessBlock, request: Request) -> Plain:
    """Replace the block; it counts from the next request on, for what was public before too."""
    packed = pack_block(document.block)
    await request.namespace.buckets.put_document(request.bucket_name, DocumentKind.PUBLIC_ACCESS_BLOCK, packed)
    return Plain()


async def delete_public_access_block(_document: Nothing, request: Request) -> NoContent:
    """Remove the block, if any: nothing is blocked then."""
    await request.namespace.buckets.delete_document(request.bucket_name, DocumentKind.PUBLIC_ACCESS_BLOCK)
    return NoContent()
