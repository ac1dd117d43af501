"""Tags of a bucket through the control API: the same tags as `?tagging`, changed one by one."""

from collections.abc import Callable
from typing import Final

from gateway.s3 import tags, xml
from gateway.s3.errors import S3Code, S3Error
from gateway.s3.request import Nothing, Request
from gateway.s3.schemas.answers import NoContent, Xml
from gateway.s3.schemas.control import TagResource, UntagResource
from metadata.types import DocumentKind

SWAPS_MAX: Final = 16
"""Times a change starts anew because somebody else was first."""


async def list_tags_for_resource(_document: Nothing, request: Request) -> Xml:
    """The tags of a bucket, none as an empty list."""
    stored = await request.namespace.buckets.get_document(request.bucket_name, DocumentKind.TAGGING)
    pieces = [
        f"<Tag>{xml.element('Key', key)}{xml.element('Value', value)}</Tag>"
        for key, value in tags.unpack(stored or b"")
    ]
    return Xml(xml.document("ListTagsForResourceResult", "<Tags>", *pieces, "</Tags>"))


async def tag_resource(document: TagResource, request: Request) -> NoContent:
    """Add tags. Errors: InvalidTag when the bucket would have too many."""

    def add(present: tags.Tags) -> tags.Tags:
        merged = dict(present) | dict(document.tags)
        return tags.checked(list(merged.items()), tags.BUCKET_TAGS_MAX)

    await _change(request, add)
    return NoContent()


async def untag_resource(document: UntagResource, request: Request) -> NoContent:
    """Remove tags by key."""
    await _change(request, lambda present: [pair for pair in present if pair[0] not in document.keys])
    return NoContent()


async def _change(request: Request, change: Callable[[tags.Tags], tags.Tags]) -> None:
    """Replace the tags by what `change` makes of them. Errors: OperationAborted when others always were first."""
    buckets = request.namespace.buckets
    for _ in range(SWAPS_MAX):
        seen = await buckets.get_document(request.bucket_name, DocumentKind.TAGGING)
        packed = tags.pack(change(tags.unpack(seen or b""))) or None
        if await buckets.swap_document(request.bucket_name, DocumentKind.TAGGING, seen=seen, document=packed):
            return
    raise S3Error(S3Code.OperationAborted)
