"""How a body becomes a content: small ones travel inside their mutation, large ones are staged and published first.

Also the bodies that are not a client's: one that continues after a prefix was read, and one read from a stored content.
"""

import asyncio
from base64 import b64encode
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from metadata.types import Blob, Extent
from tiers.commit.contract import Committer, Mutation
from tiers.datapath.body import MD5, Body
from tiers.datapath.contract import ContentStream, ReadPlan
from tiers.datapath.digests import DigestSet
from tiers.datapath.encryption import ContentKey, Run, cut_range
from tiers.datapath.encryption_streams import OpenedStream, SealedBody, seal_whole
from tiers.errors import MetadataUnavailable, QuorumNotReached, StoreBusy
from tiers.namespace.context import Context
from tiers.namespace.mutations import AbandonBlob
from tiers.namespace.types import SMALL_CONTENT_BYTES_MAX

MD5_INLINE_BYTES_MAX: Final = 16 * 1024
"""Longer small bodies get their MD5 in the commit thread, side by side with the others of the batch."""

INLINE_BYTES_MAX: Final = 64 * 1024
"""Longer runs are hashed off the event loop (about 100 microseconds of work)."""

RUNS_A_TURN: Final = 64
"""Runs that are digested before others get a turn of the event loop."""

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class ContentTaker(Mutation[T_co], Protocol[T_co]):
    """A mutation that takes a content; `tiers.namespace.mutations.ContentMutation` has the fields."""

    needs_md5: bool
    etag: str
    size: int
    checksum: str
    encryption: bytes
    blob: Blob | None
    extents: Sequence[Extent]


class Sealing(NamedTuple):
    """That a content is to be sealed: under which key, and as which run of it (0: it is the whole content)."""

    key: ContentKey
    number: int = 0

    def record(self, size: int, salt: bytes) -> bytes:
        """What the row keeps: the whole envelope, or the salt of a part, whose upload has the envelope."""
        if self.number:
            return salt
        return self.key.envelope._replace(runs=(Run(0, size, salt),)).pack()


class DigestedBody:
    """A body with further digests asked of whoever reads it."""

    def __init__(self, inner: Body, digests: frozenset[str]) -> None:
        self._inner = inner
        self.length = inner.length
        self.digests = digests
        self.fill = inner.fill
        self.read_all = inner.read_all
        self.verify = inner.verify


class PrefixedBody:
    """A body of unknown length whose first bytes have been read already."""

    def __init__(self, prefix: memoryview, rest: Body) -> None:
        self._prefix, self._rest = prefix, rest
        self.length: int | None = None
        self.digests = rest.digests
        self.verify = rest.verify

    async def fill(self, view: memoryview) -> int:
        """See `Body.fill`."""
        taken = min(len(view), len(self._prefix))
        view[:taken] = self._prefix[:taken]
        self._prefix = self._prefix[taken:]
        if taken == len(view):
            return taken
        return taken + await self._rest.fill(view[taken:])

    async def read_all(self, limit: int) -> bytes:
        """See `Body.read_all`."""
        return bytes(self._prefix) + await self._rest.read_all(limit - len(self._prefix))


class StoredBody:
    """The bytes of a stored content, as a body. `stream` stays the caller's to close."""

    def __init__(self, stream: ContentStream, length: int) -> None:
        self._stream = stream
        self._run = memoryview(b"")
        self.length: int | None = length
        self.digests: frozenset[str] = frozenset()

    async def fill(self, view: memoryview) -> int:
        """See `Body.fill`. Errors: ContentUnreadable."""
        filled = 0
        while filled < len(view):
            if not self._run:
                run = await self._stream.next()
                if run is None:
                    break
                self._run = memoryview(run)
            taken = min(len(self._run), len(view) - filled)
            view[filled : filled + taken] = self._run[:taken]
            self._run = self._run[taken:]
            filled += taken
        return filled

    async def read_all(self, limit: int) -> bytes:
        """See `Body.read_all`."""
        assert self.length is not None
        assert self.length <= limit
        buffer = bytearray(self.length)
        filled = await self.fill(memoryview(buffer))
        assert filled == self.length, "a content stream ends early only by raising"
        return bytes(buffer)

    def verify(self, digests: Mapping[str, bytes]) -> None:
        """Nothing was declared: the stream has verified every byte."""


async def submit_content(
    context: Context,
    mutation: ContentTaker[T],
    body: Body,
    *,
    algorithm: str,
    check: Callable[[], Awaitable[None]],
    sealing: Sealing | None = None,
) -> T:
    """Read `body`, keep it, and commit `mutation` with it; the base64 of `algorithm` is added to `mutation.checksum`.

    With `sealing` only ciphertext is kept; size, ETag and checksum are the plaintext's all the same.
    `check` runs before anything is staged, for large contents only, to refuse early what the commit would refuse late.
    Atomicity: when this raises anything but QuorumNotReached or MetadataUnavailable, nothing was committed and reclaim
    knows what was published. Errors: those of the body, the writer, the check and the mutation.
    """
    content = await _read_small(body)
    if isinstance(content, bytes):
        _take_small(mutation, content, body, algorithm, sealing)
        if sealing is not None:
            _seal_small(context, mutation, sealing)
        return await context.committer.submit(mutation)
    await check()
    digests = content.digests | {MD5, algorithm}
    salt = context.new_id()
    sealed = None if sealing is None else SealedBody(content, sealing.key, sealing.number, salt, digests)
    async with AsyncExitStack() as undo:
        staged = await context.writer.stage(sealed or DigestedBody(content, digests), mutation.tier)
        undo.push_async_callback(staged.discard)
        await staged.publish()
        undo.pop_all()  # a commit that raises may have happened: from here on only reclaim may judge
    results = staged.digests if sealed is None else sealed.results
    mutation.size = staged.size if sealed is None else sealed.size
    mutation.etag = results[MD5].hex()
    mutation.checksum += b64encode(results[algorithm]).decode()
    mutation.blob, mutation.extents = staged.blob, staged.extents
    if sealing is not None:
        mutation.encryption = sealing.record(mutation.size, salt)
    try:
        return await _commit_published(context.committer, mutation, staged.blob)
    except StoreBusy:
        await staged.discard()  # turned away at the committer's door: this commit never happens
        raise


