"""Ordered hashing of one upload beside its encoding, without a turn of the event loop between two stripes."""

import asyncio
import threading
from collections import deque
from concurrent.futures import Executor

from tiers.datapath.digests import DigestSet


class HashChain:
    """Feeds views to a digest set in the order of `submit`, one at a time, in threads of `executor`.

    Views stay the caller's; each must live until its future is done.
    """

    def __init__(self, digests: DigestSet, executor: Executor) -> None:
        self._digests, self._executor = digests, executor
        self._lock = threading.Lock()
        self._waiting: deque[tuple[memoryview, asyncio.Future[None]]] = deque()
        self._is_running = False
        self._is_stopped = False

    def submit(self, view: memoryview) -> asyncio.Future[None]:
        """Queue the next bytes of the body; call on the event loop. The future is done when they are hashed."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        with self._lock:
            self._waiting.append((view, done))
            start, self._is_running = not self._is_running, True
        if start:
            self._executor.submit(self._run)
        return done

    def stop(self) -> None:
        """Hash nothing more: what waits is marked done unhashed. For an upload that is being abandoned."""
        self._is_stopped = True

    def _run(self) -> None:
        with self._lock:
            view, done = self._waiting.popleft()
        if self._is_stopped:
            self._landed(done, None)
            return
        try:
            self._digests.submit(view, lambda: self._landed(done, None))
        except Exception as error:  # noqa: BLE001 -- carried to the upload, which fails with it
            self._landed(done, error)

    def _landed(self, done: "asyncio.Future[None]", error: Exception | None) -> None:
        """One view is hashed; the next one queues behind whoever waits for a thread: encoding must not starve."""
        with self._lock:
            self._is_running = goes_on = bool(self._waiting)
        if goes_on:
            self._executor.submit(self._run)
        done.get_loop().call_soon_threadsafe(_resolve, done, error)


def _resolve(done: asyncio.Future[None], error: Exception | None) -> None:
    if done.done():
        return
    if error is None:
        done.set_result(None)
    else:
        done.set_exception(error)
