"""What a writer takes its bytes from: the seam between a request's body and the data path."""

from collections.abc import Mapping
from typing import Protocol

MD5 = "MD5"
CRC64NVME = "CRC64NVME"
"""Two digest names; the others are those of `tiers.datapath.digests`. Values are raw bytes, checksums big-endian."""


class Body(Protocol):
    """The decoded bytes of one request body, read once, in order.

    The writer computes every digest named by `digests` over exactly the decoded bytes, and calls `verify` after the
    last byte and before anything is published. Only one `fill` at a time.
    """

    length: int | None
    """Decoded bytes announced, None when unknown."""

    digests: frozenset[str]

    async def fill(self, view: memoryview) -> int:
        """Receive into `view` until it is full or the body ends; return the bytes received (short only at the end).

        Errors: whatever the gateway raises for a broken body; nothing was verified then and nothing may be published.
        """

    async def read_all(self, limit: int) -> bytes:
        """The whole body as one bytes object. `limit` bounds it; a longer body raises."""

    def verify(self, digests: Mapping[str, bytes]) -> None:
        """Compare what was declared with what was computed. Errors: the gateway's; nothing may be published then."""
