"""A store with lifecycle rules, looked at by an engine: the shortest ways for tests of it."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from metadata.tables import DUE
from metadata.types import DocumentKind, DueKind
from tests.audit import all_rows
from tests.world import World, open_world
from tiers.lifecycle.documents import Expiration, Lifecycle, Rule
from tiers.lifecycle.documents import pack_lifecycle as pack
from tiers.lifecycle.engine import LifecycleEngine
from tiers.namespace.types import ListQuery
from tiers.worker import Pace, Runner

DAY = 86_400.0
Scene = Callable[[World], Awaitable[None]]


def play(path: Path, scene: Scene) -> None:
    async def run() -> None:
        async with open_world(path) as world:
            world.clock.now = DAY * 20_000 + 1
            await scene(world)

    asyncio.run(run())


def rule(**parts: Any) -> Rule:
    return replace(Rule("r", is_enabled=True), **parts)


EXPIRES = rule(expiration=Expiration(days=1))


async def put_rules(world: World, *rules: Rule, bucket: str = "bucket") -> None:
    await world.namespace.buckets.put_document(bucket, DocumentKind.LIFECYCLE, pack(Lifecycle(rules)))


async def look(engine: LifecycleEngine) -> dict[str, int]:
    """A whole pass; what it came to, by act and result."""
    engine.counts.fired.clear()
    await Runner(engine, Pace(0, lambda: 0.0), random.Random(0)).run_pass()
    return {f"{act.value}/{result}": count for (act, result), count in engine.counts.fired.items() if count}


async def keys_of(world: World, bucket: str = "bucket") -> list[str]:
    return [row.key.decode() for row in (await world.namespace.listing.objects(ListQuery(bucket))).entries]


async def entries(world: World, kind: DueKind) -> int:
    return sum(1 for row in await all_rows(world.reader, DUE) if row.kind == kind)


async def count_versions(world: World) -> int:
    return len((await world.namespace.listing.versions(ListQuery("bucket"))).entries)
