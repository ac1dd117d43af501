"""The document of PutBucketNotificationConfiguration."""

from dataclasses import dataclass
from typing import Final, Self

from gateway.s3 import xml
from gateway.s3.errors import S3Code, S3Error
from gateway.s3.notifications import Targets, parse_document
from gateway.s3.request import Request
from tiers.namespace.events import Notification

_SKIP: Final = b"x-amz-skip-destination-validation"
_BOOLEANS: Final = {"": True, "false": True, "true": False}
"""Whether targets are checked, by the header that skips it."""


@dataclass(frozen=True, slots=True)
class PutNotification:
    """The rules a bucket is to have. Not `is_checked`, targets need not be configured and get no test event."""

    notification: Notification
    is_checked: bool

    @classmethod
    async def decode(cls, request: Request) -> Self:
        word = request.text(_SKIP).lower()
        is_checked = _BOOLEANS.get(word)
        if is_checked is None:
            raise S3Error(S3Code.InvalidArgument, ArgumentName=_SKIP.decode(), ArgumentValue=word)
        body = await request.read_document(xml.DOCUMENT_BYTES_MAX)
        services = request.services
        targets = Targets(services.notification_targets, services.region)
        new_id = services.namespace.new_id_text
        return cls(parse_document(body, targets, new_id, is_checked=is_checked), is_checked)
