"""Checksums as clients declare them: which one, where its value stands, and whether it holds.

Header and trailer forms of every algorithm of the AWS model. What is not in the table is refused by name: a checksum
that is not verified would be a promise not kept.
"""

import base64
import binascii
from collections.abc import Mapping
from typing import Final, NamedTuple

from gateway.http.call import Call
from gateway.s3.errors import S3Code, S3Error
from tiers.datapath.body import CRC64NVME, MD5
from tiers.datapath.digests import COMBINABLE, DigestSet

DIGEST_BYTES: Final[Mapping[str, int]] = {
    "CRC32": 4,
    "CRC32C": 4,
    CRC64NVME: 8,
    "SHA1": 20,
    "SHA256": 32,
    "SHA512": 64,
    MD5: 16,
    "XXHASH64": 8,
    "XXHASH3": 8,
    "XXHASH128": 16,
}
"""The algorithms served, and the length of their values."""

DEFAULT_ALGORITHM: Final = CRC64NVME
"""Computed and stored when a client declares none, as AWS does."""

FULL_OBJECT: Final = "FULL_OBJECT"
COMPOSITE: Final = "COMPOSITE"

_PREFIX: Final = b"x-amz-checksum-"
_SERVED: Final = {_PREFIX + name.lower().encode(): name for name in DIGEST_BYTES}
_OTHER_NAMES: Final = frozenset({_PREFIX + b"mode", _PREFIX + b"type", _PREFIX + b"algorithm"})
"""Headers of the same prefix that carry no value."""

_TRAILER: Final = b"x-amz-trailer"
_SDK_ALGORITHM: Final = b"x-amz-sdk-checksum-algorithm"
_EMPTY_VALUES: Final = DigestSet(DIGEST_BYTES).results()


class Declared(NamedTuple):
    """A checksum declared for a body. `value` None: it comes in the trailer. `in_query`: a presigner moved it there."""

    algorithm: str
    value: bytes | None
    in_query: bool = False

    @property
    def header(self) -> bytes:
        """Lower-case name of the header or trailer that carries the value."""
        return header_of(self.algorithm)


def header_of(algorithm: str) -> bytes:
    """The header that carries a value of `algorithm`."""
    return _PREFIX + algorithm.lower().encode()


def parse_declared(call: Call, *, has_trailer: bool) -> Declared | None:
    """The checksum a request declares for its body, None when it declares none.

    Errors: InvalidRequest for two of them, for a trailer in a mode without one, and where the SDK's word for the
    algorithm has no value beside it; NotImplemented naming the header of an unknown algorithm; BadDigest for a value
    of the wrong form.
    """
    fields = call.fields
    names = [name for name in fields if name[:15] == _PREFIX and name not in _OTHER_NAMES]
    for name in names:
        if name not in _SERVED:
            message = "This checksum algorithm is not implemented."
            raise S3Error(S3Code.NotImplemented, message, Header=name.decode("latin-1"))
    trailer = _parse_trailer(fields.get(_TRAILER), has_trailer=has_trailer)
    if len(names) + (trailer is not None) > 1:
        raise S3Error(
            S3Code.InvalidRequest,
            "Expecting a single x-amz-checksum- header. Multiple checksum Types are not allowed.",
        )
    declared = trailer
    if names:
        value = decode_value(_SERVED[names[0]], fields[names[0]])
        in_query = call.query != b"" and names[0] in call.query.lower()
        declared = Declared(_SERVED[names[0]], value, in_query)
    _judge_sdk_algorithm(fields.get(_SDK_ALGORITHM), declared)
    return declared


def _parse_trailer(announced: bytes | None, *, has_trailer: bool) -> Declared | None:
    if announced is None:
        return None
    name = announced.lower()
    if not has_trailer or name not in _SERVED:
        raise S3Error(S3Code.InvalidRequest, "The value specified in the x-amz-trailer header is not supported")
    return Declared(_SERVED[name], None)


def _judge_sdk_algorithm(word: bytes | None, declared: Declared | None) -> None:
    if word is None:
        return
    algorithm = parse_algorithm(word)
    if declared is None:
        raise S3Error(
            S3Code.InvalidRequest,
            "x-amz-sdk-checksum-algorithm specified, but no corresponding x-amz-checksum-* or x-amz-trailer headers "
            "were found.",
        )
    if algorithm != declared.algorithm:
        raise S3Error(S3Code.InvalidRequest, "Value for x-amz-sdk-checksum-algorithm header is invalid.")


