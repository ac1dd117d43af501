"""Changes of tiers and devices, as mutations of the commit log."""

from dataclasses import dataclass

from metadata.contract import Transaction
from metadata.tables import DEVICE, TIER
from metadata.types import Device, TierRow
from tiers.commit.contract import Slot
from tiers.namespace.revisions import TOPOLOGY, RevisionChange


@dataclass(frozen=True)
class EnsureTopology(RevisionChange):
    """Enter the first tiers and devices; a store that has tiers already keeps what it has."""

    tiers: tuple[TierRow, ...]
    devices: tuple[Device, ...]

    revision = TOPOLOGY

    def apply(self, transaction: Transaction, slot: Slot) -> bool:
        """Whether the rows were entered."""
        del slot
        if transaction.scan(TIER, None, 1):
            return False
        for tier in self.tiers:
            transaction.put(TIER, tier)
        for device in self.devices:
            transaction.put(DEVICE, device)
        self._raise(transaction)
        return True
