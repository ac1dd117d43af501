"""The CORS document of a bucket, and the preflights it answers."""

from gateway.s3 import cors
from gateway.s3.errors import S3Code, S3Error
from gateway.s3.request import Nothing, Request
from gateway.s3.schemas.answers import NoContent, Plain, Xml
from gateway.s3.schemas.cors import PutBucketCors, render
from metadata.types import DocumentKind


async def get_bucket_cors(_document: Nothing, request: Request) -> Xml:
    """The rules as put. Errors: NoSuchCORSConfiguration."""
    stored = await request.namespace.buckets.get_document(request.bucket_name, DocumentKind.CORS)
    if stored is None:
        raise S3Error(S3Code.NoSuchCORSConfiguration, BucketName=request.bucket_name)
    return Xml(render(cors.unpack(stored)))


async def put_bucket_cors(document: PutBucketCors, request: Request) -> Plain:
    """Replace the bucket's rules."""
    await request.namespace.buckets.put_document(request.bucket_name, DocumentKind.CORS, cors.pack(document.rules))
    return Plain()


async def delete_bucket_cors(_document: Nothing, request: Request) -> NoContent:
    """Remove the bucket's rules, if any."""
    await request.namespace.buckets.delete_document(request.bucket_name, DocumentKind.CORS)
    return NoContent()
