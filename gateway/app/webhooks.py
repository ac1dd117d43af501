"""Posts events of buckets to the webhooks of the settings, signed."""

import hmac
import logging
from collections.abc import Callable
from typing import Final

from gateway.app.outbound import Outbound, OutboundFailed
from gateway.s3.notifications import encode_record
from gateway.settings.notifications import Notifications, WebhookTarget
from tiers.namespace.events import Happening
from tiers.upkeep.delivery import Undelivered

logger = logging.getLogger(__name__)

SIGNATURE: Final = "X-Isotherm-Signature"
EVENT_ID: Final = "X-Isotherm-Event-Id"
"""The event's sequence: equal when an event is sent again, which its receiver may tell by it."""


class Webhooks:
    """`tiers.upkeep.delivery.Post` over HTTP. A target that the settings do not have (any more) takes nothing."""

    def __init__(self, settings: Notifications, outbound: Outbound, region: str, clock: Callable[[], float]) -> None:
        self._targets = {target.name: target for target in settings.targets}
        self._outbound = outbound
        self._region = region
        self._clock = clock

    async def post(self, target_name: str, sequence: int, happening: Happening) -> None:
        """Send one event; any 2xx is taken for yes. Errors: Undelivered."""
        target = self._targets.get(target_name)
        if target is None:
            raise Undelivered(f"no target {target_name} is configured")
        body = encode_record(happening, sequence, self._region)
        headers = {"Content-Type": "application/json", "User-Agent": "isotherm", EVENT_ID: f"{sequence:016X}"}
        if target.secret.get_secret_value():
            headers[SIGNATURE] = sign(target, body, int(self._clock()))
        try:
            status = await self._outbound.post(target.url, body, headers)
        except OutboundFailed as error:
            logger.warning("webhook %s does not answer: %s", target_name, error)
            raise Undelivered(target_name) from error
        if not 200 <= status < 300:
            logger.warning("webhook %s answered %d", target_name, status)
            raise Undelivered(target_name)


def sign(target: WebhookTarget, body: bytes, timestamp: int) -> str:
    """`t=<seconds since the epoch>,v1=<HMAC-SHA256 of "t.body" in hex>`, so that an old post cannot be sent again."""
    signed = b"%d.%b" % (timestamp, body)
    digest = hmac.digest(target.secret.get_secret_value().encode(), signed, "sha256").hex()
    return f"t={timestamp},v1={digest}"
