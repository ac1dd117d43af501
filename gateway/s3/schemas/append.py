"""The document of a PutObject at an offset, and its answer."""

from dataclasses import dataclass
from typing import Final, Self

from gateway.http.call import Answer
from gateway.s3 import attributes, headers
from gateway.s3.errors import S3Code, S3Error
from gateway.s3.request import Request
from gateway.s3.schemas import described, encryption
from gateway.s3.schemas.versions import checksum_lines
from metadata.types import Version
from tiers.datapath.body import Body
from tiers.datapath.digests import COMBINABLE
from tiers.namespace.types import Description, WriteConditions

WRITE_OFFSET: Final = b"x-amz-write-offset-bytes"

_DESCRIBING: Final = (
    *(b"cache-control", b"content-disposition", b"content-language", b"expires", b"x-amz-storage-class"),
    *(b"x-amz-acl", b"x-amz-tagging", attributes.REDIRECT),
)
_DESCRIBING_PREFIXES: Final = (attributes.META, b"x-amz-grant-", b"x-amz-object-lock-")


@dataclass(frozen=True, slots=True)
class AppendObject:
    """Bytes to add at `offset`. `is_encrypted` says that the request asks for encryption."""

    offset: int
    description: Description
    conditions: WriteConditions
    body: Body
    is_encrypted: bool

    @classmethod
    async def decode(cls, request: Request) -> Self:
        described.refuse_version_id(request)
        offset = headers.number(request.text(WRITE_OFFSET))
        if offset is None:
            raise described.invalid(WRITE_OFFSET.decode(), request.text(WRITE_OFFSET))
        if offset:
            _refuse_description(request)
        conditions = described.conditions_of_write(request)
        body = request.open_body()
        if body.algorithm not in COMBINABLE:
            message = f"Appended data cannot have a {body.algorithm} checksum, only CRC32, CRC32C or CRC64NVME."
            raise S3Error(S3Code.InvalidRequest, message)
        description = await described.description(request, checksum_algorithm=body.algorithm)
        return cls(offset, description, conditions, body, encryption.wish(request) is not None)


def _refuse_description(request: Request) -> None:
    """An append leaves an object described as it is: what would be ignored is refused, but for Content-Type.

    Errors: InvalidRequest.
    """
    for name in request.fields:
        if name in _DESCRIBING or name.startswith(_DESCRIBING_PREFIXES):
            message = f"An append cannot change what describes the object: {name.decode('latin-1')}"
            raise S3Error(S3Code.InvalidRequest, message)


@dataclass(frozen=True, slots=True)
class Appended:
    """The object after an append."""

    version: Version

    def answer(self) -> Answer:
        version = self.version
        lines = [(b"etag", f'"{version.etag}"'.encode()), *checksum_lines(version)]
        return Answer(200, [*lines, (b"x-amz-object-size", b"%d" % version.size)])