async def _read_small(body: Body) -> bytes | Body:
    """The whole body when it is small; else a body that still gives every byte."""
    length = body.length
    if length is not None:
        return await body.read_all(SMALL_CONTENT_BYTES_MAX) if length <= SMALL_CONTENT_BYTES_MAX else body
    prefix = memoryview(bytearray(SMALL_CONTENT_BYTES_MAX + 1))
    received = await body.fill(prefix)
    if received <= SMALL_CONTENT_BYTES_MAX:
        return bytes(prefix[:received])
    return PrefixedBody(prefix, body)


def _take_small(
    mutation: ContentTaker[Any], content: bytes, body: Body, algorithm: str, sealing: Sealing | None
) -> None:
    # The commit thread sees ciphertext only, so it cannot be asked for the MD5 of a sealed content.
    mutation.needs_md5 = MD5 not in body.digests and len(content) > MD5_INLINE_BYTES_MAX and sealing is None
    digests = DigestSet(body.digests | ({algorithm} if mutation.needs_md5 else {algorithm, MD5}))
    digests.update(memoryview(content))
    results = digests.results()
    body.verify(results)
    mutation.size = len(content)
    mutation.checksum += b64encode(results[algorithm]).decode()
    mutation.body = content or None
    if not mutation.needs_md5:
        mutation.etag = results[MD5].hex()


def _seal_small(context: Context, mutation: ContentTaker[Any], sealing: Sealing) -> None:
    salt = context.new_id()
    if mutation.body is not None:
        mutation.body = seal_whole(sealing.key, sealing.number, salt, mutation.body)
    mutation.encryption = sealing.record(mutation.size, salt)


async def _commit_published(committer: Committer, mutation: Mutation[T], blob: Blob) -> T:
    """Commit what refers to a published blob; when the commit is refused, hand the blob to reclaim.

    The commit is shielded, so that a caller cancelled here does not hide a refusal from the callback.
    """
    future = committer.submit(mutation)
    future.add_done_callback(partial(_abandon_refused, committer, blob))
    return await asyncio.shield(future)


def _abandon_refused(committer: Committer, blob: Blob, future: "asyncio.Future[Any]") -> None:
    if future.cancelled() or future.exception() is None:
        return
    # After the first two the commit may yet turn out to have happened: only reclaim's survey may judge. After the third
    # the caller discards, as the committer takes nothing more.
    if isinstance(future.exception(), QuorumNotReached | MetadataUnavailable | StoreBusy):
        return
    committer.submit(AbandonBlob(blob)).add_done_callback(_retrieve)


def _retrieve(future: "asyncio.Future[None]") -> None:
    """Losing this record is harmless: reclaim's survey finds the fragments without a row."""
    if not future.cancelled():
        future.exception()


class EmptyStream:
    """The stream of a range without bytes."""

    async def next(self) -> memoryview | bytes | None:
        """Nothing follows."""
        return None

    def close(self) -> None:
        """Nothing to close."""


async def open_content(
    context: Context, extents: Sequence[Extent], wanted: range, key: ContentKey | None = None
) -> ContentStream:
    """Verified plaintext of a range of the content described by `extents`; the caller closes.

    `key` is that of a sealed content, None for one in the clear. Errors: ContentUnreadable.
    """
    if not wanted:
        return EmptyStream()
    if key is None:
        return await context.contents.open(ReadPlan(extents, wanted.start, wanted.stop))
    cut = cut_range(key.envelope, wanted.start, wanted.stop)
    stream = OpenedStream(await context.contents.open(ReadPlan(extents, cut.start, cut.stop)), key, wanted)
    try:
        await stream.prime()
    except BaseException:
        stream.close()
        raise
    return stream


async def digest_content(
    context: Context, extents: Sequence[Extent], names: frozenset[str], key: ContentKey | None = None
) -> Mapping[str, bytes]:
    """Digests of the whole content described by `extents`, reading it once. Errors: ContentUnreadable."""
    digests = DigestSet(names)
    size = sum(extent.length for extent in extents) if key is None else key.envelope.size
    stream = await open_content(context, extents, range(size), key)
    runs = 0
    try:
        while (run := await stream.next()) is not None:
            await _update(digests, memoryview(run))
            runs += 1
            if not runs % RUNS_A_TURN:
                await asyncio.sleep(0)  # a content of thousands of short runs must not hold the loop
    finally:
        stream.close()
    return digests.results()


async def _update(digests: DigestSet, run: memoryview) -> None:
    if len(run) <= INLINE_BYTES_MAX:
        digests.update(run)
    else:
        await asyncio.to_thread(digests.update, run)
