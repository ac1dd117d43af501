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


get_bucket_policy = _unset(S3Code.NoSuchBucketPolicy)
get_bucket_cors = _unset(S3Code.NoSuchCORSConfiguration)
get_bucket_encryption = _unset(S3Code.ServerSideEncryptionConfigurationNotFoundError)
get_bucket_lifecycle = _unset(S3Code.NoSuchLifecycleConfiguration)
get_object_lock_configuration = _unset(S3Code.ObjectLockConfigurationNotFoundError)
get_bucket_replication = _unset(S3Code.ReplicationConfigurationNotFoundError)
get_bucket_website = _unset(S3Code.NoSuchWebsiteConfiguration)
no_configuration = _unset(S3Code.NoSuchConfiguration)

get_bucket_policy_status = _fixed("PolicyStatus", "<IsPublic>false</IsPublic>")
get_bucket_notification = _fixed("NotificationConfiguration")
get_bucket_logging = _fixed("BucketLoggingStatus")
get_bucket_request_payment = _fixed("RequestPaymentConfiguration", "<Payer>BucketOwner</Payer>")
get_bucket_accelerate = _fixed("AccelerateConfiguration")
list_inventory = _fixed("ListInventoryConfigurationsResult", _BY_ID)
list_intelligent_tiering = _fixed("ListBucketIntelligentTieringConfigurationsOutput", _BY_ID)
list_analytics = _fixed("ListBucketAnalyticsConfigurationResult", _BY_ID)
list_metrics = _fixed("ListMetricsConfigurationsResult", _BY_ID)

_BLOCKED: Final = "".join(
    f"<{name}>true</{name}>"
    for name in ("BlockPublicAcls", "IgnorePublicAcls", "BlockPublicPolicy", "RestrictPublicBuckets")
)


async def get_public_access_block(_document: Nothing, request: Request) -> Xml:
    """All four blocks under the defaults of AWS, unset under the open ones; neither can be changed yet."""
    if request.services.new_bucket_defaults == "open":
        raise S3Error(S3Code.NoSuchPublicAccessBlockConfiguration, BucketName=request.bucket_name)
    return Xml(xml.document("PublicAccessBlockConfiguration", _BLOCKED))


async def get_bucket_ownership_controls(_document: Nothing, request: Request) -> Xml:
    """BucketOwnerEnforced under the defaults of AWS, unset under the open ones; neither can be changed yet."""
    if request.services.new_bucket_defaults == "open":
        raise S3Error(S3Code.OwnershipControlsNotFoundError, BucketName=request.bucket_name)
    rule = "<Rule><ObjectOwnership>BucketOwnerEnforced</ObjectOwnership></Rule>"
    return Xml(xml.document("OwnershipControls", rule))


async def get_bucket_acl(_document: Nothing, request: Request) -> Xml:
    """Full control of the owner: no other ACL can be set yet."""
    return owner_acl(request.owned_bucket.owner_id)


def owner_acl(owner_id: str) -> Xml:
    """The access control list of everything that has none of its own."""
    grant = f"<Grant>{xml.grantee(owner_id)}<Permission>FULL_CONTROL</Permission></Grant>"
    pieces = (xml.owner(owner_id), "<AccessControlList>", grant, "</AccessControlList>")
    return Xml(xml.document("AccessControlPolicy", *pieces))
