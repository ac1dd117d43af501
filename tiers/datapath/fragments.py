"""The k+m fragments of one blob being written: staged, filled stripe by stripe, flushed, published or discarded.

Owns the write quorum. A device that fails drops out: its fragment gets no further bytes and an empty name in the
placement, as long as the quorum stands. Encoding runs in the executor, each device's writes in its own pool.
"""

import asyncio
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor, Future
from typing import Final

from tiers.datapath.stripes import Stripe
from tiers.devices.contract import Area, StagedFile
from tiers.devices.fleet import Fleet
from tiers.erasure.codec import codec_for
from tiers.erasure.fragment import Identity, encode_header, encode_tail, row_checksums
from tiers.erasure.layout import PAGE_BYTES, Layout
from tiers.errors import DeviceFailed, DeviceFull, QuorumNotReached, StorageError


class Fragment:
    """One fragment being written. `failure` is set once, by whichever thread met it; the fragment is dead then."""

    __slots__ = ("checksums", "device_id", "failure", "identity", "is_published", "staged")

    def __init__(self, identity: Identity, device_id: str) -> None:
        self.identity = identity
        self.device_id = device_id
        self.staged: StagedFile | None = None
        self.is_published = False
        self.failure: StorageError | None = None if device_id else DeviceFailed("no device")
        self.checksums: dict[int, bytes] = {}

    @property
    def is_live(self) -> bool:
        """Whether everything written so far has succeeded."""
        return self.failure is None


RowWrite = Callable[[Fragment, memoryview], None]
"""Writes one encoded row of a fragment, in a thread of its device."""


