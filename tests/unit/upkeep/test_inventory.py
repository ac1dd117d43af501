"""The inventory worker: what it reports and when, over failures, restarts and configurations that change."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from metadata.types import INVENTORY_PREFIX, Bucket, Version, Versioning
from tests.world import OWNER, BytesBody, World, open_world
from tiers.datapath.body import Body
from tiers.errors import MetadataUnavailable
from tiers.namespace.listing import Position
from tiers.namespace.types import DeleteTarget, ListQuery
from tiers.upkeep.cursors import MetadataCursors
from tiers.upkeep.inventory import (
    ATTEMPTS_MAX,
    CURSOR,
    DataFile,
    Inventories,
    Job,
    Pass,
    ReportRefused,
    is_due,
    pack_pass,
    unpack_pass,
)

DAY = 86400.0
FILE_ROWS = 3


class Lines:
    """Encodes a row as a line of key, sequence order and tags."""

    def add(self, rows: Sequence[Version]) -> bytes:
        return b"".join(b"%b %d %d\n" % (row.key, row.is_delete_marker, len(row.tags)) for row in rows)

    def finish(self) -> bytes:
        return b"end\n"


class PlainReport:
    """A report into `target`; the document is words: weekly, off, all, whole, refused, and what keys begin with."""

    def __init__(self, reports: "PlainReports", document: bytes) -> None:
        self._reports = reports
        words = document.decode().split()
        self.is_enabled = "off" not in words
        self.is_weekly = "weekly" in words
        self.with_all_versions = "all" in words
        self.needs_whole_rows = "whole" in words
        self.prefix = next((word[1:].encode() for word in words if word[0] == "/"), b"")
        self.is_refused = "refused" in words

    def data_key(self, started_ms: int, index: int) -> str:
        return f"data/{started_ms}/{index}"

    def encoder(self) -> Lines:
        return Lines()

    def closing(self, started_ms: int, files: Sequence[DataFile]) -> Iterable[tuple[str, bytes]]:
        yield f"manifest/{started_ms}", "\n".join(file.key for file in files).encode()
        yield f"checksum/{started_ms}", b"sum"

    async def deposit(self, key: str, body: Body) -> Version:
        if self.is_refused:
            raise ReportRefused("no right")
        await self._reports.trouble(key)
        put = self._reports.world.namespace.objects.put
        return (await put("target", key, body, OWNER)).version

    async def deposit_bytes(self, key: str, content: bytes) -> None:
        await self.deposit(key, BytesBody(content))


class PlainReports:
    """Reads the documents of this test; `faults` fail the writes of their keys, each once."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.faults: list[str] = []
        self.tries: list[str] = []

    async def trouble(self, key: str) -> None:
        self.tries.append(key)
        name = key.rpartition("/")[0] if key.startswith("data") else key.partition("/")[0]
        for fault in (key, name):
            if fault in self.faults:
                self.faults.remove(fault)
                raise MetadataUnavailable(key)

    async def read(self, bucket: Bucket, kind: str, document: bytes) -> PlainReport:
        del bucket, kind
        if document == b"?":
            raise ReportRefused("unreadable")
        return PlainReport(self, document)


class AlwaysHeld:
    def __init__(self, *, is_held: bool = True) -> None:
        self.is_held = is_held

    async def hold(self) -> bool:
        return self.is_held


