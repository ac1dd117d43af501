"""Documents of bucket policies and of the public access block."""

from dataclasses import dataclass
from typing import Final, Self

from gateway.auth.policy.document import compile_policy
from gateway.auth.policy.malformed import MalformedPolicy
from gateway.auth.policy.statement import Policy
from gateway.auth.public_access import PublicAccessBlock
from gateway.http.call import Answer
from gateway.s3 import xml
from gateway.s3.errors import S3Code, S3Error
from gateway.s3.request import Request

_CONFIRM: Final = b"x-amz-confirm-remove-self-bucket-access"
_BOOLEANS: Final = {"true": True, "false": False}
_BLOCKS: Final = ("BlockPublicAcls", "IgnorePublicAcls", "BlockPublicPolicy", "RestrictPublicBuckets")
"""The elements of a block, in the order of `PublicAccessBlock`."""

_BLOCK_ROOTS: Final = {"PublicAccessBlockConfiguration": xml.Element(dict.fromkeys(_BLOCKS, xml.LEAF))}


@dataclass(frozen=True, slots=True)
class PutBucketPolicy:
    """A policy, as put and compiled. `confirms` says that it may shut out whoever puts it."""

    text: bytes
    policy: Policy
    confirms: bool

    @classmethod
    async def decode(cls, request: Request) -> Self:
        confirmed = _BOOLEANS.get(request.text(_CONFIRM, "false").lower())
        if confirmed is None:
            name = _CONFIRM.decode()
            raise S3Error(S3Code.InvalidArgument, ArgumentName=name, ArgumentValue=request.text(_CONFIRM))
        text = await request.read_document(xml.DOCUMENT_BYTES_MAX)
        try:
            return cls(text, compile_policy(text, request.bucket_name), confirmed)
        except MalformedPolicy as error:
            raise S3Error(S3Code.MalformedPolicy, str(error)) from error


@dataclass(frozen=True, slots=True)
class PolicyText:
    """200 with a policy as it was put."""

    text: bytes

    def answer(self) -> Answer:
        return Answer(200, [(b"content-type", b"application/json")], self.text, len(self.text))


@dataclass(frozen=True, slots=True)
class PutPublicAccessBlock:
    """The block a bucket is to have; what a document does not name is off."""

    block: PublicAccessBlock

    @classmethod
    async def decode(cls, request: Request) -> Self:
        root = xml.read(await request.read_document(xml.DOCUMENT_BYTES_MAX), _BLOCK_ROOTS)
        switches = [_BOOLEANS.get(root.get(name, "false").strip().lower()) for name in _BLOCKS]
        if None in switches:
            raise xml.malformed()
        return cls(PublicAccessBlock(*(switch is True for switch in switches)))


def render_block(block: PublicAccessBlock) -> bytes:
    """The document of a block."""
    switches = (xml.boolean(name, value=value) for name, value in zip(_BLOCKS, block, strict=True))
    return xml.document("PublicAccessBlockConfiguration", *switches)
