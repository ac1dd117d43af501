"""The snapshot worker: what the log may be given up for is durable in the database too."""

import asyncio
import shutil
from pathlib import Path

from metadata.session import open_metadata
from metadata.tables import CHAIN
from tests.metadata_rows import ask
from tests.world import open_world
from tiers.commit.snapshot import log_devices
from tiers.upkeep.snapshots import Snapshots


def test_a_power_cut_after_a_snapshot_needs_no_log_before_it(tmp_path: Path) -> None:
    async def check() -> int:
        async with open_world(tmp_path) as world:
            await world.put("bucket", "k", b"content")
            store = log_devices(world.catalogue, world.fleet)
            worker = Snapshots(world.metadata, world.reader, store, clock=world.clock, rest_seconds=1)
            assert (await worker.step()).items == 1
            assert (await worker.step()).items == 0
            shutil.copy(tmp_path / "index.db", tmp_path / "cut.db")  # without its write-ahead log
            return store.manifests()[0].sequence

    sequence = asyncio.run(check())
    head = ask(open_metadata(f"sqlite:///{tmp_path / 'cut.db'}"), lambda reader: reader.get_row(CHAIN, (0,)))
    assert head is not None
    assert head.sequence >= sequence
