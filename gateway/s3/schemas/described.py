"""What several documents read alike: version ids, descriptions of contents, copy sources."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from gateway.s3 import attributes, headers, tags
from gateway.s3.addressing import parse_copy_source
from gateway.s3.checksums import DIGEST_BYTES, header_of, parse_algorithm
from gateway.s3.errors import S3Code, S3Error
from gateway.s3.lock_headers import asked_lock
from gateway.s3.request import Request
from gateway.s3.schemas.acls import owned_object
from tiers.namespace.types import UNCONDITIONAL_DELETE, DeleteConditions, Description, WriteConditions

CHECKSUM_HEADERS: Final = {name: header_of(name).decode() for name in DIGEST_BYTES}


def invalid(name: str, value: str, message: str | None = None) -> S3Error:
    """InvalidArgument for one named argument."""
    return S3Error(S3Code.InvalidArgument, message, ArgumentName=name, ArgumentValue=value)


def unserved(name: str) -> S3Error:
    """NotImplemented for one named header."""
    message = f"A header you provided implies functionality that is not implemented: {name}"
    return S3Error(S3Code.NotImplemented, message, Header=name)


def version_id(request: Request) -> str | None:
    """The version named in the query, None for the current one. Errors: InvalidArgument for what is no id."""
    text = request.query.get("versionId")
    if text == "":
        raise invalid("versionId", "", "Version id cannot be the empty string")
    if text is not None and not is_id(text):
        raise invalid("versionId", text, "Invalid version id specified")
    return text


def is_id(text: str) -> bool:
    """Whether a text can be an id: deletes answer in a header the version id that they were given."""
    return text.isascii() and text.isprintable()


def refuse_version_id(request: Request) -> None:
    """A write names no version. Errors: InvalidArgument."""
    if "versionId" in request.query:
        message = "This operation does not accept a version-id."
        raise invalid("versionId", request.query["versionId"], message)


_OF_READS: Final = (b"if-modified-since", b"if-unmodified-since")
_OF_DELETES: Final = (b"x-amz-if-match-last-modified-time", b"x-amz-if-match-size")


def refuse_conditions(request: Request, names: Iterable[bytes]) -> None:
    """Conditions that an operation does not know are refused and never ignored."""
    for name in names:
        if name in request.fields:
            raise unserved(name.decode())


def conditions_of_write(request: Request) -> WriteConditions:
    """The conditions on the current version of the key written."""
    refuse_conditions(request, (*_OF_READS, *_OF_DELETES))
    return headers.write_conditions(request.fields)


def conditions_of_delete(request: Request) -> DeleteConditions:
    """The conditions on the version that is deleted. Errors: InvalidArgument, NotImplemented for others."""
    refuse_conditions(request, (*_OF_READS, b"if-none-match"))
    fields = request.fields
    if b"if-match" not in fields and fields.keys().isdisjoint(_OF_DELETES):
        return UNCONDITIONAL_DELETE
    modified_name, size_name = _OF_DELETES
    return DeleteConditions(
        headers.write_conditions(fields).if_match,
        _read(request, size_name, headers.number),
        _read(request, modified_name, headers.parse_time),
    )


def _read(request: Request, name: bytes, parse: Callable[[str], int | None]) -> int | None:
    """A header as a number, None when it is absent. Errors: InvalidArgument."""
    if name not in request.fields:
        return None
    value = parse(request.text(name).strip())
    if value is None:
        raise invalid(name.decode(), request.text(name))
    return value


def storage_class(request: Request) -> str:
    """The class asked for; which classes exist is the catalogue's knowledge."""
    return request.text(b"x-amz-storage-class") or "STANDARD"


def tags_of_header(request: Request) -> bytes:
    """The tags of the tagging header as a row stores them."""
    value = request.fields.get(b"x-amz-tagging")
    return tags.pack(tags.parse_header(value)) if value else b""


async def description(request: Request, *, checksum_algorithm: str = "", checksum_type: str = "") -> Description:
    """What the headers say about a content that is written."""
    owned = await owned_object(request)
    return Description(
        owner_id=owned.owner_id,
        acl=owned.acl,
        lock=await asked_lock(request),
        writer_id=request.caller_id,
        bucket=request.owned_bucket,
        storage_class=storage_class(request),
        attributes=attributes.from_fields(request.fields),
        tags=tags_of_header(request),
        checksum_algorithm=checksum_algorithm,
        checksum_type=checksum_type,
        origin=request.origin,
    )


def checksum_algorithm(request: Request) -> str:
    """The algorithm asked for an object, empty when none is. Errors: NotImplemented, InvalidRequest."""
    word = request.fields.get(b"x-amz-checksum-algorithm")
    return "" if word is None else parse_algorithm(word)


@dataclass(frozen=True, slots=True)
class Source:
    """The version a copy reads, and the conditions on it."""

    bucket: str
    key: str
    version_id: str | None
    conditions: headers.ReadConditions


def copy_source(request: Request) -> Source:
    """The source of a copy. Errors: InvalidArgument, InvalidURI, KeyTooLongError."""
    named = parse_copy_source(request.fields[b"x-amz-copy-source"])
    return Source(*named, headers.source_conditions(request.fields))
