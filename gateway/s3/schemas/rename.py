"""The document that RenameObject takes."""

from dataclasses import dataclass
from typing import Final, Self

from gateway.s3 import headers
from gateway.s3.addressing import parse_rename_source
from gateway.s3.errors import S3Code, S3Error
from gateway.s3.request import Request
from gateway.s3.schemas import described
from tiers.namespace.rename_mutations import SideConditions

TOKEN_CHARACTERS_MAX: Final = 64
_SOURCE_PREFIX: Final = b"x-amz-rename-source-"


@dataclass(frozen=True, slots=True)
class RenameObject:
    """The key whose object goes under the key of the request, and the conditions on both. `token` empty: none."""

    source: str
    source_conditions: SideConditions
    target_conditions: SideConditions
    token: str

    @classmethod
    async def decode(cls, request: Request) -> Self:
        described.refuse_version_id(request)
        source = parse_rename_source(request.fields[b"x-amz-rename-source"], request.bucket_name)
        if source == request.key:
            raise S3Error(S3Code.InvalidRequest, "The source and the destination of a rename must differ.")
        return cls(source, _conditions(request, _SOURCE_PREFIX), _conditions(request, b""), _token(request))


def _conditions(request: Request, prefix: bytes) -> SideConditions:
    """The conditions on one side. Errors: InvalidArgument for one that says nothing, which must not be ignored."""
    return SideConditions(
        _tags(request, prefix + b"if-match"),
        _tags(request, prefix + b"if-none-match"),
        _time(request, prefix + b"if-modified-since"),
        _time(request, prefix + b"if-unmodified-since"),
    )


def _tags(request: Request, name: bytes) -> tuple[str, ...] | None:
    if name not in request.fields:
        return None
    tags = headers.entity_tags(request.text(name))
    if not tags:
        raise described.invalid(name.decode(), request.text(name))
    return tags


def _time(request: Request, name: bytes) -> int | None:
    if name not in request.fields:
        return None
    seconds = headers.parse_time(request.text(name).strip())
    if seconds is None:
        raise described.invalid(name.decode(), request.text(name))
    return seconds


def _token(request: Request) -> str:
    """The client token. Errors: InvalidArgument for one of another form than AWS allows."""
    name = b"x-amz-client-token"
    if name not in request.fields:
        return ""
    token = request.text(name)
    if not 1 <= len(token) <= TOKEN_CHARACTERS_MAX or not all("!" <= character <= "~" for character in token):
        raise described.invalid(name.decode(), "", f"A client token has 1 to {TOKEN_CHARACTERS_MAX} ASCII characters.")
    return token
