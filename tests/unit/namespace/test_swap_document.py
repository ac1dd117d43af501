"""One document swapped for another: only for whoever saw what is there."""

import asyncio
from pathlib import Path

import pytest

from metadata.types import DocumentKind
from tests.world import open_world
from tiers.errors import BucketNotFound
from tiers.namespace.buckets import Buckets


def test_only_who_saw_the_document_replaces_it(tmp_path: Path) -> None:
    kind = DocumentKind.TAGGING

    async def check() -> None:
        async with open_world(tmp_path) as world:
            buckets = world.namespace.buckets
            made = await buckets.create("made", "owner", "us-east-1")
            assert not await buckets.swap_document("made", kind, seen=b"x", document=b"a")
            assert await buckets.swap_document("made", kind, seen=None, document=b"a")
            first = await buckets.get("made")
            assert first.revision > made.revision
            assert not await buckets.swap_document("made", kind, seen=None, document=b"b")
            assert await buckets.swap_document("made", kind, seen=b"a", document=b"a")
            assert (await buckets.get("made")).revision == first.revision
            assert await buckets.get_document("made", kind) == b"a"
            assert await buckets.swap_document("made", kind, seen=b"a", document=None)
            assert await buckets.get_document("made", kind) is None
            with pytest.raises(BucketNotFound):
                await buckets.swap_document("absent", kind, seen=None, document=b"a")

    asyncio.run(check())


def test_of_many_changes_at_once_none_is_lost(tmp_path: Path) -> None:
    async def add(buckets: Buckets, mark: bytes) -> None:
        while True:
            seen = await buckets.get_document("made", DocumentKind.TAGGING)
            changed = (seen or b"") + mark
            if await buckets.swap_document("made", DocumentKind.TAGGING, seen=seen, document=changed):
                return

    async def check() -> None:
        async with open_world(tmp_path) as world:
            buckets = world.namespace.buckets
            await buckets.create("made", "owner", "us-east-1")
            await asyncio.gather(*(add(buckets, bytes([65 + number])) for number in range(12)))
            stored = await buckets.get_document("made", DocumentKind.TAGGING)
            assert sorted(stored or b"") == list(range(65, 77))

    asyncio.run(check())
