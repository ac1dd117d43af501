"""A Drive is a task in all that coroutines can see, and needs the loop only when they wait."""

import asyncio
import contextvars
from collections.abc import Coroutine
from typing import Any

import pytest

from gateway.http.driver import Drive

seen: contextvars.ContextVar[str] = contextvars.ContextVar("seen", default="")


def drive(
    work: Coroutine[Any, Any, Any], *, cancel_after: float | None = None
) -> tuple[Any, BaseException | None, bool]:
    """Result, failure, and whether it ended inside `start`."""

    def begin(loop: asyncio.AbstractEventLoop, over: asyncio.Future[Any], at_once: list[bool]) -> None:
        one = Drive(work, loop, lambda result, failure: over.set_result((result, failure)))
        one.start()
        at_once.append(one.done())
        if cancel_after is not None:
            loop.call_later(cancel_after, one.cancel, "enough")

    async def main() -> tuple[Any, BaseException | None, bool]:
        loop = asyncio.get_running_loop()
        over: asyncio.Future[Any] = loop.create_future()
        at_once: list[bool] = []
        loop.call_soon(begin, loop, over, at_once)  # outside any task, as a connection's callbacks are
        result, failure = await asyncio.wait_for(over, 5)
        return result, failure, at_once[0]

    return asyncio.run(main())


async def at_once() -> str:
    return "answer"


async def later() -> str:
    await asyncio.sleep(0)
    await asyncio.sleep(0.001)
    async with asyncio.timeout(1), asyncio.TaskGroup() as group:
        task = group.create_task(at_once())
    assert asyncio.current_task() is not None
    return await asyncio.to_thread(str.upper, task.result())


async def fails() -> None:
    await asyncio.sleep(0)
    raise ValueError("broken")


async def times_out() -> str:
    try:
        async with asyncio.timeout(0.01):
            await asyncio.sleep(10)
    except TimeoutError:
        return "timed out"
    return "never"


async def group_fails() -> str:
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(fails())
            await asyncio.sleep(10)
    except ExceptionGroup:
        return "group failed"
    return "never"


def test_nothing_suspends_when_nothing_waits() -> None:
    assert drive(at_once()) == ("answer", None, True)


@pytest.mark.parametrize(
    ("work", "result"), [(later, "ANSWER"), (times_out, "timed out"), (group_fails, "group failed")]
)
def test_waits_like_a_task(work: Any, result: str) -> None:
    assert drive(work()) == (result, None, False)


def test_failures_are_handed_over() -> None:
    result, failure, _ = drive(fails())
    assert result is None
    assert isinstance(failure, ValueError)


def test_cancel_reaches_the_coroutine() -> None:
    undone: list[str] = []

    async def waits() -> None:
        try:
            await asyncio.sleep(10)
        finally:
            await asyncio.sleep(0)
            undone.append("undone")

    _, failure, _ = drive(waits(), cancel_after=0.01)
    assert isinstance(failure, asyncio.CancelledError)
    assert failure.args == ("enough",)
    assert undone == ["undone"]


def test_cancel_between_waits_is_thrown_at_the_next_step() -> None:
    async def cancels_itself() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(10)

    _, failure, _ = drive(cancels_itself())
    assert isinstance(failure, asyncio.CancelledError)


def test_context_does_not_leak() -> None:
    async def sets() -> str:
        seen.set("mine")
        await asyncio.sleep(0)
        return seen.get()

    assert drive(sets())[0] == "mine"
    assert seen.get() == ""


def test_a_foreign_awaitable_is_our_bug() -> None:
    class Odd:
        def __await__(self) -> Any:
            yield "nonsense"

    async def awaits() -> None:
        await Odd()

    async def main() -> None:
        def begin() -> None:
            with pytest.raises(AssertionError):
                Drive(awaits(), loop, lambda *_: None).start()

        loop = asyncio.get_running_loop()
        loop.call_soon(begin)
        await asyncio.sleep(0)

    asyncio.run(main())
