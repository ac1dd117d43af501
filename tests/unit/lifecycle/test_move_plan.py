"""Which moves go together, how, and what vouches for a content: tables. And how fast: budgets under a clock of ours."""

import asyncio
from base64 import b64encode
from typing import Any

import pytest

from metadata.moves import Move
from metadata.tables import MOVE
from metadata.types import BlobId, Extent, Version, pack_extents
from tests.metadata_rows import sample, version
from tests.world import Clock
from tiers.lifecycle.move_pacing import ByteRates
from tiers.lifecycle.move_plan import (
    BACKOFF_SECONDS_MAX,
    HAUL_BYTES_MAX,
    HAUL_VERSIONS_MAX,
    Load,
    Way,
    backoff_seconds,
    declared_digest,
    first_haul,
    way_of,
)

BLOB = BlobId(b"b" * 16)


def content(size: int, **changed: Any) -> Version:
    extents = (Extent(BLOB, 0, size, 1),) if size else ()
    return version(b"k", 1, extents=pack_extents(extents), is_delete_marker=0, **changed)


def load(size: int, target: str = "warm") -> Load:
    move: Move = sample(MOVE, 1, target=target)
    return Load(move, content(size))


@pytest.mark.parametrize(
    ("size", "tiers", "way"),
    [
        (0, (), Way.NONE),
        (9, ("warm",), Way.NONE),
        (9, ("hot",), Way.PACKED),
        (131_072, ("hot",), Way.PACKED),
        (131_073, ("hot", "warm"), Way.STRIPED),
    ],
)
def test_the_way_follows_bytes_and_where_they_are(size: int, tiers: tuple[str, ...], way: Way) -> None:
    assert way_of(content(size), "warm", tiers) is way


def test_a_haul_is_of_one_way_and_tier_and_bounded() -> None:
    small, large, cold = load(10), load(1 << 20), load(10, "cold")
    assert first_haul([]) is None
    alone = first_haul([(large, Way.STRIPED), (small, Way.PACKED), (large, Way.STRIPED)])
    assert alone == (Way.STRIPED, "warm", [large])
    together = first_haul([(small, Way.PACKED), (cold, Way.PACKED), (large, Way.STRIPED), (small, Way.PACKED)])
    assert together == (Way.PACKED, "warm", [small, small])
    many = first_haul([(small, Way.PACKED)] * (HAUL_VERSIONS_MAX + 1))
    assert many is not None
    assert len(many.loads) == HAUL_VERSIONS_MAX
    big = load(HAUL_BYTES_MAX // 2)
    heavy = first_haul([(big, Way.PACKED), (big, Way.PACKED), (small, Way.PACKED)])
    assert heavy is not None
    assert len(heavy.loads) == 2


def test_what_vouches_for_the_stored_bytes() -> None:
    digest = b64encode(bytes(8)).decode()
    table: list[tuple[dict[str, Any], tuple[str, bytes] | None]] = [
        ({"checksum": f"CRC64NVME:FULL_OBJECT:{digest}"}, ("CRC64NVME", bytes(8))),
        ({"checksum": f"CRC64NVME:COMPOSITE:{digest}"}, None),
        ({"checksum": "", "etag": "ab" * 16}, ("MD5", b"\xab" * 16)),
        ({"checksum": "", "etag": "ab" * 16 + "-2"}, None),
        ({"checksum": "", "etag": "ab" * 16, "parts": b"parts"}, None),
        ({"checksum": f"CRC64NVME:FULL_OBJECT:{digest}", "encryption": b"sealed"}, None),
    ]
    for changed, expected in table:
        row = content(9, **{"parts": b"", "encryption": b"", **changed})
        assert declared_digest(row) == expected, changed


def test_tries_come_ever_later_up_to_a_bound() -> None:
    rests = [backoff_seconds(attempts) for attempts in range(1, 30)]
    assert rests == sorted(rests)
    assert rests[0] > 0
    assert rests[-1] == BACKOFF_SECONDS_MAX


def test_a_budget_is_kept_a_tier() -> None:
    clock = Clock(0.0)
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        clock.advance(seconds)

    async def run() -> None:
        rates = ByteRates({"warm": 100, "free": 0}, 1000, clock, sleep)
        for _ in range(20):
            await rates.take("free", 1 << 30)
        await rates.take("hot", 1000)
        assert not waits
        for _ in range(11):
            await rates.take("warm", 100)
        assert 8 <= clock() <= 11, "1,100 bytes at 100 a second, the first second's at once"
        began = clock()
        await rates.take("hot", 1000)
        assert clock() == began, "one tier's debt is not another's"
        clock.advance(1000)
        await rates.take("warm", 100)
        await rates.take("warm", 100)
        assert clock() - began > 1000, "what was not used is not saved up"

    asyncio.run(run())
