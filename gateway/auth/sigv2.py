"""AWS Signature Version 2, kept for presigned URLs that SDKs still make by default.

Only what stands in the string to sign may act: a query parameter that is neither one of the sub-resources of version 2
nor an `x-amz-*` name is refused, not ignored. The one exception are the parameters that turn the pages of a listing.
Source: "Signing and authenticating REST requests" of the S3 API reference.
"""

import base64
import hmac
from typing import Final
from urllib.parse import unquote_to_bytes

from gateway.auth.canonical import Query
from gateway.auth.refusals import Refused, not_signed
from gateway.http.call import Call

AUTHENTICATION: Final = frozenset({b"AWSAccessKeyId", b"Expires", b"Signature"})

_DIRECT: Final = frozenset({b"content-md5", b"content-type"})
"""Headers that a presigner may have moved into the query."""

# fmt: off
SUBRESOURCES: Final = frozenset({
    b"accelerate", b"acl", b"analytics", b"cors", b"defaultObjectAcl", b"delete", b"inventory", b"lifecycle",
    b"location", b"logging", b"metrics", b"notification", b"object-lock", b"partNumber", b"policy", b"replication",
    b"requestPayment", b"response-cache-control", b"response-content-disposition", b"response-content-encoding",
    b"response-content-language", b"response-content-type", b"response-expires", b"restore", b"select",
    b"select-type", b"storageClass", b"tagging", b"torrent", b"uploadId", b"uploads", b"versionId", b"versioning",
    b"versions", b"website",
})
"""Parameters that stand in the string to sign."""

PAGING: Final = frozenset({
    b"continuation-token", b"delimiter", b"encoding-type", b"fetch-owner", b"key-marker", b"list-type", b"marker",
    b"max-keys", b"max-parts", b"max-uploads", b"part-number-marker", b"prefix", b"start-after", b"upload-id-marker",
    b"version-id-marker",
})
"""Parameters that say which page of a listing is wanted, and how it is written down. Version 2 never signs them, and
botocore puts `encoding-type` into every listing: on a GET they act unsigned, for all of the listing is granted anyway.
"""
# fmt: on


def refuse_unsigned(call: Call) -> None:
    """Refuse the acting headers that version 2 never covers. Errors: Refused AccessDenied."""
    unsigned = sorted(name.decode("latin-1") for name in call.fields if name.startswith(b"x-tier-"))
    if unsigned:
        raise not_signed(unsigned)


def resource_paths(raw_path: bytes, host_bucket: str | None) -> tuple[bytes, ...]:
    """The spellings under which clients sign a path; `host_bucket` is the bucket that the host names.

    A path that is a bucket alone is signed as sent or with a slash behind: botocore always signs `/bucket/`.
    """
    if host_bucket is not None:
        return (b"/" + host_bucket.encode() + raw_path,)
    if len(raw_path) > 1 and b"/" not in raw_path[1:]:
        return raw_path, raw_path + b"/"
    return (raw_path,)


def string_to_sign(call: Call, query: Query, date: bytes, path: bytes) -> bytes:
    """The text a version 2 signature covers; `date` is the Date line (or Expires), `path` one of `resource_paths`.

    Errors: Refused AccessDenied for a parameter outside the signature, InvalidArgument where a header and its
    query form differ.
    """
    amz: dict[bytes, bytes] = {name: value for name, value in call.fields.items() if name.startswith(b"x-amz-")}
    direct = {name: call.fields.get(name, b"") for name in _DIRECT}
    resources: list[bytes] = []
    for name, value in query.values.items():
        if name in SUBRESOURCES:
            resources.append(name + b"=" + unquote_to_bytes(value) if value else name)
        elif name.startswith(b"x-amz-") or name in _DIRECT:
            _move_in(amz if name.startswith(b"x-amz-") else direct, name, unquote_to_bytes(value))
        elif name not in AUTHENTICATION and not (name in PAGING and call.method == "GET"):
            raise Refused("AccessDenied", "There were query parameters present in the request which were not signed")
    resource = path + (b"?" + b"&".join(sorted(resources)) if resources else b"")
    lines = [call.method.encode("ascii"), direct[b"content-md5"], direct[b"content-type"], date]
    return b"\n".join([*lines, *[name + b":" + amz[name] for name in sorted(amz)], resource])


def _move_in(headers: dict[bytes, bytes], name: bytes, value: bytes) -> None:
    if headers.get(name, value) not in {b"", value}:
        raise Refused("InvalidArgument", f"{name.decode('ascii')} differs between headers and query.")
    if b"\n" in value:
        raise Refused("InvalidArgument", f"{name.decode('ascii')} holds a line break.")
    headers[name] = value


def move_direct(call: Call, query: Query) -> None:
    """Make headers of the content headers that a presigner moved into the query: they bind the body it signed for."""
    for name in _DIRECT.intersection(query.values):
        if not call.fields.get(name):
            call.fields[name] = unquote_to_bytes(query.values[name])
            call.headers[:] = call.fields.items()


def sign(secret: bytes, text: bytes) -> bytes:
    """The signature in base64."""
    return base64.b64encode(hmac.digest(secret, text, "sha1"))
