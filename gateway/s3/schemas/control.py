"""Documents of the control API."""

from dataclasses import dataclass
from typing import Final, Self

from gateway.s3 import control, tags, xml
from gateway.s3.request import Request

_TAG: Final = xml.Element({"Key": xml.REQUIRED_LEAF, "Value": xml.LEAF}, many=tags.BUCKET_TAGS_MAX + 1)
_ROOTS: Final = {"TagResourceRequest": xml.Element({"Tags": xml.Element({"Tag": _TAG}, is_required=True)})}


@dataclass(frozen=True, slots=True)
class TagResource:
    """Tags to be added, or to replace others of their keys."""

    tags: tags.Tags

    @classmethod
    async def decode(cls, request: Request) -> Self:
        root = xml.read(await request.read_document(xml.DOCUMENT_BYTES_MAX), _ROOTS)
        return cls(tags.checked(tags.tags_of(root.all("Tags")[0]), tags.BUCKET_TAGS_MAX))


@dataclass(frozen=True, slots=True)
class UntagResource:
    """Keys of tags to be removed; absent ones are fine."""

    keys: frozenset[str]

    @classmethod
    async def decode(cls, request: Request) -> Self:
        return cls(control.tag_keys(request.call.query))
