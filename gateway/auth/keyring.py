"""Access keys and the identities behind them, as one snapshot in memory."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, NamedTuple

REFRESH_SECONDS_MIN: Final = 1.0
"""Unknown key ids cause at most one refresh in this time, however many arrive."""


class Principal(NamedTuple):
    """Who asks: what authorisation and ownership go by."""

    principal_id: str
    name: str
    is_root: bool = False


ANONYMOUS: Final = Principal("", "anonymous")
"""Whoever sent no credentials; owns nothing."""


class Credential(NamedTuple):
    """One active access key of an enabled principal. `secret` is the plain secret key."""

    access_key_id: str
    secret: bytes
    principal: Principal

    def __repr__(self) -> str:
        return f"Credential({self.access_key_id!r}, secret=***, {self.principal!r})"


class KeyRing:
    """The access keys this process accepts; revoked keys and disabled principals are simply absent.

    `refresh` fetches the current set from the database; it is called when an unknown key id arrives, so that a key
    created by another process works at once. Replacing the set raises `generation`, which drops every derived key.
    """

    def __init__(
        self,
        credentials: Iterable[Credential] = (),
        *,
        refresh: Callable[[], Awaitable[Iterable[Credential]]] | None = None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        assert (refresh is None) == (clock is None), "a refresh needs a clock to bound it"
        self.generation = 0
        self._by_id: dict[str, Credential] = {}
        self._refresh = refresh
        self._clock = clock
        self._refreshed = float("-inf")
        self._lock = asyncio.Lock()
        self.replace(credentials)

    def replace(self, credentials: Iterable[Credential]) -> None:
        """Accept exactly these keys from now on."""
        self._by_id = {credential.access_key_id: credential for credential in credentials}
        self.generation += 1

    def find(self, access_key_id: str) -> Credential | None:
        """The key of that id in the present snapshot."""
        return self._by_id.get(access_key_id)

    async def find_fresh(self, access_key_id: str) -> Credential | None:
        """As `find`, after asking the database when the id is unknown; one refresh serves all who wait for one.

        Errors: what the refresh raises; the snapshot stays as it was.
        """
        if self._refresh is not None and self._clock is not None and access_key_id not in self._by_id:
            async with self._lock:
                if access_key_id not in self._by_id and self._clock() - self._refreshed >= REFRESH_SECONDS_MIN:
                    self._refreshed = self._clock()
                    self.replace(await self._refresh())
        return self._by_id.get(access_key_id)
