"""Random histories of a namespace against a plain model: versioning, copies, multipart, failures, compaction, reclaim.

The model keeps a list of versions a key, newest first, and knows nothing of blobs. After every history the store must
agree with it in bytes, headers, listings and counters, hold exactly the references its rows imply, and after reclaim
past the grace exactly the files its blobs place.
"""

import asyncio
import hashlib
import random
import tempfile
from base64 import b64encode
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metadata.types import NULL_VERSION, Versioning
from tests.audit import audit_files, audit_references
from tests.world import GRACE_SECONDS, OWNER, BodyRefused, BytesBody, World, open_world, run_pass
from tiers.datapath.digests import crc64nvme
from tiers.errors import ConditionFailed, KeyNotFound, UploadNotFound
from tiers.namespace.context import Limits
from tiers.namespace.types import (
    UNCONDITIONAL,
    CompletedPart,
    DeleteConditions,
    DeleteTarget,
    Description,
    ListQuery,
    PutOutcome,
    WriteConditions,
)

LIMITS = Limits(part_bytes_min=100, copy_read_bytes_max=300_000)
SIZES = (0, 1, 99, 5_000, 20_000, 131_072, 131_073, 262_144, 400_000)
KEYS = ("a", "a/b", "ä")
WARM = Description(owner_id="owner", storage_class="STANDARD_IA")


@dataclass
class Entry:
    """A version as a client sees it; `content` None is a delete marker."""

    version_id: str
    content: bytes | None
    etag: str = ""
    tags: bytes = b""


@dataclass
class Model:
    """What S3 says the bucket holds."""

    versioning: Versioning = Versioning.NEVER
    keys: dict[str, list[Entry]] = field(default_factory=dict)

    def current(self, key: str) -> Entry | None:
        entries = self.keys.get(key, [])
        return entries[0] if entries and entries[0].content is not None else None

    def push(self, key: str, entry: Entry) -> None:
        entries = self.keys.setdefault(key, [])
        if self.versioning != Versioning.ENABLED:
            assert entry.version_id == NULL_VERSION
            entries[:] = [old for old in entries if old.version_id != NULL_VERSION]
        assert all(old.version_id != entry.version_id for old in entries)
        entries.insert(0, entry)

    def delete(self, key: str, marker_id: str) -> None:
        if self.versioning == Versioning.NEVER:
            self.keys[key] = []
        else:
            self.push(key, Entry(marker_id, None))


def md5(content: bytes) -> str:
    return hashlib.md5(content).hexdigest()


