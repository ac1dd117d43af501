"""The bytes of one striped blob in order: straight from the page cache, ahead of need from a medium, around damage.

Every run is verified before it is handed out. The usual read suspends nowhere; a read that would have to wait makes
the stream *cold*: rows are then read whole in their devices' pools, the next ones while the client takes this one.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Final, NamedTuple

from metadata.types import Blob
from tiers.datapath.attempts import Attempt, ReadTools
from tiers.datapath.buffers import AHEAD_BYTES, UNIT_BYTES
from tiers.datapath.layouts import layout_of
from tiers.datapath.recovery import StripedBlob
from tiers.datapath.stripes import Stripe
from tiers.erasure.layout import BLOCK_BYTES, Layout
from tiers.errors import ContentUnreadable, StorageError

SPANS_AHEAD: Final = 4
"""Rows that a cold stream reads ahead: as many devices as a stripe of the default layout has data fragments."""

Refresh = Callable[[Blob], Awaitable[Blob | None]]
"""Reads a blob's row again; None when nothing changed that could help."""


class Span(NamedTuple):
    """Bytes [start, stop) of a data row to be handed out; `first` and `last` widen them to whole blocks."""

    stripe: int
    row: int
    start: int
    stop: int
    first: int
    last: int


def spans(layout: Layout, size: int, *, start: int, stop: int) -> Iterator[Span]:
    """Cut bytes [start, stop) of a blob into spans of at most `AHEAD_BYTES` with their blocks, in order."""
    for piece in layout.pieces(size, start=start, stop=stop):
        length = layout.stripe_row_length(size, piece.stripe)
        at = piece.start
        while at < piece.stop:
            first = at // BLOCK_BYTES * BLOCK_BYTES
            until = min(piece.stop, first + AHEAD_BYTES)
            last = min(-(-until // BLOCK_BYTES) * BLOCK_BYTES, length)
            yield Span(piece.stripe, piece.row, at, until, first, last)
            at = until


class StripedStream:
    """Bytes [start, stop) of one blob; a source of `tiers.datapath.reader`. Closed by its owner."""

    def __init__(self, tools: ReadTools, blob: Blob, refresh: Refresh, *, start: int, stop: int) -> None:
        self._tools, self._refresh = tools, refresh
        layout = layout_of(blob.layout)
        self._start, self._stop = start, stop
        self._blob = StripedBlob(tools, blob, layout)
        self._spans = spans(layout, blob.size, start=start, stop=stop)
        self._span: Span | None = None
        self._at = 0
        self._buffer: Stripe | None = None
        self._window: Attempt | None = None  # a landed or running read of the span from `_window_first` on
        self._window_first = 0
        self._ahead: deque[tuple[Span, Attempt | None]] = deque()
        self._is_refreshed = False

    async def next(self) -> memoryview | None:
        """The next verified run, None at the end. Errors: ContentUnreadable."""
        if self._span is None or self._at == self._span.stop:
            self._span = self._next_span()
            if self._span is None:
                return None
            self._at = self._span.start
        if self._window is not None and self._at == self._window_first + len(self._window.view):
            self._drop_window()
        run = self._read_now(self._span) if self._window is None else None
        if run is None:
            run = await self._read_waiting(self._span)
        self._at += len(run)
        return run

    def close(self) -> None:
        """Let go of buffers and files. Idempotent."""
        self._drop_window()
        while self._ahead:
            attempt = self._ahead.popleft()[1]
            if attempt is not None:
                attempt.release()
        if self._buffer is not None:
            self._tools.buffers.give_back(self._buffer)
            self._buffer = None
        self._blob.close()
        self._spans = iter(())
        self._span = None

    def _next_span(self) -> Span | None:
        self._drop_window()
        if not self._ahead:
            return next(self._spans, None)
        span, self._window = self._ahead.popleft()
        self._window_first = span.first
        return span

    def _unit(self, span: Span) -> tuple[int, int]:
        """Whole blocks that hold what is handed out next."""
        first = self._at // BLOCK_BYTES * BLOCK_BYTES
        return first, min(first + UNIT_BYTES, span.last)

    def _cut(self, span: Span, view: memoryview, first: int) -> memoryview:
        """What of `view`, which lies at `first` of the row, is handed out next."""
        until = min(span.stop, first + len(view), self._at + UNIT_BYTES)
        return view[self._at - first : until - first]

    def _read_now(self, span: Span) -> memoryview | None:
        """The next run without waiting; None when it must be waited for, or the fragment gave no good one."""
        if span.row in self._blob.shunned:
            return None
        handle = self._blob.find(span.row)
        if handle is None:
            return None
        first, last = self._unit(span)
        if self._buffer is None:
            self._buffer = self._tools.buffers.take(UNIT_BYTES)
        view = self._buffer.view[: last - first]
        try:
            self._blob.read_now(handle, span.stripe, first, view)
        except BlockingIOError:
            return None
        except StorageError as error:
            self._blob.note(span.row, error)
            return None
        return self._cut(span, view, first)

    async def _read_waiting(self, span: Span) -> memoryview:
        """The next run from the medium, or by way of the other fragments."""
        self._blob.shun_unavailable(span.row)
        if self._window is None and await self._has_opened(span):
            run = self._read_now(span)
            if run is not None:
                return run
        first, last = self._unit(span)
        if span.row not in self._blob.shunned:
            if self._window is None:
                self._window, self._window_first = self._begin(span, first), first
            self._read_ahead()
            if await self._is_well(span.row, self._window.task):
                return self._cut(span, self._window.view, self._window_first)
        self._drop_window()
        return self._cut(span, await self._recovered(span, first, last), first)

    def _begin(self, span: Span, first: int) -> Attempt:
        """Start to read the rest of a span; without a large buffer, only the next unit of it."""
        buffer = self._tools.buffers.find_ahead() if span.last - first > UNIT_BYTES else None
        last = span.last if buffer is not None else min(first + UNIT_BYTES, span.last)
        return self._blob.start(span.row, span.stripe, first, last, buffer=buffer)

    def _read_ahead(self) -> None:
        """Keep the next rows coming, as far as there are large buffers to spare."""
        while len(self._ahead) < SPANS_AHEAD:
            buffer = self._tools.buffers.find_ahead()
            if buffer is None:
                return
            span = next(self._spans, None)
            if span is None or span.row in self._blob.shunned:
                self._tools.buffers.give_back(buffer)
                if span is None:
                    return
                self._ahead.append((span, None))
                continue
            attempt = self._blob.start(span.row, span.stripe, span.first, span.last, buffer=buffer)
            self._ahead.append((span, attempt))

    async def _has_opened(self, span: Span) -> bool:
        """Whether the fragment had to be opened first and is open now; the others of the range are opened beside it."""
        if span.row in self._blob.shunned or self._blob.find(span.row) is not None:
            return False
        start = span.stripe * self._blob.layout.segment_bytes
        stop = min(self._stop, start + self._blob.layout.segment_bytes)
        for piece in self._blob.layout.pieces(self._blob.size, start=max(start, self._start), stop=stop):
            if piece.row not in self._blob.shunned and self._blob.find(piece.row) is None:
                self._blob.begin_open(piece.row)
        return await self._is_well(span.row, self._blob.begin_open(span.row))

    async def _is_well(self, index: int, task: "asyncio.Task[Any]") -> bool:
        """Whether a read or an opening ended well and in time; what went wrong is noted."""
        await asyncio.wait((task,), timeout=self._tools.hedge_seconds)
        if not task.done():
            self._blob.note_late(index)
            return False
        try:
            task.result()
        except StorageError as error:
            self._blob.note(index, error)
            return False
        return True

    def _drop_window(self) -> None:
        if self._window is not None:
            self._window.release()
            self._window = None

    async def _recovered(self, span: Span, first: int, last: int) -> memoryview:
        """A unit by way of the other fragments; once with a fresh row, as the placement may have moved."""
        try:
            return await self._blob.recover(span.row, span.stripe, first, last)
        except ContentUnreadable:
            if self._is_refreshed or not self._blob.may_have_moved:
                raise
            self._is_refreshed = True
            row = await self._refresh(self._blob.row)
            if row is None:
                raise
        self._blob.close()
        self._blob = StripedBlob(self._tools, row, self._blob.layout)
        return await self._blob.recover(span.row, span.stripe, first, last)
