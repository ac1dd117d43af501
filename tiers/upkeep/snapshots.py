"""Snapshots of the metadata on the devices: they bound the commit log and speed up a rebuild."""

import asyncio
from collections.abc import Callable

from metadata.contract import Metadata, Reader
from metadata.tables import CHAIN
from tiers.commit.snapshot import RETAINED, Manifest, SnapshotStore, take_snapshot
from tiers.worker import Step


class Snapshots:
    """A worker without a cursor: what the newest manifest says is where it stands.

    `sequence` is the commit sequence up to which the log is no longer needed: that of the older of the two snapshots
    kept, so that one of them may turn out unreadable; 0 until there are two.
    """

    name = "snapshot"

    def __init__(
        self,
        metadata: Metadata,
        reader: Reader,
        store: SnapshotStore,
        *,
        clock: Callable[[], float],
        rest_seconds: float,
    ) -> None:
        self.sequence = 0
        self._metadata = metadata
        self._reader = reader
        self._store = store
        self._clock = clock
        self._rest_seconds = rest_seconds
        self._newest = 0
        self._is_known = False

    async def step(self) -> Step:
        """Take a snapshot when anything was committed since the last one, then remove the older ones.

        Once the log before a snapshot may go, a power cut must not need it: the database is made durable first.
        Cost: one pass over the logged tables, in a thread of its own. Errors: QuorumNotReached, MetadataUnavailable.
        """
        if not self._is_known:
            await asyncio.to_thread(self._look)
            self._is_known = True
        head = await self._reader.get_row(CHAIN, (0,))
        if head is None or head.sequence <= self._newest:
            return Step(0, is_idle=True)
        await asyncio.to_thread(self._metadata.checkpoint)
        await asyncio.to_thread(self._take)
        await asyncio.to_thread(self._look)
        return Step(1, is_idle=True)

    async def wait_for_work(self) -> None:
        """Rest between snapshots."""
        await asyncio.sleep(self._rest_seconds)

    def _look(self) -> None:
        """Read what snapshots there are, and remove those older than the ones kept."""
        kept = self._store.manifests()[:RETAINED]
        self._newest = kept[0].sequence if kept else 0
        self.sequence = kept[-1].sequence if len(kept) == RETAINED else 0
        self._store.remove_older_than(self.sequence)

    def _take(self) -> Manifest:
        """In a thread with its own loop and reader: compressing and storing would stall the caller's loop."""
        return asyncio.run(self._take_with_reader())

    async def _take_with_reader(self) -> Manifest:
        reader = await self._metadata.open_reader()
        try:
            return await take_snapshot(reader, self._store.store, int(self._clock() * 1000))
        finally:
            await reader.close()
