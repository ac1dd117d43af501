"""Tag sets: from the tagging header and the Tagging document, to the msgpack of a row and back."""

from collections.abc import Iterable
from typing import Final
from urllib.parse import unquote_to_bytes

import msgpack

from gateway.s3.errors import S3Code, S3Error
from gateway.s3.xml import LEAF, REQUIRED_LEAF, Element, Node, document, escape, is_speakable, read

OBJECT_TAGS_MAX: Final = 10
BUCKET_TAGS_MAX: Final = 50
KEY_CHARACTERS_MAX: Final = 128
VALUE_CHARACTERS_MAX: Final = 256

Tags = list[tuple[str, str]]

_TAG: Final = Element({"Key": REQUIRED_LEAF, "Value": LEAF}, many=BUCKET_TAGS_MAX + 1)
TAG_SET: Final = Element({"Tag": _TAG}, is_required=True)
_ROOTS: Final = {"Tagging": Element({"TagSet": TAG_SET})}


def parse_document(body: bytes, count_max: int) -> Tags:
    """The tags of a Tagging document. Errors: MalformedXML, InvalidTag."""
    return checked(tags_of(read(body, _ROOTS).all("TagSet")[0]), count_max)


def tags_of(tag_set: Node) -> Tags:
    """Keys and values of the Tag children of a node, unchecked."""
    return [(tag.get("Key"), tag.get("Value")) for tag in tag_set.all("Tag")]


def parse_header(value: bytes) -> Tags:
    """The tags of an `x-amz-tagging` header, a query string: by key, as a query has no order of its own.

    Errors: InvalidArgument, InvalidTag.
    """
    pairs = [pair.partition(b"=") for pair in value.split(b"&") if pair]
    try:
        return checked(sorted([(_decode(key), _decode(text)) for key, _, text in pairs]), OBJECT_TAGS_MAX)
    except UnicodeDecodeError as error:
        message = "The header 'x-amz-tagging' shall be encoded as UTF-8 then URLEncoded URL query parameters"
        raise S3Error(S3Code.InvalidArgument, message, ArgumentName="x-amz-tagging") from error


def _decode(text: bytes) -> str:
    return unquote_to_bytes(text.replace(b"+", b" ")).decode()


def checked(tags: Tags, count_max: int) -> Tags:
    """The same tags. Errors: InvalidTag for too many, too long, repeated, empty or reserved keys."""
    if len(tags) > count_max:
        raise S3Error(S3Code.InvalidTag, f"Object tags cannot be greater than {count_max}")
    for key, value in tags:
        if not key or len(key) > KEY_CHARACTERS_MAX:
            raise S3Error(S3Code.InvalidTag, "The TagKey you have provided is invalid", TagKey=key)
        if len(value) > VALUE_CHARACTERS_MAX:
            raise S3Error(S3Code.InvalidTag, "The TagValue you have provided is invalid", TagKey=key)
        if not is_speakable(key + value):
            raise S3Error(S3Code.InvalidTag, TagKey=key)
        if key.startswith("aws:"):
            raise S3Error(S3Code.InvalidTag, "System tags cannot be added/updated by requester", TagKey=key)
    if len({key for key, _ in tags}) != len(tags):
        raise S3Error(S3Code.InvalidTag, "Cannot provide multiple Tags with the same key")
    return tags


def pack(tags: Iterable[tuple[str, str]]) -> bytes:
    """Tags as a row stores them; empty for none."""
    listed = [list(pair) for pair in tags]
    packed: bytes = msgpack.packb(listed) if listed else b""
    return packed


def unpack(packed: bytes) -> Tags:
    """Inverse of `pack`."""
    return [(key, value) for key, value in msgpack.unpackb(packed)] if packed else []


def render(tags: Tags) -> bytes:
    """The Tagging document."""
    pieces = (f"<Tag><Key>{escape(key)}</Key><Value>{escape(value)}</Value></Tag>" for key, value in tags)
    return document("Tagging", "<TagSet>", *pieces, "</TagSet>")
