"""The whole S3 plane in one process, spoken to by the real botocore: it signs, serialises and parses; nothing is sent.

botocore asks `before-send` hooks for an answer before it opens a connection; ours answers from the plane, on a loop of
its own.
"""

import asyncio
import io
import time
from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from secrets import token_bytes
from typing import Any

import boto3
from botocore import UNSIGNED
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSPreparedRequest, AWSRequest, AWSResponse, HeadersDict
from botocore.config import Config
from botocore.credentials import Credentials

from gateway.auth.authenticator import Authenticator
from gateway.auth.key_file import SSE_S3_KEY, FileKeys, add_key
from gateway.auth.keyring import Credential, KeyRing, Principal
from gateway.http.call import Answer, Call
from gateway.s3.addressing import Addressing
from gateway.s3.content_keys import ContentKeys, EncryptionRules
from gateway.s3.encryption import SSE_KMS, SSE_S3
from gateway.s3.plane import S3Plane, Services
from tests.unit.s3.calls import HOST, make_call
from tests.world import World, open_world

REGION = "us-east-1"
ROOT = Principal("owner", "owner", is_root=True)
OTHER = Principal("other", "other")
KEYS = {"owner": Credential("AKOWNER", b"owner-secret", ROOT), "other": Credential("AKOTHER", b"other-secret", OTHER)}


def content_keys(path: Path) -> ContentKeys:
    """Keys of a key file made on the spot; customer keys need no TLS, as nothing is sent."""
    for name in (SSE_S3_KEY, "one", "two"):
        add_key(path, name, token_bytes)
    providers = {
        SSE_S3: FileKeys(path, (SSE_S3_KEY,), token_bytes),
        SSE_KMS: FileKeys(path, ("one", "two"), token_bytes),
    }
    return ContentKeys(providers, EncryptionRules(customer_keys_over_http=True), token_bytes)


class RawAnswer(io.BytesIO):
    """What botocore reads a body from."""

    def stream(self, *_arguments: object, **_options: object) -> Iterator[bytes]:
        yield self.read()


class Gateway:
    """A started world behind a plane. `faults` are the exceptions that no table translated."""

    def __init__(self, path: Path, *, region: str = REGION, **settings: Any) -> None:
        self.loop = asyncio.new_event_loop()
        self._undo = AsyncExitStack()
        self.world: World = self.run(self._undo.enter_async_context(open_world(path)))
        self.faults: list[Exception] = []
        self.sent: list[tuple[AWSPreparedRequest, Answer]] = []
        self.services = Services(
            addressing=Addressing(["s3.test"]),
            authenticator=Authenticator(KeyRing(KEYS.values()), region, time.time),
            namespace=self.world.namespace,
            region=region,
            host_id="HOST1",
            clock=self.world.clock,
            token_key=b"t" * 32,
            log_error=lambda _request_id, error: self.faults.append(error),
            content_keys=content_keys(path / "encryption-keys"),
            **settings,
        )
        self.plane = S3Plane(self.services)

    def run(self, awaitable: Any) -> Any:
        return self.loop.run_until_complete(awaitable)

    def close(self) -> None:
        self.run(self._undo.aclose())
        self.loop.close()

    def answer(self, call: Call) -> Answer:
        """The plane's answer, its body drained into bytes."""
        self.plane.takes(call)
        answer: Answer = self.run(self.plane.answer(call))
        if answer.body is not None and not isinstance(answer.body, bytes):
            answer.body = self.run(drain(answer.body))
        assert answer.body is None or len(body_of(answer)) == answer.content_length
        return answer

    def client(self, who: str | None = "owner", *, region: str = REGION, **config: Any) -> Any:
        """A boto3 client that speaks to this plane; None is anonymous."""
        credential = KEYS[who or "owner"]
        options: dict[str, Any] = {"s3": {"addressing_style": "path"}, "retries": {"max_attempts": 0}} | config
        if who is None:
            options["signature_version"] = UNSIGNED
        client: Any = boto3.client(
            "s3",
            endpoint_url=f"http://{HOST}",
            region_name=region,
            aws_access_key_id=credential.access_key_id,
            aws_secret_access_key=credential.secret.decode(),
            config=Config(**options),
        )
        client.meta.events.register("before-send.s3", self._send)
        return client

    def send(
        self, method: str, path: str, headers: Mapping[str, str] | None = None, body: bytes = b"", who: str = "owner"
    ) -> Answer:
        """The answer to a request that botocore would never build; `path` and query are sent and signed as they are."""
        request = AWSRequest(method, f"http://{HOST}{path}", dict(headers or {}), body)
        credential = KEYS[who]
        keys = Credentials(credential.access_key_id, credential.secret.decode())
        S3SigV4Auth(keys, "s3", REGION).add_auth(request)
        signed = dict(request.headers.items())
        return self.answer(make_call(method, path, signed, body if body or method in {"PUT", "POST"} else None))

    def _send(self, request: AWSPreparedRequest, **_rest: object) -> AWSResponse:
        answer = self.answer(call_of(request))
        self.sent.append((request, answer))
        raw = RawAnswer(body_of(answer))
        return AWSResponse(request.url, answer.status, HeadersDict(headers_of(answer)), raw)  # type: ignore[arg-type]  # as botocore itself


def body_of(answer: Answer) -> bytes:
    """The body of a drained answer, empty when it has none."""
    assert answer.body is None or isinstance(answer.body, bytes)
    return answer.body or b""


async def drain(stream: Any) -> bytes:
    """Everything a stream gives."""
    pieces = []
    while (run := await stream.next()) is not None:
        pieces.append(bytes(run))
    stream.close()
    return b"".join(pieces)


def call_of(request: AWSPreparedRequest) -> Call:
    """What the protocol class would make of a request that botocore is about to send."""
    path = request.url.removeprefix(f"http://{HOST}")
    headers = {name: value for name, value in request.headers.items() if name.lower() != "host"}
    body: Any = request.body
    if body is None and request.method in {"PUT", "POST"}:
        body = b""  # http.client sends Content-Length: 0 then
    content = body if isinstance(body, bytes | None) else body.read()
    is_chunked = headers.pop("Transfer-Encoding", None) is not None
    call = make_call(request.method, path, headers, content)
    if is_chunked:
        call.is_chunked, call.content_length = True, None
    return call


def headers_of(answer: Answer) -> Mapping[str, str]:
    """All header lines of an answer, as the executor would send them."""
    lines = list(answer.headers)
    for line in answer.raw_headers.split(b"\r\n")[:-1]:
        name, _, value = line.partition(b": ")
        lines.append((name, value))
    names = [name for name, _ in lines]
    assert len(names) == len(set(names)), names
    assert not answer.raw_headers or answer.raw_headers.endswith(b"\r\n")
    return {
        **{name.decode(): value.decode("latin-1") for name, value in lines},
        "content-length": str(answer.content_length),
        "x-amz-request-id": "REQUEST1",
    }
