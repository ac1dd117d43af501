"""Contents encrypted at rest: blocks of AES-256-GCM, and what a row keeps to open them again.

A content is one or more runs (one for a content put whole, one a part otherwise), concatenated. A run is cut into
blocks of plaintext, each sealed alone, so that a range opens only the blocks it touches. The key of a run is derived
from the content's data key and the run's own random salt; number of the run, block and "last of the run" are bound into
every block. A block that was changed, cut off, moved within its content or taken from another one does not open.
Everything below this module (checksums, coding, repair, moves) sees ciphertext only. See decisions/0012.
"""

import hmac
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

import msgpack
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tiers.errors import ContentUnreadable

BLOCK_BYTES: Final = 64 * 1024
"""Plaintext of one block: what the smallest range costs to open."""

TAG_BYTES: Final = 16
KEY_BYTES: Final = 32
NONCE_BYTES: Final = 16
"""Random bytes that stand for one content, and for one run of it."""

_FORMAT: Final = 1
_BOUND: Final = struct.Struct(">16s16sIQ?")
_COUNTER: Final = struct.Struct(">Q4x")


class Run(NamedTuple):
    """One run: its part number (0 for a content put whole), plaintext bytes and salt."""

    number: int
    size: int
    salt: bytes


class Envelope(NamedTuple):
    """What a row keeps of an encrypted content; holds no key that opens anything by itself.

    `kind`, `key_id`, `context`, `is_bucket_key` are the gateway's and opaque here. `wrapped_key` is the data key as its
    provider wrapped it; `commitment` binds a key that the client brings. `nonce` stands for the content, and for every
    copy that shares its bytes, in place of bucket and key: a copy or a rename then moves no byte.
    """

    kind: str
    key_id: str
    wrapped_key: bytes
    nonce: bytes
    context: bytes = b""
    commitment: bytes = b""
    is_bucket_key: bool = False
    block_bytes: int = BLOCK_BYTES
    runs: tuple[Run, ...] = ()

    def pack(self) -> bytes:
        """The form of a row."""
        packed: bytes = msgpack.packb([_FORMAT, *self[:-1], [list(run) for run in self.runs]])
        return packed

    @classmethod
    def unpack(cls, packed: bytes) -> "Envelope":
        """Inverse of `pack`. Errors: ContentUnreadable for what this release did not write."""
        try:
            form, *fields, runs = msgpack.unpackb(packed)
            envelope = cls._make([*fields, tuple([Run._make(run) for run in runs])])
        except (ValueError, TypeError) as error:
            raise ContentUnreadable("the encryption record of a row is damaged") from error
        if form != _FORMAT:
            raise ContentUnreadable(f"the encryption record of a row has form {form}")
        if any(before.number >= after.number for before, after in pairwise(envelope.runs)):
            raise ContentUnreadable("the runs of an encrypted content are out of order")
        return envelope

    @property
    def size(self) -> int:
        """Plaintext bytes of all runs."""
        return sum(run.size for run in self.runs)


@dataclass(frozen=True, slots=True, repr=False)
class ContentKey:
    """A data key in the clear with the envelope it belongs to; lives for one request and is never logged."""

    data_key: bytes
    envelope: Envelope


def sealed_length(size: int, block_bytes: int = BLOCK_BYTES) -> int:
    """Ciphertext bytes of a run of `size` plaintext bytes; nothing seals to nothing."""
    assert size >= 0
    return size + TAG_BYTES * -(-size // block_bytes)


class Block(NamedTuple):
    """One block to open: run, number in it, plaintext bytes, and which of them are wanted."""

    run: Run
    number: int
    size: int
    is_last: bool
    start: int
    stop: int


def cut_range(envelope: Envelope, start: int, stop: int) -> range:
    """Which ciphertext bytes of a content are exactly the blocks that hold its plaintext bytes [start, stop); pure.

    `start` < `stop`, both within the content.
    """
    assert 0 <= start < stop <= envelope.size
    block_bytes = envelope.block_bytes
    plain = sealed = 0
    first: int | None = None
    for run in envelope.runs:
        following = plain + run.size
        if first is None and start < following:
            first = sealed + (start - plain) // block_bytes * (block_bytes + TAG_BYTES)
        if stop <= following:
            assert first is not None
            whole = -(-(stop - plain) // block_bytes) * block_bytes
            return range(first, sealed + sealed_length(min(whole, run.size), block_bytes))
        plain, sealed = following, sealed + sealed_length(run.size, block_bytes)
    raise AssertionError("a range ends within its content")


def blocks_of(envelope: Envelope, start: int, stop: int) -> Iterator[Block]:
    """The blocks that hold plaintext bytes [start, stop), in order, each with the piece of it that is wanted; pure."""
    plain = 0
    for run in envelope.runs:
        first, last = max(start - plain, 0), min(stop - plain, run.size)
        if first < last:
            for number in range(first // envelope.block_bytes, -(-last // envelope.block_bytes)):
                at = number * envelope.block_bytes
                size = min(envelope.block_bytes, run.size - at)
                yield Block(run, number, size, at + size == run.size, max(first - at, 0), min(last - at, size))
        plain += run.size
        if plain >= stop:
            return


class RunCipher:
    """Seals or opens the blocks of one run. Stateless between calls and safe to use from any thread.

    A run is sealed once under its salt: sealing other bytes under the same salt would reveal both.
    """

    def __init__(self, key: ContentKey, number: int, salt: bytes) -> None:
        assert len(key.data_key) == KEY_BYTES
        assert len(salt) == len(key.envelope.nonce) == NONCE_BYTES
        self._nonce, self._number, self._salt = key.envelope.nonce, number, salt
        self._block_bytes = key.envelope.block_bytes
        # HKDF-SHA256 of one output block (RFC 5869).
        extracted = hmac.digest(salt, key.data_key, "sha256")
        expanded = hmac.digest(extracted, b"isotherm run" + self._nonce + number.to_bytes(4, "big") + b"\x01", "sha256")
        self._cipher = AESGCM(expanded)

    def seal(self, first: int, plain: memoryview, into: memoryview, *, is_last: bool) -> int:
        """Seal whole blocks from number `first` on (the last of the run may be short); return the bytes written.

        `is_last` says that the run ends with `plain`. `into` has room for `sealed_length` of it.
        """
        assert is_last or not len(plain) % self._block_bytes
        at = 0
        for number, start in enumerate(range(0, len(plain), self._block_bytes), first):
            block = plain[start : start + self._block_bytes]
            ends = is_last and start + len(block) == len(plain)
            nonce, bound = self._bound(number, is_last=ends)
            at += self._cipher.encrypt_into(nonce, block, bound, into[at : at + len(block) + TAG_BYTES])
        return at

    def open(self, number: int, sealed: memoryview, into: memoryview, *, is_last: bool) -> None:
        """Open one block into memory of exactly its plaintext size. Errors: ContentUnreadable; `into` is void then."""
        assert len(into) + TAG_BYTES == len(sealed)
        nonce, bound = self._bound(number, is_last=is_last)
        try:
            self._cipher.decrypt_into(nonce, sealed, bound, into)
        except InvalidTag:
            raise ContentUnreadable(f"block {number} of an encrypted content does not open") from None

    def _bound(self, number: int, *, is_last: bool) -> tuple[bytes, bytes]:
        return _COUNTER.pack(number), _BOUND.pack(self._nonce, self._salt, self._number, number, is_last)
