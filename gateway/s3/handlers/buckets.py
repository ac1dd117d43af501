"""ListBuckets, CreateBucket, HeadBucket, DeleteBucket, GetBucketLocation."""

from collections.abc import Mapping
from typing import Final

from gateway.s3 import headers, tags, tokens, xml
from gateway.s3.errors import S3Code, S3Error
from gateway.s3.names import is_valid_bucket_name
from gateway.s3.new_buckets import first_documents
from gateway.s3.owners import owner_element
from gateway.s3.request import Nothing, Request
from gateway.s3.schemas.answers import NoContent, Plain, Xml
from gateway.s3.schemas.buckets import CreateBucket, ListBuckets
from metadata.types import Bucket, DocumentKind, Versioning
from tiers.errors import BucketNameTaken
from tiers.namespace.locks import NO_DEFAULT, pack_default

DEFAULT_REGION: Final = "us-east-1"
"""The region that GetBucketLocation answers as an empty constraint, and that lets an owner create a bucket again."""


async def list_buckets(document: ListBuckets, request: Request) -> Xml:
    """One page of the caller's buckets in byte order."""
    await request.authorise(None)
    scope = ("buckets", request.caller_id, document.prefix, document.region)
    after = tokens.open_token(request.services.token_key, document.token, scope) if document.token else ""
    found = await request.namespace.buckets.list(request.caller_id, document.prefix, after, document.limit + 1)
    page = found[: document.limit]
    shown = [bucket for bucket in page if document.region in ("", bucket.region)]
    token = ""
    if len(found) > document.limit:
        token = tokens.make_token(request.services.token_key, page[-1].name, scope)
    body = xml.document(
        "ListAllMyBucketsResult",
        await owner_element(request, request.caller_id),
        "<Buckets>",
        *(_bucket(bucket) for bucket in shown),
        "</Buckets>",
        xml.optional("ContinuationToken", token),
        xml.optional("Prefix", document.prefix),
    )
    return Xml(body)


def _bucket(bucket: Bucket) -> str:
    created = headers.iso_time(bucket.created_ms)
    return (
        f"<Bucket><Name>{bucket.name}</Name><CreationDate>{created}</CreationDate>"
        f"<BucketRegion>{bucket.region}</BucketRegion></Bucket>"
    )


async def create_bucket(document: CreateBucket, request: Request) -> Plain:
    """Create a bucket in this gateway's region. Of several racing creators exactly one makes it."""
    await request.authorise(None)
    if not is_valid_bucket_name(request.bucket_name):
        raise S3Error(S3Code.InvalidBucketName, BucketName=request.bucket_name)
    _check_region(document.region, request.services.region)
    created = Plain([(b"location", f"/{request.bucket_name}".encode())])
    region = request.services.region
    defaults = request.services.new_bucket_defaults
    documents = first_documents(request.caller_id, defaults, document.asked, document.ownership)
    if document.tags:
        documents[DocumentKind.TAGGING] = tags.pack(document.tags)
    if document.has_lock:
        documents[DocumentKind.OBJECT_LOCK] = pack_default(NO_DEFAULT)
    versioning = Versioning.ENABLED if document.has_lock else Versioning.NEVER
    try:
        await request.namespace.buckets.create(
            request.bucket_name, request.caller_id, region, documents=documents, versioning=versioning
        )
    except BucketNameTaken as error:
        if error.owner_id != request.caller_id:
            raise
        await _judge_repeated(document, documents, request)
    return created


async def _judge_repeated(document: CreateBucket, documents: Mapping[str, bytes], request: Request) -> None:
    """Let an owner create a bucket again where that is accepted and the request asks for what the bucket is.

    Errors: BucketAlreadyExists for another list or ownership, else BucketAlreadyOwnedByYou.
    """
    services = request.services
    by_region = services.recreation == "region" and services.region == DEFAULT_REGION
    owned = S3Error(S3Code.BucketAlreadyOwnedByYou, BucketName=request.bucket_name)
    if services.recreation != "accepted" and not by_region:
        raise owned
    buckets = request.namespace.buckets
    stored = await buckets.documents(await buckets.get(request.bucket_name))
    named = {DocumentKind.ACL} if document.ownership is None else {DocumentKind.ACL, DocumentKind.OWNERSHIP}
    if any(stored.get(kind) != documents.get(kind) for kind in named):
        raise S3Error(S3Code.BucketAlreadyExists, BucketName=request.bucket_name)
    if document.tags and stored.get(DocumentKind.TAGGING) != documents[DocumentKind.TAGGING]:
        raise owned
    if document.has_lock and DocumentKind.OBJECT_LOCK not in stored:
        raise owned


def _check_region(wanted: str, own: str) -> None:
    """Only buckets of this region can be made; no constraint means the region of the endpoint."""
    if wanted not in ("", own) and not (wanted == "EU" and own == "eu-west-1"):
        where = "for the region specific endpoint this request was sent to."
        message = f"The {wanted} location constraint is incompatible {where}"
        raise S3Error(S3Code.IllegalLocationConstraintException, message)


async def head_bucket(_document: Nothing, request: Request) -> Plain:
    """Whether the caller may use the bucket."""
    return Plain([(b"x-amz-bucket-region", request.owned_bucket.region.encode())])


async def delete_bucket(_document: Nothing, request: Request) -> NoContent:
    """Delete an empty bucket."""
    await request.namespace.buckets.delete(request.bucket_name)
    return NoContent()


async def get_bucket_location(_document: Nothing, request: Request) -> Xml:
    """The region, empty for us-east-1."""
    region = request.owned_bucket.region
    return Xml(xml.document("LocationConstraint", "" if region == DEFAULT_REGION else region))
