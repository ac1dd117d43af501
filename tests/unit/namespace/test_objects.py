"""Objects: what a refused, raced or cancelled write leaves; what find says; what copies keep."""

import asyncio
import hashlib
import itertools
from pathlib import Path

import pytest

from metadata.tables import BLOB, REPAIR
from metadata.types import BlobState, Versioning
from tests.audit import all_rows, audit_files, audit_references
from tests.world import GRACE_SECONDS, OWNER, BodyRefused, BytesBody, World, open_world, run_pass
from tiers.commit import committer
from tiers.devices.contract import Area
from tiers.devices.interception import Operation
from tiers.errors import (
    BucketNotFound,
    ConditionFailed,
    DeleteMarkerFound,
    KeyNotFound,
    PlacementMoved,
    QuorumNotReached,
    StorageClassUnknown,
    StoreBusy,
    VersionNotFound,
)
from tiers.namespace.types import DeleteTarget, Description, Found, PutOutcome, WriteConditions

LARGE = b"0123456789abcdef" * 20_000
ONLY_NEW = WriteConditions(if_none_match=("*",))


async def assert_nothing_leaks(world: World) -> None:
    """After a pass of reclaim past the grace, devices hold what blobs place and nothing was set aside."""
    await world.namespace.buckets.put_document("bucket", "tagging", b"behind every commit under way")
    world.clock.advance(10 * GRACE_SECONDS)
    await run_pass(world.reclaim)
    await audit_references(world)
    await audit_files(world)


def test_of_racing_new_writers_one_wins_and_the_others_leave_nothing(tmp_path: Path) -> None:
    async def check() -> None:
        async with open_world(tmp_path) as world:
            put = world.namespace.objects.put
            racers = [put("bucket", "k", BytesBody(LARGE[n:]), OWNER, ONLY_NEW) for n in range(6)]
            outcomes = await asyncio.gather(*racers, return_exceptions=True)
            assert sorted(type(outcome).__name__ for outcome in outcomes) == ["ConditionFailed"] * 5 + ["PutOutcome"]
            await world.put("bucket", "last", b"behind whatever the refusals still had to record")
            states = [blob.state for blob in await all_rows(world.reader, BLOB) if blob.kind]
            assert states.count(BlobState.SEALED) == 1
            assert states.count(BlobState.DEAD) == len(states) - 1 > 0, "a published blob whose commit was refused"
            await assert_nothing_leaks(world)

    asyncio.run(check())


def cancel_at(world: World, task: "asyncio.Future[PutOutcome]", call: int) -> None:
    """Cancel `task` when the devices together begin their call number `call` from now on."""
    loop, calls = asyncio.get_running_loop(), itertools.count(1)

    def count(operation: Operation) -> None:
        if next(calls) == call:
            loop.call_soon_threadsafe(task.cancel)

    for device in world.devices.values():
        device.hang = count


@pytest.mark.parametrize("size", [1_000, len(LARGE)])
def test_a_write_cancelled_anywhere_is_whole_or_nothing(tmp_path: Path, size: int) -> None:
    async def check() -> None:
        async with open_world(tmp_path) as world:
            outcomes: list[PutOutcome | BaseException] = []
            for call in range(30):
                put = world.namespace.objects.put("bucket", f"k{call}", BytesBody(LARGE[:size]), OWNER)
                task = asyncio.ensure_future(put)
                cancel_at(world, task, call)
                outcomes += await asyncio.gather(task, return_exceptions=True)
            assert {type(outcome) for outcome in outcomes} == {asyncio.CancelledError, PutOutcome}
            await world.put("bucket", "last", b"behind every commit that may still be under way")
            for call in range(30):
                try:
                    version = (await found(world, f"k{call}")).version
                except KeyNotFound:
                    continue
                assert await world.read(version) == LARGE[:size]
            await assert_nothing_leaks(world)

    asyncio.run(check())