@dataclass
class History:
    """One run: the store, the model, and the chance that drives both."""

    world: World
    rng: random.Random
    model: Model = field(default_factory=Model)

    def content(self) -> bytes:
        return self.rng.randbytes(self.rng.choice(SIZES))

    def note(self, key: str, outcome: PutOutcome, content: bytes, etag: str) -> None:
        version, is_versioned = outcome
        assert (version.etag, version.size, is_versioned) == (etag, len(content), self.model.versioning == 1)
        self.model.push(key, Entry(version.version_id, content, etag, version.tags))

    async def put(self) -> None:
        key, content = self.rng.choice(KEYS), self.content()
        body = BytesBody(content, is_length_known=self.rng.random() < 0.7)
        outcome = await self.world.namespace.objects.put("bucket", key, body, self.rng.choice((OWNER, WARM)))
        self.note(key, outcome, content, md5(content))

    async def put_if(self) -> None:
        key, content, current = self.rng.choice(KEYS), self.content(), None
        current = self.model.current(key)
        wanted = self.rng.choice(("*", "0" * 32, current.etag if current else "1" * 32))
        is_match = self.rng.random() < 0.5
        conditions = WriteConditions(if_match=(wanted,)) if is_match else WriteConditions(if_none_match=(wanted,))
        matches = current is not None and wanted in ("*", current.etag)
        put = self.world.namespace.objects.put("bucket", key, BytesBody(content), OWNER, conditions)
        if is_match and current is None:
            with pytest.raises(KeyNotFound):
                await put
        elif matches != is_match:
            with pytest.raises(ConditionFailed):
                await put
        else:
            self.note(key, await put, content, md5(content))

    async def put_refused(self) -> None:
        body = BytesBody(self.content(), declared={"SHA256": b"other"})
        with pytest.raises(BodyRefused):
            await self.world.namespace.objects.put("bucket", self.rng.choice(KEYS), body, OWNER)

    async def delete(self) -> None:
        key = self.rng.choice(KEYS)
        outcome = await self.world.namespace.objects.delete("bucket", DeleteTarget(key))
        assert outcome.is_delete_marker == (self.model.versioning != Versioning.NEVER)
        self.model.delete(key, outcome.version_id)

    async def delete_version(self) -> None:
        key = self.rng.choice(KEYS)
        entries = self.model.keys.setdefault(key, [])
        entry = self.rng.choice([*entries, Entry("absent", b"")])
        outcome = await self.world.namespace.objects.delete("bucket", DeleteTarget(key, entry.version_id))
        assert outcome == (entry.version_id, entry.content is None)
        entries[:] = [old for old in entries if old is not entry]

    async def delete_many(self) -> None:
        keys = self.rng.sample(KEYS, 2)
        targets = [DeleteTarget(keys[0]), DeleteTarget(keys[1], conditions=DeleteConditions(if_match=("no",)))]
        first, second = await self.world.namespace.objects.delete_many("bucket", targets)
        assert isinstance(second, ConditionFailed if self.model.current(keys[1]) else KeyNotFound)
        assert not isinstance(first, Exception)
        self.model.delete(keys[0], first.version_id)

    async def copy(self) -> None:
        source_key, key = self.rng.choice(KEYS), self.rng.choice(KEYS)
        source = self.model.current(source_key)
        if source is None or source.content is None:
            return
        found = await self.world.namespace.objects.find("bucket", source_key)
        target = self.rng.choice((OWNER, WARM))
        outcome = await self.world.namespace.objects.copy(found, "bucket", key, target, UNCONDITIONAL)
        is_kept = len(source.content) > LIMITS.copy_read_bytes_max
        self.note(key, outcome, source.content, source.etag if is_kept else md5(source.content))

    async def set_tags(self) -> None:
        key = self.rng.choice(KEYS)
        tagged = [entry for entry in self.model.keys.get(key, []) if entry.content is not None]
        if tagged:
            entry = self.rng.choice(tagged)
            entry.tags = self.rng.randbytes(3)
            await self.world.namespace.objects.set_tags("bucket", key, entry.version_id, entry.tags)

    async def set_versioning(self) -> None:
        self.model.versioning = self.rng.choice((Versioning.ENABLED, Versioning.SUSPENDED))
        await self.world.namespace.buckets.set_versioning("bucket", self.model.versioning)

    async def multipart(self) -> None:
        multipart, key = self.world.namespace.multipart, self.rng.choice(KEYS)
        upload = await multipart.create("bucket", key, OWNER)
        sent: dict[int, tuple[str, bytes]] = {}
        for _ in range(self.rng.randrange(1, 4)):
            number = self.rng.randrange(1, 5)
            sent[number] = await self._part(key, upload.upload_id, number)
        if self.rng.random() < 0.2:
            await multipart.abort("bucket", key, upload.upload_id)
            with pytest.raises(UploadNotFound):
                await multipart.put_part("bucket", key, upload.upload_id, 1, BytesBody(self.content()))
            return
        usable = [number for number in sorted(sent) if len(sent[number][1]) >= LIMITS.part_bytes_min]
        chosen = self.rng.sample(usable, min(len(usable), 2)) or [min(sent)]
        named = [CompletedPart(number, sent[number][0], "") for number in sorted(chosen)]
        outcome = await multipart.complete("bucket", key, upload.upload_id, named)
        again = await multipart.complete("bucket", key, upload.upload_id, named)
        assert (again.version.etag, again.version.version_id) == (outcome.version.etag, outcome.version.version_id)
        digests = b"".join(bytes.fromhex(part.etag) for part in named)
        content = b"".join(sent[part.part_number][1] for part in named)
        self.note(key, outcome, content, f"{md5(digests)}-{len(named)}")

    async def _part(self, key: str, upload_id: str, number: int) -> tuple[str, bytes]:
        """Put a part, or copy a range of what stands under some key now."""
        multipart, source_key = self.world.namespace.multipart, self.rng.choice(KEYS)
        source = self.model.current(source_key)
        if source is None or source.content is None or self.rng.random() < 0.4:
            content = self.content()
            outcome = await multipart.put_part("bucket", key, upload_id, number, BytesBody(content))
        else:
            start = self.rng.choice((0, len(source.content) // 3))
            stop = self.rng.choice((len(source.content), max(start, len(source.content) // 2)))
            found = await self.world.namespace.objects.find("bucket", source_key)
            outcome = await multipart.copy_part("bucket", key, upload_id, number, found, start, stop)
            content = source.content[start:stop]
        assert outcome.etag == md5(content)
        return outcome.etag, content

    async def restart(self) -> None:
        await self.world.restart()

    async def compact(self) -> None:
        """Seal the packs, then rewrite the wasteful ones."""
        await self.world.restart()
        await self.world.namespace.buckets.put_document("bucket", "tagging", b"seals")
        await run_pass(self.world.compaction)

    async def reclaim(self) -> None:
        self.world.clock.advance(GRACE_SECONDS * self.rng.random())
        await run_pass(self.world.reclaim)

    def operations(self) -> list[tuple[Callable[[], Awaitable[None]], int]]:
        return [
            (self.put, 6), (self.put_if, 3), (self.put_refused, 1), (self.delete, 3), (self.delete_version, 4),
            (self.delete_many, 1), (self.copy, 3), (self.set_tags, 2), (self.set_versioning, 2), (self.multipart, 4),
            (self.restart, 1), (self.compact, 1), (self.reclaim, 1),
        ]  # fmt: skip

    async def run(self, steps: int) -> None:
        operations, weights = zip(*self.operations(), strict=True)
        for _ in range(steps):
            self.world.clock.advance(self.rng.choice((0, 1, 60)))
            await self.rng.choices(operations, weights)[0]()

    async def compare(self) -> None:
        """Everything a client can see equals the model."""
        namespace = self.world.namespace
        page = await namespace.listing.versions(ListQuery("bucket"))
        seen = [
            (v.key.decode(), v.version_id, v.etag, bool(v.is_delete_marker), v.noncurrent_ms == 0) for v in page.entries
        ]
        assert seen == [
            (key, entry.version_id, entry.etag, entry.content is None, index == 0)
            for key in sorted(self.model.keys, key=str.encode)
            for index, entry in enumerate(self.model.keys[key])
        ]
        current = [key for key in sorted(self.model.keys, key=str.encode) if self.model.current(key)]
        assert [v.key.decode() for v in (await namespace.listing.objects(ListQuery("bucket"))).entries] == current
        held = [entry for entries in self.model.keys.values() for entry in entries]
        bucket = await namespace.buckets.get("bucket")
        sizes = sum(len(entry.content or b"") for entry in held)
        assert (bucket.object_count, bucket.version_count, bucket.byte_count) == (len(current), len(held), sizes)
        for key, entries in self.model.keys.items():
            for entry in entries:
                if entry.content is not None:
                    await self._compare_version(key, entry)

    async def _compare_version(self, key: str, entry: Entry) -> None:
        assert entry.content is not None
        version = (await self.world.namespace.objects.find("bucket", key, entry.version_id)).version
        assert await self.world.read(version) == entry.content
        assert (version.size, version.tags) == (len(entry.content), entry.tags)
        algorithm, kind, value = version.checksum.split(":")
        assert (algorithm, kind) == ("CRC64NVME", "FULL_OBJECT")
        assert value == base64_of(crc64nvme(entry.content))


def base64_of(checksum: int) -> str:
    return b64encode(checksum.to_bytes(8, "big")).decode()


async def play(seed: int, steps: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with open_world(Path(folder), seed=seed, limits=LIMITS) as world:
            history = History(world, random.Random(seed))
            await history.run(steps)
            await history.compare()
            await audit_references(world)
            # Past every grace: first what is dead goes, a restart having sealed the packs; nothing else may.
            await history.compact()
            world.clock.advance(10 * GRACE_SECONDS)
            await run_pass(world.reclaim)
            await audit_files(world)
            await audit_references(world)
            await history.compare()


@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=12, deadline=None, derandomize=True)
def test_store_and_model_agree(seed: int) -> None:
    asyncio.run(play(seed, steps=45))
