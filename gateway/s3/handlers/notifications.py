"""Notification configuration of buckets."""

from gateway.s3 import notifications
from gateway.s3.request import Nothing, Request
from gateway.s3.schemas.answers import Plain, Xml
from gateway.s3.schemas.notifications import PutNotification
from metadata.types import DocumentKind


async def get_bucket_notification(_document: Nothing, request: Request) -> Xml:
    """The document as put, empty while none is."""
    configuration = await request.configuration()
    return Xml(notifications.render_document(configuration.documents.get(DocumentKind.NOTIFICATION)))


async def put_bucket_notification(document: PutNotification, request: Request) -> Plain:
    """Replace the document; its targets are told by a test event, unless the client does not want them looked at."""
    await request.namespace.buckets.set_notification(
        request.bucket_name, document.notification, origin=request.origin, is_announced=document.is_checked
    )
    return Plain()
