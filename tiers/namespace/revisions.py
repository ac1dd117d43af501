"""Revisions: counters in the database that tell every process when to reload what they name."""

from collections.abc import Iterable
from typing import Any, Final

from metadata.contract import Transaction
from metadata.tables import REVISION, Table
from metadata.types import Revision

CREDENTIALS: Final = "credentials"
"""Principals and access keys."""

TOPOLOGY: Final = "topology"
"""Tiers and devices."""

Key = tuple[Table[Any], tuple[Any, ...]]


class RevisionChange:
    """Base of mutations that carry no body and raise one revision when they change anything."""

    body: bytes | None = None
    tier: str = ""
    revision: str

    def reads(self) -> Iterable[Key]:
        """See `tiers.commit.contract.Mutation`."""
        yield REVISION, (self.revision,)
        yield from self._keys()

    def _keys(self) -> Iterable[Key]:
        return ()

    def _raise(self, transaction: Transaction) -> None:
        """Add one to the revision, in the transaction of the change itself."""
        row = transaction.get(REVISION, (self.revision,))
        transaction.put(REVISION, Revision(self.revision, 1 if row is None else row.value + 1))
