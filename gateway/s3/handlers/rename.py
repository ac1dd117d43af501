"""RenameObject: the right to write the new key, and to read and delete the old one."""

from gateway.s3.request import Request
from gateway.s3.schemas.answers import Plain
from gateway.s3.schemas.rename import RenameObject
from metadata.types import Version
from tiers.errors import KeyNotFound
from tiers.namespace.rename_mutations import Rename


async def rename_object(document: RenameObject, request: Request) -> Plain:
    """Put the source's object under the request's key; readers see one name or the other, never neither."""
    source, absent = await _find_source(document, request)
    await request.authorise_renamed(document.source, source)
    if absent is not None and not document.token:
        raise absent
    rename = Rename(
        bucket=request.owned_bucket,
        source=document.source,
        target=request.key,
        seen=source,
        caller_id=request.caller_id,
        source_conditions=document.source_conditions,
        target_conditions=document.target_conditions,
        token=document.token,
        origin=request.origin,
    )
    await request.namespace.objects.rename(rename)
    return Plain()


async def _find_source(document: RenameObject, request: Request) -> tuple[Version | None, KeyNotFound | None]:
    """The source, or the error that tells its absence: a request that comes again finds it gone."""
    try:
        found = await request.namespace.objects.find(request.bucket_name, document.source)
    except KeyNotFound as error:
        return None, error
    return found.version, None
