"""Moves that are killed, starved or lied to: the source stays until the swap, and nothing is left behind.

Replay of one death: the step is in the name of the key that a failing assertion shows.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import pytest

from metadata.contract import Transaction
from metadata.moves import MoveState
from metadata.tables import BLOB, OBJECT
from metadata.types import BlobState, Version, unpack_extents
from tests.audit import all_rows
from tests.unit.lifecycle.moving import Death, Died, DyingCommitter, Moving, settle, unplaced, with_moves
from tests.world import GRACE_SECONDS, World, open_world, run_pass
from tiers.commit.contract import Slot
from tiers.devices.contract import Area
from tiers.devices.interception import Operation
from tiers.lifecycle.move_plan import ATTEMPTS_MAX
from tiers.lifecycle.move_rows import MoveMutation
from tiers.lifecycle.mover import LEASE_MS
from tiers.namespace.content import owner_of_version, swap_references

SMALL, LARGE = b"s" * 5_000, bytes(range(256)) * 1_200
NIGHTLY = bool(os.environ.get("ISOTHERM_NIGHTLY"))


class Exchange(MoveMutation):
    """Plants a lie: two versions hold each other's extents, everything else in order."""

    __slots__ = ("_versions",)

    def __init__(self, first: Version, second: Version) -> None:
        super().__init__([])
        self._versions = (first, second)

    def apply(self, transaction: Transaction, slot: Slot) -> None:
        first, second = self._versions
        for version, other in ((first, second), (second, first)):
            new = unpack_extents(other.extents)
            swap_references(transaction, owner_of_version(version), (), new, now_ms=slot.now_ms)
        for version, other in ((first, second), (second, first)):
            old = unpack_extents(version.extents)
            swap_references(transaction, owner_of_version(version), old, (), now_ms=slot.now_ms)
            transaction.put(OBJECT, version._replace(extents=other.extents))


async def die_at(world: World, at: int, content: bytes) -> bool:
    """One move of a fresh version, killed at a step and taken up by the next process; whether death came in time."""
    death = Death()
    moving = Moving(world, DyingCommitter(world.committer, death), death)
    key = f"at-{at}"
    before = await world.put("bucket", key, content)
    await moving.ask(before, "warm", "STANDARD_IA")
    death.arm(at)
    with suppress(Died):
        await moving.work()
    has_died = death.has_come
    await moving.worker.close()
    await world.restart()
    await check(moving, before, content)
    later = Moving(world, world.committer)
    for _ in range(ATTEMPTS_MAX):
        await later.work()
        world.clock.advance(LEASE_MS / 1000)
    assert await later.outcome(before) == "moved", key
    await check(later, before, content)
    assert (await later.found(before)).tier == "warm", key
    return has_died


async def check(moving: Moving, before: Version, content: bytes) -> None:
    """A version reads as it did, and nothing but its place has changed."""
    after = await moving.found(before)
    assert await moving.world.read(after) == content, before.key
    assert unplaced(after) == unplaced(before)


@pytest.mark.parametrize("content", [SMALL, LARGE], ids=["packed", "striped"])
def test_death_at_every_step_loses_and_doubles_nothing(tmp_path: Path, content: bytes) -> None:
    """In the ordinary run every third step, the first and the last ones all; nightly each."""

    async def run() -> None:
        async with open_world(tmp_path) as world:
            at, deaths = 1, 0
            while await die_at(world, at, content):
                deaths += 1
                at += 1 if NIGHTLY or at < 4 else 3
            assert deaths >= 8, "there are that many steps at the least"
            await settle(world)

    asyncio.run(run())


def test_a_stalled_mover_finds_its_blob_dead(tmp_path: Path) -> None:
    """Its lease ends while it writes; another takes the move; its own swap is refused, and its late files go."""

    async def act(moving: Moving) -> None:
        world = moving.world
        version = await world.put("bucket", "key", LARGE)
        await moving.ask(version, "warm")

        async def stall() -> None:
            world.clock.advance(LEASE_MS / 1000 + 1)
            other = Moving(world, world.committer)
            other.worker = other.another("9/other")
            await other.work()
            world.clock.advance(10 * GRACE_SECONDS)  # the backoff of the reaped try
            await other.work()
            await run_pass(world.reclaim)

        moving.before_swap(stall)
        await moving.work()
        assert await moving.outcome(version) == "moved"
        after = await moving.found(version)
        assert await world.read(after) == LARGE
        assert len([blob for blob in await all_rows(world.reader, BLOB) if blob.state == BlobState.SEALED]) >= 1

    with_moves(tmp_path, act)


def test_a_clock_that_jumps_costs_a_try_and_no_bytes(tmp_path: Path) -> None:
    """Reclaim by assumed delays was too early elsewhere (Garage #39)."""

    async def act(moving: Moving) -> None:
        world = moving.world
        version = await world.put("bucket", "key", LARGE)
        await moving.ask(version, "warm")

        async def jump() -> None:
            world.clock.advance(100 * GRACE_SECONDS)
            await Moving(world, world.committer).worker.step()
            await run_pass(world.reclaim)
            assert await world.read(await moving.found(version)) == LARGE

        moving.before_swap(jump)
        await moving.work()
        world.clock.advance(-50 * GRACE_SECONDS)
        await moving.work()
        world.clock.advance(60 * GRACE_SECONDS)
        await moving.work()
        assert await moving.outcome(version) == "moved"
        assert await world.read(await moving.found(version)) == LARGE

    with_moves(tmp_path, act)


