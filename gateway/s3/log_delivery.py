"""Delivery of server access logs: what waits becomes objects in the targets, every so often and when there is much.

The right to write is asked anew for every object. What may not be written, or has nowhere to go, is dropped and
counted; what the store cannot take now waits for the next round.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final, NamedTuple

from gateway.auth.service_access import Delivery, Source, may_log
from gateway.s3.deposits import FINAL, TRANSIENT, Deposits, HeldBody
from gateway.s3.log_targets import LogSource, LogTarget, log_key
from gateway.s3.server_log import LogBatch, ServerLog
from metadata.types import Bucket

logger = logging.getLogger(__name__)

SECONDS_A_DAY: Final = 86400
UNIQUE_CHARACTERS: Final = 16


class LogObject(NamedTuple):
    """A log object to be: of which bucket, by which configuration, under which key."""

    source: LogSource
    target: LogTarget
    key: str


async def may_deliver(deposits: Deposits, bucket: Bucket, log: LogObject, now: float) -> bool:
    """Whether a log object may go into its target bucket; permission for the prefix alone is enough."""
    rules = (await deposits.configuration(bucket)).access(bucket.owner_id)
    resources = (f"{bucket.name}/{log.key}", f"{bucket.name}/{log.target.prefix}")
    asked = Source(log.source.bucket_name, log.source.owner_id)
    return may_log(rules, Delivery(asked, bucket.owner_id, resources, log.source.region, now))


class LogDelivery:
    """Delivers the lines of one process."""

    def __init__(self, log: ServerLog, deposits: Deposits, clock: Callable[[], float], flush_seconds: float) -> None:
        self._log = log
        self._deposits = deposits
        self._clock = clock
        self._flush_seconds = flush_seconds

    async def run(self) -> None:
        """Deliver for ever. Ends by cancellation; what waits then is `flush`'s to deliver."""
        while True:
            try:
                async with asyncio.timeout(self._flush_seconds):
                    await self._log.has_full.wait()
            except TimeoutError:
                pass
            if not await self.flush():
                await asyncio.sleep(self._flush_seconds)

    async def flush(self) -> bool:
        """Deliver what waits now; False when the store could not take something, which waits on."""
        batches, is_all = self._log.take(), True
        try:
            while batches:
                is_settled = await self._try(batches[0])
                batch = batches.pop(0)
                if is_settled is None:
                    self._log.give_back(batch)
                    is_all = False
                else:
                    self._log.settle(batch, is_delivered=is_settled)
        finally:
            for batch in reversed(batches):
                self._log.give_back(batch)
        return is_all

    async def _try(self, batch: LogBatch) -> bool | None:
        """Whether the lines were delivered or are given up; None when they may be tried again."""
        name = batch.group.source.bucket_name
        try:
            return await self._deliver(batch)
        except FINAL as error:
            logger.warning("a server access log of %s was dropped: %s", name, error)
            return False
        except TRANSIENT as error:
            logger.warning("a server access log of %s waits: %s", name, error)
            return None

    async def _deliver(self, batch: LogBatch) -> bool:
        """Whether the lines were delivered; not where nobody permits it. Errors: those of `Deposits.put`."""
        source, target, day = batch.group
        bucket = await self._deposits.namespace.buckets.get(target.bucket_name)
        key = self.new_key(target, source, day)
        if not await may_deliver(self._deposits, bucket, LogObject(source, target, key), self._clock()):
            logger.warning("a server access log of %s may not go into %s", source.bucket_name, bucket.name)
            return False
        grants = [grant.grant for grant in target.grants]
        await self._deposits.put(bucket, key, HeldBody(batch.content), "text/plain", grants=grants)
        return True

    def new_key(self, target: LogTarget, source: LogSource, day: int) -> str:
        """A fresh name for a log object of lines of a day, 0 where the names tell the time of delivery."""
        unique = self._deposits.namespace.new_id_text()[:UNIQUE_CHARACTERS].upper()
        return log_key(target, source, day * SECONDS_A_DAY if day else self._clock(), unique)
