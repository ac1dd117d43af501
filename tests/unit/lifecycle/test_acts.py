"""Acts of lifecycle rules over a whole store: when they fire, what stops them, who is told."""

from pathlib import Path

import msgpack

from metadata.tables import EVENT
from metadata.types import DueKind, Versioning
from tests.audit import all_rows
from tests.unit.lifecycle.scene import DAY, EXPIRES, count_versions, entries, keys_of, look, play, put_rules, rule
from tests.world import DAY_MS, OWNER, World
from tiers.lifecycle.documents import Expiration, Filter, NoncurrentExpiration, Transition
from tiers.lifecycle.engine import LifecycleEngine, MoveOrder, Times
from tiers.namespace.events import Notification, unpack_happening
from tiers.namespace.events import Rule as NotificationRule
from tiers.namespace.locks import NO_DEFAULT, LegalHold, LockChange, Mode
from tiers.upkeep.leases import HeldLease


async def lock_bucket(world: World) -> None:
    await world.namespace.buckets.set_versioning("bucket", Versioning.ENABLED)
    await world.namespace.buckets.set_object_lock("bucket", NO_DEFAULT)
    await put_rules(world, rule(noncurrent_expiration=NoncurrentExpiration(1)))
    await world.put("bucket", "k", b"old")


def test_a_retention_wins_until_it_ends(tmp_path: Path) -> None:
    async def scene(world: World) -> None:
        await lock_bucket(world)
        until_ms = int(world.clock() * 1000) + 10 * DAY_MS
        change = LockChange(retention=(Mode.COMPLIANCE, until_ms))
        await world.namespace.objects.set_lock("bucket", "k", None, change)
        await world.put("bucket", "k", b"new")
        engine = world.lifecycle()
        world.clock.advance(3 * DAY)
        assert await look(engine) == {"remove/locked": 1}
        assert await look(engine) == {}, "it does not stand in the way of others"
        world.clock.advance(7 * DAY - 1)
        assert await look(engine) == {}
        world.clock.advance(2)
        assert await look(engine) == {"remove/done": 1}
        assert await count_versions(world) == 1

    play(tmp_path, scene)


def test_the_end_of_a_hold_is_noticed_at_once(tmp_path: Path) -> None:
    async def scene(world: World) -> None:
        await lock_bucket(world)
        held = (await world.namespace.objects.find("bucket", "k")).version.version_id
        await world.namespace.objects.set_lock("bucket", "k", held, LockChange(legal_hold=LegalHold.ON))
        await world.put("bucket", "k", b"new")
        engine = world.lifecycle()
        world.clock.advance(3 * DAY)
        assert await look(engine) == {"remove/locked": 1}
        await world.namespace.objects.set_lock("bucket", "k", held, LockChange(legal_hold=LegalHold.OFF))
        assert await look(engine) == {"remove/done": 1}

    play(tmp_path, scene)


def test_tags_move_the_time_at_once(tmp_path: Path) -> None:
    async def scene(world: World) -> None:
        await put_rules(world, rule(expiration=Expiration(days=1), filter=Filter(tags=(("a", "b"),))))
        await world.put("bucket", "k", b"x")
        engine = world.lifecycle()
        world.clock.advance(3 * DAY)
        assert await look(engine) == {}
        await world.namespace.objects.set_tags("bucket", "k", None, msgpack.packb([["a", "b"]]))
        assert await entries(world, DueKind.END) == 1
        await world.namespace.objects.set_tags("bucket", "k", None, b"")
        assert await entries(world, DueKind.END) == 0
        assert await look(engine) == {}
        await world.namespace.objects.set_tags("bucket", "k", None, msgpack.packb([["a", "b"]]))
        assert await look(engine) == {"expire/done": 1}

    play(tmp_path, scene)


