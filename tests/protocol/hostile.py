"""What attackers send: presigned requests of both versions, and what must hold after every request."""

import base64
import hashlib
import hmac
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import quote
from xml.etree import ElementTree

from gateway.s3.errors import S3Code
from tests.live import ACCESS_KEY, ADMIN_TOKEN, REGION, SECRET_KEY, LiveStore, get_json
from tests.protocol.raw import Answer, Request, Wire, assemble, canonical_query, signing_key

STREAMING = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"
SIGNED_TRAILER = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER"
UNSIGNED_TRAILER = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
STREAMING_WORDS = (STREAMING, SIGNED_TRAILER, UNSIGNED_TRAILER)
SESSION_TOKEN = "canary-session-token-0001"
CANARIES = [SECRET_KEY, ADMIN_TOKEN, SESSION_TOKEN]
"""Words that no answer, log or metric may hold; tests add the secrets that they are given."""

CONTENT = b"the old content stays"
NOT_SIGNED = (403, "AccessDenied")
MISMATCH = (403, "SignatureDoesNotMatch")

Outcome = tuple[int, str]
Raw = bytes | Request | None


@contextmanager
def besieged(folder: Path, **settings: str) -> Iterator[LiveStore]:
    """A store that logs all it can, with a bucket `sec` that holds one object `key`."""
    options = {"ISOTHERM_LOG_LEVEL": "debug", "ISOTHERM_ACCESS_LOG": str(folder / "access.log"), **settings}
    with LiveStore(folder / "data", workers=2, **options) as live:
        client = live.client()
        client.create_bucket(Bucket="sec")
        client.put_object(Bucket="sec", Key="key", Body=CONTENT)
        yield live


def assert_untold(store: LiveStore) -> None:
    """No secret in the process log, the access log or the metrics."""
    access_log = Path(store.environment["ISOTHERM_ACCESS_LOG"])
    deadline = time.monotonic() + 10
    while b"GetObject" not in access_log.read_bytes():
        assert time.monotonic() < deadline
        time.sleep(0.1)
    status, metrics = get_json(f"{store.admin}/metrics")
    assert status == 200
    for told in (store.log.read_bytes(), access_log.read_bytes(), metrics):
        assert told
        for canary in CANARIES:
            assert canary.encode() not in told, canary


@dataclass
class Presigned:
    """A request signed in its query. `query` is signed, `after` is appended to the signed query, `drop` left out."""

    method: str = "GET"
    path: str = "/sec/key"
    query: dict[str, str] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    unsigned: dict[str, str] = field(default_factory=dict)
    expires: str = "300"
    skew_seconds: int = 0
    after: str = ""
    drop: str = ""
    body: bytes = b""
    payload: str = "UNSIGNED-PAYLOAD"
    access_key: str = ACCESS_KEY
    secret_key: str = SECRET_KEY
    signature: str = ""
    region: str = REGION


