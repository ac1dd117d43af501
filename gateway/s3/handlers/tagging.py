"""Tags of objects."""

from gateway.s3 import tags
from gateway.s3.handlers.objects import find_version
from gateway.s3.request import Request
from gateway.s3.schemas.answers import Headers, NoContent, Plain, Xml
from gateway.s3.schemas.objects import NamedVersion, PutObjectTagging
from gateway.s3.schemas.versions import version_header


async def get_object_tagging(document: NamedVersion, request: Request) -> Xml:
    """The tags of a version, none as an empty set."""
    found = await find_version(request, document.version_id)
    return Xml(tags.render(tags.unpack(found.version.tags)), version_header(found.bucket, found.version))


async def put_object_tagging(document: PutObjectTagging, request: Request) -> Plain:
    """Replace the tags of a version."""
    await _set(request, document.version_id, document.tags)
    return Plain(_named(document.version_id))


async def delete_object_tagging(document: NamedVersion, request: Request) -> NoContent:
    """Remove the tags of a version."""
    await _set(request, document.version_id, b"")
    return NoContent(_named(document.version_id))


async def _set(request: Request, version_id: str | None, packed: bytes) -> None:
    await request.namespace.objects.set_tags(
        request.bucket_name, request.key, version_id, packed, origin=request.origin
    )


def _named(version_id: str | None) -> Headers:
    return [] if version_id is None else [(b"x-amz-version-id", version_id.encode())]
