"""Form uploads as browsers send them, and as none would: multipart/form-data made by hand, signed by boto3 or not."""

import base64
import hashlib
import hmac
import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.live import ACCESS_KEY, SECRET_KEY
from tests.protocol.raw import Answer, Wire

BOUNDARY = "----isothermForm7"
TYPE = f"multipart/form-data; boundary={BOUNDARY}"
END = f"--{BOUNDARY}--\r\n".encode()


def part(name: str, value: bytes, more: str = "") -> bytes:
    lines = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"{more}\r\n\r\n'
    return lines.encode() + value + b"\r\n"


def encode(fields: Mapping[str, str | bytes], content: bytes, file_name: str = "f.txt", end: bytes = END) -> bytes:
    """A form with its file behind the fields."""
    values = {name: value if isinstance(value, bytes) else value.encode() for name, value in fields.items()}
    parts = [part(name, value) for name, value in values.items()]
    return b"".join([*parts, part("file", content, f'; filename="{file_name}"'), end])


def policy_of(bucket: str, *conditions: Any, **members: Any) -> dict[str, Any]:
    """A policy that lets any key under `up/` into a bucket for an hour."""
    ends = (datetime.now(UTC) + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    plain = [{"bucket": bucket}, ["starts-with", "$key", "up/"]]
    return {"expiration": ends, "conditions": [*plain, *conditions]} | members


def signed_v2(policy: Any, **fields: str | bytes) -> dict[str, str | bytes]:
    """The fields of a form under a policy, which may be any text, signed by version 2."""
    text = policy if isinstance(policy, str) else json.dumps(policy)
    encoded = base64.b64encode(text.encode())
    signature = base64.b64encode(hmac.digest(SECRET_KEY.encode(), encoded, hashlib.sha1))
    proof = {"AWSAccessKeyId": ACCESS_KEY, "policy": encoded, "signature": signature}
    return {"key": "up/a", **proof, **fields}


def post(wire: Wire, path: str, body: bytes, *, content_type: str = TYPE, **headers: str) -> Answer:
    """Send a form; `headers` may replace the usual ones, with `_` for `-`."""
    lines = {"host": wire.host, "content-type": content_type, "content-length": str(len(body))}
    lines |= {name.replace("_", "-"): value for name, value in headers.items()}
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items() if value)
    return wire.send(f"POST {path} HTTP/1.1\r\n{head}\r\n".encode() + body)
