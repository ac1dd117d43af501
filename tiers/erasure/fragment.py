"""The fragment file: self-describing, every byte under a checksum (decisions/0002). Pure bytes in, values out.

    page 0      header: who this is; written first, the blob's size may still be unknown (0)
    rows        row of stripe s at 4096 + s * row_bytes_full
    table       one CRC64NVME a block of 64 KiB, padded with zeros to whole pages
    last page   trailer: the header's fields again, the final size, place and checksum of the table

A block's checksum is seeded with blob id, fragment index and block number: a block read from another place, another
fragment or another blob fails although its bytes are intact. Nothing here is used before it was verified.
"""

import struct
import sys
from array import array
from dataclasses import dataclass
from typing import Final, NamedTuple

from awscrt.checksums import crc64nvme

from tiers.erasure.layout import BLOCK_BYTES, CHECKSUM_BYTES, PAGE_BYTES, Layout
from tiers.errors import FragmentCorrupt

FORMAT_VERSION: Final = 1
CODEC_NUMBERS: Final = {"isa_l_rs_cauchy": 1, "liberasurecode_rs_vand": 2, "isa_l_rs_vand": 3}
"""Codec names as the format records them; a number is never reused."""

_CODEC_NAMES: Final = {number: name for name, number in CODEC_NUMBERS.items()}
_HEADER_MAGIC: Final = b"ISOFRAG\x01"
_TRAILER_MAGIC: Final = b"ISOFEND\x01"
_PAGE: Final = struct.Struct("<8sHHHHI16sQIIQQIQ")
_CRC: Final = struct.Struct("<Q")
_SEED: Final = struct.Struct("<16sI")
_CRC_OFFSET: Final = PAGE_BYTES - _CRC.size


@dataclass(frozen=True, slots=True)
class Identity:
    """Who a fragment is. `blob_id` has 16 bytes; `index` counts data rows first; `generation` is the placement's."""

    blob_id: bytes
    layout: Layout
    index: int
    generation: int
    codec: str = "isa_l_rs_cauchy"

    def __post_init__(self) -> None:
        assert len(self.blob_id) == 16
        assert 0 <= self.index < self.layout.fragments
        assert 0 <= self.generation < 1 << 64
        assert self.codec in CODEC_NUMBERS

    @property
    def name(self) -> str:
        """The fragment's file name on its device."""
        return fragment_name(self.blob_id, self.index, self.generation)


class Header(NamedTuple):
    """What a header page says. `size` is 0 where it was unknown when the fragment was begun."""

    identity: Identity
    size: int


class Trailer(NamedTuple):
    """What a trailer page says: `size` is the blob's bytes, the other fields locate and seal the checksum table."""

    identity: Identity
    size: int
    table_offset: int
    table_bytes: int
    table_crc: int


def fragment_name(blob_id: bytes, index: int, generation: int) -> str:
    """`<hex blob id>.<index>.<generation>`: never used twice, never key bytes."""
    assert len(blob_id) == 16
    return f"{blob_id.hex()}.{index}.{generation}"


def parse_fragment_name(name: str) -> tuple[bytes, int, int] | None:
    """Blob id, index and generation of a name made by `fragment_name`; None for any other name."""
    parts = name.split(".")
    if len(parts) != 3 or len(parts[0]) != 32 or not (parts[1].isdecimal() and parts[2].isdecimal()):
        return None
    try:
        blob_id = bytes.fromhex(parts[0])
    except ValueError:
        return None
    index, generation = int(parts[1]), int(parts[2])
    return (blob_id, index, generation) if fragment_name(blob_id, index, generation) == name else None


def encode_header(identity: Identity, size: int = 0) -> bytes:
    """The header page. `size` is the blob's bytes, 0 while unknown."""
    return _encode_page(_HEADER_MAGIC, Trailer(identity, size, 0, 0, 0))


def decode_header(page: bytes | memoryview, expected: Identity | None = None) -> Header:
    """Read a header page; with `expected`, also refuse another fragment's. Errors: FragmentCorrupt."""
    read = _decode_page(_HEADER_MAGIC, page, expected)
    if read.table_offset or read.table_bytes or read.table_crc:
        raise FragmentCorrupt("header page names a table")
    return Header(read.identity, read.size)


def encode_tail(identity: Identity, size: int, table: bytes) -> bytes:
    """Checksum table and trailer page of a blob of `size` bytes, to be written at `layout.table_offset(size)`.

    Shape: `table` is the concatenation of `row_checksums` of every stripe; the result is whole pages.
    """
    layout = identity.layout
    assert len(table) == layout.block_count(size) * CHECKSUM_BYTES
    padded = table.ljust(layout.table_bytes(size), b"\0")
    crc: int = crc64nvme(padded)
    trailer = Trailer(identity, size, layout.table_offset(size), len(padded), crc)
    return padded + _encode_page(_TRAILER_MAGIC, trailer)


