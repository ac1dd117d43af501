"""A mutation on its way through the committer, and whom to tell of its outcome."""

import asyncio
from dataclasses import dataclass
from typing import Any

from tiers.commit.contract import Mutation


@dataclass(slots=True)
class Pending:
    """One queued mutation and whom to tell."""

    mutation: Mutation[Any]
    future: asyncio.Future[Any]
    checksum: int | None = None
    result: Any = None
    error: BaseException | None = None

    @property
    def size(self) -> int:
        """Bytes of the body."""
        body = self.mutation.body
        return len(body) if body is not None else 0
