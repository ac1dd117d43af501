"""What the committer takes: mutations, decided inside one transaction, durable before their future resolves.

One batch = the bodies of small contents and the redo images of every row the batch changed, appended to r copies of
the worker's open pack in one parallel flush, then the database commit. See `tiers.commit.committer`.
"""

import asyncio
from collections.abc import Iterable
from typing import Any, NamedTuple, Protocol, TypeVar

from metadata.contract import Transaction
from metadata.tables import Table
from metadata.types import Extent

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")


class Slot(NamedTuple):
    """What the committer gives a mutation: its place in the order, the time, and where its body lies.

    `sequence` is unique and grows in commit order. `extent` is where `body` will be (None without a body); its pack's
    Blob row is already in the transaction, and whoever references the extent adds its length to `live_bytes`.
    """

    sequence: int
    now_ms: int
    extent: Extent | None


class Mutation(Protocol[T_co]):
    """One atomic change of metadata, with the body of a small content when `body` is not None (at most 128 KiB).

    `apply` runs inside a step of the transaction. It first reads, then decides, then puts; an
    exception undoes its step alone and is what the submitter's future raises. A mutation whose class says `is_brief`
    reads and puts a few rows at most; only such ones are ever applied on the event loop.
    """

    body: bytes | None
    tier: str
    """Tier whose open pack takes the body; ignored without one."""

    def reads(self) -> Iterable[tuple[Table[Any], tuple[Any, ...]]]:
        """Primary keys that `apply` will `get`, so that they can be fetched in one round trip."""

    def apply(self, transaction: Transaction, slot: Slot) -> T_co: ...


class Committer(Protocol):
    """Group commit of one process."""

    def submit(self, mutation: Mutation[T]) -> asyncio.Future[T]:
        """Queue a mutation; call on the event loop. The future resolves after the batch is durable and committed.

        Errors of the future: what `apply` raised (nothing changed); QuorumNotReached or MetadataUnavailable (the
        outcome is unknown: visible later whole, or never). StoreBusy when the queue is full (nothing changed).
        """
