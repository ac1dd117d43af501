"""Reading around damage: any k good fragments give back a lost range. Only verified rows ever enter a decode."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from metadata.types import Blob
from tiers.datapath.attempts import Attempt, ReadTools, reason_of
from tiers.datapath.files import FileKey, Handle, Opened, open_fragment
from tiers.datapath.stripes import Stripe
from tiers.devices.contract import Device
from tiers.erasure.codec import codec_for
from tiers.erasure.fragment import ChecksumTable, Identity
from tiers.erasure.layout import BLOCK_BYTES, Layout
from tiers.errors import ContentUnreadable, DeviceFailed, FragmentCorrupt, FragmentNotFound, StorageError

LATE: Final = "late"


class StripedBlob:
    """The fragments of one striped blob as one stream reads them, and what the stream learnt about them.

    `shunned` are the fragments that are not asked while others can serve: absent, failed or late ones.
    """

    def __init__(self, tools: ReadTools, blob: Blob, layout: Layout) -> None:
        self.row, self.layout, self.size = blob, layout, blob.size
        self._tools = tools
        self._device_ids: Sequence[str] = blob.placement.split(" ")
        assert len(self._device_ids) == layout.fragments
        self.shunned = {index for index, device_id in enumerate(self._device_ids) if not device_id}
        self.may_have_moved = bool(self.shunned)
        self._reported: set[tuple[int, str]] = set()
        self._held: dict[int, Handle] = {}

    def find(self, index: int) -> Handle | None:
        """The fragment's open file, held until `close`, None when it must be opened first."""
        handle = self._held.get(index)
        if handle is None:
            handle = self._tools.files.find(self._key(index))
            if handle is not None:
                self._hold(index, handle)
        return handle

    def begin_open(self, index: int) -> "asyncio.Task[Handle]":
        """Start to open a fragment that `find` did not find."""
        return self._tools.files.begin(self._key(index), self._opener(index))

    def read_now(self, handle: Handle, stripe: int, start: int, view: memoryview) -> None:
        """Fill `view` from `start` of the fragment's row of `stripe`, verified, without waiting.

        Errors: BlockingIOError when the medium must be asked; FragmentCorrupt, DeviceFailed.
        """
        count = handle.file.read_into(self.layout.row_offset(stripe) + start, view, wait=False)
        _check(handle, count, stripe, start, view)

    def start(self, index: int, stripe: int, start: int, stop: int, *, buffer: Stripe | None = None) -> Attempt:
        """Begin to read [start, stop) of a fragment's row, opening the fragment when needed."""

        async def read(view: memoryview) -> None:
            await self._read(index, stripe, start, view)

        return Attempt(self._tools.buffers, index, stop - start, read, buffer=buffer)

    def shun_unavailable(self, index: int) -> None:
        """Shun a fragment whose device is suspended or stuck."""
        if index not in self.shunned and not self._tools.fleet.is_available(self._device_ids[index]):
            self.shunned.add(index)

    def note(self, index: int, error: StorageError) -> None:
        """Learn from a failed read, and report it once. A corrupt block condemns itself alone, not its fragment."""
        reason = reason_of(error)
        if reason != "corrupt" or index not in self._held:
            self.shunned.add(index)
        if reason == "corrupt":
            self._tools.files.drop(self._key(index))  # a repaired one is another file under the same name
        else:
            self.may_have_moved = True
        self._report(index, reason)

    def note_late(self, index: int) -> None:
        """Learn that a fragment did not answer in time."""
        self.shunned.add(index)
        self._report(index, LATE)

    async def recover(self, row: int, stripe: int, start: int, stop: int) -> memoryview:
        """Bytes [start, stop) of a data row by way of the other fragments; concurrent readers share one decode.

        Errors: ContentUnreadable when fewer than k fragments are good there.
        """
        key = (self.row.blob_id, self.row.generation, self.row.placement, row, stripe, start, stop)
        flight = self._tools.decoding.get(key)
        if flight is None:
            flight = asyncio.ensure_future(self._recover(row, stripe, start, stop))
            self._tools.decoding[key] = flight

            def landed(done: "asyncio.Task[memoryview]") -> None:
                del self._tools.decoding[key]
                if not done.cancelled():
                    done.exception()  # retrieved: all who asked may be gone

            flight.add_done_callback(landed)
        return await asyncio.shield(flight)

    def close(self) -> None:
        """Let go of the open files. Idempotent."""
        while self._held:
            self._tools.files.release(self._held.popitem()[1])

    def _key(self, index: int) -> FileKey:
        return FileKey(self.row.blob_id, index, self.row.generation, self._device_ids[index])

    def _opener(self, index: int) -> Callable[[Device], Opened]:
        identity = Identity(self.row.blob_id, self.layout, index, self.row.generation)
        return lambda device: open_fragment(device, identity, self.size)

    def _hold(self, index: int, handle: Handle) -> None:
        self._tools.files.retain(handle)
        self._held[index] = handle

    def _report(self, index: int, reason: str) -> None:
        if (index, reason) not in self._reported:
            self._reported.add((index, reason))
            self._tools.report(self.row.blob_id, index, reason)

    async def _read(self, index: int, stripe: int, start: int, view: memoryview) -> None:
        if not self._device_ids[index]:
            raise FragmentNotFound("no device holds it")
        handle = await self._tools.files.open(self._key(index), self._opener(index))
        try:
            offset = self.layout.row_offset(stripe) + start
            reading = self._tools.fleet.submit(handle.key.device_id, handle.file.read_into, offset, view)
            _check(handle, await asyncio.wrap_future(reading), stripe, start, view)
        finally:
            self._tools.files.release(handle)

    async def _recover(self, row: int, stripe: int, start: int, stop: int) -> memoryview:
        """Ask the likeliest k fragments, and one more for each that fails or is late; then decode.

        The lost fragment itself comes last: it may only have been late.
        """
        others = [index for index in range(self.layout.fragments) if index != row]
        waiting = [*sorted(others, key=lambda index: (index in self.shunned, index)), row]
        race = _Race(self, self._tools, stripe, start, stop)
        try:
            while len(race.good) < self.layout.data_fragments and row not in race.good:
                if not waiting and (race.is_stalled or not race.running):
                    raise ContentUnreadable(f"{self._where(stripe)}: {len(race.good)} good fragments; {race.failure}")
                while waiting and race.expected < self.layout.data_fragments:
                    race.enter(waiting.pop(0))
                    race.is_stalled = False
                await race.advance(self._tools.hedge_seconds if waiting else self._tools.timeout_seconds)
            rows = {index: attempt.view for index, attempt in race.good.items()}
            return _decoded(self.layout, row, rows, stop - start)
        finally:
            race.release()

    def _where(self, stripe: int) -> str:
        return f"blob {self.row.blob_id.hex()}, stripe {stripe}"


