"""The Authorization header and the dates beside it."""

from datetime import UTC
from email.utils import parsedate_to_datetime
from time import gmtime, strftime
from typing import Final

from gateway.auth.refusals import Refused
from gateway.auth.sigv4 import ALGORITHM, Presented, parse_signed_headers, parse_stamp
from gateway.http.call import Call

V4_PREFIX: Final = ALGORITHM + b" "

_COMPONENTS: Final = frozenset({b"Credential", b"SignedHeaders", b"Signature"})
_AFTER_YEAR_9999: Final = 253_402_300_800
_NO_DATE: Final = "AWS authentication requires a valid Date or x-amz-date header"


def parse_header_v4(call: Call, authorization: bytes) -> Presented:
    """The parts of a version 4 Authorization header, which begins with `V4_PREFIX`.

    Errors: Refused AuthorizationHeaderMalformed, AccessDenied without a valid date.
    """
    parts: dict[bytes, bytes] = {}
    components = authorization[len(V4_PREFIX) :].split(b",")
    for component in components:
        name, _, value = component.removeprefix(b" ").partition(b"=")
        parts[name] = value
    if len(components) != 3 or parts.keys() != _COMPONENTS or components[0].startswith(b" "):
        raise malformed("the authorization header requires exactly Credential, SignedHeaders and Signature.")
    signed = parse_signed_headers(parts[b"SignedHeaders"])
    if signed is None:
        raise malformed("SignedHeaders must be sorted lower-case names and include host.")
    stamp, seconds = signing_time(call)
    return Presented(parts[b"Credential"], signed, stamp, seconds, parts[b"Signature"])


def malformed(detail: str) -> Refused:
    """The refusal of an Authorization header that has not the form of version 4."""
    return Refused("AuthorizationHeaderMalformed", f"The authorization header is malformed; {detail}")


def signing_time(call: Call) -> tuple[bytes, int]:
    """The time a request was signed, as a basic ISO 8601 stamp and in seconds; `x-amz-date` wins over `Date`.

    Errors: Refused AccessDenied.
    """
    stamp = call.fields.get(b"x-amz-date")
    if stamp is None:
        return _http_time(call.fields.get(b"date", b""))
    seconds = parse_stamp(stamp)
    if seconds is None:
        return _http_time(stamp)
    return stamp, seconds


def _http_time(text: bytes) -> tuple[bytes, int]:
    seconds = parse_stamp(text)
    if seconds is None:
        try:
            moment = parsedate_to_datetime(text.decode("ascii"))
            # The zone -0000, which botocore sends, means UTC and comes back as no zone.
            seconds = int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())
        except (ValueError, OverflowError):
            seconds = None
    if seconds is None or not 0 <= seconds < _AFTER_YEAR_9999:
        raise Refused("AccessDenied", _NO_DATE)
    return strftime("%Y%m%dT%H%M%SZ", gmtime(seconds)).encode(), seconds


def parse_header_v2(authorization: bytes) -> tuple[str, bytes]:
    """Access key id and signature of a version 2 Authorization header.

    Errors: Refused InvalidArgument for another scheme or form; AccessDenied for an empty or unreadable header.
    """
    if not authorization or not authorization.isascii() or not authorization.decode("ascii").isprintable():
        raise Refused("AccessDenied")
    if not authorization.startswith(b"AWS "):
        raise Refused("InvalidArgument", "Unsupported Authorization Type", ArgumentName="Authorization")
    access_key_id, _, signature = authorization[4:].rpartition(b":")
    if not access_key_id:
        raise Refused(
            "InvalidArgument",
            "AWS authorization header is invalid.  Expected AwsAccessKeyId:signature",
            ArgumentName="Authorization",
        )
    return access_key_id.decode("ascii"), signature
