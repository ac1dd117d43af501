"""Reads of two statements: what commits between them hides no version, and makes none a delete marker."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from metadata.types import Versioning
from tests.world import World, open_world
from tiers.errors import KeyNotFound
from tiers.namespace.namespace import Namespace
from tiers.namespace.types import DeleteTarget

Act = Callable[[], Awaitable[Any]]


class Intruded:
    """A reader after whose first statement, `locate`, something is committed."""

    def __init__(self, inner: Any, act: Act) -> None:
        self._inner, self._act = inner, act

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def locate(self, bucket_name: str, key: bytes) -> Any:
        found = await self._inner.locate(bucket_name, key)
        await self._act()
        return found


def intruded(world: World, act: Act) -> Namespace:
    reader: Any = Intruded(world.reader, act)
    return world.namespace_over(reader)


async def versioned(world: World) -> tuple[str, str]:
    """A key with one version and a delete marker on top; the ids of both."""
    await world.namespace.buckets.set_versioning("bucket", Versioning.ENABLED)
    version = await world.put("bucket", "k", b"x")
    marker = await world.namespace.objects.delete("bucket", DeleteTarget("k"))
    return version.version_id, marker.version_id


def test_a_version_that_becomes_current_meanwhile_is_found(tmp_path: Path) -> None:
    async def check() -> None:
        async with open_world(tmp_path) as world:
            version_id, marker_id = await versioned(world)

            async def reveal() -> None:
                await world.namespace.objects.delete("bucket", DeleteTarget("k", marker_id))

            found = await intruded(world, reveal).objects.find("bucket", "k", version_id)
            assert found.version.version_id == version_id
            assert found.is_latest

    asyncio.run(check())


def test_a_version_that_stops_being_current_meanwhile_is_found(tmp_path: Path) -> None:
    async def check() -> None:
        async with open_world(tmp_path) as world:
            version_id, _ = await versioned(world)
            newer = await world.put("bucket", "k", b"newer")

            async def cover() -> None:
                await world.put("bucket", "k", b"newest")

            namespace = intruded(world, cover)
            assert not (await namespace.objects.find("bucket", "k", version_id)).is_latest
            assert (
                await namespace.objects.find("bucket", "k", newer.version_id)
            ).version.version_id == newer.version_id

    asyncio.run(check())


def test_an_absent_key_names_no_version_as_its_delete_marker(tmp_path: Path) -> None:
    async def check() -> None:
        async with open_world(tmp_path) as world:
            _, marker_id = await versioned(world)
            covering = iter(["one", "two"])

            async def cover() -> None:
                for content in covering:
                    await world.put("bucket", "k", content.encode())

            with pytest.raises(KeyNotFound) as refused:
                await intruded(world, cover).objects.find("bucket", "k")
            assert refused.value.version_id in {"", marker_id}

    asyncio.run(check())
