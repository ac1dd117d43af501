"""Object Lock in headers: what a writer asks for, and what a read tells."""

from collections.abc import Callable, Mapping
from typing import Final

from gateway.s3 import headers
from gateway.s3.errors import S3Code, S3Error
from gateway.s3.request import Request
from metadata.types import Version
from tiers.errors import LockNotEnabled
from tiers.namespace.locks import FOREVER_MS, UNLOCKED, LegalHold, Lock, Mode, pack_lock, unpack_lock

MODE: Final = b"x-amz-object-lock-mode"
UNTIL: Final = b"x-amz-object-lock-retain-until-date"
HOLD: Final = b"x-amz-object-lock-legal-hold"
BYPASS: Final = b"x-amz-bypass-governance-retention"
ENABLED: Final = b"x-amz-bucket-object-lock-enabled"

MODES: Final[Mapping[str, Mode]] = {"GOVERNANCE": Mode.GOVERNANCE, "COMPLIANCE": Mode.COMPLIANCE}
HOLDS: Final[Mapping[str, LegalHold]] = {"ON": LegalHold.ON, "OFF": LegalHold.OFF}
_BOOLEANS: Final[Mapping[str, bool]] = {"true": True, "false": False}

Fields = Mapping[bytes, bytes]


def lock_enabled_of(fields: Fields) -> bool:
    """Whether a bucket is to be created with Object Lock. Errors: InvalidArgument."""
    return _flag(fields, ENABLED)


def bypass_of(fields: Fields) -> bool:
    """Whether the request asks to bypass governance; that it may is another matter. Errors: InvalidArgument."""
    return _flag(fields, BYPASS)


def _flag(fields: Fields, name: bytes) -> bool:
    text = _text(fields, name) or "false"
    if text.lower() not in _BOOLEANS:
        raise _invalid(name, text)
    return _BOOLEANS[text.lower()]


def lock_of(fields: Fields, clock: Callable[[], float]) -> bytes:
    """The lock that a writer asks for, as a row stores it. Errors: InvalidArgument."""
    if MODE not in fields and UNTIL not in fields and HOLD not in fields:
        return b""
    lock = UNLOCKED
    if (MODE in fields) != (UNTIL in fields):
        absent = UNTIL if MODE in fields else MODE
        raise _invalid(absent, "", f"{UNTIL.decode()} and {MODE.decode()} must both be supplied")
    if MODE in fields:
        mode = MODES.get(_text(fields, MODE))
        if mode is None:
            raise _invalid(MODE, _text(fields, MODE), "Unknown wormMode directive.")
        until_ms = headers.parse_iso_time(_text(fields, UNTIL))
        if until_ms is None or until_ms > FOREVER_MS:
            raise _invalid(UNTIL, _text(fields, UNTIL), "The retain until date must be an ISO 8601 date")
        lock = Lock(mode, in_future(until_ms, clock))
    if HOLD in fields:
        hold = HOLDS.get(_text(fields, HOLD))
        if hold is None:
            raise _invalid(HOLD, _text(fields, HOLD), "Legal Hold must be either of 'ON' or 'OFF'")
        lock = lock._replace(legal_hold=hold)
    return pack_lock(lock)


async def asked_lock(request: Request) -> bytes:
    """The lock a writer asks for, refused before its content is read where the bucket has no Object Lock.

    The commit judges it again. Errors: InvalidArgument, LockNotEnabled.
    """
    lock = lock_of(request.fields, request.services.clock)
    if lock and (await request.configuration()).object_lock is None:
        raise LockNotEnabled(request.bucket_name)
    return lock


def in_future(until_ms: int, clock: Callable[[], float]) -> int:
    """The same time. Errors: InvalidArgument when it is past."""
    if until_ms <= clock() * 1000:
        raise _invalid(UNTIL, headers.iso_time(max(until_ms, 0)), "The retain until date must be in the future!")
    return until_ms


def _text(fields: Fields, name: bytes) -> str:
    return fields.get(name, b"").decode("latin-1")


def _invalid(name: bytes, value: str, message: str | None = None) -> S3Error:
    return S3Error(S3Code.InvalidArgument, message, ArgumentName=name.decode(), ArgumentValue=value)


def lock_lines(lock: Lock, *, with_retention: bool, with_hold: bool) -> str:
    """The header lines of a read, ready to send."""
    lines = ""
    if with_retention and lock.mode is not Mode.NONE:
        lines += f"x-amz-object-lock-mode: {lock.mode}\r\n"
        lines += f"x-amz-object-lock-retain-until-date: {headers.iso_time(lock.retain_until_ms)}\r\n"
    if with_hold and lock.legal_hold is not LegalHold.NONE:
        lines += f"x-amz-object-lock-legal-hold: {lock.legal_hold}\r\n"
    return lines


async def told_lock(request: Request, version: Version) -> str:
    """The lock lines of a read of a version that has a lock: only what the caller may ask for by itself."""
    return lock_lines(
        unpack_lock(version.lock),
        with_retention=await request.may("s3:GetObjectRetention", version),
        with_hold=await request.may("s3:GetObjectLegalHold", version),
    )