def test_a_failed_publish_leaves_no_file_at_once(tmp_path: Path) -> None:
    async def check() -> None:
        async with open_world(tmp_path) as world:
            world.devices["hot-2"].fail([Operation.PUBLISH], times=None)
            with pytest.raises(QuorumNotReached):
                await world.put("bucket", "k", LARGE)
            assert not world.files(Area.FRAGMENTS, Area.STAGING)

    asyncio.run(check())


def test_a_write_turned_away_by_a_full_queue_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def check() -> None:
        async with open_world(tmp_path) as world:
            monkeypatch.setattr(committer, "QUEUE_OPERATIONS_MAX", 0)
            with pytest.raises(StoreBusy):
                await world.put("bucket", "k", bytes(200_000))
            monkeypatch.undo()
            assert not world.files(Area.FRAGMENTS, Area.STAGING)
            await world.put("bucket", "k", bytes(200_000))

    asyncio.run(check())


def test_refusals_change_nothing(tmp_path: Path) -> None:
    async def check() -> None:
        async with open_world(tmp_path) as world:
            objects = world.namespace.objects
            kept = await world.put("bucket", "k", b"kept")
            for content in (b"small", LARGE):
                wrong = BytesBody(content, declared={"MD5": b"\0" * 16})
                with pytest.raises(BodyRefused):
                    await objects.put("bucket", "k", wrong, OWNER)
                with pytest.raises(ConditionFailed):
                    await objects.put("bucket", "k", BytesBody(content), OWNER, ONLY_NEW)
                with pytest.raises(BucketNotFound):
                    await objects.put("absent", "k", BytesBody(content), OWNER)
                with pytest.raises(StorageClassUnknown):
                    await objects.put("bucket", "k", BytesBody(content), Description("o", "SNOW"))
            assert (await objects.find("bucket", "k")).version == kept
            assert (await world.namespace.buckets.get("bucket")).byte_count == 4
            await assert_nothing_leaks(world)

    asyncio.run(check())


def test_declared_digests_are_compared_and_the_wanted_checksum_is_kept(tmp_path: Path) -> None:
    async def check() -> None:
        async with open_world(tmp_path) as world:
            for content in (b"", b"small" * 5_000, LARGE):
                declared = {"MD5": hashlib.md5(content).digest(), "SHA256": hashlib.sha256(content).digest()}
                description = Description("owner", checksum_algorithm="SHA256")
                body = BytesBody(content, declared=declared)
                version = (await world.namespace.objects.put("bucket", "k", body, description)).version
                assert version.etag == declared["MD5"].hex()
                assert version.checksum.startswith("SHA256:FULL_OBJECT:")
                assert await world.read(version) == content

    asyncio.run(check())


def test_find_tells_absent_from_deleted(tmp_path: Path) -> None:
    async def check() -> None:
        async with open_world(tmp_path) as world:
            objects = world.namespace.objects
            with pytest.raises(KeyNotFound) as never:
                await objects.find("bucket", "k")
            assert not never.value.is_delete_marker
            await world.namespace.buckets.set_versioning("bucket", Versioning.ENABLED)
            first = await world.put("bucket", "k", b"first")
            marker = await objects.delete("bucket", DeleteTarget("k"))
            with pytest.raises(KeyNotFound) as deleted:
                await objects.find("bucket", "k")
            assert (deleted.value.is_delete_marker, deleted.value.version_id) == (True, marker.version_id)
            with pytest.raises(DeleteMarkerFound) as refused:
                await objects.find("bucket", "k", marker.version_id)
            assert refused.value.modified_ms == int(world.clock() * 1000)
            with pytest.raises(VersionNotFound):
                await objects.find("bucket", "k", "unknown")
            older = await objects.find("bucket", "k", first.version_id)
            assert (older.is_latest, await world.read(older.version, 1, 3)) == (False, b"ir")
            with pytest.raises(DeleteMarkerFound):
                await objects.set_tags("bucket", "k", marker.version_id, b"t")
            with pytest.raises(KeyNotFound):
                await objects.set_tags("bucket", "k", None, b"t")

    asyncio.run(check())


