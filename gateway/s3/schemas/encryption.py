"""The document of a bucket's encryption configuration, and what documents of contents read of encryption."""

from dataclasses import dataclass
from typing import Final, Self

from gateway.s3 import encryption, xml
from gateway.s3.encryption import (
    SSE_C,
    SSE_KMS,
    SSE_S3,
    UNSERVED_METHODS,
    BucketDefault,
    CustomerKey,
    Wish,
    is_key_id,
)
from gateway.s3.errors import S3Code, S3Error
from gateway.s3.request import Request

_PLAIN_HTTP: Final = (
    "Requests specifying Server Side Encryption with Customer provided keys must be made over a secure connection."
)
_BOOLEANS: Final = {"true": True, "false": False}
_BLOCKABLE: Final = ("NONE", SSE_C)
_DEFAULT: Final = xml.Element({"SSEAlgorithm": xml.REQUIRED_LEAF, "KMSMasterKeyID": xml.LEAF})
_BLOCKED: Final = xml.Element({"EncryptionType": xml.Element(many=len(_BLOCKABLE))})
_RULE: Final = xml.Element(
    {"ApplyServerSideEncryptionByDefault": _DEFAULT, "BucketKeyEnabled": xml.LEAF, "BlockedEncryptionTypes": _BLOCKED},
    is_required=True,
)
_ROOTS: Final = {"ServerSideEncryptionConfiguration": xml.Element({"Rule": _RULE})}


@dataclass(frozen=True, slots=True)
class PutBucketEncryption:
    """How contents of the bucket are encrypted by default."""

    default: BucketDefault

    @classmethod
    async def decode(cls, request: Request) -> Self:
        return cls(parse_default(await request.read_document(xml.DOCUMENT_BYTES_MAX)))


def parse_default(document: bytes) -> BucketDefault:
    """The one rule of a configuration. Errors: MalformedXML, InvalidArgument, NotImplemented."""
    rule = xml.read(document, _ROOTS).all("Rule")[0]
    bucket_key: bool | None = None
    blocked: tuple[str, ...] = ()
    if rule.has("BucketKeyEnabled"):
        bucket_key = _BOOLEANS.get(rule.get("BucketKeyEnabled"))
        if bucket_key is None:
            raise xml.malformed()
    for node in rule.all("BlockedEncryptionTypes"):
        blocked = _blocked(node)
    for node in rule.all("ApplyServerSideEncryptionByDefault"):
        return BucketDefault(*_method(node), bucket_key, blocked)
    if not blocked:
        raise xml.malformed()
    return BucketDefault("", "", bucket_key, blocked)


def _blocked(node: xml.Node) -> tuple[str, ...]:
    words = tuple(child.text for child in node.all("EncryptionType"))
    if not words or len(set(words)) != len(words) or not set(words) <= set(_BLOCKABLE):
        raise xml.malformed()
    return words


def _method(node: xml.Node) -> tuple[str, str]:
    method, key_id = node.get("SSEAlgorithm"), node.get("KMSMasterKeyID")
    if method in UNSERVED_METHODS:
        message = f"The encryption method {method} is not implemented."
        raise S3Error(S3Code.NotImplemented, message, Element="SSEAlgorithm")
    if method not in {SSE_S3, SSE_KMS}:
        raise xml.malformed()
    if key_id and method != SSE_KMS:
        message = "a KMSMasterKeyID is not applicable if the default sse algorithm is not aws:kms"
        raise S3Error(S3Code.InvalidArgument, message, ArgumentName="KMSMasterKeyID", ArgumentValue=key_id)
    if not is_key_id(key_id):
        raise S3Error(S3Code.InvalidArgument, "The key id is not valid.", ArgumentName="KMSMasterKeyID")
    return method, key_id


def render_default(default: BucketDefault) -> bytes:
    """The document of a configuration, as it was put."""
    pieces = ["<Rule>"]
    if default.method:
        pieces.append("<ApplyServerSideEncryptionByDefault>")
        pieces.append(xml.element("SSEAlgorithm", default.method) + xml.optional("KMSMasterKeyID", default.key_id))
        pieces.append("</ApplyServerSideEncryptionByDefault>")
    if default.bucket_key is not None:
        pieces.append(xml.boolean("BucketKeyEnabled", value=default.bucket_key))
    if default.blocked:
        words = "".join(xml.element("EncryptionType", word) for word in default.blocked)
        pieces.append(f"<BlockedEncryptionTypes>{words}</BlockedEncryptionTypes>")
    return xml.document("ServerSideEncryptionConfiguration", *pieces, "</Rule>")


def wish(request: Request) -> Wish | None:
    """How a write asks for its content to be encrypted. Errors: those of `encryption.wish_of` and `_over_safe_way`."""
    wanted = encryption.wish_of(request.fields)
    if wanted is not None:
        _over_safe_way(request, wanted.customer)
    return wanted


def customer_key(request: Request) -> CustomerKey | None:
    """The key that a part, or a Complete, brings. Errors: those of `encryption.customer_key_of`, InvalidRequest."""
    return _over_safe_way(request, encryption.customer_key_of(request.fields))


def read_key(request: Request) -> CustomerKey | None:
    """The key that a read brings. Errors: those of `encryption.customer_key_of_read`, InvalidRequest."""
    return _over_safe_way(request, encryption.customer_key_of_read(request.fields))


def source_key(request: Request) -> CustomerKey | None:
    """The key that a copy brings for its source. Errors: those of `encryption.source_key_of`, InvalidRequest."""
    return _over_safe_way(request, encryption.source_key_of(request.fields))


def _over_safe_way(request: Request, customer: CustomerKey | None) -> CustomerKey | None:
    """A key must not travel in the clear, unless the operator says that something before us protects it."""
    rules = request.services.content_keys.rules
    if customer is not None and request.call.scheme != "https" and not rules.customer_keys_over_http:
        raise S3Error(S3Code.InvalidRequest, _PLAIN_HTTP)
    return customer
