"""Sealed contents for tests: runs sealed as the writer seals them, opened through a stream of any shape."""

import random

from tests.world import BytesBody
from tiers.datapath.encryption import ContentKey, Envelope, Run, cut_range
from tiers.datapath.encryption_streams import OpenedStream, SealedBody

MD5_ONLY = frozenset({"MD5"})


def new_key(rng: random.Random) -> ContentKey:
    """A key without runs."""
    return ContentKey(rng.randbytes(32), Envelope("AES256", "", b"wrapped", rng.randbytes(16)))


async def seal(key: ContentKey, parts: list[bytes], rng: random.Random) -> tuple[ContentKey, bytes]:
    """The parts as runs 1, 2, ...; the key with its envelope complete, and the ciphertext."""
    sealed, runs = b"", []
    for number, part in enumerate(parts, 1):
        salt = rng.randbytes(16)
        body = SealedBody(BytesBody(part), key, number, salt, MD5_ONLY)
        assert body.length is not None
        sealed += await body.read_all(body.length)
        body.verify({})
        assert body.size == len(part)
        runs.append(Run(number, len(part), salt))
    return ContentKey(key.data_key, key.envelope._replace(runs=tuple(runs))), sealed


class Pieces:
    """A `ContentStream` over bytes, in runs of a fixed length."""

    def __init__(self, content: bytes, length: int) -> None:
        self._rest, self._length = content, length
        self.is_closed = False

    async def next(self) -> memoryview | None:
        if not self._rest:
            return None
        piece, self._rest = self._rest[: self._length], self._rest[self._length :]
        return memoryview(piece)

    def close(self) -> None:
        self.is_closed = True


async def open_range(key: ContentKey, sealed: bytes, wanted: range, length: int = 256 * 1024) -> bytes:
    """The plaintext of a range, read from exactly the ciphertext it needs. Errors: ContentUnreadable."""
    cut = cut_range(key.envelope, wanted.start, wanted.stop)
    stream = OpenedStream(Pieces(sealed[cut.start : cut.stop], length), key, wanted)
    try:
        pieces = []
        while (piece := await stream.next()) is not None:
            assert len(piece) <= 256 * 1024
            pieces.append(bytes(piece))
        return b"".join(pieces)
    finally:
        stream.close()
