"""Random histories under random lifecycle rules and a random clock, against a plain model of what S3 says of rules.

The model knows nothing of an index: after every look of the engine it walks all it has and does what is due. The store
must then hold the same, have done each act once, and have an entry in time for everything that will become due. At the
end a rebuild from the devices must bring the same index back.

Replay: ISOTHERM_SEED=<seed> pytest tests/property/test_lifecycle.py
"""

import asyncio
import os
import random
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgpack
import pytest

from metadata.session import open_metadata
from metadata.tables import DUE
from metadata.types import NULL_VERSION, DocumentKind, DueKind, Versioning
from tests.audit import all_rows, audit_references
from tests.world import DAY_MS, OWNER, BytesBody, World, open_world
from tiers.commit.rebuild import rebuild
from tiers.lifecycle.documents import (
    Expiration,
    Filter,
    Lifecycle,
    NoncurrentExpiration,
    Rule,
    pack_lifecycle,
)
from tiers.lifecycle.engine import LifecycleEngine
from tiers.namespace.locks import NO_DEFAULT, LegalHold, LockChange
from tiers.namespace.types import DeleteTarget, ListQuery
from tiers.worker import Pace, Runner

SEED = int(os.environ.get("ISOTHERM_SEED", "0"))
SEEDS = [SEED] if SEED else range(1, 41 if os.environ.get("ISOTHERM_NIGHTLY") else 13)
KEYS = ("a/1", "a/2", "b/1", "b/2")
TAG = ("kind", "old")


@dataclass
class Entry:
    """A version as the rules see it."""

    version_id: str
    size: int
    modified_ms: int
    is_marker: bool = False
    is_tagged: bool = False
    noncurrent_ms: int = 0
    is_held: bool = False


