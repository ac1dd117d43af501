"""ListObjects, ListObjectsV2, ListObjectVersions."""

from collections.abc import Mapping

from gateway.s3 import tokens, xml
from gateway.s3.owners import object_owners
from gateway.s3.request import Request
from gateway.s3.schemas.listing import (
    Listing,
    ListObjects,
    ListObjectsV2,
    ListObjectVersions,
    name_text,
    object_pieces,
    page_head,
    prefix_pieces,
    token_scope,
    version_pieces,
)
from tiers.namespace.types import ListPage


async def owners_of(page: ListPage, request: Request) -> Mapping[str, str]:
    """Owner elements of a page by owner id."""
    return await object_owners(request, {version.owner_id for version in page.entries})


async def list_objects(document: ListObjects, request: Request) -> Listing:
    """Current versions in byte order of their keys; NextMarker only with a delimiter, as on AWS."""
    page = await request.namespace.listing.objects(document.query)
    is_encoded = document.is_encoded
    pieces = page_head(document, page)
    pieces.append(f"<Marker>{name_text(document.query.after, is_encoded=is_encoded)}</Marker>")
    if page.is_truncated and document.query.delimiter:
        pieces.append(f"<NextMarker>{name_text(page.next_key, is_encoded=is_encoded)}</NextMarker>")
    owners = await owners_of(page, request)
    pieces += object_pieces(page, is_encoded=is_encoded, owners=owners)
    pieces += prefix_pieces(page.common_prefixes, is_encoded=is_encoded)
    return Listing("ListBucketResult", pieces)


async def list_objects_v2(document: ListObjectsV2, request: Request) -> Listing:
    """Current versions in byte order of their keys, continued by an opaque signed token."""
    page = await request.namespace.listing.objects(document.query)
    is_encoded = document.is_encoded
    pieces = page_head(document, page)
    pieces.append(f"<KeyCount>{len(page.entries) + len(page.common_prefixes)}</KeyCount>")
    if document.token is not None:
        pieces.append(xml.element("ContinuationToken", document.token))
    if document.start_after:
        pieces.append(f"<StartAfter>{name_text(document.start_after, is_encoded=is_encoded)}</StartAfter>")
    if page.is_truncated:
        token = tokens.make_token(request.services.token_key, page.next_key, token_scope(document.query))
        pieces.append(f"<NextContinuationToken>{token}</NextContinuationToken>")
    owners = await owners_of(page, request) if document.with_owner else {}
    pieces += object_pieces(page, is_encoded=is_encoded, owners=owners)
    pieces += prefix_pieces(page.common_prefixes, is_encoded=is_encoded)
    return Listing("ListBucketResult", pieces)


async def list_object_versions(document: ListObjectVersions, request: Request) -> Listing:
    """Versions and delete markers by key, newest first within a key."""
    page = await request.namespace.listing.versions(document.query)
    query, is_encoded = document.query, document.is_encoded
    pieces = page_head(document, page)
    pieces.append(f"<KeyMarker>{name_text(query.after, is_encoded=is_encoded)}</KeyMarker>")
    pieces.append(xml.element("VersionIdMarker", query.after_version))
    if page.is_truncated:
        pieces.append(f"<NextKeyMarker>{name_text(page.next_key, is_encoded=is_encoded)}</NextKeyMarker>")
        pieces.append(xml.optional("NextVersionIdMarker", page.next_version))
    pieces += version_pieces(page, is_encoded=is_encoded, owners=await owners_of(page, request))
    pieces += prefix_pieces(page.common_prefixes, is_encoded=is_encoded)
    return Listing("ListVersionsResult", pieces)
