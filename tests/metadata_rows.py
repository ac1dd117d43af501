"""Rows for tests of the metadata, and the shortest ways to store and ask for them."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar, get_type_hints

from metadata.contract import Metadata, Reader, Writer
from metadata.tables import OBJECT, Table
from metadata.types import Version

Answer = TypeVar("Answer")


def sample(table: Table[Any], number: int, **changed: Any) -> Any:
    """A row whose every value differs with `number`; numbers are in key order within one table."""
    values: dict[type, Any] = {int: number, str: f"t{number:04}", bytes: b"\x00\xff%04d\x00" % number}
    hints = get_type_hints(table.row)
    row = table.row(*[values[getattr(hint, "__supertype__", hint)] for hint in hints.values()])
    return row._replace(**changed)


def version(key: bytes, sequence: int, **changed: Any) -> Version:
    """A version of a key in bucket 1; its id follows its sequence."""
    made: Version = sample(OBJECT, sequence, **{"bucket_id": 1, "key": key, "version_id": f"v{sequence}", **changed})
    return made


def listed(row: Version) -> Version:
    """A version as pages of versions have it."""
    return row._replace(attributes=b"", parts=b"", tags=b"", acl=b"", extents=b"")


def commit(writer: Writer, *rows: tuple[Table[Any], Any]) -> None:
    """Store rows in one transaction that leaves the chain where it is."""
    with writer.transaction() as transaction:
        transaction.begin_step()
        for table, row in rows:
            transaction.put(table, row)
        transaction.commit(transaction.head)


def ask(metadata: Metadata, question: Callable[[Reader], Coroutine[Any, Any, Answer]]) -> Answer:
    """The answer of a fresh reader: what is committed."""

    async def run() -> Answer:
        reader = await metadata.open_reader()
        try:
            return await question(reader)
        finally:
            await reader.close()

    return asyncio.run(run())
