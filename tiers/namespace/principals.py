"""Principals as the S3 side sees them: who an id or an e-mail address is, and what an owner is called."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from metadata.tables import PRINCIPAL
from metadata.types import Principal
from tiers.namespace.context import Context

NAMES_SECONDS: Final = 5.0
"""How long a name may be out of date: as long as a changed access key."""
NAMES_MAX: Final = 4096
_SCAN_ROWS: Final = 1000


class Principals:
    """The principal service of a namespace; reads only, accounts are changed by `tiers.namespace.accounts`."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._names: dict[str, str] = {}
        self._names_since = float("-inf")

    async def get(self, principal_id: str) -> Principal | None:
        """The principal of that id, None when there is none."""
        return await self._context.reader.get_row(PRINCIPAL, (principal_id,))

    async def find_email(self, email: str) -> Principal | None:
        """The principal of an e-mail address, whatever its case. Cost: one pass over the principals, in pages."""
        wanted = email.casefold()
        after: tuple[Any, ...] | None = None
        while wanted and (rows := await self._context.reader.scan(PRINCIPAL, after, _SCAN_ROWS)):
            for row in rows:
                if row.email.casefold() == wanted:
                    return row
            after = PRINCIPAL.key_of(rows[-1])
        return None

    async def names(self, principal_ids: Iterable[str]) -> Mapping[str, str]:
        """What to call the principals of these ids; an id that nobody has (any more) is its own name.

        A name may be out of date by NAMES_SECONDS. Cost: nothing for names asked before, else a row each.
        """
        now = self._context.clock()
        if not 0 <= now - self._names_since < NAMES_SECONDS or len(self._names) >= NAMES_MAX:
            self._names, self._names_since = {}, now
        known = self._names
        for principal_id in set(principal_ids):
            if principal_id not in known:
                row = await self.get(principal_id)
                known[principal_id] = principal_id if row is None else row.name
        return known