def test_a_clock_that_is_ahead_of_the_database_fires_nothing(tmp_path: Path) -> None:
    async def scene(world: World) -> None:
        await put_rules(world, EXPIRES)
        await world.put("bucket", "k", b"x")
        behind_ms = 0

        async def database_ms() -> int:
            return int(world.clock() * 1000) - behind_ms

        lease = HeldLease(world.committer, "lifecycle", "engine", seconds=60, clock=world.clock)
        engine = LifecycleEngine(world.namespace.due_times, lease, Times(world.clock, database_ms, DAY_MS))
        await look(engine)
        world.clock.advance(3 * DAY)
        behind_ms = 3 * DAY_MS
        assert await look(engine) == {"none/clock_ahead": 1}
        assert await keys_of(world) == ["k"]
        behind_ms = 3_600_000
        assert await look(engine) == {"expire/done": 1}

    play(tmp_path, scene)


def test_one_of_two_engines_works(tmp_path: Path) -> None:
    async def scene(world: World) -> None:
        await put_rules(world, EXPIRES)
        await world.put("bucket", "k", b"x")
        first, second = world.lifecycle(holder="one"), world.lifecycle(holder="two")
        await look(first)
        world.clock.advance(20)
        assert await look(second) == {}
        world.clock.advance(3 * DAY)  # its lease is over
        assert await look(second) == {"expire/done": 1}
        assert await look(first) == {}

    play(tmp_path, scene)


class Yard:
    """A mover that keeps what it takes, as long as it has room."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.taken: list[MoveOrder] = []

    async def take(self, order: MoveOrder) -> bool:
        if len(self.taken) >= self.room:
            return False
        self.taken.append(order)
        return True


def test_moves_are_handed_over(tmp_path: Path) -> None:
    async def scene(world: World) -> None:
        await put_rules(world, rule(transitions=(Transition("STANDARD_IA", days=1),), filter=Filter(size_over=1)))
        for key in "ab":
            await world.put("bucket", key, b"content")
        engine = world.lifecycle()
        world.clock.advance(3 * DAY)
        assert await look(engine) == {}
        assert engine.counts.moves_waiting == 2, "without a mover they wait, and are counted"
        yard = Yard(room=1)
        assert await look(world.lifecycle(yard)) == {"move/handed": 1, "move/deferred": 1}
        assert [(order.version.key, order.storage_class, order.rule_id) for order in yard.taken] == [
            (b"a", "STANDARD_IA", "r")
        ]
        assert await look(world.lifecycle(yard)) == {}, "not asked for again at once"
        yard.room = 9
        world.clock.advance(900)
        assert await look(world.lifecycle(yard)) == {"move/handed": 2}

    play(tmp_path, scene)


def test_events_have_the_names_of_expirations(tmp_path: Path) -> None:
    async def scene(world: World) -> None:
        asked = Notification((NotificationRule("n", "hook", ("s3:LifecycleExpiration:*",), b"", b""),), b"")
        await world.namespace.buckets.set_notification("bucket", asked, origin=OWNER.origin, is_announced=False)
        await put_rules(world, rule(expiration=Expiration(days=1), noncurrent_expiration=NoncurrentExpiration(1)))
        await world.put("bucket", "plain", b"x")
        engine = world.lifecycle()
        world.clock.advance(2 * DAY)
        await look(engine)
        await world.namespace.buckets.set_versioning("bucket", Versioning.ENABLED)
        await world.put("bucket", "versioned", b"x")
        for _ in range(6):
            world.clock.advance(DAY)
            await look(engine)
        found = [unpack_happening(row.payload) for row in await all_rows(world.reader, EVENT)]
        assert [(one.key, one.name.removeprefix("s3:LifecycleExpiration:")) for one in found] == [
            (b"plain", "Delete"),
            (b"versioned", "DeleteMarkerCreated"),
            (b"versioned", "Delete"),  # the version
            (b"versioned", "Delete"),  # the delete marker that hides nothing
        ]
        assert await count_versions(world) == 0

    play(tmp_path, scene)