def midnight(ms: int) -> int:
    return -(-ms // DAY_MS) * DAY_MS


@dataclass
class Model:
    """What the bucket holds, newest first, and its rules in plain statements."""

    versioning: Versioning = Versioning.NEVER
    rules: tuple[Rule, ...] = ()
    keys: dict[str, list[Entry]] = field(default_factory=dict)
    uploads: dict[str, tuple[str, int]] = field(default_factory=dict)
    acts: Counter[str] = field(default_factory=Counter)

    def matches(self, rule: Rule, key: str, entry: Entry) -> bool:
        chosen = rule.filter
        if not key.startswith(chosen.prefix or ""):
            return False
        if entry.is_marker:
            return not chosen.tags and chosen.size_over is None
        if chosen.tags and not entry.is_tagged:
            return False
        return chosen.size_over is None or entry.size > chosen.size_over

    def end_ms(self, key: str, entry: Entry) -> int | None:
        entries = self.keys[key]
        ends: list[int] = []
        for rule in self.rules:
            if not rule.is_enabled or not self.matches(rule, key, entry):
                continue
            if entry.noncurrent_ms:
                ending = rule.noncurrent_expiration
                newer = sum(1 for other in entries[: entries.index(entry)] if other.noncurrent_ms)
                if ending is not None and newer >= (ending.newer_kept or 0):
                    ends.append(midnight(entry.noncurrent_ms + ending.days * DAY_MS))
                continue
            expiration = rule.expiration
            if expiration is None or (entry.is_marker and len(entries) > 1):
                continue
            if entry.is_marker and expiration.ends_markers:
                ends.append(midnight(entry.modified_ms))
            elif expiration.days is not None:
                ends.append(midnight(entry.modified_ms + expiration.days * DAY_MS))
            elif expiration.date_ms is not None:
                ends.append(expiration.date_ms)
        return min(ends, default=None)

    def due(self, now_ms: int) -> Iterator[tuple[str, Entry]]:
        for key, entries in self.keys.items():
            for entry in list(entries):
                end_ms = self.end_ms(key, entry)
                if end_ms is not None and end_ms <= now_ms:
                    yield key, entry

    def push(self, key: str, entry: Entry) -> None:
        entries = self.keys.setdefault(key, [])
        if self.versioning != Versioning.ENABLED:
            entries[:] = [old for old in entries if old.version_id != NULL_VERSION]
        if entries and not entries[0].noncurrent_ms:
            entries[0].noncurrent_ms = entry.modified_ms
        entries.insert(0, entry)

    def delete(self, key: str, now_ms: int, marker_id: str) -> None:
        if self.versioning == Versioning.NEVER:
            self.keys[key] = []
        else:
            self.push(key, Entry(marker_id, 0, now_ms, is_marker=True))

    def remove(self, key: str, entry: Entry) -> None:
        entries = self.keys[key]
        entries.remove(entry)
        if entries:
            entries[0].noncurrent_ms = 0

    def run(self, now_ms: int) -> None:
        """Everything due, until nothing is."""
        while True:
            for key, entry in self.due(now_ms):
                if entry.noncurrent_ms or entry.is_marker:
                    if entry.is_held:
                        continue
                    self.remove(key, entry)
                    self.acts["remove"] += 1
                else:
                    self.delete(key, now_ms, "?" if self.versioning == Versioning.ENABLED else NULL_VERSION)
                    self.acts["expire"] += 1
                break
            else:
                break
        for upload_id, (key, created_ms) in list(self.uploads.items()):
            days = [
                rule.abort_days
                for rule in self.rules
                if rule.is_enabled and rule.abort_days is not None and key.startswith(rule.filter.prefix or "")
            ]
            if days and midnight(created_ms + min(days) * DAY_MS) <= now_ms:
                del self.uploads[upload_id]
                self.acts["abort"] += 1


@dataclass
class History:
    """One run: the store, the model, and the chance that drives both."""

    world: World
    rng: random.Random
    engine: LifecycleEngine
    has_lock: bool
    model: Model = field(default_factory=Model)

    @property
    def now_ms(self) -> int:
        return int(self.world.clock() * 1000)

    async def put(self) -> None:
        key, size = self.rng.choice(KEYS), self.rng.choice((0, 10, 100))
        tags = msgpack.packb([list(TAG)]) if self.rng.random() < 0.5 else b""
        description = replace(OWNER, tags=tags)
        outcome = await self.world.namespace.objects.put("bucket", key, BytesBody(b"x" * size), description)
        self.model.push(key, Entry(outcome.version.version_id, size, self.now_ms, is_tagged=bool(tags)))

    async def delete(self) -> None:
        key = self.rng.choice(KEYS)
        outcome = await self.world.namespace.objects.delete("bucket", DeleteTarget(key))
        self.model.delete(key, self.now_ms, outcome.version_id)

    async def delete_version(self) -> None:
        key = self.rng.choice(KEYS)
        free = [entry for entry in self.model.keys.get(key, []) if not entry.is_held]
        if free:
            entry = self.rng.choice(free)
            await self.world.namespace.objects.delete("bucket", DeleteTarget(key, entry.version_id))
            self.model.remove(key, entry)

    def choose(self) -> tuple[str, Entry] | None:
        data = [(key, entry) for key, found in self.model.keys.items() for entry in found if not entry.is_marker]
        return self.rng.choice(data) if data else None

    async def tag(self) -> None:
        if chosen := self.choose():
            key, entry = chosen
            entry.is_tagged = not entry.is_tagged
            tags = msgpack.packb([list(TAG)]) if entry.is_tagged else b""
            await self.world.namespace.objects.set_tags("bucket", key, entry.version_id, tags)

    async def hold(self) -> None:
        chosen = self.choose()
        if chosen and self.has_lock:
            key, entry = chosen
            entry.is_held = not entry.is_held
            change = LockChange(legal_hold=LegalHold.ON if entry.is_held else LegalHold.OFF)
            await self.world.namespace.objects.set_lock("bucket", key, entry.version_id, change)

    async def open_upload(self) -> None:
        key = self.rng.choice(KEYS)
        upload = await self.world.namespace.multipart.create("bucket", key, OWNER)
        await self.world.namespace.multipart.put_part("bucket", key, upload.upload_id, 1, BytesBody(b"part"))
        self.model.uploads[upload.upload_id] = key, self.now_ms

    async def abort_upload(self) -> None:
        if self.model.uploads:
            upload_id = self.rng.choice(sorted(self.model.uploads))
            key, _ = self.model.uploads.pop(upload_id)
            await self.world.namespace.multipart.abort("bucket", key, upload_id)

    async def set_versioning(self) -> None:
        if not self.has_lock:
            state = self.rng.choice((Versioning.ENABLED, Versioning.SUSPENDED))
            await self.world.namespace.buckets.set_versioning("bucket", state)
            self.model.versioning = state

    def random_rules(self) -> tuple[Rule, ...]:
        rng, rules = self.rng, []
        for number, prefix in enumerate(("a/", "b/", "", "a/")):
            days = rng.randrange(1, 4)
            expiration = rng.choice(
                (
                    None,
                    Expiration(days=days),
                    Expiration(date_ms=midnight(self.now_ms + rng.randrange(-2, 4) * DAY_MS)),
                    Expiration(ends_markers=True),
                )
            )
            is_plain = expiration is None or expiration.ends_markers or rng.random() < 0.5
            chosen = Filter(
                prefix=prefix or None,
                tags=() if is_plain or rng.random() < 0.5 else (TAG,),
                size_over=None if is_plain or rng.random() < 0.5 else 50,
            )
            noncurrent = abort = None
            if number < 2:  # one for each key at most: of two with filters of their own the order would matter
                noncurrent = NoncurrentExpiration(rng.randrange(1, 3), rng.choice((None, 1, 2)))
                noncurrent = rng.choice((None, noncurrent))
            if is_plain and rng.random() < 0.5:
                abort = rng.randrange(1, 3)
            is_enabled = rng.random() < 0.9
            rules.append(Rule(f"r{number}", is_enabled, chosen, expiration, (), (), noncurrent, abort))
        return tuple(rng.sample(rules, rng.randrange(1, len(rules))))

    async def set_rules(self) -> None:
        rules = self.random_rules() if self.rng.random() < 0.8 else ()
        document = pack_lifecycle(Lifecycle(rules)) if rules else None
        await self.world.namespace.buckets.put_documents("bucket", {DocumentKind.LIFECYCLE: document})
        self.model.rules = rules

    async def pass_time(self) -> None:
        self.world.clock.advance(self.rng.choice((1.0, 3_600.0, 40_000.0, 86_400.0)))
        if self.rng.random() < 0.3:
            await self.world.restart()
            self.engine = self.world.lifecycle()
        await self.look()

    async def look(self) -> None:
        """Let the engine do everything, then the model."""
        self.engine.counts.fired.clear()
        while await Runner(self.engine, Pace(0, lambda: 0.0), random.Random(0)).run_pass():
            pass
        self.model.acts.clear()
        self.model.run(self.now_ms)
        done = {act.value: count for (act, result), count in self.engine.counts.fired.items() if result == "done"}
        assert {act: count for act, count in done.items() if count} == dict(self.model.acts)
        await self.compare()

    async def compare(self) -> None:
        """The same versions and uploads, and an entry in time for each that will be due."""
        page = await self.world.namespace.listing.versions(ListQuery("bucket"))
        stored: dict[str, list[tuple[bool, int]]] = {}
        for row in page.entries:
            stored.setdefault(row.key.decode(), []).append((bool(row.is_delete_marker), row.noncurrent_ms))
        expected = {
            key: [(entry.is_marker, entry.noncurrent_ms) for entry in entries]
            for key, entries in self.model.keys.items()
            if entries
        }
        assert stored == expected
        due = {
            (row.key.decode(), row.sequence): row.due_ms
            for row in await all_rows(self.world.reader, DUE)
            if row.kind == DueKind.END
        }
        places: Counter[str] = Counter()
        for row in page.entries:
            key = row.key.decode()
            entry = self.model.keys[key][places[key]]
            places[key] += 1
            entry.version_id = row.version_id
            end_ms = self.model.end_ms(key, entry)
            if end_ms is not None and not entry.is_held:
                assert due[key, row.sequence] <= end_ms, f"{key}: the index would be late"
        uploads = (await self.world.namespace.listing.uploads(ListQuery("bucket"))).entries
        assert {upload.upload_id for upload in uploads} == set(self.model.uploads)

    async def run(self, count: int) -> None:
        acts = [
            *[self.put] * 5, *[self.delete] * 2, self.delete_version, self.tag, self.hold, self.open_upload,
            self.abort_upload, self.set_versioning, self.set_rules, *[self.pass_time] * 4,
        ]  # fmt: skip
        for _ in range(count):
            await self.rng.choice(acts)()
        await self.look()


async def play(seed: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with open_world(Path(folder), seed=seed) as world:
            history = History(world, random.Random(seed), world.lifecycle(), has_lock=seed % 3 == 0)
            if history.has_lock:
                await world.namespace.buckets.set_versioning("bucket", Versioning.ENABLED)
                await world.namespace.buckets.set_object_lock("bucket", NO_DEFAULT)
                history.model.versioning = Versioning.ENABLED
            await history.set_rules()
            await history.run(120)
            await audit_references(world)
            expected = await all_rows(world.reader, DUE)
            rebuilt = open_metadata(f"sqlite:///{Path(folder) / 'rebuilt.db'}")
            rebuilt.migrate()
            await asyncio.to_thread(rebuild, rebuilt, world.fleet, progress=lambda *_: None)
            reader = await rebuilt.open_reader()
            assert await all_rows(reader, DUE) == expected
            await reader.close()


@pytest.mark.parametrize("seed", SEEDS)
def test_the_engine_does_what_the_rules_say(seed: int) -> None:
    print(f"seed {seed}")
    asyncio.run(play(seed))
