"""PostObject: the form upload of browsers."""

from gateway.s3.handlers.objects import put_object
from gateway.s3.request import Request
from gateway.s3.schemas.forms import Posted, PostObject


async def post_object(document: PostObject, request: Request) -> Posted:
    """Store the file of a form as PutObject would."""
    written = await put_object(document.content, request)
    return Posted(document, request.bucket_name, request.key, written)
