"""What the namespace asks of the data path: write a large content, read any content, give space back."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from metadata.types import Blob, Extent
from tiers.datapath.body import Body


class StagedBlob(Protocol):
    """A large content whose fragments are written and flushed but invisible.

    Exactly one of `publish` and `discard` follows; `discard` is also right after a failed `publish`, and never after
    a commit was submitted and taken. `blob` is the row to insert with the commit (live_bytes 0; references add to it),
    its `placement` has an empty name for each fragment that did not become durable.
    """

    blob: Blob
    extents: Sequence[Extent]
    digests: Mapping[str, bytes]
    size: int

    async def publish(self) -> None:
        """Make the fragments visible. Errors: QuorumNotReached when fewer than the write quorum became visible."""

    async def discard(self) -> None: ...


class Writer(Protocol):
    """Streams bodies into striped blobs."""

    async def stage(self, body: Body, tier: str) -> StagedBlob:
        """Write `body` to k+m devices of `tier`, verify it (`body.verify`), flush it.

        Memory: stripe buffers of the shared pool only; waits for one when the pool is empty (back-pressure in bytes).
        Errors: PlacementShort, QuorumNotReached, DeviceFull, and what the body raises; everything staged is discarded.
        """


class ContentStream(Protocol):
    """Verified bytes of a content in order. The caller closes it; close is idempotent."""

    async def next(self) -> memoryview | bytes | None:
        """The next verified run of at most 256 KiB, None at the end. Valid until the next call or close.

        Does not suspend while the bytes are in the page cache. Errors: ContentUnreadable; never wrong bytes.
        """

    def close(self) -> None: ...


class ReadPlan(NamedTuple):
    """Bytes [start, stop) of a content described by `extents`."""

    extents: Sequence[Extent]
    start: int
    stop: int


class Reader(Protocol):
    """Reads contents by extents, whatever kind of blob they lie in."""

    async def open(self, plan: ReadPlan) -> ContentStream:
        """Open a stream whose first run is already verified, so that a lost content is an error and not a cut body.

        Errors: ContentUnreadable. For one extent of a pack already open this costs one positioned read and does not
        suspend when the bytes are cached. Blob rows are cached by the implementation and re-read on a miss.
        """

    def read_now(self, extent: Extent, start: int, stop: int) -> bytes | None:
        """Verified bytes [start, stop) of an extent of a pack that is open and cached; None where `open` must be asked.

        The short way of small contents: no stream, no buffer to be closed.
        """
