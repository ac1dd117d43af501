"""Events: written with the change or not at all, delivered in order and at least once."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from metadata.tables import EVENT
from metadata.types import Versioning
from tests.world import OWNER, BytesBody, World, open_world
from tiers.errors import ConditionFailed
from tiers.namespace.events import (
    EXPIRATION,
    NOBODY,
    Happening,
    Notification,
    Origin,
    Rule,
    name_for,
    pack_notification,
    unpack_happening,
    unpack_notification,
)
from tiers.namespace.types import CompletedPart, DeleteTarget, WriteConditions
from tiers.upkeep.delivery import Delivery, DeliveryTimes, Undelivered
from tiers.upkeep.leases import HeldLease

ALL = ("s3:ObjectCreated:*", "s3:ObjectRemoved:*", "s3:ObjectTagging:*")
WHO = Origin("me", "10.0.0.9", "REQUEST")


def rule(events: tuple[str, ...] = ALL, prefix: bytes = b"", suffix: bytes = b"", target: str = "hook") -> Rule:
    return Rule("id", target, events, prefix, suffix)


def run(path: Path, act: Callable[[World], Awaitable[None]]) -> None:
    async def inside() -> None:
        async with open_world(path) as world:
            await act(world)

    asyncio.run(inside())


async def ask(world: World, *rules: Rule, bucket: str = "bucket", is_announced: bool = False) -> None:
    notification = Notification(rules, b"")
    await world.namespace.buckets.set_notification(bucket, notification, origin=WHO, is_announced=is_announced)


async def waiting(world: World) -> list[Happening]:
    return [unpack_happening(row.payload) for row in await world.reader.scan(EVENT, None, 1000)]


@pytest.mark.parametrize(
    ("events", "name", "is_asked"),
    [
        (("s3:ObjectCreated:*",), "s3:ObjectCreated:Copy", True),
        (("s3:ObjectCreated:Put",), "s3:ObjectCreated:Copy", False),
        (("s3:LifecycleTransition",), "s3:LifecycleTransition", True),
        (("s3:ObjectRemoved:*",), "s3:ObjectCreated:Put", False),
    ],
)
def test_rules_match_names(events: tuple[str, ...], name: str, is_asked: bool) -> None:
    assert rule(events).matches(name, b"key") is is_asked


def test_rules_match_keys() -> None:
    asked = rule(prefix=b"a/", suffix=b".jpg")
    assert asked.matches("s3:ObjectCreated:Put", b"a/1.jpg")
    assert not asked.matches("s3:ObjectCreated:Put", b"b/1.jpg")
    assert not asked.matches("s3:ObjectCreated:Put", b"a/1.png")


def test_documents_come_back_as_stored() -> None:
    stored = Notification((rule(), rule(target="other")), b"<x/>")
    assert unpack_notification(pack_notification(stored)) == stored


def test_names_follow_the_cause() -> None:
    assert name_for("s3:ObjectCreated:Put", WHO._replace(is_form=True)) == "s3:ObjectCreated:Post"
    assert name_for("s3:ObjectRemoved:Delete", EXPIRATION) == "s3:LifecycleExpiration:Delete"
    assert name_for("s3:ObjectRemoved:Delete", NOBODY) == "s3:ObjectRemoved:Delete"


def test_every_change_is_told_once_with_its_size(tmp_path: Path) -> None:
    async def act(world: World) -> None:
        await ask(world, rule())
        objects, multipart = world.namespace.objects, world.namespace.multipart
        await objects.put("bucket", "k", BytesBody(b"12345"), OWNER)
        await objects.copy(await objects.find("bucket", "k"), "bucket", "copy", OWNER)
        await objects.set_tags("bucket", "k", None, b"\x90", origin=WHO)
        await objects.delete("bucket", DeleteTarget("k"), origin=WHO)
        await objects.delete("bucket", DeleteTarget("absent"))
        upload = await multipart.create("bucket", "big", OWNER)
        part = await multipart.put_part("bucket", "big", upload.upload_id, 1, BytesBody(b"1234567"))
        await multipart.complete("bucket", "big", upload.upload_id, [CompletedPart(1, part.etag, "")])
        told = [(each.name.partition(":")[2], each.key, each.size) for each in await waiting(world)]
        assert told == [
            ("ObjectCreated:Put", b"k", 5),
            ("ObjectCreated:Copy", b"copy", 5),
            ("ObjectTagging:Put", b"k", 5),
            ("ObjectRemoved:Delete", b"k", 5),
            ("ObjectCreated:CompleteMultipartUpload", b"big", 7),
        ]
        assert (await waiting(world))[3].origin == WHO

    run(tmp_path, act)


def test_versions_are_named(tmp_path: Path) -> None:
    async def act(world: World) -> None:
        await world.namespace.buckets.set_versioning("bucket", Versioning.ENABLED)
        await ask(world, rule())
        version = await world.put("bucket", "k", b"12345")
        marker = await world.namespace.objects.delete("bucket", DeleteTarget("k"))
        await world.namespace.objects.delete("bucket", DeleteTarget("k", version.version_id))
        created, hidden, removed = await waiting(world)
        assert (created.version_id, created.size) == (version.version_id, 5)
        assert (hidden.name, hidden.version_id, hidden.size) == (
            "s3:ObjectRemoved:DeleteMarkerCreated", marker.version_id, 0,
        )  # fmt: skip
        assert (removed.name, removed.version_id, removed.size) == ("s3:ObjectRemoved:Delete", version.version_id, 5)

    run(tmp_path, act)


def test_what_is_refused_or_not_asked_for_is_not_told(tmp_path: Path) -> None:
    async def act(world: World) -> None:
        await world.put("bucket", "before", b"1")
        await ask(world, rule(prefix=b"yes/"))
        await world.put("bucket", "no/k", b"1")
        await world.put("bucket", "yes/k", b"1")
        absent = WriteConditions(if_none_match=("*",))
        with pytest.raises(ConditionFailed):
            await world.namespace.objects.put("bucket", "yes/k", BytesBody(b"2"), OWNER, absent)
        await ask(world)
        await world.put("bucket", "yes/later", b"1")
        assert [each.key for each in await waiting(world)] == [b"yes/k"]

    run(tmp_path, act)


def test_a_full_outbox_keeps_the_oldest(tmp_path: Path) -> None:
    async def act(world: World) -> None:
        world.namespace._context.rules._outbox_max = 2
        await ask(world, rule())
        for name in "abc":
            await world.put("bucket", name, b"1")
        assert [each.key for each in await waiting(world)] == [b"a", b"b"]
        assert world.namespace.events_dropped == 1

    run(tmp_path, act)


class Receiver:
    """Takes events, but for the targets that are down."""

    def __init__(self) -> None:
        self.taken: list[tuple[str, bytes]] = []
        self.down: set[str] = set()
        self.refusals = 0
        """So many more posts are refused, whatever comes."""

    async def post(self, target: str, sequence: int, happening: Happening) -> None:
        await asyncio.sleep(0)
        if self.refusals:
            self.refusals -= 1
            raise Undelivered(target)
        if target in self.down:
            raise Undelivered(target)
        self.taken.append((target, happening.key or happening.name.encode()))


def delivery(world: World, receiver: Receiver, holder: str = "one") -> Delivery:
    lease = HeldLease(world.committer, "delivery", holder, seconds=60, clock=world.clock)
    return Delivery(
        world.reader,
        world.committer,
        receiver.post,
        lease,
        clock=world.clock,
        rng=random.Random(0),
        times=DeliveryTimes(rest=0.0, retention=1000.0),
    )


async def deliver(worker: Delivery) -> None:
    while not (await worker.step()).is_idle:
        pass


def test_a_target_that_is_down_holds_back_its_own_events_only(tmp_path: Path) -> None:
    async def act(world: World) -> None:
        receiver = Receiver()
        worker = delivery(world, receiver)
        await ask(world, rule(prefix=b"a", target="one"), rule(prefix=b"b", target="two"))
        receiver.down = {"one"}
        for name in ("a1", "b1", "a2", "b2"):
            await world.put("bucket", name, b"1")
        await deliver(worker)
        assert receiver.taken == [("two", b"b1"), ("two", b"b2")]
        await world.put("bucket", "b3", b"1")
        await world.put("bucket", "a3", b"1")
        await deliver(worker)
        assert receiver.taken[2:] == [("two", b"b3")]
        receiver.down = set()
        await deliver(worker)
        assert len(receiver.taken) == 3
        world.clock.advance(1.1)
        await deliver(worker)
        assert receiver.taken[3:] == [("one", b"a1"), ("one", b"a2"), ("one", b"a3")]
        assert await waiting(world) == []

    run(tmp_path, act)


def test_an_event_that_fails_once_is_not_overtaken(tmp_path: Path) -> None:
    async def act(world: World) -> None:
        receiver = Receiver()
        worker = delivery(world, receiver)
        await ask(world, rule())
        for name in ("one", "two", "three"):
            await world.put("bucket", name, b"1")
        receiver.refusals = 1
        await deliver(worker)
        assert receiver.taken == []
        world.clock.advance(1.1)
        await deliver(worker)
        assert [key for _, key in receiver.taken] == [b"one", b"two", b"three"]

    run(tmp_path, act)


def test_tries_survive_a_restart_and_come_less_often(tmp_path: Path) -> None:
    async def act(world: World) -> None:
        receiver = Receiver()
        receiver.down = {"hook"}
        await ask(world, rule())
        await world.put("bucket", "k", b"1")
        for attempts in range(1, 5):
            await deliver(delivery(world, receiver))
            (row,) = await world.reader.scan(EVENT, None, 10)
            delay = row.not_before_ms - world.clock() * 1000
            assert row.attempts == attempts
            assert 2 ** (attempts - 1) * 500 <= delay <= 2 ** (attempts - 1) * 1000
            await deliver(delivery(world, receiver))
            assert (await world.reader.scan(EVENT, None, 10)) == [row]
            world.clock.advance(delay / 1000)
        receiver.down = set()
        await deliver(delivery(world, receiver))
        assert receiver.taken == [("hook", b"k")]

    run(tmp_path, act)


def test_a_pass_goes_over_many_pages_in_order(tmp_path: Path) -> None:
    async def act(world: World) -> None:
        receiver = Receiver()
        await ask(world, rule())
        for number in range(450):
            await world.put("bucket", f"{number:03}", b"1")
        worker = delivery(world, receiver)
        await deliver(worker)
        assert [key for _, key in receiver.taken] == [b"%03d" % number for number in range(450)]
        assert worker.counts.delivered == 450
        assert await waiting(world) == []

    run(tmp_path, act)


def test_of_two_targets_the_one_that_took_it_is_not_told_again(tmp_path: Path) -> None:
    async def act(world: World) -> None:
        receiver = Receiver()
        receiver.down = {"two"}
        worker = delivery(world, receiver)
        await ask(world, rule(target="one", prefix=b"a"), rule(target="two", prefix=b"b"), is_announced=True)
        await deliver(worker)
        receiver.down = set()
        world.clock.advance(1.1)
        await deliver(worker)
        assert receiver.taken == [("one", b"s3:TestEvent"), ("two", b"s3:TestEvent")]

    run(tmp_path, act)


def test_what_nobody_takes_is_given_up_at_last(tmp_path: Path) -> None:
    async def act(world: World) -> None:
        receiver = Receiver()
        receiver.down = {"hook"}
        worker = delivery(world, receiver)
        await ask(world, rule())
        await world.put("bucket", "k", b"1")
        await deliver(worker)
        world.clock.advance(1001)
        await deliver(worker)
        assert await waiting(world) == []
        assert (worker.counts.failed, worker.counts.expired) == (1, 1)

    run(tmp_path, act)


def test_one_process_delivers_at_a_time(tmp_path: Path) -> None:
    async def act(world: World) -> None:
        receiver = Receiver()
        await ask(world, rule())
        first, second = delivery(world, receiver, "one"), delivery(world, receiver, "two")
        await deliver(first)
        await world.put("bucket", "k", b"1")
        await deliver(second)
        assert receiver.taken == []
        world.clock.advance(61)
        await deliver(second)
        await deliver(first)
        assert receiver.taken == [("hook", b"k")]

    run(tmp_path, act)


def test_events_survive_the_bucket(tmp_path: Path) -> None:
    async def act(world: World) -> None:
        receiver = Receiver()
        await ask(world, rule())
        await world.put("bucket", "k", b"1")
        await world.namespace.objects.delete("bucket", DeleteTarget("k"))
        await world.namespace.buckets.delete("bucket")
        await world.restart()
        await deliver(delivery(world, receiver))
        assert [key for _, key in receiver.taken] == [b"k", b"k"]

    run(tmp_path, act)
