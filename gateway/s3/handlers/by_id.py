"""Configurations that a bucket has many of: inventory and intelligent tiering are kept under their ids, page by page.

What is kept are the elements of the document as put. Analytics and metrics cannot be put, so there is never one.
"""

from typing import Final, NamedTuple

from gateway.s3 import tokens, xml
from gateway.s3.deposits import Deposits
from gateway.s3.errors import S3Code, S3Error
from gateway.s3.inventory import Inventory
from gateway.s3.inventory_files import FORMATS
from gateway.s3.inventory_reports import Reporting, folder_of
from gateway.s3.request import Request
from gateway.s3.schemas.answers import NoContent, Plain, Xml
from gateway.s3.schemas.by_id import ListConfigurations, NamedConfiguration, PutIntelligentTiering, PutInventory
from gateway.s3.schemas.described import invalid
from metadata.types import INTELLIGENT_TIERING_PREFIX, INVENTORY_PREFIX, Bucket
from tiers.errors import BucketNotFound
from tiers.lifecycle.due import day_ms_of

PAGE: Final = 100
COUNT_MAX: Final = 1000
"""Configurations of one kind in one bucket, as on AWS."""


class _Kind(NamedTuple):
    """How the documents of a kind are kept and written: their prefix in the bucket, their element, the list's."""

    prefix: str
    element: str
    listing: str


_INVENTORY: Final = _Kind(INVENTORY_PREFIX, "InventoryConfiguration", "ListInventoryConfigurationsResult")
_TIERING: Final = _Kind(
    INTELLIGENT_TIERING_PREFIX,
    "IntelligentTieringConfiguration",
    "ListBucketIntelligentTieringConfigurationsOutput",
)


async def get_inventory(document: NamedConfiguration, request: Request) -> Xml:
    """One inventory configuration. Errors: NoSuchConfiguration."""
    return await _get(_INVENTORY, document, request)


async def get_intelligent_tiering(document: NamedConfiguration, request: Request) -> Xml:
    """One intelligent-tiering configuration. Errors: NoSuchConfiguration."""
    return await _get(_TIERING, document, request)


async def _get(kind: _Kind, document: NamedConfiguration, request: Request) -> Xml:
    found = await request.namespace.buckets.get_document(request.bucket_name, kind.prefix + document.configuration_id)
    if found is None:
        raise S3Error(S3Code.NoSuchConfiguration, BucketName=request.bucket_name)
    return Xml(xml.document(kind.element, found.decode()))


async def put_inventory(document: PutInventory, request: Request) -> Plain:
    """Keep an inventory configuration.

    Errors: TooManyConfigurations, InvalidArgument without the target bucket, NotImplemented for a format that this
    installation cannot write, AccessDenied where the owner of the bucket, or the caller, may not write there.
    """
    asked = document.configuration
    chosen = FORMATS[asked.report_format]
    if not chosen.is_served:
        message = f"Inventory reports in {asked.report_format} need {chosen.module} at the server."
        raise S3Error(S3Code.NotImplemented, message, Element="Format")
    try:
        target = await request.namespace.buckets.get(asked.target_bucket)
    except BucketNotFound:
        raise invalid("Bucket", asked.target_bucket, "The destination bucket does not exist.") from None
    await _require_delivery(asked, target, request)
    return await _put(_INVENTORY, document.configuration.inventory_id, document.elements, request)


async def _require_delivery(asked: Inventory, target: Bucket, request: Request) -> None:
    """Whether a report could be written now: for the bucket's owner, and as the caller, unless that is root."""
    services, source, caller = request.services, request.owned_bucket, request.caller.principal
    deposits = Deposits(services.namespace, services.content_keys, services.configurations)
    reporting = Reporting(deposits, services.region, services.clock, day_ms_of(services.seconds_per_day))
    is_owner = caller.principal_id == source.owner_id
    owner = caller if is_owner else await reporting.owner_of(source)
    key = f"{folder_of(asked, source.name)}data/"
    for principal in {owner} if is_owner or caller.is_root else {owner, caller}:
        if not await reporting.may_write(source, target, key, principal):
            raise S3Error(S3Code.AccessDenied)


async def put_intelligent_tiering(document: PutIntelligentTiering, request: Request) -> Plain:
    """Keep an intelligent-tiering configuration. Errors: TooManyConfigurations."""
    return await _put(_TIERING, document.configuration.tiering_id, document.elements, request)


async def _put(kind: _Kind, configuration_id: str, elements: bytes, request: Request) -> Plain:
    ids = await _ids(kind, request)
    if configuration_id not in ids and len(ids) >= COUNT_MAX:
        raise S3Error(S3Code.TooManyConfigurations)
    await request.namespace.buckets.put_document(request.bucket_name, kind.prefix + configuration_id, elements)
    return Plain()


async def delete_inventory(document: NamedConfiguration, request: Request) -> NoContent:
    """Forget an inventory configuration. Errors: NoSuchConfiguration."""
    return await _delete(_INVENTORY, document, request)


async def delete_intelligent_tiering(document: NamedConfiguration, request: Request) -> NoContent:
    """Forget an intelligent-tiering configuration. Errors: NoSuchConfiguration."""
    return await _delete(_TIERING, document, request)


async def _delete(kind: _Kind, document: NamedConfiguration, request: Request) -> NoContent:
    await _get(kind, document, request)
    await request.namespace.buckets.delete_document(request.bucket_name, kind.prefix + document.configuration_id)
    return NoContent()


async def list_inventories(document: ListConfigurations, request: Request) -> Xml:
    """A page of the inventory configurations by id."""
    return await _list(_INVENTORY, document, request)


async def list_intelligent_tierings(document: ListConfigurations, request: Request) -> Xml:
    """A page of the intelligent-tiering configurations by id."""
    return await _list(_TIERING, document, request)


async def _list(kind: _Kind, document: ListConfigurations, request: Request) -> Xml:
    scope = (kind.prefix, request.bucket_name)
    key = request.services.token_key
    after = tokens.open_token(key, document.token, scope) if document.token else ""
    documents = await request.namespace.buckets.documents(request.owned_bucket)
    ids = [name for name in await _ids(kind, request) if name > after]
    page = ids[:PAGE]
    pieces = [f"<{kind.element}>{documents[kind.prefix + name].decode()}</{kind.element}>" for name in page]
    pieces.append(xml.boolean("IsTruncated", value=len(ids) > PAGE))
    pieces.append(xml.optional("ContinuationToken", document.token))
    if len(ids) > PAGE:
        pieces.append(xml.element("NextContinuationToken", tokens.make_token(key, page[-1], scope)))
    return Xml(xml.document(kind.listing, *pieces))


async def _ids(kind: _Kind, request: Request) -> list[str]:
    """The ids of a kind in order."""
    documents = await request.namespace.buckets.documents(request.owned_bucket)
    return sorted(name.removeprefix(kind.prefix) for name in documents if name.startswith(kind.prefix))
