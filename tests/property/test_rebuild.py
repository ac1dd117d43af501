"""Random histories with snapshots taken amid them: what is rebuilt from the devices equals the database that is gone.

A snapshot reads its pages while commits go on, so rows that imply references (versions that move, parts of uploads,
extents that compaction swaps) are met in every order. Reclaim goes as far as the snapshots allow.
"""

import asyncio
import random
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from metadata.contract import Metadata
from metadata.session import open_metadata
from metadata.tables import BLOB, EXTENT, TABLES, Table
from tests.audit import all_rows
from tests.property.test_namespace import LIMITS, History
from tests.world import GRACE_SECONDS, World, open_world, run_pass
from tiers.commit.rebuild import rebuild
from tiers.commit.snapshot import Manifest, log_devices, take_snapshot


class BusyReader:
    """The world's reader, before each page of which something else is committed."""

    def __init__(self, world: World, between: Callable[[], Awaitable[None]]) -> None:
        self._world, self._between = world, between

    async def get_row(self, table: Table[Any], key: tuple[Any, ...]) -> Any:
        return await self._world.reader.get_row(table, key)

    async def scan(self, table: Table[Any], after: tuple[Any, ...] | None, limit: int) -> list[Any]:
        await self._between()
        return await self._world.reader.scan(table, after, min(limit, 2))


class CoveredHistory(History):
    """A history whose reclaim takes no pack that a rebuild needs."""

    covered = 0

    async def reclaim(self) -> None:
        self.world.clock.advance(GRACE_SECONDS * self.rng.random())
        await run_pass(lambda: self.world.reclaim(snapshot_sequence=self.covered))


async def take(history: History) -> Manifest:
    reader: Any = BusyReader(history.world, lambda: history.run(1))
    store = log_devices(history.world.catalogue, history.world.fleet).store
    return await take_snapshot(reader, store, 1)


async def rows_of(metadata: Metadata) -> dict[str, list[Any]]:
    reader = await metadata.open_reader()
    try:
        rows = {table.name: await all_rows(reader, table) for table in TABLES if table.is_logged or table is EXTENT}
    finally:
        await reader.close()
    return rows | {BLOB.name: [row[:12] for row in rows[BLOB.name]]}  # the last column is who writes a pack now


async def play(seed: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with open_world(Path(folder), seed=seed, limits=LIMITS) as world:
            history = CoveredHistory(world, random.Random(seed))
            await history.run(20)
            first = await take(history)
            await history.run(10)
            await take(history)
            history.covered = first.sequence
            world.clock.advance(2 * GRACE_SECONDS)
            await history.reclaim()
            await history.run(10)
            rebuilt = open_metadata(f"sqlite:///{Path(folder) / 'rebuilt.db'}")
            rebuilt.migrate()
            await asyncio.to_thread(rebuild, rebuilt, world.fleet, progress=lambda *_: None)
            assert await rows_of(rebuilt) == await rows_of(world.metadata)


@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=6, deadline=None, derandomize=True)
def test_the_rebuilt_database_equals_the_one_that_is_gone(seed: int) -> None:
    asyncio.run(play(seed))
