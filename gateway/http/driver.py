"""Drives one coroutine without an asyncio Task: nothing is scheduled unless the coroutine really waits.

Python 3.11 has no eager tasks, and a Task costs a trip through the loop even for work that never suspends. A Drive runs
the first step at once, inside the caller. It behaves as the current task while it runs (asyncio documents how a task
announces itself), so `asyncio.timeout` and task groups work inside it.
"""

import asyncio
import contextvars
from asyncio.tasks import _enter_task, _leave_task
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Drive(Generic[T]):
    """One coroutine on its way. `done(result, failure)` is called exactly once; one of both is None.

    `done` runs outside the task context, so it may start the next drive. Not for use from other threads.
    """

    __slots__ = (
        *("_cancel_message", "_cancels", "_context", "_coroutine", "_done", "_is_done", "_loop", "_must_cancel"),
        *("_waiting", "__weakref__"),
    )

    def __init__(
        self,
        coroutine: Coroutine[Any, Any, T],
        loop: asyncio.AbstractEventLoop,
        done: Callable[[T | None, BaseException | None], None],
    ) -> None:
        self._coroutine = coroutine
        self._loop = loop
        self._done = done
        self._context = contextvars.copy_context()
        self._waiting: asyncio.Future[Any] | None = None
        self._is_done = False
        self._must_cancel = False
        self._cancel_message: Any = None
        self._cancels = 0

    def start(self) -> None:
        """Run until the first real wait or the end."""
        self._context.run(self._step)

    # What asyncio asks of a task.

    def done(self) -> bool:
        """Whether the coroutine has ended."""
        return self._is_done

    def cancel(self, msg: Any = None) -> bool:  # noqa: ANN401 - the signature of asyncio.Task
        """Throw CancelledError at the coroutine's next step; False when it has already ended."""
        if self._is_done:
            return False
        self._cancels += 1
        if self._waiting is not None and self._waiting.cancel(msg=msg):
            return True
        self._must_cancel = True
        self._cancel_message = msg
        return True

    def cancelling(self) -> int:
        """Cancellations asked for and not taken back."""
        return self._cancels

    def uncancel(self) -> int:
        """Take one cancellation back; those that remain."""
        self._cancels = max(0, self._cancels - 1)
        return self._cancels

    def get_loop(self) -> asyncio.AbstractEventLoop:
        """The loop that wakes the coroutine."""
        return self._loop

    def get_name(self) -> str:
        """A name for error messages."""
        return f"Drive-{id(self):x}"

    def get_coro(self) -> Coroutine[Any, Any, T]:
        """The coroutine itself."""
        return self._coroutine

    def _step(self) -> None:
        failure: BaseException | None = None
        result: T | None = None
        _enter_task(self._loop, self)  # type: ignore[arg-type]  # a task by behaviour, not by class
        try:
            if self._must_cancel:
                self._must_cancel = False
                waited = self._coroutine.throw(asyncio.CancelledError(self._cancel_message))
            else:
                waited = self._coroutine.send(None)
        except StopIteration as stop:
            result = stop.value
        except (KeyboardInterrupt, SystemExit):
            self._is_done = True
            raise
        except BaseException as error:  # noqa: BLE001 - handed to `done`, which answers for it
            failure = error
        else:
            self._wait_for(waited)
            return
        finally:
            _leave_task(self._loop, self)  # type: ignore[arg-type]  # see above
        self._finish(result, failure)

    def _finish(self, result: T | None, failure: BaseException | None) -> None:
        """Let go of everything first: who is told holds this drive, and a cycle would wait for the collector."""
        self._is_done = True
        done = self._done
        del self._done, self._context
        done(result, failure)

    def _wait_for(self, waited: Any) -> None:  # noqa: ANN401 - whatever the coroutine yields
        if getattr(waited, "_asyncio_future_blocking", False):
            waited._asyncio_future_blocking = False
            waited.add_done_callback(self._wake, context=self._context)
            self._waiting = waited
            if self._must_cancel and waited.cancel(msg=self._cancel_message):
                self._must_cancel = False
        else:
            assert waited is None, "a coroutine of the lane awaited something that is not a future of asyncio"
            self._loop.call_soon(self._step, context=self._context)

    def _wake(self, future: asyncio.Future[Any]) -> None:
        # The future itself hands its result or exception to the coroutine when that is resumed.
        self._waiting = None
        self._step()
