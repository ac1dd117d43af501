"""A plain second signer, for what botocore does not sign: streaming payload words and their chunks.

Written from the specification and apart from `gateway.auth`; nothing of it is imported here.
"""

import hashlib
import hmac
from collections.abc import Mapping, Sequence

from gateway.http.call import Call
from tests.unit.auth.signing import ENDPOINT, KEY_ID, REGION, SECRET, received

STAMP = "20260101T000000Z"
SCOPE = f"20260101/{REGION}/s3/aws4_request"


def _mac(key: bytes, text: str) -> bytes:
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


def signing_key() -> bytes:
    key = ("AWS4" + SECRET).encode()
    for part in SCOPE.split("/"):
        key = _mac(key, part)
    return key


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def sign_header(method: str, path: str, headers: Mapping[str, str], body: bytes = b"") -> Call:
    """A header-signed call without query; `headers` carries the payload word. All headers are signed."""
    lines = {"host": ENDPOINT.removeprefix("https://"), "x-amz-date": STAMP, **headers}
    names = ";".join(sorted(lines))
    canonical = [method, path, "", *[f"{name}:{lines[name]}" for name in sorted(lines)], "", names]
    digest = _sha256("\n".join([*canonical, lines["x-amz-content-sha256"]]).encode())
    signature = _mac(signing_key(), "\n".join(["AWS4-HMAC-SHA256", STAMP, SCOPE, digest])).hex()
    credential = f"Credential={KEY_ID}/{SCOPE}, SignedHeaders={names}, Signature={signature}"
    return received(method, ENDPOINT + path, {**lines, "authorization": f"AWS4-HMAC-SHA256 {credential}"}, body)


def seed_of(call: Call) -> str:
    """The signature that a call's chunks continue."""
    return call.fields[b"authorization"][-64:].decode()


def encode_chunks(
    chunks: Sequence[bytes], *, seed: str = "", trailer: Mapping[str, str] | None = None, line_end: bytes = b"\r\n"
) -> bytes:
    """An aws-chunked body of `chunks` and an empty last one; signed when there is a seed; a trailer when given."""
    key, previous, out = signing_key(), seed, []
    for data in [*chunks, b""]:
        size = f"{len(data):x}"
        if seed:
            text = ["AWS4-HMAC-SHA256-PAYLOAD", STAMP, SCOPE, previous, _sha256(b""), _sha256(data)]
            previous = _mac(key, "\n".join(text)).hex()
            size += f";chunk-signature={previous}"
        out.append(size.encode() + b"\r\n" + (data + b"\r\n" if data else b""))
    if trailer is None:
        return b"".join([*out, b"\r\n"])
    lines = "".join(f"{name}:{value}\n" for name, value in trailer.items())
    out += [f"{name}:{value}".encode() + line_end for name, value in trailer.items()]
    if seed:
        text = ["AWS4-HMAC-SHA256-TRAILER", STAMP, SCOPE, previous, _sha256(lines.encode())]
        out.append(f"x-amz-trailer-signature:{_mac(key, chr(10).join(text)).hex()}".encode() + b"\r\n")
    return b"".join([*out, b"\r\n"])
