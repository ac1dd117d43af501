"""Accounts: who there is and which keys are good, changed through the commit like everything else."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from metadata.tables import ACCESS_KEY, PRINCIPAL, REVISION
from metadata.types import Principal
from tests.world import World
from tiers.namespace.accounts import (
    ROOT_PRINCIPAL_ID,
    AccountRefused,
    CreateAccessKey,
    CreatePrincipal,
    DeletePrincipal,
    EditPrincipal,
    EnsureRoot,
    Refusal,
    RevokeAccessKey,
)
from tiers.namespace.revisions import CREDENTIALS, TOPOLOGY
from tiers.namespace.topology import EnsureTopology


def in_world(path: Path, act: Callable[[World], Awaitable[None]]) -> None:
    async def run() -> None:
        world = World(path)
        await world.start()
        try:
            await act(world)
        finally:
            await world.stop()

    asyncio.run(run())


async def refused(world: World, change: object, reason: Refusal) -> None:
    """A refusal says why and leaves the revision where it was."""
    before = await world.reader.get_row(REVISION, (CREDENTIALS,))
    with pytest.raises(AccountRefused) as caught:
        await world.committer.submit(change)  # type: ignore[arg-type]  # each of the module's changes
    assert caught.value.reason is reason
    assert await world.reader.get_row(REVISION, (CREDENTIALS,)) == before


def test_a_user_with_keys_from_creation_to_deletion(tmp_path: Path) -> None:
    async def act(world: World) -> None:
        submit, reader = world.committer.submit, world.reader
        row = await submit(CreatePrincipal("u1", "alice"))
        assert row == await reader.get_row(PRINCIPAL, ("u1",)) == Principal("u1", "alice", 0, 1, row.created_ms)
        await submit(CreateAccessKey("K1", "u1", b"envelope"))
        await submit(CreateAccessKey("K2", "u1", b"envelope"))
        assert (await submit(EditPrincipal("u1", name="bob", is_enabled=False))).state == 0
        assert (await submit(RevokeAccessKey("K1"))).state == 0
        revision = await reader.get_row(REVISION, (CREDENTIALS,))
        assert revision is not None
        assert revision.value == 5
        await submit(RevokeAccessKey("K1"))  # again changes nothing
        assert await reader.get_row(REVISION, (CREDENTIALS,)) == revision
        await submit(DeletePrincipal("u1"))
        assert await reader.scan(PRINCIPAL, None, 10) == []
        assert await reader.scan(ACCESS_KEY, None, 10) == []

    in_world(tmp_path, act)


def test_refusals_change_nothing(tmp_path: Path) -> None:
    async def act(world: World) -> None:
        submit = world.committer.submit
        await submit(EnsureRoot("ROOT", b"e"))
        seen = await submit(CreatePrincipal("u1", "alice"))
        await submit(CreatePrincipal("u2", "bob"))
        await submit(CreateAccessKey("K1", "u1", b"e"))
        await refused(world, CreatePrincipal("u3", "alice"), Refusal.NAME_TAKEN)
        await refused(world, CreatePrincipal("u1", "carol"), Refusal.ID_TAKEN)
        await refused(world, EditPrincipal("u2", name="alice"), Refusal.NAME_TAKEN)
        await refused(world, EditPrincipal("nobody", name="x"), Refusal.NOT_FOUND)
        await refused(world, CreateAccessKey("K1", "u2", b"e"), Refusal.ID_TAKEN)
        await refused(world, CreateAccessKey("K2", "nobody", b"e"), Refusal.NOT_FOUND)
        await refused(world, RevokeAccessKey("nothing"), Refusal.NOT_FOUND)
        for change in (
            EditPrincipal(ROOT_PRINCIPAL_ID, is_enabled=False),
            DeletePrincipal(ROOT_PRINCIPAL_ID),
            CreateAccessKey("K9", ROOT_PRINCIPAL_ID, b"e"),
            RevokeAccessKey("ROOT"),
        ):
            await refused(world, change, Refusal.IS_ROOT)
        await submit(EditPrincipal("u1", name="alicia"))
        await refused(world, EditPrincipal("u1", is_enabled=False, seen=seen), Refusal.CHANGED)
        await refused(world, DeletePrincipal("u1", seen=seen), Refusal.CHANGED)
        await world.namespace.buckets.create("owned", "u1", "us-east-1")
        await refused(world, DeletePrincipal("u1"), Refusal.OWNS_BUCKETS)

    in_world(tmp_path, act)


def test_another_root_key_revokes_the_one_before(tmp_path: Path) -> None:
    async def act(world: World) -> None:
        submit = world.committer.submit
        await submit(EnsureRoot("OLD", b"1"))
        await submit(EnsureRoot("NEW", b"2"))
        keys = {row.access_key_id: (row.state, row.secret) for row in await world.reader.scan(ACCESS_KEY, None, 10)}
        assert keys == {"OLD": (0, b"1"), "NEW": (1, b"2")}
        assert len(await world.reader.scan(PRINCIPAL, None, 10)) == 1
        await submit(CreatePrincipal("u1", "alice"))
        await submit(CreateAccessKey("K1", "u1", b"e"))
        await refused(world, EnsureRoot("K1", b"3"), Refusal.ID_TAKEN)

    in_world(tmp_path, act)


def test_names_are_unique_beyond_one_page_of_a_scan(tmp_path: Path) -> None:
    async def act(world: World) -> None:
        changes = [CreatePrincipal(f"{number:06d}", f"user-{number}") for number in range(1005)]
        await asyncio.gather(*[world.committer.submit(change) for change in changes])
        await refused(world, CreatePrincipal("zzz", "user-1004"), Refusal.NAME_TAKEN)

    in_world(tmp_path, act)


def test_the_first_topology_is_entered_once(tmp_path: Path) -> None:
    async def act(world: World) -> None:
        change = EnsureTopology(tuple(world.tiers), tuple(world.device_rows))
        assert await world.committer.submit(change)
        assert not await world.committer.submit(EnsureTopology(tuple(world.tiers[:1]), ()))
        revision = await world.reader.get_row(REVISION, (TOPOLOGY,))
        assert revision is not None
        assert revision.value == 1

    in_world(tmp_path, act)