def decode_trailer(page: bytes | memoryview, *, file_size: int, expected: Identity | None = None) -> Trailer:
    """Read the trailer: the last 4096 bytes of a file of `file_size` bytes.

    Every length is checked against the layout and against the file's real size before it is returned, so that a
    caller may read the table and any row without further bounds checks. Errors: FragmentCorrupt.
    """
    read = _decode_page(_TRAILER_MAGIC, page, expected)
    layout = read.identity.layout
    if layout.fragment_bytes(read.size) != file_size:
        raise FragmentCorrupt(f"file has {file_size} bytes, its trailer describes {layout.fragment_bytes(read.size)}")
    if (read.table_offset, read.table_bytes) != (layout.table_offset(read.size), layout.table_bytes(read.size)):
        raise FragmentCorrupt("checksum table is not where the layout puts it")
    return read


def check_header(header: Header, trailer: Trailer) -> None:
    """Hold the two ends of one file together. Errors: FragmentCorrupt."""
    if header.identity != trailer.identity or header.size not in {0, trailer.size}:
        raise FragmentCorrupt("header and trailer describe different fragments")


def row_checksums(identity: Identity, stripe: int, row: memoryview) -> bytes:
    """The table entries of one row, 8 bytes little-endian a block. Cost: one CRC call a block, GIL free in each."""
    base = _seed(identity)
    first = identity.layout.first_block(stripe)
    return b"".join(
        _CRC.pack(_block_crc(base, first + number, row[at : at + BLOCK_BYTES]))
        for number, at in enumerate(range(0, len(row), BLOCK_BYTES))
    )


class ChecksumTable:
    """The verified checksum table of one fragment; judges blocks by their number."""

    __slots__ = ("_base", "_crcs", "_layout", "_size")

    def __init__(self, trailer: Trailer, table: bytes | memoryview) -> None:
        """Take the `table_bytes` read at `table_offset`. Errors: FragmentCorrupt."""
        if len(table) != trailer.table_bytes or crc64nvme(table) != trailer.table_crc:
            raise FragmentCorrupt("checksum table damaged")
        self._layout = trailer.identity.layout
        self._size = trailer.size
        self._base = _seed(trailer.identity)
        self._crcs = array("Q", bytes(table[: self._layout.block_count(trailer.size) * CHECKSUM_BYTES]))
        if sys.byteorder == "big":
            self._crcs.byteswap()

    def verify(self, stripe: int, first: int, view: memoryview) -> None:
        """Check bytes of the row of `stripe` that begin at its block `first` (0-based in the row).

        Shape: `view` ends at a block border or at the end of the row. Errors: FragmentCorrupt at the first bad block.
        """
        length = self._layout.stripe_row_length(self._size, stripe)
        start = first * BLOCK_BYTES
        assert start + len(view) == length or not len(view) % BLOCK_BYTES
        assert start + len(view) <= length
        number = self._layout.first_block(stripe) + first
        for at in range(0, len(view), BLOCK_BYTES):
            if _block_crc(self._base, number, view[at : at + BLOCK_BYTES]) != self._crcs[number]:
                raise FragmentCorrupt(f"block {number} damaged or misplaced")
            number += 1


def _seed(identity: Identity) -> int:
    seed: int = crc64nvme(_SEED.pack(identity.blob_id, identity.index))
    return seed


def _block_crc(base: int, number: int, block: memoryview) -> int:
    """CRC64NVME of the block, continued from the CRC of blob id, fragment index and block number."""
    crc: int = crc64nvme(block, crc64nvme(_CRC.pack(number), base))
    return crc


def _encode_page(magic: bytes, trailer: Trailer) -> bytes:
    identity = trailer.identity
    layout = identity.layout
    page = bytearray(PAGE_BYTES)
    _PAGE.pack_into(
        page, 0,
        magic, FORMAT_VERSION, CODEC_NUMBERS[identity.codec], layout.data_fragments, layout.parity_fragments,
        layout.segment_bytes, identity.blob_id, identity.generation, identity.index, BLOCK_BYTES,
        trailer.size, trailer.table_offset, trailer.table_bytes, trailer.table_crc,
    )  # fmt: skip
    _CRC.pack_into(page, _CRC_OFFSET, crc64nvme(page[:_CRC_OFFSET]))
    return bytes(page)


def _decode_page(magic: bytes, page: bytes | memoryview, expected: Identity | None) -> Trailer:
    if len(page) != PAGE_BYTES:
        raise FragmentCorrupt(f"page of {len(page)} bytes")
    (crc,) = _CRC.unpack_from(page, _CRC_OFFSET)
    if crc64nvme(page[:_CRC_OFFSET]) != crc:
        raise FragmentCorrupt("page checksum")
    (found, version, codec, data, parity, segment, blob_id, generation, index, block, size, offset, length, table_crc
     ) = _PAGE.unpack_from(page, 0)  # fmt: skip
    if found != magic or version != FORMAT_VERSION or block != BLOCK_BYTES or codec not in _CODEC_NAMES:
        raise FragmentCorrupt(f"not a fragment page of format {FORMAT_VERSION}")
    try:
        layout = Layout(data, parity, segment)
    except ValueError as error:
        raise FragmentCorrupt(str(error)) from error
    if index >= layout.fragments or size >= 1 << 63:
        raise FragmentCorrupt("fragment index or size out of range")
    identity = Identity(blob_id, layout, index, generation, _CODEC_NAMES[codec])
    if expected is not None and identity != expected:
        raise FragmentCorrupt(f"holds {identity.name}, expected {expected.name}")
    return Trailer(identity, size, offset, length, table_crc)
