"""What must not reach a log: one place that every log line passes.

The access log is built from an allow-list of fields and of query names; the process log, whose text is written by
many, is searched for the shapes in which secrets travel. All patterns are linear.
"""

import re
from collections.abc import Iterable
from typing import Final
from urllib.parse import unquote_to_bytes

REDACTED: Final = "[redacted]"

QUERY_VALUES_SHOWN: Final = frozenset(
    {
        "continuation-token", "delimiter", "encoding-type", "fetch-owner", "key-marker", "list-type", "marker",
        "max-keys", "max-parts", "max-uploads", "part-number-marker", "partNumber", "prefix", "start-after", "uploadId",
        "upload-id-marker", "version-id-marker", "versionId", "X-Amz-Algorithm", "X-Amz-Date", "X-Amz-Expires",
        "X-Amz-SignedHeaders", "x-id",
    }
)  # fmt: skip
"""Query names whose values help and reveal nothing that a holder could use."""

QUERY_NAMES_SHOWN: Final = frozenset(
    {
        "accelerate", "acl", "analytics", "attributes", "cors", "delete", "encryption", "intelligent-tiering",
        "inventory", "legal-hold", "lifecycle", "location", "logging", "metrics", "notification", "object-lock",
        "ownershipControls", "policy", "policyStatus", "publicAccessBlock", "replication", "requestPayment", "restore",
        "retention", "select", "tagging", "torrent", "uploads", "versioning", "versions", "website",
        "X-Amz-Credential", "X-Amz-Security-Token", "X-Amz-Signature",
    }
)  # fmt: skip
"""Query names shown without their value."""

_SECRETS: Final[Iterable[tuple[re.Pattern[str], str]]] = (
    (re.compile(r"(?i)\b(x-amz-signature|x-amz-security-token|signature)=[^&\s\"',;]+"), rf"\1={REDACTED}"),
    (re.compile(r"(?i)\b(bearer|aws) +[^\s\"',;]+"), rf"\1 {REDACTED}"),
    (re.compile(r"(?i)(customer-key(?:-md5)?[\"']?\)?[:=, ]+b?[\"']?)[^\s\"',;)]+"), rf"\1{REDACTED}"),
    (
        re.compile(
            r"(?i)\b(secret[_-]?(?:access[_-]?)?key|password|admin[_-]?token|master[_-]?key)([\"']?[:=] ?b?[\"']?)"
            r"[^\s\"',;)]+"
        ),
        rf"\1\2{REDACTED}",
    ),
    (re.compile(r"([a-z][a-z0-9+]{0,15}://[^\s:/@]{0,128}):[^\s@/]{1,256}@"), rf"\1:{REDACTED}@"),
)


def redact_query(query: bytes) -> str:
    """A query string for the access log: names and values by allow-list, everything else `-`."""
    return "&".join([_argument(pair) for pair in query.split(b"&")]) if query else ""


def _argument(pair: bytes) -> str:
    raw_name, mark, raw_value = pair.partition(b"=")
    name = unquote_to_bytes(raw_name).decode("ascii", "replace")
    if name in QUERY_VALUES_SHOWN:
        return f"{name}{mark.decode()}{raw_value.decode('ascii', 'replace')}"
    return f"{name}={REDACTED}" if name in QUERY_NAMES_SHOWN and mark and raw_value else _bare(name)


def _bare(name: str) -> str:
    return name if name in QUERY_NAMES_SHOWN else "-"


def redact_text(text: str) -> str:
    """Free text without signatures, tokens, customer keys, passwords and credentials in URLs."""
    for pattern, replacement in _SECRETS:
        text = pattern.sub(replacement, text)
    return text
