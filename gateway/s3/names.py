"""Which bucket names can be created."""

import re
from typing import Final

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_IPV4: Final = re.compile(r"[0-9]{1,3}(?:\.[0-9]{1,3}){3}")
_BAD_PAIRS: Final = ("..", ".-", "-.")
_BAD_STARTS: Final = ("xn--", "sthree-")
_BAD_ENDS: Final = ("-s3alias", "--ol-s3", "--x-s3")
RESERVED: Final = frozenset({"health", "minio", "v20180820"})
"""First path segments that belong to health checks and to the s3control API."""


def is_valid_bucket_name(name: str) -> bool:
    """Whether S3's naming rules, and ours, allow a bucket of that name."""
    return (
        _NAME.fullmatch(name) is not None
        and _IPV4.fullmatch(name) is None
        and not any(pair in name for pair in _BAD_PAIRS)
        and not name.startswith(_BAD_STARTS)
        and not name.endswith(_BAD_ENDS)
        and name not in RESERVED
    )
