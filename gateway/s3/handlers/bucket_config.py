"""Sub-resources of buckets: versioning, tags, and the answers of what nobody can set yet.

A configuration whose PUT is refused can only be unset, and is answered so in AWS's words. Terraform and the SDKs read
all of them.
"""

from typing import Final

from gateway.s3 import tags, xml
from gateway.s3.errors import S3Code, S3Error
from gateway.s3.request import Handler, Nothing, Request
from gateway.s3.schemas.answers import NoContent, Plain, Xml
from gateway.s3.schemas.buckets import PutBucketTagging, PutBucketVersioning
from metadata.types import DocumentKind, Versioning

_STATES: Final = {Versioning.ENABLED: "Enabled", Versioning.SUSPENDED: "Suspended"}
_BY_ID: Final = "<IsTruncated>false</IsTruncated>"


async def get_bucket_versioning(_document: Nothing, request: Request) -> Xml:
    """Empty while versioning was never enabled."""
    state = _STATES.get(Versioning(request.owned_bucket.versioning), "")
    return Xml(xml.document("VersioningConfiguration", xml.optional("Status", state)))


async def put_bucket_versioning(document: PutBucketVersioning, request: Request) -> Plain:
    """Enable or suspend versioning."""
    await request.namespace.buckets.set_versioning(request.bucket_name, document.state)
    return Plain()


async def get_bucket_tagging(_document: Nothing, request: Request) -> Xml:
    """The tags as put. Errors: NoSuchTagSet."""
    stored = await request.namespace.buckets.get_document(request.bucket_name, DocumentKind.TAGGING)
    if stored is None:
        raise S3Error(S3Code.NoSuchTagSet, BucketName=request.bucket_name)
    return Xml(tags.render(tags.unpack(stored)))


async def put_bucket_tagging(document: PutBucketTagging, request: Request) -> NoContent:
    """Replace the bucket's tags."""
    packed = tags.pack(document.tags)
    await request.namespace.buckets.put_document(request.bucket_name, DocumentKind.TAGGING, packed)
    return NoContent()


async def delete_bucket_tagging(_document: Nothing, request: Request) -> NoContent:
    """Remove the bucket's tags, if any."""
    await request.namespace.buckets.delete_document(request.bucket_name, DocumentKind.TAGGING)
    return NoContent()


def _unset(code: S3Code) -> Handler:
    async def refuse(_document: Nothing, request: Request) -> Plain:
        raise S3Error(code, BucketName=request.bucket_name)

    return refuse


def _fixed(name: str, *pieces: str) -> Handler:
    body = xml.document(name, *pieces)

    async def answer(_document: Nothing, _request: Request) -> Xml:
        return Xml(body)

    return answer


async def delete_unset(_document: Nothing, _request: Request) -> NoContent:
    """Deleting what is not set succeeds, as on AWS."""
    return NoContent()


get_bucket_replication = _unset(S3Code.ReplicationConfigurationNotFoundError)
get_bucket_website = _unset(S3Code.NoSuchWebsiteConfiguration)
no_configuration = _unset(S3Code.NoSuchConfiguration)

list_analytics = _fixed("ListBucketAnalyticsConfigurationResult", _BY_ID)
list_metrics = _fixed("ListMetricsConfigurationsResult", _BY_ID)
