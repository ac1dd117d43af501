"""Leases: of all control processes that share a database, one at a time works on a job."""

from collections.abc import Callable, Iterable
from typing import Any

from metadata.contract import Transaction
from metadata.tables import LEASE, Table
from metadata.types import Lease
from tiers.commit.contract import Committer, Slot


class TakeLease:
    """Takes a lease that is free, over, or the holder's own already."""

    __slots__ = ("_holder", "_lease_ms", "_name", "body", "tier")

    def __init__(self, name: str, holder: str, lease_ms: int) -> None:
        self._name, self._holder, self._lease_ms = name, holder, lease_ms
        self.body: bytes | None = None
        self.tier = ""

    def reads(self) -> Iterable[tuple[Table[Any], tuple[Any, ...]]]:
        """The lease."""
        yield LEASE, (self._name,)

    def apply(self, transaction: Transaction, slot: Slot) -> bool:
        """Whether the holder has it now."""
        row = transaction.get(LEASE, (self._name,))
        if row is not None and row.holder != self._holder and row.expires_ms > slot.now_ms:
            return False
        transaction.put(LEASE, Lease(self._name, self._holder, slot.now_ms + self._lease_ms))
        return True


class HeldLease:
    """One holder's side of a lease; renewed when half of it is over."""

    def __init__(
        self, committer: Committer, name: str, holder: str, *, seconds: float, clock: Callable[[], float]
    ) -> None:
        self._committer = committer
        self._name, self._holder = name, holder
        self._seconds = seconds
        self._clock = clock
        self._until = 0.0

    async def hold(self) -> bool:
        """Whether the lease is ours for at least half its length from now. Errors: those of a commit."""
        now = self._clock()
        if self._until - now >= self._seconds / 2:
            return True
        is_ours = await self._committer.submit(TakeLease(self._name, self._holder, int(self._seconds * 1000)))
        self._until = now + self._seconds if is_ours else 0.0
        return is_ours
