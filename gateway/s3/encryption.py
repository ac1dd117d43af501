"""Server-side encryption as requests and answers say it: headers in, what a bucket asks for by default, headers out.

Pure functions. A content is encrypted in one of three ways: SSE-S3 and SSE-KMS by keys of the store, SSE-C by a key
that every request brings and nobody keeps.
"""

import base64
import hashlib
import hmac
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgpack

from gateway.s3.errors import S3Code, S3Error
from gateway.s3.schemas.answers import Headers
from tiers.datapath.encryption import KEY_BYTES, Envelope

SSE_S3: Final = "AES256"
SSE_KMS: Final = "aws:kms"
SSE_C: Final = "SSE-C"

UNSERVED_METHODS: Final = frozenset({"aws:kms:dsse", "aws:fsx", "aws:backup"})
"""Methods of the AWS model that need services of AWS's."""

_METHOD: Final = b"x-amz-server-side-encryption"
_KEY_ID: Final = _METHOD + b"-aws-kms-key-id"
_CONTEXT: Final = _METHOD + b"-context"
_BUCKET_KEY: Final = _METHOD + b"-bucket-key-enabled"
_STORE_NAMES: Final = (_METHOD, _KEY_ID, _CONTEXT, _BUCKET_KEY)
_CUSTOMER: Final = _METHOD + b"-customer-"
_SOURCE_CUSTOMER: Final = b"x-amz-copy-source-server-side-encryption-customer-"
_WORDS: Final = (b"algorithm", b"key", b"key-md5")
_CUSTOMER_NAMES: Final = tuple(_CUSTOMER + word for word in _WORDS)
_SOURCE_NAMES: Final = tuple(_SOURCE_CUSTOMER + word for word in _WORDS)
_NAMES: Final = frozenset(_STORE_NAMES + _CUSTOMER_NAMES)

_CONTEXT_BYTES_MAX: Final = 8192
_KEY_ID_CHARACTERS_MAX: Final = 2048

_WITH_CUSTOMER_KEY: Final = "Requests specifying Server Side Encryption with Customer provided keys must "
_BOOLEANS: Final = {b"true": True, b"false": False}


@dataclass(frozen=True, slots=True)
class CustomerKey:
    """A key that a request brings, and its MD5 in base64 as the answer repeats it."""

    key: bytes = field(repr=False)
    md5: str


@dataclass(frozen=True, slots=True)
class Wish:
    """How a content is to be encrypted. `key_id` empty under SSE-KMS means the store's default key.

    `context` is the canonical JSON of an encryption context, empty when there is none.
    """

    kind: str
    key_id: str = ""
    context: bytes = b""
    is_bucket_key: bool = False
    customer: CustomerKey | None = None


@dataclass(frozen=True, slots=True)
class BucketDefault:
    """A bucket's encryption configuration as put; `bucket_key` None means that the element was not sent."""

    method: str = ""
    key_id: str = ""
    bucket_key: bool | None = None
    blocked: tuple[str, ...] = ()

    @property
    def wish(self) -> Wish | None:
        """What a write gets that asks for nothing itself."""
        if not self.method:
            return None
        return Wish(self.method, self.key_id, is_bucket_key=self.method == SSE_KMS and bool(self.bucket_key))

    @property
    def blocks_customer_keys(self) -> bool:
        """Whether SSE-C writes are refused."""
        return SSE_C in self.blocked

    def pack(self) -> bytes:
        """The form of the bucket's document."""
        packed: bytes = msgpack.packb([self.method, self.key_id, self.bucket_key, self.blocked])
        return packed


def compile_default(document: bytes) -> BucketDefault:
    """Inverse of `BucketDefault.pack`."""
    method, key_id, bucket_key, blocked = msgpack.unpackb(document)
    return BucketDefault(method, key_id, bucket_key, tuple(blocked))


def wish_of(fields: Mapping[bytes, bytes]) -> Wish | None:
    """How the headers of a write ask for its content to be encrypted; None when they say nothing.

    Errors: InvalidArgument, InvalidEncryptionAlgorithmError, InvalidRequest, NotImplemented.
    """
    if _NAMES.isdisjoint(fields):
        return None
    customer = _customer_key(fields, _CUSTOMER_NAMES)
    method = fields.get(_METHOD, b"").decode("latin-1")
    if customer is not None:
        for name in _STORE_NAMES:
            if name in fields:
                message = (
                    "Server Side Encryption with Customer provided key is incompatible with the encryption method "
                    "specified"
                )
                raise _invalid(name, fields, message)
        return Wish(SSE_C, customer=customer)
    if method in UNSERVED_METHODS:
        message = f"The encryption method {method} is not implemented."
        raise S3Error(S3Code.NotImplemented, message, Header=_METHOD.decode())
    if _METHOD in fields and method not in {SSE_S3, SSE_KMS}:
        raise _invalid(_METHOD, fields, "The encryption method specified is not supported")
    if method != SSE_KMS:
        for name in (_KEY_ID, _CONTEXT):
            if name in fields:
                message = (
                    "Server Side Encryption with AWS KMS managed key requires HTTP header x-amz-server-side-encryption "
                    ": aws:kms"
                )
                raise _invalid(name, fields, message)
    is_bucket_key = _boolean(fields, _BUCKET_KEY)
    if not method:
        raise _invalid(_BUCKET_KEY, fields, "A bucket key needs an encryption method.")
    if method == SSE_S3:
        return Wish(SSE_S3)
    return Wish(SSE_KMS, _key_id(fields), _context(fields), is_bucket_key)


