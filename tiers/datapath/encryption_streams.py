"""Bodies sealed on their way to the writer, and sealed contents opened on their way to the client.

Up to `INLINE_BYTES_MAX` the work is done where it is asked for; larger contents go piece by piece through threads, as
the cipher holds the interpreter while it works.
"""

import asyncio
from collections.abc import Iterator, Mapping
from typing import Final

from tiers.datapath.body import Body
from tiers.datapath.contract import ContentStream
from tiers.datapath.digests import DigestSet
from tiers.datapath.encryption import (
    BLOCK_BYTES,
    TAG_BYTES,
    Block,
    ContentKey,
    Run,
    RunCipher,
    blocks_of,
    sealed_length,
)
from tiers.errors import ContentUnreadable

PIECE_BYTES: Final = 4 * BLOCK_BYTES
"""Plaintext of one hand-over to a thread, and what a stream hands out at most: 256 KiB."""

INLINE_BYTES_MAX: Final = 128 * 1024


def seal_whole(key: ContentKey, number: int, salt: bytes, content: bytes) -> bytes:
    """A short content as the ciphertext of its only run."""
    assert key.envelope.block_bytes == BLOCK_BYTES
    sealed = bytearray(sealed_length(len(content)))
    written = RunCipher(key, number, salt).seal(0, memoryview(content), memoryview(sealed), is_last=True)
    assert written == len(sealed)
    return bytes(sealed)


class SealedBody:
    """The ciphertext of a body, for the writer; the plaintext is digested and verified on the way.

    `size` counts plaintext bytes and `results` holds its digests once `verify` has passed. The digests of the
    ciphertext are nobody's, so none is asked for.
    """

    def __init__(self, inner: Body, key: ContentKey, number: int, salt: bytes, digests: frozenset[str]) -> None:
        assert key.envelope.block_bytes == BLOCK_BYTES
        self.length = None if inner.length is None else sealed_length(inner.length)
        self.digests: frozenset[str] = frozenset()
        self.size = 0
        self.results: Mapping[str, bytes] = {}
        self._inner = inner
        self._cipher = RunCipher(key, number, salt)
        self._running = DigestSet(inner.digests | digests)
        # One byte more than a piece: only what follows tells that a piece is not the last.
        self._plain = memoryview(bytearray(PIECE_BYTES + 1))
        self._kept = 0
        self._scratch = memoryview(bytearray(sealed_length(PIECE_BYTES)))
        self._ready = self._scratch[:0]
        self._has_ended = False

    async def fill(self, view: memoryview) -> int:
        """See `Body.fill`. Errors: those of the body."""
        filled = 0
        while filled < len(view):
            if not self._ready:
                if self._has_ended:
                    break
                await self._next_piece()
            taken = min(len(self._ready), len(view) - filled)
            view[filled : filled + taken] = self._ready[:taken]
            self._ready = self._ready[taken:]
            filled += taken
        return filled

    async def read_all(self, limit: int) -> bytes:
        """See `Body.read_all`; of a body whose length is known."""
        assert self.length is not None
        assert self.length <= limit
        sealed = bytearray(self.length)
        filled = await self.fill(memoryview(sealed))
        return bytes(sealed[:filled])

    def verify(self, digests: Mapping[str, bytes]) -> None:
        """See `Body.verify`: what was declared is compared with the digests of the plaintext."""
        del digests
        self.results = self._running.results()
        self._inner.verify(self.results)

    async def _next_piece(self) -> None:
        filled = self._kept + await self._inner.fill(self._plain[self._kept :])
        self._has_ended = filled <= PIECE_BYTES
        piece = self._plain[: min(filled, PIECE_BYTES)]
        loop = asyncio.get_running_loop()
        # A cancelled caller leaves the thread with memory that is this body's alone.
        written = await loop.run_in_executor(None, self._seal, piece)
        self._ready = self._scratch[:written]
        self._kept = filled - len(piece)
        self._plain[: self._kept] = self._plain[len(piece) : filled]

    def _seal(self, piece: memoryview) -> int:
        self._running.update(piece)
        first, self.size = self.size // BLOCK_BYTES, self.size + len(piece)
        return self._cipher.seal(first, piece, self._scratch, is_last=self._has_ended)


class OpenedStream:
    """Plaintext of a range of a sealed content: a `ContentStream` over one of the ciphertext of exactly its blocks.

    Hands out nothing that did not open; a content that ends early is an error. `close` closes the inner stream.
    """

    def __init__(self, inner: ContentStream, key: ContentKey, wanted: range) -> None:
        self._inner, self._key = inner, key
        self._blocks: Iterator[Block] = blocks_of(key.envelope, wanted.start, wanted.stop)
        self._block = next(self._blocks, None)
        self._run: Run | None = None
        self._cipher: RunCipher | None = None
        self._rest = bytearray()
        self._ready = memoryview(b"")
        self._is_inline = len(wanted) <= INLINE_BYTES_MAX

    async def prime(self) -> None:
        """Open the first run, so that a content that does not open fails before anything was answered."""
        await self._fetch()

    async def next(self) -> memoryview | None:
        """See `ContentStream.next`. Errors: ContentUnreadable."""
        if not self._ready:
            await self._fetch()
        if not self._ready:
            return None
        piece, self._ready = self._ready[:PIECE_BYTES], self._ready[PIECE_BYTES:]
        return piece

    def close(self) -> None:
        """Close the ciphertext's stream. Idempotent."""
        self._inner.close()

    async def _fetch(self) -> None:
        """Have plaintext ready, unless everything was handed out."""
        while not self._ready and self._block is not None:
            run = await self._inner.next()
            if run is None:
                raise ContentUnreadable("an encrypted content ends early")
            if self._is_inline:
                self._ready = self._open(memoryview(run))
            else:
                # Were this caller cancelled, the thread would read stale memory and nobody its result.
                loop = asyncio.get_running_loop()
                self._ready = await loop.run_in_executor(None, self._open, memoryview(run))

    def _open(self, run: memoryview) -> memoryview:
        """The plaintext of the blocks that are whole with this run of ciphertext; the rest is kept."""
        pieces: list[memoryview] = []
        while self._block is not None:
            length = self._block.size + TAG_BYTES
            if self._rest:
                missing = length - len(self._rest)
                self._rest += run[:missing]
                run = run[missing:]
                if len(self._rest) < length:
                    break
                pieces.append(self._open_block(self._block, memoryview(self._rest)))
                self._rest = bytearray()
            elif len(run) < length:
                self._rest += run
                break
            else:
                pieces.append(self._open_block(self._block, run[:length]))
                run = run[length:]
            self._block = next(self._blocks, None)
        return pieces[0] if len(pieces) == 1 else memoryview(b"".join(pieces))

    def _open_block(self, block: Block, sealed: memoryview) -> memoryview:
        if self._cipher is None or block.run is not self._run:
            self._run, self._cipher = block.run, RunCipher(self._key, block.run.number, block.run.salt)
        plain = memoryview(bytearray(block.size))
        self._cipher.open(block.number, sealed, plain, is_last=block.is_last)
        return plain[block.start : block.stop]
