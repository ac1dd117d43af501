"""Presigned S3 request targets (SigV4 in the query), standard library only.

    presign("GET", "127.0.0.1:9000", "/bucket/key", access_key, secret_key)  ->  "/bucket/key?X-Amz-..."

The host must be exactly the Host header that the client will send. The payload is unsigned, so one target serves any
body.
"""

import hashlib
import hmac
import time
import urllib.parse

UNRESERVED = "-_.~"


def presign(
    method: str,
    host: str,
    path: str,
    access_key: str,
    secret_key: str,
    query: dict[str, str] | None = None,
    region: str = "us-east-1",
    expires: int = 86400,
) -> str:
    """Request target of `method` on the unescaped `path`, valid `expires` seconds from now."""
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    scope = f"{stamp[:8]}/{region}/s3/aws4_request"
    fields = {
        "X-Amz-Algorithm": "AWS4-HMAC-SHA256",
        "X-Amz-Credential": f"{access_key}/{scope}",
        "X-Amz-Date": stamp,
        "X-Amz-Expires": str(expires),
        "X-Amz-SignedHeaders": "host",
        **(query or {}),
    }
    pairs = sorted(
        (urllib.parse.quote(k, safe=UNRESERVED), urllib.parse.quote(v, safe=UNRESERVED)) for k, v in fields.items()
    )
    text = "&".join(f"{k}={v}" for k, v in pairs)
    escaped = urllib.parse.quote(path, safe="/" + UNRESERVED)
    request = f"{method}\n{escaped}\n{text}\nhost:{host}\n\nhost\nUNSIGNED-PAYLOAD"
    to_sign = f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
    key = b"AWS4" + secret_key.encode()
    for part in (stamp[:8], region, "s3", "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    return f"{escaped}?{text}&X-Amz-Signature={hmac.digest(key, to_sign.encode(), 'sha256').hex()}"
