"""Documents of Object Lock: the configuration of a bucket, retention and legal hold of a version."""

from dataclasses import dataclass
from typing import Final, Self

from gateway.s3 import headers, xml
from gateway.s3.errors import S3Code, S3Error
from gateway.s3.lock_headers import HOLDS, MODES, bypass_of, in_future
from gateway.s3.request import Request
from gateway.s3.schemas import described
from tiers.namespace.locks import (
    DEFAULT_DAYS_MAX,
    DEFAULT_YEARS_MAX,
    FOREVER_MS,
    DefaultRetention,
    Lock,
    LockChange,
    Mode,
)

_DEFAULT: Final = xml.Element(
    {"Mode": xml.LEAF, "Days": xml.LEAF, "Years": xml.LEAF, "DefaultEventHold": xml.Element({"Days": xml.LEAF})}
)
_CONFIGURATION_ROOTS: Final = {
    "ObjectLockConfiguration": xml.Element(
        {"ObjectLockEnabled": xml.REQUIRED_LEAF, "Rule": xml.Element({"DefaultRetention": _DEFAULT})}
    )
}
_RETENTION: Final = xml.Element(
    {"Mode": xml.LEAF, "RetainUntilDate": xml.LEAF, "EventHold": xml.LEAF, "EventHoldDuration": xml.LEAF}
)
_RETENTION_ROOTS: Final = {"Retention": _RETENTION, "ObjectLockRetention": _RETENTION}
_HOLD: Final = xml.Element({"Status": xml.REQUIRED_LEAF})
_HOLD_ROOTS: Final = {"LegalHold": _HOLD, "ObjectLockLegalHold": _HOLD}


@dataclass(frozen=True, slots=True)
class PutLockConfiguration:
    """The default retention that a bucket is to give; a bucket with any has Object Lock, for good."""

    default: DefaultRetention

    @classmethod
    async def decode(cls, request: Request) -> Self:
        root = xml.read(await request.read_document(xml.DOCUMENT_BYTES_MAX), _CONFIGURATION_ROOTS)
        if root.get("ObjectLockEnabled") != "Enabled":
            raise xml.malformed()
        rules = root.all("Rule")
        return cls(_default(rules[0]) if rules else DefaultRetention())


def _default(rule: xml.Node) -> DefaultRetention:
    """Errors: MalformedXML, InvalidRetentionPeriod, NotImplemented."""
    found = rule.all("DefaultRetention")
    mode = MODES.get(found[0].get("Mode")) if found else None
    if not found or mode is None:
        raise xml.malformed()
    node = found[0]
    if node.has("DefaultEventHold"):
        raise S3Error(S3Code.NotImplemented, "Event holds are not implemented.", Element="DefaultEventHold")
    if node.has("Days") == node.has("Years"):
        raise xml.malformed()
    if node.has("Days"):
        return DefaultRetention(mode, days=_period(node.get("Days"), DEFAULT_DAYS_MAX))
    return DefaultRetention(mode, years=_period(node.get("Years"), DEFAULT_YEARS_MAX))


def _period(text: str, most: int) -> int:
    """A count of days or years. Errors: MalformedXML for no number, InvalidRetentionPeriod outside 1 to `most`."""
    bare = text.strip()
    number = headers.number(bare.removeprefix("-"))
    if number is None:
        raise xml.malformed()
    if bare.startswith("-") or number == 0:
        raise S3Error(S3Code.InvalidRetentionPeriod, "Default retention period must be a positive integer value.")
    if number > most:
        raise S3Error(S3Code.InvalidRetentionPeriod, f"Default retention period must not exceed {most}.")
    return number


@dataclass(frozen=True, slots=True)
class PutRetention:
    """A version's retention to be; `asks_bypass` is what the request asks, not what it may."""

    version_id: str | None
    change: LockChange
    asks_bypass: bool

    @classmethod
    async def decode(cls, request: Request) -> Self:
        named = described.version_id(request)
        root = xml.read(await request.read_document(xml.DOCUMENT_BYTES_MAX), _RETENTION_ROOTS)
        for name in ("EventHold", "EventHoldDuration"):
            if root.has(name):
                raise S3Error(S3Code.NotImplemented, "Event holds are not implemented.", Element=name)
        return cls(named, LockChange(retention=_retention(root, request)), bypass_of(request.fields))


def _retention(root: xml.Node, request: Request) -> tuple[Mode, int]:
    """Mode and date of a document; an empty one lifts the retention. Errors: MalformedXML, InvalidArgument."""
    if not root.children:
        return Mode.NONE, 0
    mode = MODES.get(root.get("Mode"))
    until_ms = headers.parse_iso_time(root.get("RetainUntilDate").strip())
    if mode is None or until_ms is None or until_ms > FOREVER_MS:
        raise xml.malformed()
    return mode, in_future(until_ms, request.services.clock)


@dataclass(frozen=True, slots=True)
class PutLegalHold:
    """A version's legal hold to be."""

    version_id: str | None
    change: LockChange

    @classmethod
    async def decode(cls, request: Request) -> Self:
        named = described.version_id(request)
        root = xml.read(await request.read_document(xml.DOCUMENT_BYTES_MAX), _HOLD_ROOTS)
        hold = HOLDS.get(root.get("Status"))
        if hold is None:
            raise xml.malformed()
        return cls(named, LockChange(legal_hold=hold))


def render_configuration(default: DefaultRetention) -> bytes:
    """The configuration of a bucket that has Object Lock."""
    rule = ""
    if default.mode is not Mode.NONE:
        period = f"<Days>{default.days}</Days>" if default.days else f"<Years>{default.years}</Years>"
        rule = f"<Rule><DefaultRetention><Mode>{default.mode}</Mode>{period}</DefaultRetention></Rule>"
    return xml.document("ObjectLockConfiguration", "<ObjectLockEnabled>Enabled</ObjectLockEnabled>", rule)


def render_retention(lock: Lock) -> bytes:
    """The retention of a version that has one."""
    until = f"<RetainUntilDate>{headers.iso_time(lock.retain_until_ms)}</RetainUntilDate>"
    return xml.document("Retention", f"<Mode>{lock.mode}</Mode>", until)


def render_legal_hold(lock: Lock) -> bytes:
    """The legal hold of a version on which one was ever set."""
    return xml.document("LegalHold", f"<Status>{lock.legal_hold}</Status>")