def parse_algorithm(word: bytes) -> str:
    """The algorithm a header names, in any case. Errors: InvalidRequest."""
    algorithm = word.decode("latin-1").upper()
    if algorithm in DIGEST_BYTES:
        return algorithm
    raise S3Error(
        S3Code.InvalidRequest,
        "Checksum algorithm provided is unsupported. Please try again with any of the valid types: "
        f"[{', '.join(DIGEST_BYTES)}]",
    )


def parse_checksum_type(word: bytes, algorithm: str) -> str:
    """FULL_OBJECT or COMPOSITE, where `algorithm` allows it. Errors: InvalidRequest."""
    kind = word.decode("latin-1").upper()
    if kind not in {FULL_OBJECT, COMPOSITE}:
        raise S3Error(S3Code.InvalidRequest, "Value for x-amz-checksum-type header is invalid.")
    if not algorithm:
        raise S3Error(
            S3Code.InvalidRequest,
            "The x-amz-checksum-type header can only be used with the x-amz-checksum-algorithm header.",
        )
    if kind == (COMPOSITE if algorithm == CRC64NVME else "" if algorithm in COMBINABLE else FULL_OBJECT):
        raise S3Error(
            S3Code.InvalidRequest,
            f"The {kind} checksum type cannot be used with the {algorithm.lower()} checksum algorithm.",
        )
    return kind


def decode_value(algorithm: str, text: bytes) -> bytes:
    """A checksum's bytes.

    Errors: BadDigest when it is not base64 of the right length, InvalidRequest for two values.
    """
    if b"," in text:
        raise S3Error(S3Code.InvalidRequest, "Expecting a single value in the x-amz-checksum- header.")
    value = _decode(text)
    if value is None or len(value) != DIGEST_BYTES[algorithm]:
        name = header_of(algorithm).decode()
        raise S3Error(S3Code.BadDigest, f"Value for {name} header is invalid.")
    return value


def encode_value(value: bytes) -> str:
    """A checksum as headers, documents and rows carry it."""
    return base64.b64encode(value).decode("ascii")


def parse_content_md5(text: bytes | None) -> bytes | None:
    """The bytes of Content-MD5. Errors: InvalidDigest when it is empty or malformed."""
    if text is None:
        return None
    value = _decode(text)
    if value is None or len(value) != 16:
        raise S3Error(S3Code.InvalidDigest)
    return value


def _decode(text: bytes) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None


def verify_content_md5(declared: bytes, digests: Mapping[str, bytes]) -> None:
    """Errors: BadDigest."""
    if digests[MD5] != declared:
        raise S3Error(
            S3Code.BadDigest,
            "The Content-MD5 you specified did not match what we received.",
            ExpectedDigest=declared.hex(),
            CalculatedDigest=encode_value(digests[MD5]),
        )


def verify_checksum(declared: Declared, value: bytes, digests: Mapping[str, bytes]) -> None:
    """Errors: BadDigest."""
    if digests[declared.algorithm] == value:
        return
    message = f"The {declared.algorithm} you specified did not match the calculated checksum."
    if declared.in_query and is_of_nothing(declared.algorithm, value):
        # Presigners that checksum the body they do not have yet put the checksum of nothing into the URL.
        message += (
            " The value in the presigned URL is that of an empty body: presign with the SDK setting "
            "requestChecksumCalculation WHEN_REQUIRED."
        )
    raise S3Error(S3Code.BadDigest, message)


def is_of_nothing(algorithm: str, value: bytes) -> bool:
    """Whether a value is the algorithm's checksum of an empty body."""
    return value == _EMPTY_VALUES[algorithm]


def require_checksum(call: Call, declared: Declared | None) -> None:
    """For operations that must carry a checksum. Errors: InvalidRequest naming both ways."""
    if declared is None and b"content-md5" not in call.fields:
        raise S3Error(
            S3Code.InvalidRequest, "Missing required header for this request: Content-MD5 OR x-amz-checksum-*"
        )
