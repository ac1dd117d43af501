"""Which versions of encryption keys a store has used: remembered with its data, the keys themselves elsewhere."""

from collections.abc import Iterable
from typing import Any

from metadata.contract import Transaction
from metadata.tables import REVISION, Table
from metadata.types import Revision
from tiers.commit.contract import Slot


def revision_of(name: str) -> str:
    """The revision whose value is the newest version of a key."""
    return f"encryption key {name}"


class NoteKeyVersion:
    """Remembers that a version of a key exists; never goes back."""

    def __init__(self, name: str, version: int) -> None:
        self.body: bytes | None = None
        self.tier = ""
        self._revision, self._version = revision_of(name), version

    def reads(self) -> Iterable[tuple[Table[Any], tuple[Any, ...]]]:
        """The revision."""
        yield REVISION, (self._revision,)

    def apply(self, transaction: Transaction, slot: Slot) -> None:
        """Raise the revision to the version."""
        del slot
        row = transaction.get(REVISION, (self._revision,))
        if row is None or row.value < self._version:
            transaction.put(REVISION, Revision(self._revision, self._version))