def customer_key_of(fields: Mapping[bytes, bytes]) -> CustomerKey | None:
    """The key that a request brings for the content it names; None without one.

    Errors: InvalidArgument, InvalidEncryptionAlgorithmError.
    """
    return _customer_key(fields, _CUSTOMER_NAMES)


def source_key_of(fields: Mapping[bytes, bytes]) -> CustomerKey | None:
    """The same for the source of a copy."""
    return _customer_key(fields, _SOURCE_NAMES)


def customer_key_of_read(fields: Mapping[bytes, bytes]) -> CustomerKey | None:
    """The key that a GET or HEAD brings.

    Errors: those of `customer_key_of`; InvalidArgument for the headers of the other kinds: the store knows how it
    encrypted, and a client that says so asks for something else.
    """
    if _NAMES.isdisjoint(fields):
        return None
    for name in _STORE_NAMES:
        if name in fields:
            raise _invalid(name, fields, f"{name.decode()} header is not supported for this operation.")
    return _customer_key(fields, _CUSTOMER_NAMES)


def _customer_key(fields: Mapping[bytes, bytes], names: Sequence[bytes]) -> CustomerKey | None:
    algorithm, key, md5 = [fields.get(name) for name in names]
    if algorithm is key is md5 is None:
        return None
    if not algorithm:
        raise _named(names[0], f"{_WITH_CUSTOMER_KEY}provide a valid encryption algorithm.")
    if algorithm != b"AES256":
        raise S3Error(
            S3Code.InvalidEncryptionAlgorithmError,
            ArgumentName=names[0].decode(),
            ArgumentValue=algorithm.decode("latin-1"),
        )
    if not key:
        raise _named(names[1], f"{_WITH_CUSTOMER_KEY}provide an appropriate secret key.")
    if not md5:
        raise _named(names[2], f"{_WITH_CUSTOMER_KEY}provide the client calculated MD5 of the secret key.")
    secret = _decoded(key)
    if len(secret) != KEY_BYTES:
        raise _named(names[1], "The secret key was invalid for the specified algorithm.")
    computed = hashlib.md5(secret, usedforsecurity=False).digest()
    if not hmac.compare_digest(computed, _decoded(md5)):
        raise _named(names[2], "The calculated MD5 hash of the key did not match the hash that was provided.")
    return CustomerKey(secret, md5.decode("ascii"))


def _decoded(value: bytes) -> bytes:
    """Base64 as bytes, nothing for what is no base64."""
    try:
        return base64.b64decode(value, validate=True)
    except ValueError:
        return b""


def _named(name: bytes, message: str) -> S3Error:
    """InvalidArgument that does not repeat the value: it may be a key."""
    return S3Error(S3Code.InvalidArgument, message, ArgumentName=name.decode(), ArgumentValue="null")


def _invalid(name: bytes, fields: Mapping[bytes, bytes], message: str) -> S3Error:
    value = fields[name].decode("latin-1")
    return S3Error(S3Code.InvalidArgument, message, ArgumentName=name.decode(), ArgumentValue=value)


def _boolean(fields: Mapping[bytes, bytes], name: bytes) -> bool:
    value = _BOOLEANS.get(fields.get(name, b"false").lower())
    if value is None:
        raise _invalid(name, fields, "The value must be true or false.")
    return value


def _key_id(fields: Mapping[bytes, bytes]) -> str:
    value = fields.get(_KEY_ID, b"")
    if not is_key_id(value.decode("latin-1")):
        raise _invalid(_KEY_ID, fields, "The key id is not valid.")
    return value.decode("ascii")


def is_key_id(text: str) -> bool:
    """Whether a text may be the id of a key, which answers repeat in a header; empty means the default key."""
    return len(text) <= _KEY_ID_CHARACTERS_MAX and text.isascii() and text.isprintable()


def _context(fields: Mapping[bytes, bytes]) -> bytes:
    """The encryption context in canonical form, so that the order in which a client writes it does not matter."""
    value = fields.get(_CONTEXT)
    if value is None:
        return b""
    message = "The encryption context must be the base64 of a JSON object of strings."
    if len(value) > _CONTEXT_BYTES_MAX:
        raise _invalid(_CONTEXT, fields, message)
    try:
        pairs = json.loads(_decoded(value), object_pairs_hook=_Pairs)
    except (ValueError, RecursionError):
        pairs = None
    if not isinstance(pairs, _Pairs) or not all(isinstance(held, str) for _, held in pairs):
        raise _invalid(_CONTEXT, fields, message)
    if len({name for name, _ in pairs}) != len(pairs):
        raise _invalid(_CONTEXT, fields, message)
    return json.dumps(dict(sorted(pairs)), separators=(",", ":")).encode()


class _Pairs(list[tuple[str, Any]]):
    """A JSON object as it was written; tells it from an array."""


def answer_lines(envelope: Envelope, customer: CustomerKey | None) -> Headers:
    """The headers that tell how a content is encrypted; `customer` is the key that the request brought."""
    if envelope.kind == SSE_C:
        assert customer is not None
        return [(_CUSTOMER_NAMES[0], b"AES256"), (_CUSTOMER_NAMES[2], customer.md5.encode("ascii"))]
    lines: Headers = [(_METHOD, envelope.kind.encode("ascii"))]
    if envelope.kind == SSE_KMS:
        lines.append((_KEY_ID, envelope.key_id.encode("ascii")))
        if envelope.is_bucket_key:
            lines.append((_BUCKET_KEY, b"true"))
    return lines


def context_lines(envelope: Envelope) -> Headers:
    """The encryption context, which only answers to writes repeat."""
    return [(_CONTEXT, base64.b64encode(envelope.context))] if envelope.context else []
