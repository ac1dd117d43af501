"""Idempotency-Key: a create that is sent again gets the first answer again. Bounded memory of one control process."""

import asyncio
import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from starlette.responses import Response

from gateway.admin.problems import Problem

KEEP_SECONDS: Final = 3600.0
"""How long an answer is kept: longer than any sensible retry, short because it may hold a secret key."""

_KEY: Final = re.compile(r"[\x21-\x7e]{1,128}")


@dataclass(slots=True)
class _Kept:
    fingerprint: bytes
    answer: "asyncio.Future[Response]"
    until: float


class Replays:
    """Answers by (token, route, key). Used on one event loop."""

    def __init__(self, entries_max: int, clock: Callable[[], float]) -> None:
        self._entries_max = entries_max
        self._clock = clock
        self._kept: OrderedDict[tuple[str, str, str], _Kept] = OrderedDict()

    async def once(
        self, place: tuple[str, str], key: str | None, body: bytes, act: Callable[[], Awaitable[Response]]
    ) -> Response:
        """Run `act`, or give the answer of the earlier run with this key and body.

        `place` is token name and route. A failed run is not kept. Errors: Problem 400 for a malformed key, 409 while
        the first run goes on, 422 when the key was used with another body; what `act` raises.
        """
        if key is None:
            return await act()
        if not _KEY.fullmatch(key):
            raise Problem(400, "IdempotencyKeyInvalid", "An Idempotency-Key is 1 to 128 printable characters.")
        self._forget_old()
        fingerprint = sha256(body).digest()
        kept = self._kept.get((*place, key))
        if kept is not None:
            return self._replay(kept, fingerprint)
        return await self._run((*place, key), fingerprint, act)

    def _replay(self, kept: _Kept, fingerprint: bytes) -> Response:
        if kept.fingerprint != fingerprint:
            raise Problem(422, "IdempotencyKeyReused", "The Idempotency-Key was used with another request.")
        if not kept.answer.done():
            raise Problem(409, "RequestInProgress", "The first request with this Idempotency-Key has not ended yet.")
        return kept.answer.result()

    async def _run(
        self, place: tuple[str, str, str], fingerprint: bytes, act: Callable[[], Awaitable[Response]]
    ) -> Response:
        answer: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        self._kept[place] = _Kept(fingerprint, answer, self._clock() + KEEP_SECONDS)
        try:
            response = await act()
        except BaseException:
            self._kept.pop(place, None)
            answer.cancel()
            raise
        answer.set_result(response)
        return response

    def _forget_old(self) -> None:
        now = self._clock()
        while self._kept and (len(self._kept) >= self._entries_max or next(iter(self._kept.values())).until <= now):
            self._kept.popitem(last=False)
