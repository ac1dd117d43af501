"""What a move has to do with one version, and which moves go together: pure decisions over rows.

A move changes the home tier of one version. Its stored bytes go as they are (ciphertext too), extent by extent, so that
part boundaries and envelopes stay true: small contents together into one pack, a large one into a blob of its own.
"""

from base64 import b64decode
from collections.abc import Collection, Iterable, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from metadata.moves import Move
from metadata.types import Extent, Version, unpack_extents
from tiers.datapath.body import MD5
from tiers.datapath.digests import DIGEST_NAMES
from tiers.namespace.types import SMALL_CONTENT_BYTES_MAX

HAUL_VERSIONS_MAX: Final = 512
HAUL_BYTES_MAX: Final = 64 << 20
"""Versions and bytes of one new pack: bound the step that swaps them all, and what a failure throws away."""

ATTEMPTS_MAX: Final = 8
BACKOFF_SECONDS_MIN: Final = 5.0
BACKOFF_SECONDS_MAX: Final = 3600.0
"""A move that fails is tried again, later each time, and given up after so many tries."""


class Result(StrEnum):
    """How a move ended."""

    MOVED = "moved"
    LOST = "lost"  # the version was overwritten or deleted first
    CANCELLED = "cancelled"
    FAILED = "failed"


class Reason(StrEnum):
    """Who asked for a move; a closed set, as it is a metric label."""

    LIFECYCLE = "lifecycle"
    POLICY = "policy"
    HEAT = "heat"
    WATERMARK = "watermark"
    DRAIN = "drain"
    OPERATOR = "operator"


class Way(StrEnum):
    """How the bytes of a version go."""

    NONE = "none"  # no bytes, or they lie in the target tier already: only the row changes
    PACKED = "packed"
    STRIPED = "striped"


class Load(NamedTuple):
    """One version that is to be moved, as it was seen. Its row is swapped only while its extents are these."""

    move: Move
    version: Version

    @property
    def extents(self) -> list[Extent]:
        """Where the bytes are."""
        return unpack_extents(self.version.extents)


class Placed(NamedTuple):
    """What came of one load: where its bytes are now, or why they could not be read."""

    load: Load
    extents: Sequence[Extent]
    error: str = ""


class Haul(NamedTuple):
    """Versions that go together, one way, to one tier."""

    way: Way
    target: str
    loads: Sequence[Load]


def way_of(version: Version, target: str, tiers: Collection[str]) -> Way:
    """How a version's bytes go to `target`; `tiers` are those that its blobs lie in.

    The tiers of the blobs count and not the version's own: a copy shares the extents of its source, wherever they are.
    """
    if all(tier == target for tier in tiers):
        return Way.NONE
    size = sum(extent.length for extent in unpack_extents(version.extents))
    return Way.PACKED if size <= SMALL_CONTENT_BYTES_MAX else Way.STRIPED


def first_haul(weighed: Iterable[tuple[Load, Way]]) -> Haul | None:
    """What goes first, and what goes with it; None when there is nothing.

    The most urgent load decides way and tier. A large one goes alone, others take along what goes the same way, up to
    the bounds of a haul.
    """
    chosen: list[Load] = []
    way, target, filled = Way.NONE, "", 0
    for load, its_way in weighed:
        size = sum(extent.length for extent in load.extents)
        if not chosen:
            way, target = its_way, load.move.target
        elif its_way is not way or load.move.target != target or filled + size > HAUL_BYTES_MAX:
            continue
        chosen.append(load)
        filled += size
        if way is Way.STRIPED or len(chosen) == HAUL_VERSIONS_MAX:
            break
    return Haul(way, target, chosen) if chosen else None


def declared_digest(version: Version) -> tuple[str, bytes] | None:
    """A digest of the whole stored content that the row declares, None when none covers these very bytes.

    An encrypted content is stored as ciphertext and its digests are the plaintext's; a composite checksum is one of
    checksums. The blocks of all of them carry their own checksums nevertheless.
    """
    if version.encryption:
        return None
    algorithm, _, rest = version.checksum.partition(":")
    kind, _, value = rest.partition(":")
    if kind == "FULL_OBJECT" and algorithm in DIGEST_NAMES and value:
        return algorithm, b64decode(value)
    if not (version.checksum or version.parts) and len(version.etag) == 32:
        return MD5, bytes.fromhex(version.etag)
    return None


def backoff_seconds(attempts: int) -> float:
    """Rest before the next try after so many; pure, and the same for all: the queue spreads them by itself."""
    assert attempts > 0
    return min(BACKOFF_SECONDS_MIN * 2.0 ** min(attempts - 1, 16), BACKOFF_SECONDS_MAX)