def test_a_version_comes_back_from_under_many(tmp_path: Path) -> None:
    """Deleting the top, marker or not, brings back exactly the next one, however many there are."""

    async def check() -> None:
        async with open_world(tmp_path) as world:
            objects = world.namespace.objects
            await world.namespace.buckets.set_versioning("bucket", Versioning.ENABLED)
            stack = []
            for number in range(40):
                await world.put("bucket", "j", b"neighbour")
                if number % 3 == 2:
                    stack.append((await objects.delete("bucket", DeleteTarget("k"))).version_id)
                else:
                    stack.append((await world.put("bucket", "k", b"%d" % number)).version_id)
                await world.put("bucket", "l", b"neighbour")
            for number in reversed(range(40)):
                if number % 3 == 2:
                    with pytest.raises(KeyNotFound) as caught:
                        await objects.find("bucket", "k")
                    assert caught.value.version_id == stack[number]
                else:
                    assert (await objects.find("bucket", "k")).version.version_id == stack[number]
                await objects.delete("bucket", DeleteTarget("k", stack[number]))
            bucket = await world.namespace.buckets.get("bucket")
            assert (bucket.object_count, bucket.version_count) == (2, 80)

    asyncio.run(check())


async def found(world: World, key: str) -> Found:
    return await world.namespace.objects.find("bucket", key)


def test_a_copy_onto_itself_keeps_its_bytes_alive(tmp_path: Path) -> None:
    async def check() -> None:
        async with open_world(tmp_path) as world:
            for content in (b"", b"small", LARGE):
                await world.put("bucket", "k", content)
                changed = Description("owner", attributes=b"new")
                copied = await world.namespace.objects.copy(await found(world, "k"), "bucket", "k", changed)
                assert copied.version.attributes == b"new"
                assert await world.read(copied.version) == content
                await audit_references(world)

    asyncio.run(check())


def test_a_copy_gets_another_checksum_by_reading_once(tmp_path: Path) -> None:
    async def check() -> None:
        async with open_world(tmp_path) as world:
            await world.put("bucket", "k", LARGE)
            blobs = len(await all_rows(world.reader, BLOB))
            wanted = Description("owner", checksum_algorithm="SHA256")
            copied = (await world.namespace.objects.copy(await found(world, "k"), "bucket", "c", wanted)).version
            direct = await world.namespace.objects.put("bucket", "d", BytesBody(LARGE), wanted)
            assert copied.checksum == direct.version.checksum
            assert len(await all_rows(world.reader, BLOB)) == blobs + 1, "only the direct put wrote a blob"

    asyncio.run(check())


def test_a_source_lost_before_the_commit_is_an_error(tmp_path: Path) -> None:
    async def check() -> None:
        async with open_world(tmp_path) as world:
            objects = world.namespace.objects
            await world.put("bucket", "k", LARGE)
            source = await found(world, "k")
            await world.put("bucket", "k", b"newer")
            with pytest.raises(PlacementMoved):
                await objects.copy(source, "bucket", "c", OWNER)
            await objects.delete("bucket", DeleteTarget("k"))
            with pytest.raises(KeyNotFound):
                await objects.copy(source, "bucket", "c", OWNER)
            await assert_nothing_leaks(world)

    asyncio.run(check())


def test_a_large_write_with_one_device_down_asks_for_repair(tmp_path: Path) -> None:
    async def check() -> None:
        async with open_world(tmp_path) as world:
            world.devices["warm-1"].fail([Operation.STAGE], times=None)
            warm = Description("owner", "STANDARD_IA")
            for_reads = await world.namespace.objects.put("bucket", "degraded", BytesBody(LARGE[:-1]), warm)
            assert await world.read(for_reads.version) == LARGE[:-1]
            (blob,) = [row for row in await all_rows(world.reader, BLOB) if row.kind]
            missing = blob.placement.split(" ").index("")
            repairs = await all_rows(world.reader, REPAIR)
            assert [(row.blob_id, row.fragment_index) for row in repairs] == [(blob.blob_id, missing)]
            await assert_nothing_leaks(world)

    asyncio.run(check())