class _Race:
    """The reads of one recovery: those running, those that were slow, and the verified ones."""

    def __init__(self, blob: StripedBlob, tools: ReadTools, stripe: int, start: int, stop: int) -> None:
        self._blob, self._tools, self._range = blob, tools, (stripe, start, stop)
        self.running: list[Attempt] = []
        self.good: dict[int, Attempt] = {}
        self.failure: StorageError = DeviceFailed("none answered")
        self.is_stalled = False
        self._slow: set[int] = set()

    @property
    def expected(self) -> int:
        """Fragments that are good or may be soon."""
        return len(self.good) + len(self.running) - len(self._slow)

    def enter(self, index: int) -> None:
        """Ask one more fragment."""
        self.running.append(self._blob.start(index, *self._range))

    async def advance(self, patience_seconds: float) -> None:
        """Wait for the next reads to end; after `patience_seconds` without one, all that run are slow."""
        if not self.running:
            return
        tasks = [attempt.task for attempt in self.running]
        done, _ = await asyncio.wait(tasks, timeout=patience_seconds, return_when=asyncio.FIRST_COMPLETED)
        self.is_stalled = not done
        for attempt in list(self.running):
            if attempt.task in done:
                self._land(attempt)
            elif self.is_stalled and attempt.index not in self._slow:
                self._slow.add(attempt.index)
                self._blob.note_late(attempt.index)

    def release(self) -> None:
        """Let go of every buffer."""
        for attempt in [*self.running, *self.good.values()]:
            attempt.release()

    def _land(self, attempt: Attempt) -> None:
        self.running.remove(attempt)
        self._slow.discard(attempt.index)
        try:
            attempt.task.result()
            self.good[attempt.index] = attempt
        except StorageError as error:
            self.failure = error
            attempt.release()
            self._blob.note(attempt.index, error)


def _check(handle: Handle, count: int, stripe: int, start: int, view: memoryview) -> None:
    """Nothing is handed out or decoded before this. Errors: FragmentCorrupt."""
    if count != len(view):
        raise FragmentCorrupt(f"stripe {stripe} ends after {count} of {len(view)} bytes")
    table = handle.table
    assert isinstance(table, ChecksumTable)
    table.verify(stripe, start // BLOCK_BYTES, view)


def _decoded(layout: Layout, row: int, rows: dict[int, memoryview], length: int) -> memoryview:
    """The lost row's bytes in memory of their own, read-only. At most 256 KiB: 40 us, so the loop may wait for it."""
    target = memoryview(bytearray(length))
    if row in rows:
        target[:] = rows[row]
    else:
        codec_for(layout).decode(rows, [row], [target])
    return target.toreadonly()
