"""Layout arithmetic: which bytes of a blob lie in which row of which fragment. Pure; knows no device and no codec.

A blob is cut into segments of `segment_bytes`; each becomes one stripe of k data and m parity rows of equal length.
Only the last stripe is shorter: its rows shrink to the fewest whole pages that hold the rest. A fragment is one header
page, its rows in stripe order, the checksum table padded to whole pages, and one trailer page (decisions/0002).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple, Self

PAGE_BYTES: Final = 4096
"""Alignment of every row, table and page of a fragment."""

BLOCK_BYTES: Final = 64 << 10
"""Unit of checksums inside a row; the last block of a row may be shorter."""

CHECKSUM_BYTES: Final = 8

FRAGMENTS_MAX: Final = 255
"""k+m is at most this: the field of the codec has 256 elements."""


class Piece(NamedTuple):
    """Bytes [start, stop) of data row `row` of stripe `stripe`."""

    stripe: int
    row: int
    start: int
    stop: int


def _pages(byte_count: int) -> int:
    """`byte_count` rounded up to whole pages."""
    return -(-byte_count // PAGE_BYTES) * PAGE_BYTES


@dataclass(frozen=True, slots=True)
class Layout:
    """How one segment becomes the k+m rows of one stripe. Written `4+2:4194304`.

    Errors: ValueError for k < 1, m < 0, k+m > 255, or a segment that is not a whole number of pages a data row.
    """

    data_fragments: int
    parity_fragments: int
    segment_bytes: int

    def __post_init__(self) -> None:
        if self.data_fragments < 1 or self.parity_fragments < 0 or self.fragments > FRAGMENTS_MAX:
            raise ValueError(f"layout {self}: need 1 or more data fragments and at most {FRAGMENTS_MAX} in all")
        if self.segment_bytes < 1 or self.segment_bytes % (self.data_fragments * PAGE_BYTES):
            raise ValueError(f"layout {self}: segment must be whole pages of {PAGE_BYTES} for each data fragment")

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `K+M:SEGMENT_BYTES`. Errors: ValueError."""
        numbers, _, segment = text.partition(":")
        data, _, parity = numbers.partition("+")
        if not (data.isdecimal() and parity.isdecimal() and segment.isdecimal()):
            raise ValueError(f"layout {text!r} is not K+M:SEGMENT_BYTES")
        return cls(int(data), int(parity), int(segment))

    def __str__(self) -> str:
        return f"{self.data_fragments}+{self.parity_fragments}:{self.segment_bytes}"

    @property
    def fragments(self) -> int:
        """k+m."""
        return self.data_fragments + self.parity_fragments

    @property
    def write_quorum(self) -> int:
        """Fragments that must be durable before a commit: k+1, and all of them when m <= 1."""
        return self.fragments if self.parity_fragments <= 1 else self.data_fragments + 1

    @property
    def row_bytes_full(self) -> int:
        """Bytes of one row of a full stripe."""
        return self.segment_bytes // self.data_fragments

    @property
    def blocks_per_row(self) -> int:
        """Checksum blocks of one row of a full stripe."""
        return -(-self.row_bytes_full // BLOCK_BYTES)

    def row_length(self, segment_size: int) -> int:
        """Bytes of each row of the stripe that holds `segment_size` bytes, padding included."""
        assert 0 < segment_size <= self.segment_bytes
        return -(-segment_size // (self.data_fragments * PAGE_BYTES)) * PAGE_BYTES

    def stripes(self, size: int) -> int:
        """Stripes of a blob of `size` bytes; 0 for an empty blob."""
        assert size >= 0
        return -(-size // self.segment_bytes)

    def segment_size(self, size: int, stripe: int) -> int:
        """Blob bytes in stripe `stripe` of a blob of `size` bytes."""
        assert 0 <= stripe < self.stripes(size)
        return min(self.segment_bytes, size - stripe * self.segment_bytes)

    def stripe_row_length(self, size: int, stripe: int) -> int:
        """Bytes of each row of stripe `stripe` of a blob of `size` bytes."""
        return self.row_length(self.segment_size(size, stripe))

    def segments_covering(self, start: int, stop: int) -> range:
        """Indexes of the segments that hold a blob's bytes [start, stop)."""
        assert 0 <= start <= stop
        if start == stop:
            return range(0)
        return range(start // self.segment_bytes, (stop - 1) // self.segment_bytes + 1)

    def pieces(self, size: int, *, start: int, stop: int) -> Iterator[Piece]:
        """The pieces of data rows that hold bytes [start, stop) of a blob of `size` bytes, in blob order."""
        assert 0 <= start <= stop <= size
        for stripe in self.segments_covering(start, stop):
            first = stripe * self.segment_bytes
            length = self.stripe_row_length(size, stripe)
            at = max(start - first, 0)
            end = min(stop - first, self.segment_bytes)
            while at < end:
                row = at // length
                until = min(end, (row + 1) * length)
                yield Piece(stripe, row, at - row * length, until - row * length)
                at = until

    def row_offset(self, stripe: int) -> int:
        """Where the row of stripe `stripe` begins in a fragment."""
        assert stripe >= 0
        return PAGE_BYTES + stripe * self.row_bytes_full

    def rows_bytes(self, size: int) -> int:
        """Bytes of all rows of one fragment of a blob of `size` bytes."""
        count = self.stripes(size)
        return (count - 1) * self.row_bytes_full + self.stripe_row_length(size, count - 1) if count else 0

    def block_count(self, size: int) -> int:
        """Checksum blocks of one fragment of a blob of `size` bytes."""
        count = self.stripes(size)
        if not count:
            return 0
        return (count - 1) * self.blocks_per_row + -(-self.stripe_row_length(size, count - 1) // BLOCK_BYTES)

    def first_block(self, stripe: int) -> int:
        """Number of the first checksum block of the row of stripe `stripe`; blocks never cross rows."""
        assert stripe >= 0
        return stripe * self.blocks_per_row

    def table_offset(self, size: int) -> int:
        """Where the checksum table begins in a fragment of a blob of `size` bytes."""
        return PAGE_BYTES + self.rows_bytes(size)

    def table_bytes(self, size: int) -> int:
        """Bytes of the checksum table, padding to whole pages included."""
        return _pages(self.block_count(size) * CHECKSUM_BYTES)

    def fragment_bytes(self, size: int) -> int:
        """Bytes of a whole fragment file of a blob of `size` bytes."""
        return self.table_offset(size) + self.table_bytes(size) + PAGE_BYTES
