"""Request payment and transfer acceleration: the idle value of both is served, no other can be put."""

from gateway.s3 import xml
from gateway.s3.request import Nothing, Request
from gateway.s3.schemas.answers import Plain, Xml
from gateway.s3.schemas.stubs import PutBucketAccelerate, PutBucketRequestPayment
from metadata.types import DocumentKind


async def get_bucket_request_payment(_document: Nothing, _request: Request) -> Xml:
    """The owner pays."""
    return Xml(xml.document("RequestPaymentConfiguration", "<Payer>BucketOwner</Payer>"))


async def put_bucket_request_payment(_document: PutBucketRequestPayment, _request: Request) -> Plain:
    """What holds anyway."""
    return Plain()


async def get_bucket_accelerate(_document: Nothing, request: Request) -> Xml:
    """Empty until it was suspended once, as on AWS."""
    stored = await request.namespace.buckets.get_document(request.bucket_name, DocumentKind.ACCELERATE)
    return Xml(xml.document("AccelerateConfiguration", xml.optional("Status", (stored or b"").decode())))


async def put_bucket_accelerate(document: PutBucketAccelerate, request: Request) -> Plain:
    """Keep the status."""
    status = document.status.encode()
    await request.namespace.buckets.put_document(request.bucket_name, DocumentKind.ACCELERATE, status)
    return Plain()
