"""PutObject at an offset: adds to the end of an object, in one commit."""

from gateway.s3.handlers.encryption import wish_of_write
from gateway.s3.request import Request
from gateway.s3.schemas.append import Appended, AppendObject
from tiers.errors import AppendRefused


async def append_object(document: AppendObject, request: Request) -> Appended:
    """Add a body to the object that ends at the offset.

    Errors: NotImplemented where the content would be encrypted: its length is sealed with it.
    """
    if document.is_encrypted or await wish_of_write(request, None) is not None:
        raise AppendRefused("an object that is to be encrypted")
    outcome = await request.namespace.objects.append(
        request.bucket_name,
        request.key,
        document.body,
        document.description,
        document.conditions,
        offset=document.offset,
    )
    return Appended(outcome.version)