async def broken_staging(moving: Moving) -> None:
    moving.world.devices["warm-2"].fail([Operation.STAGE, Operation.CREATE_LOG], times=None)


async def full(moving: Moving) -> None:
    moving.world.devices["warm-1"].fail([Operation.WRITE, Operation.APPEND], error_number=28, times=None)


async def lies(moving: Moving) -> None:
    for device_id, device in moving.world.devices.items():
        device.corruption = 1.0 if device_id.startswith("warm") else 0.0


@pytest.mark.parametrize("content", [SMALL, LARGE], ids=["packed", "striped"])
@pytest.mark.parametrize("fault", [broken_staging, full, lies])
def test_a_target_that_fails_or_lies_takes_nothing(
    tmp_path: Path, fault: Callable[[Moving], Awaitable[None]], content: bytes
) -> None:
    """All fragments or none, each read back: the version stays where it is, tried again until given up."""

    async def act(moving: Moving) -> None:
        world = moving.world
        if content is SMALL:
            # A pack has fewer copies than there are devices: so that it meets the one that fails.
            world.devices["warm-3"].fail([Operation.CREATE_LOG], times=None)
        version = await world.put("bucket", "key", content)
        await fault(moving)
        await moving.ask(version, "warm")
        for _ in range(3):
            await moving.work()
            assert await moving.found(version) == version
            world.clock.advance(2 * GRACE_SECONDS)
        for device in world.devices.values():
            device.clear_faults()
        assert await world.read(version) == content
        move = await moving.mover.find(version.sequence)
        assert move is not None
        assert (move.state, move.attempts) == (MoveState.QUEUED, 3)
        assert move.error
        await moving.work()
        assert await moving.outcome(version) == "moved"
        assert await world.read(await moving.found(version)) == content

    with_moves(tmp_path, act)


@pytest.mark.parametrize("content", [SMALL, LARGE], ids=["packed", "striped"])
def test_a_source_that_is_lost_ends_as_failed_and_holds_up_no_other(tmp_path: Path, content: bytes) -> None:
    async def act(moving: Moving) -> None:
        world = moving.world
        lost, other = await world.put("bucket", "lost", content), await world.put("bucket", "other", b"other" * 90)
        await world.restart()
        for device_id, device in world.devices.items():
            if device_id.startswith("hot"):
                device.corruption = 1.0
        later = Moving(world, world.committer)
        await later.ask(lost, "warm")
        for _ in range(ATTEMPTS_MAX):
            await later.work()
            world.clock.advance(4 * GRACE_SECONDS)
        for device in world.devices.values():
            device.clear_faults()
        assert await later.outcome(lost) == "failed"
        assert await world.read(await later.found(lost)) == content
        await later.ask(other, "warm")
        await later.work()
        assert await later.outcome(other) == "moved"
        await later.ask(lost, "warm")
        await later.work()
        assert await later.outcome(lost) == "moved", "what failed may be asked for anew"
        await run_pass(world.repair)

    with_moves(tmp_path, act)


def test_a_source_that_is_not_what_its_row_says_is_not_moved(tmp_path: Path) -> None:
    """Blocks that verify but make another content: the digest of the whole is compared too."""

    async def act(moving: Moving) -> None:
        world = moving.world
        first, second = await world.put("bucket", "a", LARGE), await world.put("bucket", "b", LARGE[::-1])
        await world.committer.submit(Exchange(first, second))
        await moving.ask(first, "warm")
        await moving.work()
        move = await moving.mover.find(first.sequence)
        assert move is not None
        assert (move.state, "digest" in move.error) == (MoveState.QUEUED, True)
        await moving.mover.cancel(first.sequence)
        swapped = [await moving.found(version) for version in (first, second)]
        await world.committer.submit(Exchange(*swapped))

    with_moves(tmp_path, act)


def test_reclaim_and_the_survey_leave_a_pending_blob_alone(tmp_path: Path) -> None:
    """Its files are old, no version references it, and it is nobody's leftover as long as its lease is kept."""

    async def act(moving: Moving) -> None:
        world = moving.world
        version = await world.put("bucket", "key", LARGE)
        await moving.ask(version, "warm")

        async def sweep() -> None:
            before = world.files(Area.FRAGMENTS)
            world.clock.advance(10 * GRACE_SECONDS)
            await run_pass(world.reclaim)
            assert before <= world.files(Area.FRAGMENTS)

        moving.before_swap(sweep)
        await moving.work()
        assert await moving.outcome(version) == "moved"
        assert await world.read(await moving.found(version)) == LARGE

    with_moves(tmp_path, act)


def test_the_source_outlives_the_swap_by_its_grace(tmp_path: Path) -> None:
    """A reader that resolved the row before the swap reads on: the old blob dies by the grace, not by the move."""

    async def act(moving: Moving) -> None:
        world = moving.world
        version = await world.put("bucket", "key", LARGE)
        await moving.ask(version, "warm")
        await moving.work()
        await run_pass(world.reclaim)
        world.contents.close()  # a file that is open already would be readable anyhow
        assert await world.read(version) == LARGE, "by the row as it was seen before"
        world.clock.advance(GRACE_SECONDS + 1)
        await run_pass(world.reclaim)
        blobs = {extent.blob_id for extent in moving.extents(version)}
        assert not await world.reader.get_blobs(sorted(blobs))

    with_moves(tmp_path, act)
