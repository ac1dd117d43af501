"""Positions of workers in the metadata database."""

from collections.abc import Iterable
from typing import Any

from metadata.contract import Reader, Transaction
from metadata.tables import CURSOR, Table
from metadata.types import Cursor
from tiers.commit.contract import Committer, Slot


class SaveCursor:
    """Records how far a worker came."""

    __slots__ = ("_row", "body", "tier")

    def __init__(self, name: str, position: bytes) -> None:
        self._row = Cursor(name, position)
        self.body: bytes | None = None
        self.tier = ""

    def reads(self) -> Iterable[tuple[Table[Any], tuple[Any, ...]]]:
        """Nothing: the row is replaced."""
        return ()

    def apply(self, transaction: Transaction, slot: Slot) -> None:
        """Replace the row."""
        del slot
        transaction.put(CURSOR, self._row)


class MetadataCursors:
    """`tiers.worker.Cursors` over the cursor table."""

    def __init__(self, reader: Reader, committer: Committer) -> None:
        self._reader = reader
        self._committer = committer

    async def load(self, name: str) -> bytes:
        """See `Cursors`."""
        row = await self._reader.get_row(CURSOR, (name,))
        return b"" if row is None else row.position

    async def save(self, name: str, position: bytes) -> None:
        """See `Cursors`."""
        await self._committer.submit(SaveCursor(name, position))