class Desk:
    """A world with `bucket` of five keys and `target`, and the worker."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.reports = PlainReports(world)
        self.lease = AlwaysHeld()
        self.restart()

    def restart(self) -> None:
        cursors = MetadataCursors(self.world.reader, self.world.committer)
        self.worker = Inventories(
            self.world.reader,
            cursors,
            self.reports,
            self.lease,
            clock=self.world.clock,
            seconds_per_day=DAY,
            file_rows=FILE_ROWS,
        )

    async def configure(self, name: str, document: bytes | None, bucket: str = "bucket") -> None:
        await self.world.namespace.buckets.put_documents(bucket, {INVENTORY_PREFIX + name: document})

    async def run(self) -> None:
        """A pass."""
        for _ in range(100):
            if (await self.worker.step()).is_idle:
                return
        raise AssertionError("the pass does not end")

    async def written(self) -> dict[str, bytes]:
        page = await self.world.namespace.listing.objects(ListQuery("target"))
        return {row.key.decode(): await self._content(row.key.decode()) for row in page.entries}

    async def _content(self, key: str) -> bytes:
        return await self.world.read((await self.world.namespace.objects.find("target", key)).version)


def at_desk(path: Path, act: Callable[[Desk], Awaitable[None]]) -> None:
    async def run() -> None:
        async with open_world(path) as world:
            await world.namespace.buckets.create("target", "owner", "us-east-1")
            for at in range(5):
                await world.put("bucket", f"k{at}", b"content")
            await act(Desk(world))

    asyncio.run(run())


def line(key: str, marker: int = 0, tags: int = 0) -> bytes:
    return f"{key} {marker} {tags}\n".encode()


def test_a_report_is_files_and_then_what_joins_them(tmp_path: Path) -> None:
    async def act(desk: Desk) -> None:
        await desk.configure("a", b"daily")
        await desk.run()
        started = int(desk.world.clock() * 1000)
        assert await desk.written() == {
            f"data/{started}/0": line("k0") + line("k1") + line("k2") + b"end\n",
            f"data/{started}/1": line("k3") + line("k4") + b"end\n",
            f"manifest/{started}": f"data/{started}/0\ndata/{started}/1".encode(),
            f"checksum/{started}": b"sum",
        }
        assert desk.reports.tries[-2:] == [f"manifest/{started}", f"checksum/{started}"]
        tries = len(desk.reports.tries)
        desk.world.clock.advance(3600)
        await desk.run()
        assert len(desk.reports.tries) == tries, "once a day"
        desk.world.clock.advance(DAY)
        await desk.run()
        assert len(desk.reports.tries) == 2 * tries

    at_desk(tmp_path, act)


def test_prefix_versions_and_whole_rows(tmp_path: Path) -> None:
    async def act(desk: Desk) -> None:
        buckets, objects = desk.world.namespace.buckets, desk.world.namespace.objects
        await buckets.set_versioning("bucket", Versioning.ENABLED)
        await objects.delete("bucket", DeleteTarget("k1"))
        await objects.set_tags("bucket", "k2", None, b"tags")
        await desk.configure("a", b"/k1 all")
        await desk.configure("b", b"/k2 whole")
        await desk.configure("c", b"/k9")
        await desk.configure("d", b"off")
        await desk.run()
        written = await desk.written()
        started = int(desk.world.clock() * 1000)
        manifests = [key for key in desk.reports.tries if key.startswith("manifest")]
        assert len(manifests) == 3
        assert written[f"manifest/{started}"] == b"", "of c, the last: no row, no file"
        contents = [key for key in desk.reports.tries if key.startswith("data")]
        assert len(contents) == 2
        assert written[f"data/{started}/0"] == line("k2", 0, 4) + b"end\n"

    at_desk(tmp_path, act)


def test_all_versions_newest_first_and_delete_markers(tmp_path: Path) -> None:
    async def act(desk: Desk) -> None:
        await desk.world.namespace.buckets.set_versioning("bucket", Versioning.ENABLED)
        for _ in range(2):
            await desk.world.put("bucket", "k1", b"more")
        await desk.world.namespace.objects.delete("bucket", DeleteTarget("k1"))
        await desk.configure("a", b"/k1 all whole")
        await desk.run()
        started = int(desk.world.clock() * 1000)
        written = await desk.written()
        assert written[f"data/{started}/0"] == line("k1", 1) + line("k1") + line("k1") + b"end\n"
        assert written[f"data/{started}/1"] == line("k1") + b"end\n"

    at_desk(tmp_path, act)


@pytest.mark.parametrize("fault", ["data/1700000000000/1", "manifest", "checksum"])
def test_a_failed_step_is_repeated_under_the_same_names(tmp_path: Path, fault: str) -> None:
    async def act(desk: Desk) -> None:
        await desk.configure("a", b"daily")
        desk.reports.faults = [fault]
        with pytest.raises(MetadataUnavailable):
            await desk.run()
        desk.world.clock.advance(5)
        desk.restart()
        await desk.run()
        assert sorted(await desk.written()) == [
            "checksum/1700000000000",
            "data/1700000000000/0",
            "data/1700000000000/1",
            "manifest/1700000000000",
        ]

    at_desk(tmp_path, act)


def test_a_report_that_fails_again_and_again_holds_up_no_other(tmp_path: Path) -> None:
    async def act(desk: Desk) -> None:
        await desk.configure("a", b"daily")
        await desk.configure("b", b"/k0")
        desk.reports.faults = ["data/1700000000000/1"] * ATTEMPTS_MAX
        for _ in range(ATTEMPTS_MAX - 1):
            with pytest.raises(MetadataUnavailable):
                await desk.run()
        await desk.run()
        assert desk.reports.tries[-1] == "checksum/1700000000000"
        assert (await desk.written())["manifest/1700000000000"] == b"data/1700000000000/0"

    at_desk(tmp_path, act)


@pytest.mark.parametrize(("document", "manifests"), [(b"/k4", 1), (b"off", 0), (None, 0)])
def test_a_configuration_that_changes_meanwhile(tmp_path: Path, document: bytes | None, manifests: int) -> None:
    async def act(desk: Desk) -> None:
        await desk.configure("a", b"daily")
        await desk.worker.step()
        await desk.worker.step()
        desk.world.clock.advance(1)
        await desk.configure("a", document)
        await desk.run()
        made = [key for key in await desk.written() if key.startswith("manifest")]
        assert made == ["manifest/1700000001000"] * manifests
        if manifests:
            assert (await desk.written())["data/1700000001000/0"] == line("k4") + b"end\n"

    at_desk(tmp_path, act)


def test_a_bucket_made_anew_has_nothing_of_the_old_one(tmp_path: Path) -> None:
    async def act(desk: Desk) -> None:
        buckets = desk.world.namespace.buckets
        await buckets.create("brief", "owner", "us-east-1")
        await desk.configure("a", b"daily", "brief")
        await desk.worker.step()
        await buckets.delete("brief")
        await buckets.create("brief", "owner", "us-east-1")
        await desk.run()
        assert await desk.written() == {}

    at_desk(tmp_path, act)


@pytest.mark.parametrize("document", [b"refused", b"?"])
def test_what_is_refused_or_unreadable_is_passed_over(tmp_path: Path, document: bytes) -> None:
    async def act(desk: Desk) -> None:
        await desk.configure("a", document)
        await desk.configure("b", b"/k0")
        await desk.run()
        assert (await desk.written())["data/1700000000000/0"] == line("k0") + b"end\n"

    at_desk(tmp_path, act)


def test_without_the_lease_nothing_happens(tmp_path: Path) -> None:
    async def act(desk: Desk) -> None:
        await desk.configure("a", b"daily")
        desk.lease.is_held = False
        await desk.run()
        assert await desk.written() == {}

    at_desk(tmp_path, act)


def test_many_buckets_are_looked_at_in_bounded_steps(tmp_path: Path) -> None:
    async def act(desk: Desk) -> None:
        for at in range(120):
            await desk.world.namespace.buckets.create(f"a-{at:03}", "owner", "us-east-1")
        await desk.configure("a", b"/k0", "a-119")
        assert not (await desk.worker.step()).is_idle
        assert desk.reports.tries == []
        await desk.run()
        assert [key.partition("/")[0] for key in desk.reports.tries] == ["manifest", "checksum"]

    at_desk(tmp_path, act)


def test_weekly_reports_come_with_the_first_pass_after_a_sunday_began(tmp_path: Path) -> None:
    async def act(desk: Desk) -> None:
        weekly, daily = PlainReport(desk.reports, b"weekly"), PlainReport(desk.reports, b"daily")
        thursday = 19670
        due = [day - thursday for day in range(thursday, thursday + 14) if is_due(weekly, Pass(day, day - 1))]
        assert due == [3, 10]
        assert is_due(weekly, Pass(thursday + 5, thursday + 1)), "the store slept over Sunday"
        assert not is_due(weekly, Pass(thursday + 5, thursday + 3))
        assert is_due(daily, Pass(thursday, thursday - 1))

    at_desk(tmp_path, act)


def test_the_cursor_keeps_everything() -> None:
    assert thursday_of(0) == "Thursday"
    job = Job(7, b"digest", 5, Position(b"k", 9), True, (DataFile("k", 1, "m"),), 2)
    for state in (Pass(5, 4, "b", "inventory/a", False, job), Pass(5, 4, is_over=True)):
        assert unpack_pass(pack_pass(state), 9) == state
    assert unpack_pass(b"", 9) == Pass(8, 7, is_over=True)
    assert CURSOR


def thursday_of(day: int) -> str:
    return datetime.fromtimestamp(day * DAY, UTC).strftime("%A")
