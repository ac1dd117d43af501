"""The lifecycle configuration of a bucket, and what its rules mean for a version that is answered now."""

from urllib.parse import quote

from gateway.s3 import headers, tags
from gateway.s3.errors import S3Code, S3Error
from gateway.s3.request import Nothing, Request
from gateway.s3.schemas.answers import Headers, NoContent, Plain, Xml
from gateway.s3.schemas.lifecycle import MINIMUM_SIZE, PutLifecycle, render
from metadata.types import DocumentKind, Version
from tiers.lifecycle.documents import Lifecycle, pack_lifecycle
from tiers.lifecycle.due import day_ms_of
from tiers.lifecycle.rules import Subject, end_of
from tiers.namespace.locks import FOREVER_MS

EXPIRATION = b"x-amz-expiration"


async def get_bucket_lifecycle(_document: Nothing, request: Request) -> Xml:
    """The rules as put. Errors: NoSuchLifecycleConfiguration."""
    lifecycle = (await request.configuration()).lifecycle
    if lifecycle is None:
        raise S3Error(S3Code.NoSuchLifecycleConfiguration, BucketName=request.bucket_name)
    return Xml(render(lifecycle), _minimum_line(lifecycle))


async def put_bucket_lifecycle(document: PutLifecycle, request: Request) -> Plain:
    """Replace the rules. They hold for everything stored; nothing of it is looked at here."""
    packed = pack_lifecycle(document.lifecycle)
    await request.namespace.buckets.put_document(request.bucket_name, DocumentKind.LIFECYCLE, packed)
    return Plain(_minimum_line(document.lifecycle))


async def delete_bucket_lifecycle(_document: Nothing, request: Request) -> NoContent:
    """Remove the rules, if any."""
    await request.namespace.buckets.delete_document(request.bucket_name, DocumentKind.LIFECYCLE)
    return NoContent()


def _minimum_line(lifecycle: Lifecycle) -> Headers:
    return [(MINIMUM_SIZE, lifecycle.minimum_size.encode())]


async def expiration_lines(request: Request, version: Version) -> Headers:
    """The header that tells when the rules will end a current version; none where no rule matches it.

    Cost: a look-up in memory for a bucket without rules, else a few tests for each rule.
    """
    lifecycle = (await request.configuration()).lifecycle
    if lifecycle is None:
        return []
    tagged = frozenset(tags.unpack(version.tags))
    subject = Subject(version.key.decode(), version.size, version.modified_ms, version.storage_class, tagged)
    end = end_of(lifecycle, subject, day_ms_of(request.services.seconds_per_day))
    if end is None:
        return []
    date = headers.http_date(min(end.due_ms, FOREVER_MS) // 1000)
    return [(EXPIRATION, f'expiry-date="{date}", rule-id="{quote(end.rule_id, safe="")}"'.encode())]
