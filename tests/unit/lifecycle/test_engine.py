"""The lifecycle engine over a whole store: what it reads, how it follows rules, and what it leaves behind."""

import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgpack
import pytest

from metadata.sqlite import TEXTS
from metadata.tables import BUCKET_DOCUMENT, CURSOR, DUE
from metadata.types import BucketDocument, DocumentKind, DueKind, Versioning
from tests.audit import all_rows
from tests.unit.lifecycle.scene import DAY, EXPIRES, entries, keys_of, look, play, put_rules, rule
from tests.world import DAY_MS, OWNER, World
from tiers.lifecycle.documents import Expiration, Filter, Lifecycle, NoncurrentExpiration
from tiers.lifecycle.documents import pack_lifecycle as pack
from tiers.lifecycle.engine import LifecycleEngine, Times
from tiers.namespace import due_times
from tiers.namespace.types import DeleteTarget


def test_only_what_is_due_is_read(tmp_path: Path) -> None:
    """However much a bucket holds: the statements return entries that are due, through the index and without a sort."""

    async def scene(world: World) -> None:
        await put_rules(world, rule(expiration=Expiration(days=1), filter=Filter(prefix="old/")), rule(
            expiration=Expiration(days=300), filter=Filter(prefix="new/")))  # fmt: skip
        engine = world.lifecycle()
        await look(engine)
        for number in range(400):
            await world.put("bucket", f"new/{number}", b"x")
        for number in range(7):
            await world.put("bucket", f"old/{number}", b"x")
        world.clock.advance(2 * DAY)
        returned = 0
        rows_of = world.reader._rows  # type: ignore[attr-defined]  # the one place through which every row comes

        async def counting(text: str, parameters: tuple[Any, ...]) -> Any:
            nonlocal returned
            rows = await rows_of(text, parameters)
            returned += len(rows)
            return rows

        world.reader._rows = counting  # type: ignore[attr-defined]  # see above
        assert await look(engine) == {"expire/done": 7}
        assert returned <= 7 + 12, "the due, a bucket, and a handful of single rows"

    play(tmp_path, scene)
    with sqlite3.connect(tmp_path / "index.db") as driver:
        parameters = (1, 10, -1, 0, b"", 0, "", 9)
        plan = " ".join(row[3] for row in driver.execute(f"explain query plan {TEXTS.list_due}", parameters))
    assert "SEARCH due USING COVERING INDEX due_time (kind=? AND (due_ms,bucket_id,key,sequence,upload_id)>" in plan
    assert "TEMP B-TREE" not in plan


def test_buckets_without_rules_have_no_entries(tmp_path: Path) -> None:
    async def scene(world: World) -> None:
        version = await world.put("bucket", "k", b"x")
        await world.namespace.objects.set_tags("bucket", "k", None, msgpack.packb([["a", "b"]]))
        await world.namespace.multipart.create("bucket", "k", OWNER)
        await world.namespace.objects.delete("bucket", DeleteTarget(version.key.decode()))
        assert await all_rows(world.reader, DUE) == []

    play(tmp_path, scene)


def test_a_change_of_rules_holds_before_the_next_act(tmp_path: Path) -> None:
    """Entries of the rules before are due, the engine is not through with the new rules: nothing fires."""

    async def scene(world: World) -> None:
        await put_rules(world, EXPIRES)
        for number in range(5):
            await world.put("bucket", str(number), b"x")
        await look(world.lifecycle())
        world.clock.advance(3 * DAY)
        due = await world.namespace.due_times.page(DueKind.END, int(world.clock() * 1000), None, 9)
        assert len(due) == 5
        await put_rules(world, rule(expiration=Expiration(days=30)))
        fired = await world.namespace.due_times.fire(due, 1000)
        assert {str(one.result) for one in fired if not isinstance(one, Exception)} == {"held"}
        assert await look(world.lifecycle()) == {}
        assert len(await keys_of(world)) == 5
        world.clock.advance(30 * DAY)
        assert await look(world.lifecycle()) == {"expire/done": 5}

    play(tmp_path, scene)


