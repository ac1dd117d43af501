"""The payload word: how the body takes part in the signature. A closed list; what is not in it is refused."""

import re
from enum import Enum
from typing import Final, NamedTuple

from gateway.auth.refusals import Refused


class PayloadMode(Enum):
    """How a body is to be verified."""

    HASHED = "hashed"  # its SHA-256 is in the signature
    UNSIGNED = "unsigned"
    SIGNED_CHUNKS = "signed chunks"
    SIGNED_CHUNKS_TRAILER = "signed chunks, signed trailer"
    UNSIGNED_CHUNKS_TRAILER = "unsigned chunks, unsigned trailer"


class Payload(NamedTuple):
    """The verified payload word of a request; `sha256` is in hex, empty unless the mode is HASHED."""

    mode: PayloadMode
    word: bytes
    sha256: bytes = b""

    @property
    def is_chunked(self) -> bool:
        """Whether the body is framed as aws-chunked."""
        return self.mode not in _WHOLE

    @property
    def has_trailer(self) -> bool:
        """Whether a trailer follows the last chunk."""
        return self.mode in _TRAILED

    @property
    def has_signed_chunks(self) -> bool:
        """Whether each chunk carries a signature."""
        return self.mode in _SIGNED


_WHOLE: Final = frozenset({PayloadMode.HASHED, PayloadMode.UNSIGNED})
_SIGNED: Final = frozenset({PayloadMode.SIGNED_CHUNKS, PayloadMode.SIGNED_CHUNKS_TRAILER})
_TRAILED: Final = frozenset({PayloadMode.SIGNED_CHUNKS_TRAILER, PayloadMode.UNSIGNED_CHUNKS_TRAILER})

UNSIGNED_WORD: Final = b"UNSIGNED-PAYLOAD"
UNSIGNED: Final = Payload(PayloadMode.UNSIGNED, UNSIGNED_WORD)

_WORDS: Final = {
    UNSIGNED_WORD: UNSIGNED,
    **{
        word: Payload(mode, word)
        for word, mode in (
            (b"STREAMING-AWS4-HMAC-SHA256-PAYLOAD", PayloadMode.SIGNED_CHUNKS),
            (b"STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER", PayloadMode.SIGNED_CHUNKS_TRAILER),
            (b"STREAMING-UNSIGNED-PAYLOAD-TRAILER", PayloadMode.UNSIGNED_CHUNKS_TRAILER),
        )
    },
}

CHUNKED_OPERATIONS: Final = frozenset({"PutObject", "AppendObject", "UploadPart"})
"""The only operations whose body may be aws-chunked."""

_HEX: Final = re.compile(rb"[0-9a-f]{64}")
_ANY_HEX: Final = re.compile(rb"[0-9A-Fa-f]{64}")
_STREAMING: Final = re.compile(rb"STREAMING-[A-Z0-9-]{1,80}")


def parse_payload(word: bytes) -> Payload:
    """The payload of a word.

    Errors: Refused NotImplemented for another STREAMING word, XAmzContentSHA256Mismatch for a hash in upper case,
    InvalidArgument for the rest.
    """
    if _HEX.fullmatch(word):
        return Payload(PayloadMode.HASHED, word, word)
    known = _WORDS.get(word)
    if known is not None:
        return known
    if _ANY_HEX.fullmatch(word):  # the hash is compared as text, and it is written in lower case
        raise Refused("XAmzContentSHA256Mismatch", "The x-amz-content-sha256 header must be in lower case.")
    if _STREAMING.fullmatch(word):
        raise Refused(
            "NotImplemented", "This streaming payload mode is not implemented.", Header="x-amz-content-sha256"
        )
    raise Refused(
        "InvalidArgument",
        "x-amz-content-sha256 must be UNSIGNED-PAYLOAD, STREAMING-AWS4-HMAC-SHA256-PAYLOAD, "
        "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER, STREAMING-UNSIGNED-PAYLOAD-TRAILER or a valid sha256 value.",
        ArgumentName="x-amz-content-sha256",
    )


def refuse_chunked(payload: Payload, *, operation: str, is_header_v4: bool) -> None:
    """Refuse aws-chunked framing outside the combinations that allow it: header V4, and an operation that streams."""
    if payload.is_chunked and not (is_header_v4 and operation in CHUNKED_OPERATIONS):
        raise Refused("InvalidRequest", "This request does not allow a streaming payload.")
