"""Large writes: a body becomes the staged fragments of one striped blob.

One loop receives into pooled stripe memory. Each filled stripe becomes two jobs side by side: hash (in order within the
upload) and encode, checksum, write (any order); the memory goes back when both are done. Nothing but the receive and
the counting of completions happens on the event loop. See decisions/0003.
"""

import asyncio
import random
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Executor
from typing import Any, Final, TypeVar

from metadata.types import Blob, BlobId, BlobKind, BlobState, Extent
from tiers.catalogue import Catalogue
from tiers.datapath.body import Body
from tiers.datapath.digests import DigestSet
from tiers.datapath.fragments import FragmentSet
from tiers.datapath.hashing import HashChain
from tiers.datapath.layouts import layout_of
from tiers.datapath.md5 import Md5Lanes
from tiers.datapath.placement import choose
from tiers.datapath.stripes import Stripe, StripePool
from tiers.devices.fleet import Fleet
from tiers.erasure.layout import Layout
from tiers.errors import PlacementShort

STRIPES_IN_FLIGHT: Final = 8
"""Stripes of one upload that are hashed or written at once; then the upload stops reading its socket."""

WHOLE_BYTES: Final = 1 << 20
"""Up to here a body that ends in its first stripe is written in one piece a fragment."""

FIRST_GENERATION: Final = 1
T = TypeVar("T")


