"""Calls of devices that moves make: awaited, with a deadline, and all of a group ended before any is given up."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Final, ParamSpec, TypeVar

from tiers.devices.fleet import Fleet
from tiers.errors import DeviceFailed, StorageError

logger = logging.getLogger(__name__)

CALL_SECONDS_MAX: Final = 60.0
"""How long a device may take for one call."""

P = ParamSpec("P")
T = TypeVar("T")


async def on_device(fleet: Fleet, device_id: str, act: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """The outcome of a call on the device's own threads. Errors: its own; DeviceFailed when it does not come."""
    try:
        return await asyncio.wait_for(
            asyncio.wrap_future(fleet.submit(device_id, act, *args, **kwargs)), CALL_SECONDS_MAX
        )
    except TimeoutError as error:
        raise DeviceFailed(f"{device_id}: no answer within {CALL_SECONDS_MAX} s") from error


async def all_of(works: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """Run them beside each other to their ends; the first error after all have ended, as they share memory."""
    outcomes = await asyncio.gather(*works, return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome
    return [outcome for outcome in outcomes if not isinstance(outcome, BaseException)]


async def quietly(work: Awaitable[object]) -> None:
    """Tidying up: a device that refuses it costs space until reclaim comes, and nothing else."""
    try:
        await work
    except StorageError as error:
        logger.warning("left to reclaim: %s", error)