class FragmentSet:
    """All fragments of one blob. Methods are called on the event loop and never overlap, except `write_stripe`."""

    def __init__(
        self,
        fleet: Fleet,
        executor: Executor,
        layout: Layout,
        blob_id: bytes,
        *,
        generation: int,
        device_ids: Sequence[str],
    ) -> None:
        assert len(device_ids) == layout.fragments
        self._fleet, self._executor, self.layout = fleet, executor, layout
        self._codec = codec_for(layout)
        self._fragments: Final = [
            Fragment(Identity(blob_id, layout, index, generation), device_id)
            for index, device_id in enumerate(device_ids)
        ]
        self._stripes_writing = 0
        self._all_written = asyncio.Event()
        self._is_stopped = False

    def placement(self) -> str:
        """Device ids in fragment order, empty for each fragment that failed."""
        return " ".join([fragment.device_id if fragment.is_live else "" for fragment in self._fragments])

    async def stage(self, size_hint: int) -> None:
        """Begin every fragment. Errors: DeviceFull, QuorumNotReached."""

        def begin(fragment: Fragment) -> None:
            self._begin(fragment, size_hint)

        await self._on_devices(begin, self._live())
        self._require_quorum()

    def write_stripe(self, stripe: Stripe, number: int, filled: int) -> "asyncio.Future[None]":
        """Encode `filled` bytes at the start of `stripe` and write its k+m rows.

        The memory is used until the future is done, whatever its outcome. Errors of the future: DeviceFull,
        QuorumNotReached.
        """
        offset = self.layout.row_offset(number)

        def write(fragment: Fragment, row: memoryview) -> None:
            self._begin(fragment, 0).write(offset, row)

        return self._begin_stripe(stripe, number, filled, write)

    def write_whole(self, stripe: Stripe, filled: int, scratch: Sequence[memoryview]) -> "asyncio.Future[None]":
        """A blob of one stripe at once: encode, write each fragment in one piece, flush it; `finish` must not follow.

        `scratch` is page-aligned memory for each fragment, as long as a fragment. One write costs a third of three, and
        a fragment not staged yet is staged beside it. Memory and errors: as for `write_stripe`.
        """

        def write(fragment: Fragment, row: memoryview) -> None:
            memory = scratch[fragment.identity.index]
            memory[PAGE_BYTES : PAGE_BYTES + len(row)] = row
            self._end(fragment, filled, memory[:PAGE_BYTES], memory[PAGE_BYTES + len(row) :])
            staged = self._begin(fragment, 0)
            staged.write(0, memory)
            staged.flush()

        return self._begin_stripe(stripe, 0, filled, write)

    async def written(self) -> None:
        """Wait until no row is being written; failures are the stripes' to report."""
        if self._stripes_writing:
            await self._all_written.wait()

    async def finish(self, size: int, scratch: Sequence[memoryview]) -> None:
        """Write headers, checksum tables and trailers, then flush, each device by itself.

        `scratch` is page-aligned memory for each fragment: one page and the layout's tail. Errors: DeviceFull,
        QuorumNotReached.
        """

        def end(fragment: Fragment) -> None:
            memory = scratch[fragment.identity.index]
            head, tail = memory[:PAGE_BYTES], memory[PAGE_BYTES:]
            self._end(fragment, size, head, tail)
            staged = self._begin(fragment, 0)
            staged.write(0, head)
            staged.write(self.layout.table_offset(size), tail)
            staged.flush()

        await self._on_devices(end, self._live())
        self._require_quorum()

    async def publish(self) -> None:
        """Make the live fragments visible and remove the failed ones. Errors: DeviceFull, QuorumNotReached."""

        def show(fragment: Fragment) -> None:
            assert fragment.staged is not None
            fragment.staged.publish()
            fragment.is_published = True

        await self._on_devices(show, self._live())
        await self._remove([fragment for fragment in self._fragments if not fragment.is_live])
        self._require_quorum()

    async def discard(self) -> None:
        """Remove every fragment, published or not; what a failing device keeps is reclaim's to find. Idempotent."""
        await self._remove(self._fragments)

    def stop(self) -> None:
        """Encode and write nothing more; what runs ends by itself."""
        self._is_stopped = True

    def _live(self) -> list[Fragment]:
        return [fragment for fragment in self._fragments if fragment.is_live]

    def _require_quorum(self) -> None:
        failures = [fragment.failure for fragment in self._fragments if fragment.failure is not None]
        durable = len(self._fragments) - len(failures)
        if durable >= self.layout.write_quorum:
            return
        text = f"{durable} of {len(self._fragments)} fragments, {self.layout.write_quorum} needed: {failures[-1]}"
        if all(isinstance(failure, DeviceFull) for failure in failures):
            raise DeviceFull(text) from failures[-1]
        raise QuorumNotReached(text) from failures[-1]

    async def _on_devices(self, work: Callable[[Fragment], None], fragments: Iterable[Fragment]) -> None:
        """Run `work` for each fragment in its device's pool, all at once; a storage error kills its fragment alone."""
        chosen = list(fragments)
        started = [asyncio.wrap_future(self._fleet.submit(one.device_id, work, one)) for one in chosen]
        for fragment, outcome in zip(chosen, await asyncio.gather(*started, return_exceptions=True), strict=True):
            if isinstance(outcome, StorageError):
                fragment.failure = fragment.failure or outcome
            elif isinstance(outcome, BaseException):
                raise outcome

    async def _remove(self, fragments: Iterable[Fragment]) -> None:
        def remove(fragment: Fragment) -> None:
            staged, fragment.staged = fragment.staged, None
            device = self._fleet.get(fragment.device_id)
            if fragment.is_published and device is not None:
                device.delete(Area.FRAGMENTS, fragment.identity.name)
            elif staged is not None:
                staged.discard()
            fragment.is_published = False

        await self._on_devices(remove, [one for one in fragments if one.staged is not None])

    def _begin_stripe(self, stripe: Stripe, number: int, filled: int, write: RowWrite) -> "asyncio.Future[None]":
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._stripes_writing += 1
        self._all_written.clear()
        rows = _Rows(self._land_stripe, done)
        self._executor.submit(self._encode, stripe, number, filled, write, rows)
        return done

    # The rest runs in threads.

    def _begin(self, fragment: Fragment, size_hint: int) -> StagedFile:
        """The staged file of a fragment, begun unless it is already."""
        if fragment.staged is None:
            device = self._fleet.get(fragment.device_id)
            if device is None:
                raise DeviceFailed(f"{fragment.device_id} is gone")
            fragment.staged = device.stage(fragment.identity.name, size_hint)
        return fragment.staged

    def _end(self, fragment: Fragment, size: int, head: memoryview, tail: memoryview) -> None:
        """Fill in the header page and what follows the rows."""
        table = b"".join([fragment.checksums[number] for number in range(self.layout.stripes(size))])
        head[:] = encode_header(fragment.identity, size)
        tail[:] = encode_tail(fragment.identity, size, table)

    def _encode(self, stripe: Stripe, number: int, filled: int, write: RowWrite, rows: "_Rows") -> None:
        """Encode and checksum one stripe in an executor thread, then hand each row to its device's pool."""
        try:
            views = [] if self._is_stopped else self._encoded(stripe, number, filled)
        except BaseException as error:  # noqa: BLE001 -- carried to the upload, which fails with it
            rows.end(error)
            return
        targets = self._live() if views else []
        rows.begin(targets)
        for fragment in targets:
            view = views[fragment.identity.index]
            written = self._fleet.submit(fragment.device_id, self._write, fragment, view, write)
            written.add_done_callback(rows.landed_of(fragment))
        rows.end(None)

    def _encoded(self, stripe: Stripe, number: int, filled: int) -> list[memoryview]:
        length = self.layout.row_length(filled)
        views = stripe.rows(length, self.layout.fragments)
        stripe.clear(filled, length * self.layout.data_fragments)
        self._codec.encode(views)
        for fragment, view in zip(self._fragments, views, strict=True):
            fragment.checksums[number] = row_checksums(fragment.identity, number, view)
        return views

    def _write(self, fragment: Fragment, view: memoryview, write: RowWrite) -> None:
        if not self._is_stopped and fragment.is_live:
            write(fragment, view)

    def _land_stripe(self, done: "asyncio.Future[None]", error: BaseException | None) -> None:
        """On the event loop: one stripe's rows are all written or failed."""
        self._stripes_writing -= 1
        if not self._stripes_writing:
            self._all_written.set()
        try:
            if error is not None:
                raise error
            if not self._is_stopped:
                self._require_quorum()
        except BaseException as failure:  # noqa: BLE001 -- moved into the future, whose waiter raises it
            done.set_exception(failure)
        else:
            done.set_result(None)


class _Rows:
    """Counts the rows of one stripe as they land in any thread; wakes the event loop once, after the last."""

    def __init__(
        self, land: "Callable[[asyncio.Future[None], BaseException | None], None]", done: "asyncio.Future[None]"
    ) -> None:
        self._land, self._done = land, done
        self._lock = threading.Lock()
        self._left = 1  # the encoding itself
        self._error: BaseException | None = None

    def begin(self, fragments: Sequence[Fragment]) -> None:
        """Expect one landing of each fragment."""
        self._left += len(fragments)

    def landed_of(self, fragment: Fragment) -> Callable[["Future[None]"], None]:
        """The callback of one fragment's write: a storage error kills the fragment, any other the upload."""

        def landed(written: "Future[None]") -> None:
            error = None if written.cancelled() else written.exception()
            if isinstance(error, StorageError):
                fragment.failure = fragment.failure or error
                error = None
            self.end(error)

        return landed

    def end(self, error: BaseException | None) -> None:
        """One landing."""
        with self._lock:
            self._error = self._error or error
            self._left -= 1
            is_last = not self._left
        if is_last:
            self._done.get_loop().call_soon_threadsafe(self._land, self._done, self._error)
