"""Rates: how fast the requests and bytes of access keys, users and buckets may come, in one process.

Each process grants its share of a limit, so that nothing has to be agreed on a request. A request beyond its rate is
refused before its body is read; bytes beyond theirs wait, and are never cut. Who has no limit pays a look-up.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Final

from gateway.http.call import Answer, BodyStream, Call, RawBody
from gateway.s3.errors import S3Code, S3Error
from tiers.namespace.quotas import NO_RATE, Rate

DEBT_SECONDS_MAX: Final = 1.0
"""Above it new requests are refused: those under way have bytes waiting for so long already."""

SLICE_BYTES_MIN: Final = 16 * 1024
SLICES_A_SECOND: Final = 8
"""Bodies move in slices of an eighth of a second's bytes, so that many that share a rate take turns."""

SUBJECTS_MAX: Final = 4096
"""Buckets with a rate whose state is kept; the one used longest ago is forgotten, and starts with a full second."""


class Flow:
    """A token bucket of one second's amount. Its level may fall below zero: a debt that time pays."""

    __slots__ = ("_at", "_capacity", "_clock", "_level", "rate")

    def __init__(self, rate: float, clock: Callable[[], float]) -> None:
        assert rate > 0
        self.rate = rate
        self._capacity = self._level = max(rate, 1.0)
        self._clock = clock
        self._at = clock()

    def take(self) -> bool:
        """Take one token if there is one."""
        self._refill()
        if self._level < 1.0:
            return False
        self._level -= 1.0
        return True

    def charge(self, amount: int) -> float:
        """Take so many tokens, there or not; seconds until the debt is paid, 0 for none."""
        self._refill()
        self._level -= amount
        return max(0.0, -self._level / self.rate)

    @property
    def debt_seconds(self) -> float:
        """How long it takes to pay what is owed."""
        return self.charge(0)

    def _refill(self) -> None:
        now = self._clock()
        self._level = min(self._capacity, self._level + max(0.0, now - self._at) * self.rate)
        self._at = now


class Subject:
    """The flows of one key, user or bucket."""

    __slots__ = ("bytes", "rate", "requests")

    def __init__(self, rate: Rate, shares: int, clock: Callable[[], float]) -> None:
        self.rate = rate
        self.requests = Flow(rate.requests / shares, clock) if rate.requests else None
        self.bytes = Flow(rate.bytes / shares, clock) if rate.bytes else None


class Passage:
    """The byte flows that one request goes through, none of them absent."""

    __slots__ = ("_flows", "_sleep", "slice_bytes")

    def __init__(self, flows: list[Flow], sleep: Callable[[float], Awaitable[None]]) -> None:
        assert flows
        self._flows = flows
        self._sleep = sleep
        slowest = min(flow.rate for flow in flows)
        self.slice_bytes = max(SLICE_BYTES_MIN, int(slowest / SLICES_A_SECOND))

    async def pay(self, byte_count: int) -> None:
        """Wait until so many bytes are within every rate."""
        seconds = max(flow.charge(byte_count) for flow in self._flows)
        if seconds > 0:
            await self._sleep(seconds)

    async def pace(self, answer: Answer) -> Answer:
        """The answer, its body at the pace of the rates. HEAD and answers without a body cost nothing."""
        if isinstance(answer.body, bytes):
            await self.pay(len(answer.body))
        elif answer.body is not None:
            answer.body = PacedStream(answer.body, self)
        return answer


class PacedBody:
    """A request's body that comes no faster than its passage allows; the client is held back by the socket."""

    def __init__(self, inner: RawBody, passage: Passage) -> None:
        self._inner, self._passage = inner, passage

    async def fill(self, view: memoryview) -> int:
        """See `RawBody`."""
        filled = 0
        while filled < len(view):
            piece = view[filled : filled + self._passage.slice_bytes]
            received = await self._inner.fill(piece)
            await self._passage.pay(received)
            filled += received
            if received < len(piece):
                break
        return filled

    async def read_all(self, limit: int) -> bytes:
        """See `RawBody`."""
        content = await self._inner.read_all(limit)
        await self._passage.pay(len(content))
        return content


class PacedStream:
    """An answer's body that goes no faster than its passage allows."""

    def __init__(self, inner: BodyStream, passage: Passage) -> None:
        self._inner, self._passage = inner, passage
        self._rest = memoryview(b"")

    async def next(self) -> memoryview | bytes | None:
        """The next slice; valid until the next call, as the run it is of."""
        if not self._rest:
            run = await self._inner.next()
            if run is None:
                return None
            self._rest = memoryview(run)
        piece = self._rest[: self._passage.slice_bytes]
        self._rest = self._rest[len(piece) :]
        await self._passage.pay(len(piece))
        return piece

    def close(self) -> None:
        """Close what is beneath."""
        self._rest = memoryview(b"")
        self._inner.close()


class Throttle:
    """All rates of one process. `shares` is over how many processes a limit is divided."""

    def __init__(
        self,
        shares: int,
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        assert shares > 0
        self._shares = shares
        self._clock, self._sleep = clock, sleep
        self._keys: dict[str, Subject] = {}
        self._users: dict[str, Subject] = {}
        self._buckets: OrderedDict[int, Subject] = OrderedDict()

    def use_rates(self, users: Mapping[str, Rate], keys: Mapping[str, Rate]) -> None:
        """Hold users and access keys to these rates from now on; whose rate stays keeps its state."""
        self._users = {name: self._renewed(self._users.get(name), rate) for name, rate in users.items()}
        self._keys = {name: self._renewed(self._keys.get(name), rate) for name, rate in keys.items()}

    def admit(self, call: Call, principal_id: str, bucket_id: int, bucket_rate: Rate) -> Passage | None:
        """Let one request in; the passage of its bytes, None when nothing limits them. Errors: S3Error SlowDown."""
        if bucket_rate == NO_RATE and not self._keys and not self._users:
            return None
        subjects = list(self._subjects(call.access_key_id, principal_id, bucket_id, bucket_rate))
        flows = [subject.bytes for subject in subjects if subject.bytes is not None]
        if any(flow.debt_seconds > DEBT_SECONDS_MAX for flow in flows):
            raise S3Error(S3Code.SlowDown)
        for subject in subjects:
            if subject.requests is not None and not subject.requests.take():
                raise S3Error(S3Code.SlowDown)
        return Passage(flows, self._sleep) if flows else None

    def _subjects(self, access_key_id: str, principal_id: str, bucket_id: int, bucket_rate: Rate) -> Iterator[Subject]:
        key, user = self._keys.get(access_key_id), self._users.get(principal_id)
        if key is not None:
            yield key
        if user is not None:
            yield user
        if bucket_rate != NO_RATE:
            yield self._bucket(bucket_id, bucket_rate)

    def _bucket(self, bucket_id: int, rate: Rate) -> Subject:
        subject = self._buckets[bucket_id] = self._renewed(self._buckets.get(bucket_id), rate)
        self._buckets.move_to_end(bucket_id)
        if len(self._buckets) > SUBJECTS_MAX:
            self._buckets.popitem(last=False)
        return subject

    def _renewed(self, kept: Subject | None, rate: Rate) -> Subject:
        return kept if kept is not None and kept.rate == rate else Subject(rate, self._shares, self._clock)