def presign(wanted: Presigned, host: str) -> bytes:
    """The bytes of a request presigned with version 4."""
    moment = datetime.now(UTC) + timedelta(seconds=wanted.skew_seconds)
    stamp, day = moment.strftime("%Y%m%dT%H%M%SZ"), moment.strftime("%Y%m%d")
    signed = {"host": host, **{name.lower(): value for name, value in wanted.headers.items()}}
    names = ";".join(sorted(signed))
    scope = f"{day}/{wanted.region}/s3/aws4_request"
    parameters = {
        "X-Amz-Algorithm": "AWS4-HMAC-SHA256",
        "X-Amz-Credential": f"{wanted.access_key}/{scope}",
        "X-Amz-Date": stamp,
        "X-Amz-Expires": wanted.expires,
        "X-Amz-SignedHeaders": names,
        **wanted.query,
    }
    parameters.pop(wanted.drop, None)
    query = canonical_query("&".join(f"{name}={quote(value, safe='~')}" for name, value in parameters.items()))
    lines = [*(f"{name}:{signed[name]}" for name in sorted(signed)), "", names, wanted.payload]
    canonical = "\n".join([wanted.method, wanted.path, query, *lines])
    text = "\n".join(["AWS4-HMAC-SHA256", stamp, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    request = Request(wanted.method, wanted.path, body=wanted.body, secret_key=wanted.secret_key, region=wanted.region)
    signature = wanted.signature or hmac.digest(signing_key(request, day), text.encode(), "sha256").hex()
    remember(signature if not wanted.signature else "")
    request.query = f"{query}&X-Amz-Signature={signature}{wanted.after}"
    return assemble(request, {**signed, **wanted.unsigned})


def presign_v2(wanted: Presigned, host: str, *, content_md5: str = "", subresources: str = "") -> bytes:
    """The bytes of a request presigned with version 2; an MD5 is moved into the query, as botocore does."""
    expires = str(int(datetime.now(UTC).timestamp()) + int(wanted.expires))
    amz = "".join(f"{name}:{wanted.headers[name]}\n" for name in sorted(wanted.headers))
    resource = wanted.path + (f"?{subresources}" if subresources else "")
    text = f"{wanted.method}\n{content_md5}\n\n{expires}\n{amz}{resource}"
    digest = hmac.digest(wanted.secret_key.encode(), text.encode(), "sha1")
    signature = wanted.signature or base64.b64encode(digest).decode()
    pairs = [f"AWSAccessKeyId={wanted.access_key}", f"Expires={expires}", f"Signature={quote(signature, safe='')}"]
    pairs += [f"content-md5={quote(content_md5, safe='')}"] if content_md5 else []
    pairs += [subresources] if subresources else []
    request = Request(wanted.method, wanted.path, "&".join(pairs) + wanted.after, body=wanted.body)
    return assemble(request, {"host": host, **wanted.headers, **wanted.unsigned})


def sign_v2(method: str, path: str, host: str) -> bytes:
    """A request with a right version 2 Authorization header."""
    date = datetime.now(UTC).strftime("%a, %d %b %Y %H:%M:%S GMT")
    text = f"{method}\n\n\n{date}\n{path}"
    signature = base64.b64encode(hmac.digest(SECRET_KEY.encode(), text.encode(), "sha1")).decode()
    headers = {"host": host, "date": date, "authorization": f"AWS {ACCESS_KEY}:{signature}"}
    return assemble(Request(method, path), headers)


def remember(secret: str) -> None:
    """Search for `secret` at the end."""
    if secret:
        CANARIES.append(secret)


def ask(store: LiveStore, raw: Raw | Presigned, *, half_close: bool = False) -> Answer:
    """One request on a connection of its own."""
    wire = Wire(store)
    try:
        if isinstance(raw, Presigned):
            return wire.send(presign(raw, wire.host))
        if isinstance(raw, Request):
            return wire.call(raw)
        assert raw is not None
        return wire.send(raw, half_close=half_close)
    finally:
        wire.close()


def check(answer: Answer, allowed: Sequence[Outcome]) -> None:
    """The answer is one of those allowed, is no 500, says little and in good form, and holds no secret."""
    assert answer.status != 500, answer
    assert (answer.status, answer.code) in allowed or (answer.status, "*") in allowed, answer
    look(answer)


def look(answer: Answer) -> None:
    """An error is a well-formed document with a code of the catalogue and the header's request id; no secret in it."""
    whole = answer.body + repr(answer.headers).encode()
    for canary in CANARIES:
        assert canary.encode() not in whole, answer
    for word in (b"Traceback", b".py", b"sqlite", b"SELECT "):
        assert word not in whole, answer
    if answer.status < 400 or answer.headers.get("content-type") != "application/xml":
        return
    root = ElementTree.fromstring(answer.body)
    assert root.tag == "Error", answer
    code = S3Code[root.findtext("Code", "")]
    assert code.status == answer.status
    assert root.findtext("RequestId") == answer.headers["x-amz-request-id"]
    assert root.findtext("HostId") == answer.headers["x-amz-id-2"]


class State:
    """What a refused request must leave as it was: processes, versions of every bucket, the old content, no upload."""

    def __init__(self, store: LiveStore) -> None:
        self._store = store
        self._processes = store.processes()
        self._client = store.client()
        self._before = self._read()

    def _read(self) -> Mapping[str, object]:
        client = self._client
        buckets = [bucket["Name"] for bucket in client.list_buckets()["Buckets"]]
        listed = client.list_object_versions(Bucket="sec")
        versions = [
            (entry["Key"], entry["VersionId"], entry["ETag"], entry["LastModified"], entry["StorageClass"])
            for entry in listed.get("Versions", [])
        ]
        got = client.get_object(Bucket="sec", Key="key")
        assert got["Body"].read() == CONTENT
        kept = ("ContentType", "Metadata", "TagCount", "WebsiteRedirectLocation", "StorageClass")
        uploads = len(client.list_multipart_uploads(Bucket="sec").get("Uploads", []))
        return {
            "buckets": buckets,
            "versions": versions,
            "markers": listed.get("DeleteMarkers", []),
            "described": {name: got.get(name) for name in kept},
            "uploads": uploads,
        }

    def hold(self) -> None:
        """Same processes, nothing written."""
        assert self._store.processes() == self._processes
        before, self._before = self._before, self._read()  # so that one failure is reported once
        assert self._before == before
