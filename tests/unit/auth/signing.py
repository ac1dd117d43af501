"""Requests signed by botocore, as the gateway receives them: an implementation of the signatures that is not ours."""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from email.utils import formatdate
from time import gmtime, strftime
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import botocore.auth
import botocore.crt.auth
import pytest
from botocore.auth import HmacV1Auth, HmacV1QueryAuth, S3SigV4Auth, S3SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.crt.auth import CrtS3SigV4Auth, CrtS3SigV4QueryAuth

from gateway.auth.authenticator import Authenticated, Authenticator
from gateway.auth.keyring import Credential, KeyRing, Principal
from gateway.auth.refusals import Refused
from gateway.http.call import Call
from gateway.s3.errors import S3Code
from tests.unit.s3.calls import HeldBody

NOW = 1_767_225_600  # 2026-01-01, midnight: any step back crosses a day
REGION = "us-east-1"
KEY_ID = "AKIDEXAMPLE"
SECRET = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
ALICE = Principal("p-alice", "alice")
ENDPOINT = "https://s3.test:9000"

_CREDENTIALS = Credentials(KEY_ID, SECRET)


class Clock:
    """A clock that stands until it is set."""

    def __init__(self, now: float = NOW) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def make_authenticator(clock: Clock | None = None, **options: Any) -> Authenticator:
    ring = KeyRing([Credential(KEY_ID, SECRET.encode(), ALICE)])
    return Authenticator(ring, REGION, clock or Clock(), **options)


def authenticate(call: Call, authenticator: Authenticator | None = None) -> Authenticated:
    return asyncio.run((authenticator or make_authenticator()).authenticate(call))


@contextmanager
def frozen(now: float = NOW) -> Iterator[None]:
    """Let botocore (and awscrt, which boto3 signs version 4 with where it is installed) sign at `now`."""

    def moment(*, remove_tzinfo: bool = True) -> datetime:
        aware = datetime.fromtimestamp(now, UTC)
        return aware.replace(tzinfo=None) if remove_tzinfo else aware

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(botocore.auth, "get_current_datetime", moment)
        patch.setattr(botocore.crt.auth, "get_current_datetime", moment)
        patch.setattr(botocore.auth, "formatdate", lambda moment=now, **options: formatdate(moment, **options))
        clock = SimpleNamespace(time=lambda: now, gmtime=lambda: gmtime(now), strftime=strftime)
        patch.setattr(botocore.auth, "time", clock)
        yield


def signed(
    method: str = "GET",
    target: str = "/bucket/key",
    headers: Mapping[str, str] | None = None,
    body: bytes = b"",
    *,
    mechanism: str = "header",
    region: str = REGION,
    expires: int = 600,
    now: float = NOW,
) -> Call:
    """A call for `target` (path and query as spelled on the wire) signed by botocore."""
    request = AWSRequest(method=method, url=ENDPOINT + target, headers=dict(headers or {}))
    if body and mechanism in {"header", "crt header"}:  # a presigner takes data for parameters
        request.data = body
    signer = {
        "header": lambda: S3SigV4Auth(_CREDENTIALS, "s3", region),
        "query": lambda: S3SigV4QueryAuth(_CREDENTIALS, "s3", region, expires=expires),
        "crt header": lambda: CrtS3SigV4Auth(_CREDENTIALS, "s3", region),
        "crt query": lambda: CrtS3SigV4QueryAuth(_CREDENTIALS, "s3", region, expires=expires),
        "v2 header": lambda: HmacV1Auth(_CREDENTIALS),
        "v2 query": lambda: HmacV1QueryAuth(_CREDENTIALS, expires=expires),
    }[mechanism]()
    request.context["payload_signing_enabled"] = bool(body)
    with frozen(now):
        signer.add_auth(request)
    moved = mechanism == "v2 query"  # that signer leaves the headers it has moved into the query
    lines = {
        name.lower(): value
        for name, value in request.headers.items()
        if not (
            moved and (name.lower().startswith("x-amz-") or name.lower() in {"date", "content-type", "content-md5"})
        )
    }
    return received(method, str(request.url), lines, body)


def received(method: str, url: str, headers: Mapping[str, str], body: bytes = b"") -> Call:
    """A call as the protocol class hands it over; `PutObject` already resolved for a PUT."""
    parts = urlsplit(url)
    target = url.removeprefix(f"{parts.scheme}://{parts.netloc}")
    path, _, query = target.partition("?")
    lines = {b"host": parts.netloc.encode(), b"user-agent": b"test"}
    lines |= {name.lower().encode(): value.strip().encode("latin-1") for name, value in headers.items()}
    return Call(
        method=method,
        raw_path=path.encode(),
        query=query.encode(),
        headers=list(lines.items()),
        body=HeldBody(body),
        request_id="REQUEST1",
        peer="127.0.0.1",
        content_length=len(body) if body or method in {"PUT", "POST"} else None,
        fields=lines,
        operation={"PUT": "PutObject", "GET": "GetObject"}.get(method, "Other"),
    )


def with_header(call: Call, name: bytes, value: bytes) -> Call:
    """`call` with one header set, in both of its forms."""
    call.fields[name] = value
    call.headers = list(call.fields.items())
    return call


def without_header(call: Call, name: bytes) -> Call:
    """`call` without one header."""
    del call.fields[name]
    call.headers = list(call.fields.items())
    return call


def refusal_of(call: Call, clock: Clock | None = None, **options: Any) -> Refused:
    with pytest.raises(Refused) as raised:
        authenticate(call, make_authenticator(clock, **options))
    assert raised.value.code in S3Code.__members__
    return raised.value
