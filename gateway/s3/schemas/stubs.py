"""Documents of configurations of which only the idle value is served."""

from dataclasses import dataclass
from typing import Final, Self

from gateway.s3 import xml
from gateway.s3.errors import S3Code, S3Error
from gateway.s3.request import Request

_PAYMENT: Final = {"RequestPaymentConfiguration": xml.Element({"Payer": xml.REQUIRED_LEAF})}
_ACCELERATE: Final = {"AccelerateConfiguration": xml.Element({"Status": xml.REQUIRED_LEAF})}


async def _value(request: Request, roots: dict[str, xml.Element], name: str, *, idle: str, busy: str) -> str:
    """The one value of a document, which is the idle one. Errors: MalformedXML, NotImplemented for the other."""
    root = xml.read(await request.read_document(xml.DOCUMENT_BYTES_MAX), roots)
    value = root.get(name)
    if value == busy:
        raise S3Error(S3Code.NotImplemented, f"{name} {busy} is not implemented.", Element=name)
    if value != idle:
        raise xml.malformed()
    return value


@dataclass(frozen=True, slots=True)
class PutBucketRequestPayment:
    """Who pays: always the owner of the bucket."""

    payer: str

    @classmethod
    async def decode(cls, request: Request) -> Self:
        return cls(await _value(request, _PAYMENT, "Payer", idle="BucketOwner", busy="Requester"))


@dataclass(frozen=True, slots=True)
class PutBucketAccelerate:
    """Whether transfers are accelerated: suspended."""

    status: str

    @classmethod
    async def decode(cls, request: Request) -> Self:
        return cls(await _value(request, _ACCELERATE, "Status", idle="Suspended", busy="Enabled"))
