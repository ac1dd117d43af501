"""Carries the bytes of moves: read and verified at the source, written whole in the target tier, read back, verified.

Nothing here decides or commits. What is written stays invisible to readers until the swap; what fails is discarded, and
what cannot be discarded is reclaim's, as the blob's pending row dies.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from metadata.types import Blob, BlobId, Extent
from tiers.catalogue import Catalogue
from tiers.datapath.body import CRC64NVME, Body
from tiers.datapath.contract import Reader, ReadPlan, StagedBlob
from tiers.datapath.digests import DigestSet, crc64nvme
from tiers.datapath.files import open_fragment
from tiers.datapath.layouts import layout_of
from tiers.datapath.stripes import Stripe
from tiers.devices.fleet import Fleet
from tiers.erasure.fragment import Identity, check_header, decode_header, decode_trailer
from tiers.erasure.layout import PAGE_BYTES
from tiers.errors import ContentUnreadable, DeviceFailed, FragmentCorrupt, PlacementShort, QuorumNotReached
from tiers.lifecycle.move_calls import all_of, on_device, quietly
from tiers.lifecycle.move_pacing import ByteRates
from tiers.lifecycle.move_pack import BATCH_BODY_BYTES, NewPack, plan_pack
from tiers.lifecycle.move_plan import Haul, Load, Placed, Way, declared_digest
from tiers.namespace.intake import StoredBody

Beat = Callable[[], Awaitable[None]]
"""Called between pieces of work: keeps the lease. Errors: what ends the work."""

Spend = Callable[[str, int], Awaitable[None]]
"""Called with a tier before so many bytes of it are read or written: keeps the lease and waits for the budget."""

INLINE_BYTES_MAX: Final = 64 * 1024
"""Longer contents are hashed off the event loop."""


class PlanningWriter(Protocol):
    """The part of `tiers.datapath.writer.BlobWriter` that moves use."""

    def plan(self, tier: str) -> Blob:
        """The row of a blob to come. Errors: PlacementShort."""

    async def stage_planned(self, body: Body, planned: Blob) -> StagedBlob:
        """Write `body` as the planned blob."""


@dataclass(frozen=True)
class Carriage:
    """What carries bytes. `clock` gives seconds since the epoch; `rates` bounds bytes a second by tier."""

    contents: Reader
    writer: PlanningWriter
    fleet: Fleet
    catalogue: Catalogue
    rates: ByteRates
    clock: Callable[[], float]
    new_id: Callable[[], bytes]
    rng: random.Random

    def plan(self, haul: Haul) -> Blob:
        """The row of the blob that a haul will write, every fragment or copy placed. Errors: PlacementShort."""
        if haul.way is Way.PACKED:
            now_ms = int(self.clock() * 1000)
            blob_id = BlobId(self.new_id())
            return plan_pack(self.catalogue, self.fleet, haul.target, blob_id, now_ms=now_ms, rng=self.rng)
        planned = self.writer.plan(haul.target)
        if "" in planned.placement.split(" "):
            raise PlacementShort(f"a move to {haul.target} writes every fragment, and a device is missing")
        (load,) = haul.loads
        return planned._replace(size=sum(extent.length for extent in load.extents))

    async def carry(self, haul: Haul, planned: Blob, beat: Beat) -> tuple[list[Placed], Blob]:
        """Write, publish and verify; where everything is now, and the blob's row.

        Errors: StorageError, and what `beat` raises; what was written is discarded then.
        """

        async def spend(tier: str, byte_count: int) -> None:
            await beat()
            await self.rates.take(tier, byte_count)

        if haul.way is Way.PACKED:
            return await self._pack(haul, planned, spend)
        (load,) = haul.loads
        return [Placed(load, await self._stripe(load, planned, spend))], planned

    # ---------------------------------------------------------------- one large content

    async def _stripe(self, load: Load, planned: Blob, spend: Spend) -> list[Extent]:
        async def pass_on(byte_count: int) -> None:
            await spend(load.version.tier, byte_count)
            await spend(planned.tier, byte_count)

        stream = await self.contents.open(ReadPlan(load.extents, 0, planned.size))
        try:
            body = _SourceBody(StoredBody(stream, planned.size), declared_digest(load.version), pass_on)
            staged = await self.writer.stage_planned(body, planned)
        finally:
            stream.close()
        extents = _laid_end_to_end(planned.blob_id, load.extents)
        try:
            _require_all(staged.blob, planned)
            await staged.publish()
            _require_all(staged.blob, planned)
            await verify_fragments(self.fleet, planned, lambda byte_count: spend(planned.tier, byte_count))
            await self._read_back(planned, extents, staged.digests[CRC64NVME], spend)
        except BaseException:
            await staged.discard()
            raise
        return extents

    async def _read_back(self, planned: Blob, extents: Sequence[Extent], expected: bytes, spend: Spend) -> None:
        """Read the content as any reader will. Errors: ContentUnreadable, FragmentCorrupt."""
        stream = await self.contents.open(ReadPlan(extents, 0, planned.size))
        found = 0
        try:
            while (run := await stream.next()) is not None:
                view = memoryview(run)
                found = crc64nvme(view, found)
                await spend(planned.tier, len(view))
                await asyncio.sleep(0)  # cached runs suspend nowhere
        finally:
            stream.close()
        if found.to_bytes(8, "big") != expected:
            raise FragmentCorrupt("what was read back is not what was written")

    # ---------------------------------------------------------------- many small ones

    async def _pack(self, haul: Haul, planned: Blob, spend: Spend) -> tuple[list[Placed], Blob]:
        pack = NewPack(self.fleet, planned, self.new_id)
        placed: list[Placed] = []
        try:
            for loads in _batched(haul.loads):
                placed += await self._add(pack, loads, planned, spend)
            blob = await pack.finish()
            extents = [extent for one in placed for extent in one.extents]
            await pack.verify(extents, lambda byte_count: spend(planned.tier, byte_count))
        except BaseException:
            await pack.discard()
            raise
        return placed, blob

    async def _add(self, pack: NewPack, loads: Sequence[Load], planned: Blob, spend: Spend) -> list[Placed]:
        """Append what could be read; one content that is lost or wrong holds up no other."""
        bodies: list[bytes] = []
        read: list[Load] = []
        failed: list[Placed] = []
        for load in loads:
            try:
                body = await self._read_small(load, spend)
            except (ContentUnreadable, FragmentCorrupt) as error:
                failed.append(Placed(load, (), f"{type(error).__name__}: {error}"))
                continue
            read.append(load)
            bodies += body
        await spend(planned.tier, sum(map(len, bodies)))
        extents = iter(await pack.add(bodies) if bodies else ())
        return [Placed(load, [next(extents) for _ in load.extents]) for load in read] + failed

    async def _read_small(self, load: Load, spend: Spend) -> list[bytes]:
        """The bytes of each extent. Errors: ContentUnreadable; FragmentCorrupt when they are not what was declared."""
        size = sum(extent.length for extent in load.extents)
        await spend(load.version.tier, size)
        stream = await self.contents.open(ReadPlan(load.extents, 0, size))
        try:
            content = await StoredBody(stream, size).read_all(size)
        finally:
            stream.close()
        declared = declared_digest(load.version)
        if declared is not None:
            name, value = declared
            if size > INLINE_BYTES_MAX:
                found = await asyncio.to_thread(_digest_of, name, content)
            else:
                found = _digest_of(name, content)
            require_equal(found, value)
        pieces: list[bytes] = []
        at = 0
        for extent in load.extents:
            pieces.append(content[at : at + extent.length])
            at += extent.length
        return pieces


class _SourceBody:
    """A stored content on its way to another tier: hashed by the writer, compared with what its row declares."""

    def __init__(
        self, inner: StoredBody, declared: tuple[str, bytes] | None, pass_on: Callable[[int], Awaitable[None]]
    ) -> None:
        self._inner, self._declared, self._pass_on = inner, declared, pass_on
        self.length = inner.length
        self.digests = frozenset({CRC64NVME} | ({declared[0]} if declared else set()))

    async def fill(self, view: memoryview) -> int:
        """See `Body.fill`; paced. Errors: ContentUnreadable, and what keeping the lease raises."""
        await self._pass_on(len(view))
        return await self._inner.fill(view)

    async def read_all(self, limit: int) -> bytes:
        """Not for large contents."""
        raise AssertionError(f"a content to be striped is not read whole, limit {limit}")

    def verify(self, digests: Mapping[str, bytes]) -> None:
        """Compare with the row. Errors: FragmentCorrupt; nothing is published then."""
        if self._declared is not None:
            require_equal(digests[self._declared[0]], self._declared[1])


async def verify_fragments(fleet: Fleet, blob: Blob, spend: Callable[[int], Awaitable[None]]) -> None:
    """Read every fragment of a blob from end to end, parity too; `spend` is asked before each read.

    Errors: FragmentCorrupt, FragmentNotFound, DeviceFailed, and what `spend` raises.
    """
    layout = layout_of(blob.layout)
    identities = [Identity(blob.blob_id, layout, index, blob.generation) for index in range(layout.fragments)]
    devices = blob.placement.split(" ")
    await all_of(
        [_verify_fragment(fleet, blob, one, device, spend) for one, device in zip(identities, devices, strict=True)]
    )


async def _verify_fragment(
    fleet: Fleet, blob: Blob, identity: Identity, device_id: str, spend: Callable[[int], Awaitable[None]]
) -> None:
    device = fleet.get(device_id)
    if device is None:
        raise DeviceFailed(f"no device {device_id!r} here")
    layout = identity.layout
    file, table, _ = await on_device(fleet, device_id, open_fragment, device, identity, blob.size)
    assert table is not None

    async def read(offset: int, view: memoryview) -> memoryview:
        if await on_device(fleet, device_id, file.read_into, offset, view) != len(view):
            raise FragmentCorrupt(f"{identity.name} ends early")
        return view

    try:
        memory = Stripe(layout.row_bytes_full)
        tail = await read(file.size - PAGE_BYTES, memoryview(bytearray(PAGE_BYTES)))
        trailer = decode_trailer(tail, file_size=file.size, expected=identity)
        check_header(decode_header(await read(0, memory.view[:PAGE_BYTES]), identity), trailer)
        for stripe in range(layout.stripes(blob.size)):
            row = memory.view[: layout.stripe_row_length(blob.size, stripe)]
            await spend(len(row))
            await asyncio.to_thread(table.verify, stripe, 0, await read(layout.row_offset(stripe), row))
    finally:
        await quietly(on_device(fleet, device_id, file.close))


def _require_all(found: Blob, planned: Blob) -> None:
    """Errors: QuorumNotReached unless every fragment is where it was planned: a move has time to wait for all."""
    if (found.placement, found.size) != (planned.placement, planned.size):
        raise QuorumNotReached(f"blob {planned.blob_id.hex()}: not every fragment became durable")


def _laid_end_to_end(blob_id: BlobId, extents: Sequence[Extent]) -> list[Extent]:
    """The same boundaries in one striped blob, whose blocks carry their own checksums."""
    placed: list[Extent] = []
    at = 0
    for extent in extents:
        placed.append(Extent(blob_id, at, extent.length, 0))
        at += extent.length
    return placed


def _batched(loads: Sequence[Load]) -> list[list[Load]]:
    """Loads in runs whose bodies fit one batch; one that is larger goes alone."""
    batches: list[list[Load]] = []
    filled = BATCH_BODY_BYTES
    for load in loads:
        size = sum(extent.length for extent in load.extents)
        if filled + size > BATCH_BODY_BYTES:
            batches.append([])
            filled = 0
        batches[-1].append(load)
        filled += size
    return batches


def require_equal(found: bytes, declared: bytes) -> None:
    """Errors: FragmentCorrupt: the source is not what its row says, and nothing but a look at it will mend that."""
    if found != declared:
        raise FragmentCorrupt("the content does not have the digest that its row declares")


def _digest_of(name: str, content: bytes) -> bytes:
    digests = DigestSet({name})
    digests.update(memoryview(content))
    return digests.results()[name]