@pytest.mark.parametrize("page", [2, 500])
def test_a_walk_goes_on_where_it_was(tmp_path: Path, page: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """All that was there before the rules is entered, noncurrent versions and uploads too, over restarts."""
    monkeypatch.setattr(due_times, "PAGE_ROWS", page)

    async def scene(world: World) -> None:
        await world.namespace.buckets.set_versioning("bucket", Versioning.ENABLED)
        for key in ("a", "a", "a", "b", "c", "c"):
            await world.put("bucket", key, b"x")
        await world.namespace.objects.delete("bucket", DeleteTarget("b"))
        for _ in range(3):
            await world.namespace.multipart.create("bucket", "u", OWNER)
        await put_rules(
            world,
            rule(
                expiration=Expiration(days=5),
                noncurrent_expiration=NoncurrentExpiration(1),
                abort_days=2,
            ),
        )
        places = set()
        for _ in range(40):
            await world.lifecycle().step()
            places.add(str(await all_rows(world.reader, CURSOR)))
            await world.restart()
            if await entries(world, DueKind.INDEX) == 0:
                break
        assert await entries(world, DueKind.INDEX) == 0
        assert await entries(world, DueKind.END) == 7 + 3
        assert page > 2 or len(places) >= 6, "step by step, each from the place of the last"

    play(tmp_path, scene)


def test_rules_that_go_away_leave_nothing(tmp_path: Path) -> None:
    async def scene(world: World) -> None:
        await put_rules(world, EXPIRES)
        for number in range(5):
            await world.put("bucket", str(number), b"x")
        await world.namespace.buckets.delete_document("bucket", DocumentKind.LIFECYCLE)
        world.clock.advance(3 * DAY)
        assert await look(world.lifecycle()) == {}
        assert await all_rows(world.reader, DUE) == []
        assert len(await keys_of(world)) == 5

    play(tmp_path, scene)


def test_a_bucket_that_goes_away_leaves_nothing(tmp_path: Path) -> None:
    async def scene(world: World) -> None:
        await world.namespace.buckets.create("other", "owner", "us-east-1")
        await put_rules(world, EXPIRES, bucket="other")
        await world.put("other", "k", b"x")
        await world.namespace.objects.delete("other", DeleteTarget("k"))
        await world.namespace.buckets.delete("other")
        assert await entries(world, DueKind.INDEX) == 1
        await look(world.lifecycle())
        assert await all_rows(world.reader, DUE) == []

    play(tmp_path, scene)


def test_nothing_is_done_by_half_a_document(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scene(world: World) -> None:
        await put_rules(world, EXPIRES)
        await world.put("bucket", "k", b"x")
        await world.namespace.buckets.put_document("bucket", DocumentKind.LIFECYCLE, b"\x93junk")
        await world.put("bucket", "later", b"x")
        world.clock.advance(3 * DAY)
        assert await look(world.lifecycle()) == {}
        assert await keys_of(world) == ["k", "later"]
        assert "no lifecycle rule of bucket bucket is acted on" in caplog.text

    play(tmp_path, scene)


def test_what_took_the_place_of_the_due_is_left_alone(tmp_path: Path) -> None:
    async def scene(world: World) -> None:
        await put_rules(world, EXPIRES)
        await world.put("bucket", "k", b"old")
        await look(world.lifecycle())
        world.clock.advance(3 * DAY)
        due = await world.namespace.due_times.page(DueKind.END, int(world.clock() * 1000), None, 9)
        await world.put("bucket", "k", b"new")
        (fired,) = await world.namespace.due_times.fire(due, 1000)
        assert not isinstance(fired, Exception)
        assert fired.result == "skipped"
        assert await keys_of(world) == ["k"]

    play(tmp_path, scene)


def enter_behind(world: World, documents: Iterable[BucketDocument]) -> None:
    """Documents as an earlier program left them: without a mark."""
    writer = world.metadata.open_writer()
    with writer.transaction() as transaction:
        transaction.begin_step()
        for document in documents:
            transaction.put(BUCKET_DOCUMENT, document)
        transaction.commit(transaction.head)
    writer.close()


def test_buckets_of_an_earlier_program_and_of_other_days_are_followed(tmp_path: Path) -> None:
    async def scene(world: World) -> None:
        version = await world.put("bucket", "k", b"x")
        enter_behind(
            world, [BucketDocument(version.bucket_id, DocumentKind.LIFECYCLE.value, pack(Lifecycle((EXPIRES,))))]
        )
        await world.restart()
        await look(world.lifecycle())
        (entry,) = await all_rows(world.reader, DUE)
        assert entry.due_ms == int(version.modified_ms // DAY_MS + 2) * DAY_MS
        world.day_ms = 10_000
        await world.restart()
        await look(world.lifecycle())
        assert await keys_of(world) == ["k"]
        world.clock.advance(20)
        assert await look(world.lifecycle()) == {"expire/done": 1}

    play(tmp_path, scene)


@pytest.mark.parametrize(("day_ms", "rest"), [(DAY_MS, 60.0), (10_000, 0.5), (1, 0.05)])
def test_looks_are_close_enough_for_the_day(day_ms: int, rest: float) -> None:
    nothing: Any = None
    engine = LifecycleEngine(nothing, nothing, Times(lambda: 0.0, nothing, day_ms))
    assert engine.rest_seconds == rest
