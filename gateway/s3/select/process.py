"""Queries as child processes: fed with the object, read frame by frame, bounded in number, time and memory.

The event loop only moves bytes. A data worker holds of a query two buffers of the pipes and one frame.
"""

import asyncio
import json
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NamedTuple

import gateway
from gateway.s3.select import framing
from gateway.s3.select.framing import Statistics
from gateway.s3.select.job import DONE, FAILED, FRAME, FRAME_BYTES_MAX, PROGRESS, RECORDS, Job
from gateway.s3.select.refusals import SelectRefused
from tiers.datapath.contract import ContentStream

QUERIES_MAX: Final = 2
"""Queries of one data worker at a time; a worker process may hold up to 3 GiB of addresses."""

SECONDS_MAX: Final = 900.0
"""A query, and whoever reads its answer, may take."""

QUIET_SECONDS: Final = 10.0
"""Without a frame for so long, the client is told that the query goes on."""

PIPE_BYTES: Final = 256 * 1024
MODULE: Final = "gateway.s3.select.worker"


class Frame(NamedTuple):
    """One frame of a worker."""

    kind: bytes
    payload: bytes


def is_installed() -> bool:
    """Whether the engine of the extra `select` is there."""
    return find_spec("duckdb") is not None


class Selection:
    """The queries of one process."""

    def __init__(self, seconds_max: float = SECONDS_MAX) -> None:
        self._running = 0
        self._seconds_max = seconds_max
        self._ends: set[asyncio.Task[None]] = set()

    async def start(self, job: Job, content: ContentStream, *, has_progress: bool) -> "SelectStream":
        """Run a query over `content`, which this closes in any case; return its answer once it has begun.

        Errors: SelectRefused, also Busy when too many run.
        """
        if self._running >= QUERIES_MAX:
            content.close()
            raise SelectRefused("Busy", "The service is busy. Please try again later.")
        self._running += 1
        try:
            process = await _spawn()
        except BaseException:
            self._running -= 1
            content.close()
            raise
        feed = asyncio.create_task(_feed(process, job, content))
        end = asyncio.create_task(self._end(process, feed))
        self._ends.add(end)
        end.add_done_callback(self._ends.discard)
        stream = SelectStream(process, has_progress=has_progress)
        try:
            await stream.prime()
        except BaseException:
            stream.close()
            raise
        return stream

    async def _end(self, process: Process, feed: "asyncio.Task[None]") -> None:
        """Wait for the end of a worker, at most as long as it may take, and give its place away."""
        try:
            async with asyncio.timeout(self._seconds_max):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()
        finally:
            feed.cancel()
            await asyncio.wait({feed})
            if not feed.cancelled():
                feed.exception()  # told to the client by the worker's end
            self._running -= 1


async def _spawn() -> Process:
    """A worker with nothing of our environment but where Python finds the program."""
    found = {"PYTHONPATH": str(Path(gateway.__file__).parents[1]), "PATH": os.defpath, "LANG": "C.UTF-8"}
    command = (sys.executable, "-B", "-m", MODULE)
    return await asyncio.create_subprocess_exec(
        *command, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, env=found, limit=PIPE_BYTES, close_fds=True
    )


async def _feed(process: Process, job: Job, content: ContentStream) -> None:
    """Send job and object; a worker that needs no more just closes its end. A content that breaks ends the worker."""
    assert process.stdin is not None
    try:
        process.stdin.write(job.pack())
        while (run := await content.next()) is not None:
            process.stdin.write(bytes(run))
            await process.stdin.drain()
        process.stdin.close()
    except (BrokenPipeError, ConnectionResetError):
        pass
    except BaseException:
        _kill(process)
        raise
    finally:
        content.close()


def _kill(process: Process) -> None:
    with suppress(ProcessLookupError):
        process.kill()


class SelectStream:
    """The answer of one query as `gateway.http.call.BodyStream`: messages of AWS's event stream."""

    def __init__(self, process: Process, *, has_progress: bool) -> None:
        assert process.stdout is not None
        self._process, self._out = process, process.stdout
        self._has_progress = has_progress
        self._first: Frame | None = None
        self._pending: asyncio.Task[Frame] | None = None
        self._is_over = False

    async def prime(self) -> None:
        """Wait until the query has read something, or failed. Errors: SelectRefused."""
        self._first = await self._read()
        if self._first.kind == FAILED:
            raise SelectRefused(*json.loads(self._first.payload))

    async def next(self) -> bytes | None:
        """The next messages; a Cont while there is nothing to say."""
        if self._is_over:
            return None
        while True:
            frame = await self._await_frame()
            told = framing.CONTINUATION if frame is None else b"".join(self._told(frame))
            if told:
                return told

    async def _await_frame(self) -> Frame | None:
        if self._first is not None:
            frame, self._first = self._first, None
            return frame
        if self._pending is None:
            self._pending = asyncio.create_task(self._read())
        done, _ = await asyncio.wait({self._pending}, timeout=QUIET_SECONDS)
        if not done:
            return None
        frame, self._pending = self._pending.result(), None
        return frame

    async def _read(self) -> Frame:
        """The next frame; a worker that ended without a last word has failed."""
        try:
            kind, size = FRAME.unpack(await self._out.readexactly(FRAME.size))
            assert size <= FRAME_BYTES_MAX
            return Frame(kind, await self._out.readexactly(size))
        except asyncio.IncompleteReadError:
            text = "The query was ended: it took too long, needed too much memory, or its object could not be read."
            return Frame(FAILED, json.dumps(["InternalError", text]).encode())

    def _told(self, frame: Frame) -> Iterator[bytes]:
        if frame.kind == RECORDS:
            yield framing.records(frame.payload)
        elif frame.kind == PROGRESS:
            if self._has_progress:
                yield framing.statistics("Progress", Statistics(*json.loads(frame.payload)))
        else:
            self._is_over = True
            if frame.kind == FAILED:
                yield framing.failure(*json.loads(frame.payload))
            else:
                assert frame.kind == DONE
                yield framing.statistics("Stats", Statistics(*json.loads(frame.payload)))
                yield framing.END

    def close(self) -> None:
        """End the worker, wherever it is. Idempotent."""
        self._is_over = True
        if self._pending is not None:
            self._pending.cancel()
        _kill(self._process)
