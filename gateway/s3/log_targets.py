"""Where a bucket's server access logs go, and the names of the objects that they come in."""

from datetime import UTC, datetime
from typing import Final, NamedTuple

import msgpack

from gateway.auth.acl import Grant, Permission

EVENT_TIME: Final = "EventTime"
SIMPLE: Final = "SimplePrefix"
PARTITIONED: Final = "PartitionedPrefix"


class LogGrant(NamedTuple):
    """A grant of log objects: as put (`kind` is ID, URI or EmailAddress), and the grantee that it means."""

    kind: str
    value: str
    display_name: str
    permission: str
    grantee: str

    @property
    def grant(self) -> Grant:
        return Grant(self.grantee, Permission(self.permission))


class LogTarget(NamedTuple):
    """A logging configuration. `key_format` is empty, SimplePrefix or PartitionedPrefix, as put.

    `date_source` is empty, EventTime or DeliveryTime; without one a partitioned name tells the time of delivery.
    """

    bucket_name: str
    prefix: str
    grants: tuple[LogGrant, ...] = ()
    key_format: str = ""
    date_source: str = ""


def pack_target(target: LogTarget) -> bytes:
    """The stored form of a target."""
    packed: bytes = msgpack.packb(target)
    return packed


def unpack_target(document: bytes) -> LogTarget:
    """Inverse of `pack_target`."""
    bucket_name, prefix, grants, key_format, date_source = msgpack.unpackb(document)
    return LogTarget(bucket_name, prefix, tuple(LogGrant(*grant) for grant in grants), key_format, date_source)


class LogSource(NamedTuple):
    """The bucket that was logged, as names of log objects tell it."""

    bucket_name: str
    owner_id: str
    region: str


def log_key(target: LogTarget, source: LogSource, seconds: float, unique: str) -> str:
    """The name of a log object; `seconds` since the epoch are its time, of which EventTime tells the day alone."""
    when = datetime.fromtimestamp(seconds, UTC)
    if target.date_source == EVENT_TIME:
        when = when.replace(hour=0, minute=0, second=0)
    place = ""
    if target.key_format == PARTITIONED:
        place = f"{source.owner_id}/{source.region}/{source.bucket_name}/{when:%Y/%m/%d}/"
    return f"{target.prefix}{place}{when:%Y-%m-%d-%H-%M-%S}-{unique}"


def log_day(target: LogTarget, seconds: float) -> int:
    """What lines of one log object share besides target and source: the day of EventTime, else nothing."""
    return int(seconds // 86400) if target.date_source == EVENT_TIME else 0