async def settled(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` to its end even when the caller is cancelled; the cancellation is raised after it.

    For work that threads share: memory and files may be given up only when no thread touches them any more.
    """
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            if task.cancelled():
                raise
            cancelled = error
        except BaseException:  # noqa: BLE001 -- the task's own error: raised from its result below
            break
    if cancelled is not None:
        if not task.cancelled():
            task.exception()  # the cancellation hides it; asyncio would log it as never retrieved
        raise cancelled
    return task.result()


class BlobWriter:
    """The `Writer` of the data path contract, used on one event loop.

    `catalogue` may be replaced between writes when the topology changes. `executor` runs hashes and encoding; writes
    and flushes run in each device's own pool, so that one slow device holds no other.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        fleet: Fleet,
        stripes: StripePool,
        executor: Executor,
        *,
        clock: Callable[[], float],
        new_id: Callable[[], bytes],
        rng: random.Random,
        lanes: Md5Lanes | None = None,
    ) -> None:
        self.catalogue = catalogue
        self._fleet, self._stripes, self._executor = fleet, stripes, executor
        self._clock, self._new_id, self._rng, self._lanes = clock, new_id, rng, lanes

    def plan(self, tier: str) -> Blob:
        """The row of a blob to come: its id, and the devices it will lie on, some of them perhaps empty.

        Errors: PlacementShort.
        """
        layout = layout_of(self.catalogue.layout(tier))
        return Blob(
            BlobId(self._new_id()), tier, BlobKind.STRIPED, str(layout), 0, 0, BlobState.SEALED,
            " ".join(self._place(tier, layout)), FIRST_GENERATION, int(self._clock() * 1000), 0, 0, 0,
        )  # fmt: skip

    async def stage(self, body: Body, tier: str) -> "StagedFragments":
        """Write `body` to k+m devices of `tier`; see the contract."""
        return await self.stage_planned(body, self.plan(tier))

    async def stage_planned(self, body: Body, planned: Blob) -> "StagedFragments":
        """Write `body` as the blob that `plan` made: its devices and no others. Errors: as of `stage`."""
        layout = layout_of(planned.layout)
        fragments = FragmentSet(
            self._fleet,
            self._executor,
            layout,
            planned.blob_id,
            generation=planned.generation,
            device_ids=planned.placement.split(" "),
        )
        digests = DigestSet(body.digests, self._lanes)
        upload = _Upload(body, self._stripes, HashChain(digests, self._executor), fragments)
        try:
            if not upload.is_small:
                await settled(fragments.stage(layout.fragment_bytes(body.length) if body.length else 0))
            size = await upload.run()
            results = digests.results()
            body.verify(results)
        except BaseException:
            await settled(upload.abandon())
            digests.close()
            raise
        blob = planned._replace(size=size, placement=fragments.placement(), created_ms=int(self._clock() * 1000))
        return StagedFragments(blob, results, fragments)

    def _place(self, tier: str, layout: Layout) -> list[str]:
        """Device ids in fragment order; with too few devices, but a quorum, the last parity fragments have none.

        A suspended device is passed over while the others make a quorum.
        """
        known = [device for device in self.catalogue.writable(tier) if self._fleet.get(device.device_id) is not None]
        devices = [device for device in known if self._fleet.is_available(device.device_id)]
        if len(devices) < layout.write_quorum:
            devices = known
        count = min(layout.fragments, len(devices))
        if count < layout.write_quorum:
            raise PlacementShort(f"{layout.write_quorum} devices of {tier} needed, {count} available")
        chosen = choose(devices, count, self.catalogue.tier(tier).spread, self._rng)
        return chosen + [""] * (layout.fragments - count)


class StagedFragments:
    """The `StagedBlob` of the contract: `blob.placement` is right after `stage` and again after `publish`."""

    def __init__(self, blob: Blob, digests: Mapping[str, bytes], fragments: FragmentSet) -> None:
        self.blob = blob
        self.size = blob.size
        self.digests = digests
        self.extents: Sequence[Extent] = (Extent(blob.blob_id, 0, blob.size, 0),) if blob.size else ()
        self._fragments = fragments

    async def publish(self) -> None:
        """Make the fragments visible and their names durable; see the contract."""
        await settled(self._fragments.publish())
        self.blob = self.blob._replace(placement=self._fragments.placement())

    async def discard(self) -> None:
        """Remove every fragment, published or not. Idempotent."""
        await settled(self._fragments.discard())


class _Upload:
    """One body on its way into the fragments."""

    def __init__(self, body: Body, stripes: StripePool, hashes: HashChain, fragments: FragmentSet) -> None:
        self._body, self._stripes, self._hashes, self._fragments = body, stripes, hashes, fragments
        self._layout = fragments.layout
        self._slots = asyncio.Semaphore(STRIPES_IN_FLIGHT)
        self._jobs: set[asyncio.Task[None]] = set()
        self._failure: BaseException | None = None
        self._size = 0
        self._is_whole = False
        length = body.length or 0
        self.is_small = 0 < length <= WHOLE_BYTES and length < self._layout.segment_bytes

    async def run(self) -> int:
        """Receive, hash, write and flush everything; return the size."""
        await self._receive()
        if not self._is_whole:
            # Rows are awaited first and hashes last: the last stripe's hash runs beside its write and the flush.
            await self._fragments.written()
            tail = self._layout.fragment_bytes(self._size) - self._layout.rows_bytes(self._size)
            scratch = await self._stripes.take(tail * self._layout.fragments)
            self._jobs.add(asyncio.ensure_future(self._finish(scratch, tail)))
        await asyncio.wait(self._jobs)
        for job in self._jobs:
            job.result()
        return self._size

    async def abandon(self) -> None:
        """Wait until no thread touches this upload's memory, then discard its fragments."""
        self._hashes.stop()
        self._fragments.stop()
        if self._jobs:
            await asyncio.wait(self._jobs)
            for job in self._jobs:
                _ = job.cancelled() or job.exception()  # retrieved: the caller raises the first error itself
        await self._fragments.discard()

    async def _receive(self) -> None:
        number = 0
        while True:
            rest = None if self._body.length is None else self._body.length - self._size
            if rest == 0 and number:
                # The body's end may carry trailers to receive and check; more bytes would be the body's lie.
                assert await self._body.fill(memoryview(bytearray(1))) == 0, "body longer than announced"
                return
            filled, wanted = await self._receive_stripe(number, rest)
            if filled < wanted:
                return
            number += 1

    async def _receive_stripe(self, number: int, rest: int | None) -> tuple[int, int]:
        """Fill one stripe and start its jobs; return the bytes received and the bytes there was room for."""
        segment = self._layout.segment_bytes
        expected = segment if rest is None else min(segment, max(rest, 1))
        await self._slots.acquire()
        if self._failure is not None:
            raise self._failure
        # Both in one buffer: whoever holds one and waits for another could wait for ever.
        stripe = await self._stripes.take(self._bytes_needed(expected, is_whole=self.is_small))
        try:
            # One byte of room beyond a known end lets the body end short, as the end of an unknown body is seen.
            wanted = min(segment, expected + 1, stripe.size)
            filled = await self._body.fill(stripe.view[:wanted])
        except BaseException:
            self._stripes.give_back(stripe)
            raise
        assert 0 <= filled <= wanted
        if not filled:
            self._stripes.give_back(stripe)
            return filled, wanted
        self._size += filled
        self._start(stripe, number, filled, is_last=filled < wanted)
        return filled, wanted

    def _start(self, stripe: Stripe, number: int, filled: int, *, is_last: bool) -> None:
        """Hash and write one filled stripe; a short body's only one in one piece a fragment, and flushed."""
        hashed = self._hashes.submit(stripe.view[:filled])
        if is_last and not number and self._bytes_needed(filled, is_whole=True) <= stripe.size:
            self._is_whole = True
            count, rows_stop = self._layout.fragments, self._bytes_needed(filled)
            scratch = stripe.rows(self._layout.fragment_bytes(filled), count, start=rows_stop)
            written = self._fragments.write_whole(stripe, filled, scratch)
        else:
            written = self._fragments.write_stripe(stripe, number, filled)
        self._jobs.add(asyncio.ensure_future(self._release(stripe, hashed, written)))

    def _bytes_needed(self, byte_count: int, *, is_whole: bool = False) -> int:
        """Memory of a stripe of `byte_count` bytes, and of its whole fragments beside it."""
        fragment = self._layout.fragment_bytes(byte_count) if is_whole else 0
        return (self._layout.row_length(byte_count) + fragment) * self._layout.fragments

    async def _release(self, stripe: Stripe, hashed: "asyncio.Future[None]", written: "asyncio.Future[None]") -> None:
        """Give a stripe's memory back when it is hashed and written, whatever became of either."""
        try:
            await asyncio.wait((hashed, written))
            hashed.result()
            written.result()
        except BaseException as error:
            self._failure = self._failure or error
            raise
        finally:
            self._stripes.give_back(stripe)
            self._slots.release()

    async def _finish(self, scratch: Stripe, tail: int) -> None:
        try:
            await self._fragments.finish(self._size, scratch.rows(tail, self._layout.fragments))
        finally:
            self._stripes.give_back(scratch)
