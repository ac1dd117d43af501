"""Get, put and delete of a bucket's encryption, and the keys of the contents that other handlers write and read."""

from gateway.s3.content_keys import check_customer_key
from gateway.s3.encryption import SSE_C, SSE_KMS, CustomerKey, Wish, answer_lines, context_lines
from gateway.s3.errors import S3Code, S3Error
from gateway.s3.request import Nothing, Request
from gateway.s3.schemas.answers import Headers, NoContent, Plain, Xml
from gateway.s3.schemas.encryption import PutBucketEncryption, render_default
from metadata.types import DocumentKind, Upload, Version
from tiers.datapath.encryption import ContentKey, Envelope
from tiers.namespace.types import CopyKeys


async def get_bucket_encryption(_document: Nothing, request: Request) -> Xml:
    """The configuration as put, else the store's own. Errors: ServerSideEncryptionConfigurationNotFoundError."""
    default = request.services.content_keys.default_of((await request.configuration()).encryption)
    if default.wish is None and not default.blocked:
        raise S3Error(S3Code.ServerSideEncryptionConfigurationNotFoundError, BucketName=request.bucket_name)
    return Xml(render_default(default))


async def put_bucket_encryption(document: PutBucketEncryption, request: Request) -> Plain:
    """Replace the configuration. A key that it names need not exist yet, but there must be a name.

    Errors: InvalidArgument.
    """
    default = document.default
    if default.method == SSE_KMS and not (default.key_id or request.services.content_keys.rules.default_kms_key):
        message = "This store has no default KMS key: KMSMasterKeyID must name one."
        raise S3Error(S3Code.InvalidArgument, message, ArgumentName="KMSMasterKeyID", ArgumentValue="")
    await request.namespace.buckets.put_document(request.bucket_name, DocumentKind.ENCRYPTION, default.pack())
    return Plain()


async def delete_bucket_encryption(_document: Nothing, request: Request) -> NoContent:
    """Remove the configuration, if any."""
    await request.namespace.buckets.delete_document(request.bucket_name, DocumentKind.ENCRYPTION)
    return NoContent()


async def wish_of_write(request: Request, asked: Wish | None) -> Wish | None:
    """How a content is to be encrypted: as asked, else by the default of its bucket; None leaves it in the clear.

    Errors: AccessDenied for a kind that the bucket blocks.
    """
    default = request.services.content_keys.default_of((await request.configuration()).encryption)
    if asked is None:
        return default.wish
    if asked.kind == SSE_C and default.blocks_customer_keys:
        raise S3Error(S3Code.AccessDenied, "Server Side Encryption with Customer provided keys is blocked here.")
    return asked


async def key_of_write(request: Request, asked: Wish | None) -> ContentKey | None:
    """A fresh key for a content to be written, None in the clear. Errors: those of `ContentKeys.make`."""
    wish = await wish_of_write(request, asked)
    return None if wish is None else await request.services.content_keys.make(wish)


def envelope_of(row: Version | Upload, customer: CustomerKey | None) -> Envelope | None:
    """What a row keeps of its encryption, once the request's key is the one it needs; None in the clear.

    Errors: InvalidRequest, ContentUnreadable.
    """
    envelope = Envelope.unpack(row.encryption) if row.encryption else None
    check_customer_key(envelope, customer)
    return envelope


async def key_of(request: Request, row: Version | Upload, customer: CustomerKey | None) -> ContentKey | None:
    """The key of a version's content or of an upload's parts, None in the clear.

    Errors: those of `envelope_of` and `ContentKeys.open`.
    """
    envelope = envelope_of(row, customer)
    return None if envelope is None else await request.services.content_keys.open(envelope, customer)


async def keys_of_copy(request: Request, source: Version, customer: CustomerKey | None, asked: Wish | None) -> CopyKeys:
    """The keys of a copy and its source: one and the same where the copy is encrypted as the source is.

    Errors: those of `key_of` and `key_of_write`.
    """
    source_key = await key_of(request, source, customer)
    wish = await wish_of_write(request, asked)
    content_keys = request.services.content_keys
    if wish is None:
        return CopyKeys(source_key, None)
    if source_key is not None and content_keys.is_like(source_key.envelope, wish):
        return CopyKeys(source_key, source_key)
    return CopyKeys(source_key, await content_keys.make(wish))


def lines_of_write(key: ContentKey | None, asked: Wish | None) -> Headers:
    """The headers that tell how a content was written, its context with them; none in the clear."""
    if key is None:
        return []
    return [*answer_lines(key.envelope, None if asked is None else asked.customer), *context_lines(key.envelope)]


def lines_of_read(envelope: Envelope | None, customer: CustomerKey | None) -> Headers:
    """The headers that tell how a content is stored; none in the clear."""
    return [] if envelope is None else answer_lines(envelope, customer)
