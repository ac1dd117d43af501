"""An admin application over a whole store in one process, and a client of it."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx

from gateway.admin.access import Gatekeeper, Scope, Token
from gateway.admin.application import admin_application
from gateway.admin.paging import Cursors
from gateway.admin.problems import MEDIA_TYPE
from gateway.admin.replays import Replays
from gateway.admin.services import Services
from gateway.auth.secrets import SecretBox
from tests.world import World
from tiers.lifecycle.mover import Mover
from tiers.namespace.accounts import EnsureRoot
from tiers.namespace.topology import EnsureTopology
from tiers.upkeep.vitals import Vitals

TOKENS = {scope: f"token-of-{scope.value}" for scope in Scope}
EXPIRED = "token-that-has-expired"


class Admin:
    """An admin application and a client of it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.box = SecretBox(b"m" * 32, lambda count: b"n" * count)
        self.vitals = Vitals(world.reader, world.fleet, world.catalogue, world.clock)
        tokens = [
            *[Token(scope.value, digest(TOKENS[scope]), frozenset({scope})) for scope in Scope],
            Token("expired", digest(EXPIRED), frozenset({Scope.ADMIN}), expires=world.clock() - 1),
        ]
        services = Services(
            reader=world.reader,
            committer=world.committer,
            cursors=Cursors(b"c" * 32, page_max=1000),
            replays=Replays(100, world.clock),
            seal=lambda principal, key, secret: self.box.seal(secret, principal_id=principal, access_key_id=key),
            new_id=world.new_id,
            space=self.vitals.space,
            mover=Mover(world.reader, world.committer, world.catalogue, world.cursors),
            expose=lambda: b"isotherm_up 1\n",
            facts={"version": "1", "workers": 2},
        )
        gatekeeper = Gatekeeper(tokens, failures_per_minute=10, clock=world.clock)
        self.application = admin_application(services, gatekeeper, self.vitals, "1")

    async def call(
        self,
        method: str,
        path: str,
        document: object = None,
        *,
        token: str | None = TOKENS[Scope.ADMIN],
        headers: Mapping[str, str] | None = None,
        source: str = "10.0.0.1",
        content: bytes | None = None,
    ) -> httpx.Response:
        transport = httpx.ASGITransport(app=self.application, raise_app_exceptions=False, client=(source, 1))
        authorization = {"authorization": f"Bearer {token}"} if token is not None else {}
        async with httpx.AsyncClient(transport=transport, base_url="http://admin") as client:
            return await client.request(
                method, path, json=document, content=content, headers={**authorization, **(headers or {})}
            )


def digest(token: str) -> str:
    return sha256(token.encode()).hexdigest()


def with_admin(path: Path, act: Callable[[Admin], Awaitable[None]]) -> None:
    async def run() -> None:
        world = World(path)
        await world.start()
        await world.committer.submit(EnsureTopology(tuple(world.tiers), tuple(world.device_rows)))
        await world.committer.submit(EnsureRoot("ROOT", b"envelope"))
        try:
            await act(Admin(world))
        finally:
            await world.stop()

    asyncio.run(run())


def problem(response: httpx.Response, status: int, code: str) -> dict[str, Any]:
    """The response is a problem document of that status and code."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == MEDIA_TYPE
    document: dict[str, Any] = response.json()
    assert (document["status"], document["code"]) == (status, code)
    assert document["type"]
    assert document["title"]
    assert document["request_id"]
    return document
