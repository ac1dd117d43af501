"""Checksums of objects from those of their parts: composition and CRC combination. No content is read here."""

from base64 import b64decode, b64encode
from collections.abc import Sequence
from typing import Final, NamedTuple

from metadata.types import Part
from tiers.datapath.body import CRC64NVME
from tiers.datapath.digests import COMBINABLE, DigestSet, combine

FULL_OBJECT: Final = "FULL_OBJECT"
COMPOSITE: Final = "COMPOSITE"


class Checksum(NamedTuple):
    """A checksum as stored in a version: algorithm, type, and base64 value (composite: followed by `-N`)."""

    algorithm: str
    kind: str
    value: str

    def __str__(self) -> str:
        return ":".join(self)


def parse_checksum(stored: str) -> Checksum | None:
    """Inverse of `str(Checksum)`; None for a version without one."""
    return Checksum(*stored.split(":", 2)) if stored else None


def full_checksum_prefix(algorithm: str) -> str:
    """What stands before the base64 value in the stored form of a checksum over a whole content."""
    return f"{algorithm}:{FULL_OBJECT}:"


def type_of(algorithm: str, wanted: str) -> str:
    """The checksum type of an upload: `wanted`, or the algorithm's default."""
    return wanted or (FULL_OBJECT if algorithm == CRC64NVME else COMPOSITE)


def object_checksum(algorithm: str, kind: str, parts: Sequence[Part]) -> Checksum:
    """Checksum of an object made of `parts`, each with its base64 checksum of the same algorithm."""
    assert parts
    digests = [b64decode(part.checksum) for part in parts]
    if kind == FULL_OBJECT and algorithm in COMBINABLE:
        digest = combine(algorithm, zip(digests, [part.size for part in parts], strict=True))
        return Checksum(algorithm, FULL_OBJECT, b64encode(digest).decode())
    digest = digest_of(algorithm, b"".join(digests))
    return Checksum(algorithm, COMPOSITE, f"{b64encode(digest).decode()}-{len(parts)}")


def digest_of(algorithm: str, data: bytes) -> bytes:
    """One digest of one short run of bytes."""
    digests = DigestSet([algorithm])
    digests.update(memoryview(data))
    return digests.results()[algorithm]
