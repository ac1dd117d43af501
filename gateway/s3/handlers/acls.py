"""Access control lists of buckets and objects, and the ownership controls that say whether they count."""

from gateway.auth.acl import Acl, Ownership, bucket_acl, change_acl, is_canonical, is_shared, object_acl
from gateway.auth.public_access import NO_BLOCK
from gateway.s3 import xml
from gateway.s3.errors import S3Code, S3Error
from gateway.s3.handlers.objects import find_version
from gateway.s3.owners import display_names
from gateway.s3.request import Nothing, Request
from gateway.s3.schemas.acls import PutAcl, PutBucketOwnershipControls
from gateway.s3.schemas.answers import NoContent, Plain, Xml
from gateway.s3.schemas.objects import NamedVersion
from gateway.s3.schemas.versions import version_header
from metadata.types import DocumentKind


async def get_bucket_acl(_document: Nothing, request: Request) -> Xml:
    """The list as it counts now."""
    return Xml(await _render(await _bucket_acl(request), request))


async def _bucket_acl(request: Request) -> Acl:
    configuration = await request.configuration()
    return bucket_acl(configuration.acl, request.owned_bucket.owner_id, configuration.ownership)


async def _change(document: PutAcl, owner_id: str, request: Request) -> bytes | None:
    """The stored form of the list to have, None when it has to stay as it is: see `change_acl`.

    A list gives nothing to another owner: where it names one, it has to be the present one.
    """
    if document.owner_id not in {"", owner_id}:
        raise S3Error(S3Code.AccessDenied)
    configuration = await request.configuration()
    blocks = (configuration.public_access_block or NO_BLOCK).block_public_acls
    bucket_owner_id = request.owned_bucket.owner_id
    return change_acl(document.asked, owner_id, bucket_owner_id, configuration.ownership, blocks=blocks)


async def put_bucket_acl(document: PutAcl, request: Request) -> Plain:
    """Replace the bucket's list."""
    packed = await _change(document, request.owned_bucket.owner_id, request)
    if packed is not None:
        await request.namespace.buckets.put_documents(request.bucket_name, {DocumentKind.ACL: packed or None})
    return Plain()


async def get_object_acl(document: NamedVersion, request: Request) -> Xml:
    """The list of a version as it counts now."""
    found = await find_version(request, document.version_id)
    version, ownership = found.version, (await request.configuration()).ownership
    acl = object_acl(version.acl, version.owner_id, found.bucket.owner_id, ownership)
    return Xml(await _render(acl, request), version_header(found.bucket, version))


async def put_object_acl(document: NamedVersion, request: Request) -> Plain:
    """Replace the list of a version; nothing else of it changes, its time least of all.

    The list is read once the caller may replace it, which depends on the version.
    """
    found = await find_version(request, document.version_id)
    packed = await _change(await PutAcl.decode(request), found.version.owner_id, request)
    if packed is not None:
        await request.namespace.objects.set_acl(found, packed, origin=request.origin)
    return Plain(version_header(found.bucket, found.version))


async def _render(acl: Acl, request: Request) -> bytes:
    users = {grant.grantee for grant in acl.grants if is_canonical(grant.grantee)}
    names = await display_names(request, users | {acl.owner_id})
    pieces = [xml.owner(acl.owner_id, names[acl.owner_id]), "<AccessControlList>"]
    for grant in acl.grants:
        user = grant.grantee in users
        grantee = xml.grantee(grant.grantee, names[grant.grantee]) if user else xml.group_grantee(grant.grantee)
        pieces.append(f"<Grant>{grantee}<Permission>{grant.permission.value}</Permission></Grant>")
    return xml.document("AccessControlPolicy", *pieces, "</AccessControlList>")


async def get_bucket_ownership_controls(_document: Nothing, request: Request) -> Xml:
    """The rule as put. Errors: OwnershipControlsNotFoundError."""
    stored = await request.namespace.buckets.get_document(request.bucket_name, DocumentKind.OWNERSHIP)
    if stored is None:
        raise S3Error(S3Code.OwnershipControlsNotFoundError, BucketName=request.bucket_name)
    return Xml(xml.document("OwnershipControls", f"<Rule>{xml.element('ObjectOwnership', stored.decode())}</Rule>"))


async def put_bucket_ownership_controls(document: PutBucketOwnershipControls, request: Request) -> Plain:
    """Say who owns what is written. Lists can be switched off only where none gives anything to others."""
    if document.ownership is Ownership.ENFORCED and is_shared(await _bucket_acl(request)):
        raise S3Error(S3Code.InvalidBucketAclWithObjectOwnership)
    stored = document.ownership.encode()
    await request.namespace.buckets.put_document(request.bucket_name, DocumentKind.OWNERSHIP, stored)
    return Plain()


async def delete_bucket_ownership_controls(_document: Nothing, request: Request) -> NoContent:
    """Remove the rule, if any: writers own what they write, and lists count."""
    await request.namespace.buckets.delete_document(request.bucket_name, DocumentKind.OWNERSHIP)
    return NoContent()
