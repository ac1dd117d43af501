"""Reed-Solomon over rows: fills parity rows, recovers lost rows. Blocking; called from threads, never from the loop.

Two implementations with equal parity: ISA-L through ctypes, in place on the caller's memory with the GIL free, and
pyeclib, which copies and holds the GIL (decisions/0002). Neither looks at checksums: rows must be verified before.
"""

import ctypes
import ctypes.util
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, Protocol

import pyeclib
from pyeclib.ec_iface import ECDriver

from tiers.erasure.layout import PAGE_BYTES, Layout

DEFAULT_CODEC: Final = "isa_l_rs_cauchy"
CODECS: Final = ("isa_l_rs_cauchy", "liberasurecode_rs_vand", "isa_l_rs_vand")

COLUMN_BYTES: Final = 256 << 10
"""Encoded at a time: rows of 1 MiB leave the second-level cache (13.5 instead of 39 GB/s at 4+2)."""

PATTERNS_MAX: Final = 1024
"""Decode tables remembered for each codec."""

ColumnDone = Callable[[int, int], None]
"""Called with the half-open range of bytes, the same in every row, that became final."""


class Codec(Protocol):
    """Encodes and decodes the stripes of one layout. Thread-safe."""

    name: str
    in_place: bool
    """Works on the caller's memory with the GIL free."""

    def encode(self, rows: Sequence[memoryview], column_done: ColumnDone | None = None) -> None:
        """Fill the m parity rows from the k data rows.

        Shape: k+m writable rows of one length, a multiple of 4096, data first. `column_done(start, stop)` is called
        when those bytes of every row are final and still in the processor's cache: the moment to checksum them.
        """

    def decode(self, rows: Mapping[int, memoryview], lost: Sequence[int], targets: Sequence[memoryview]) -> None:
        """Recover the rows `lost` (data or parity) into `targets` from any k or more verified `rows` by index.

        Shape: all of one length, a multiple of 4096; targets writable. Errors: fewer than k rows, or a row both given
        and lost, is our bug and is asserted.
        """


def check_layout(layout: Layout, codec_name: str) -> None:
    """Refuse a codec that cannot keep the layout's promise. Errors: ValueError.

    `isa_l_rs_vand` is not MDS from m = 5 on: 9+5 fails 8 of its 2,002 erasure patterns.
    """
    if codec_name not in CODECS:
        raise ValueError(f"unknown codec {codec_name!r}")
    if codec_name == "isa_l_rs_vand" and layout.parity_fragments >= 5:
        raise ValueError(f"codec isa_l_rs_vand cannot decode every loss of {layout}: use isa_l_rs_cauchy")


def codec_for(layout: Layout, codec_name: str = DEFAULT_CODEC) -> Codec:
    """The codec of a layout: ISA-L in place where its library is found, else pyeclib. Errors: ValueError, see above."""
    check_layout(layout, codec_name)
    return _codec(layout.data_fragments, layout.parity_fragments, codec_name)


@lru_cache(maxsize=64)
def _codec(data: int, parity: int, codec_name: str) -> Codec:
    if not parity:
        return PlainCodec(data)
    library = isal() if codec_name == DEFAULT_CODEC else None
    return PyeclibCodec(data, parity, codec_name) if library is None else IsalCodec(data, parity, library)


@lru_cache(maxsize=1)
def isal() -> ctypes.CDLL | None:
    """The ISA-L library bundled in the pyeclib wheel, else the system's, else None."""
    bundled = sorted((Path(pyeclib.__file__).parent.parent / "pyeclib.libs").glob("libisal*.so*"))
    found = ctypes.util.find_library("isal")
    for name in [*map(str, bundled), *([found] if found else [])]:
        try:
            library = ctypes.CDLL(name)
        except OSError:
            continue
        if all(hasattr(library, symbol) for symbol in ("gf_gen_cauchy1_matrix", "ec_init_tables", "ec_encode_data")):
            library.gf_mul.argtypes = (ctypes.c_ubyte, ctypes.c_ubyte)
            library.gf_mul.restype = ctypes.c_ubyte
            return library
    return None


class PlainCodec:
    """A layout without parity: nothing to fill, nothing that could be recovered."""

    name = "none"
    in_place = True

    def __init__(self, data: int) -> None:
        self._data = data

    def encode(self, rows: Sequence[memoryview], column_done: ColumnDone | None = None) -> None:
        """Nothing to fill; reports the columns."""
        length = _length(rows, self._data)
        if column_done is not None:
            for start in range(0, length, COLUMN_BYTES):
                column_done(start, min(start + COLUMN_BYTES, length))

    def decode(self, rows: Mapping[int, memoryview], lost: Sequence[int], targets: Sequence[memoryview]) -> None:
        """Nothing can be lost."""
        assert not lost, "a layout without parity recovers nothing"


class IsalCodec:
    """Cauchy Reed-Solomon by ISA-L on memory addresses; the same parity as pyeclib's `isa_l_rs_cauchy`."""

    name = DEFAULT_CODEC
    in_place = True

    def __init__(self, data: int, parity: int, library: ctypes.CDLL) -> None:
        self._data, self._parity, self._isal = data, parity, library
        matrix = (ctypes.c_ubyte * (data * (data + parity)))()
        library.gf_gen_cauchy1_matrix(matrix, data + parity, data)
        self._matrix = bytes(matrix)
        self._encode_tables = self._tables(self._matrix[data * data :], parity)
        self._decode_tables = lru_cache(maxsize=PATTERNS_MAX)(self._pattern)

    def encode(self, rows: Sequence[memoryview], column_done: ColumnDone | None = None) -> None:
        """Fill the parity rows in columns of at most 256 KiB, GIL free in each."""
        length = _length(rows, self._data + self._parity)
        bases = [_address(row) for row in rows]
        for start in range(0, length, COLUMN_BYTES):
            stop = min(start + COLUMN_BYTES, length)
            sources, targets = bases[: self._data], bases[self._data :]
            self._run(stop - start, self._encode_tables, [b + start for b in sources], [b + start for b in targets])
            if column_done is not None:
                column_done(start, stop)

    def decode(self, rows: Mapping[int, memoryview], lost: Sequence[int], targets: Sequence[memoryview]) -> None:
        """Recover rows, data and parity alike, in one pass over k of the given rows."""
        present = _chosen(rows, lost, self._data, self._data + self._parity)
        if not lost:
            return
        length = _length([*(rows[index] for index in present), *targets], self._data + len(lost))
        kept = [_readable(rows[index]) for index in present]
        sources, aims = [_address(row) for row in kept], [_address(target) for target in targets]
        tables = self._decode_tables(present, tuple(lost))
        for start in range(0, length, COLUMN_BYTES):
            count = min(COLUMN_BYTES, length - start)
            self._run(count, tables, [base + start for base in sources], [base + start for base in aims])

    def _run(self, count: int, tables: ctypes.Array[Any], sources: list[int], targets: list[int]) -> None:
        source = (ctypes.c_void_p * len(sources))(*sources)
        target = (ctypes.c_void_p * len(targets))(*targets)
        self._isal.ec_encode_data(count, len(sources), len(targets), tables, source, target)

    def _tables(self, matrix_rows: bytes, count: int) -> ctypes.Array[Any]:
        tables = (ctypes.c_ubyte * (32 * self._data * count))()
        self._isal.ec_init_tables(self._data, count, matrix_rows, tables)
        return tables

    def _pattern(self, present: tuple[int, ...], lost: tuple[int, ...]) -> ctypes.Array[Any]:
        """Tables that make the rows `lost` from the rows `present`: matrix row x inverse of the survivors' matrix."""
        data = self._data
        survivors = b"".join(self._matrix[index * data : (index + 1) * data] for index in present)
        inverse = (ctypes.c_ubyte * (data * data))()
        singular = self._isal.gf_invert_matrix(
            (ctypes.c_ubyte * len(survivors)).from_buffer_copy(survivors), inverse, data
        )
        assert not singular, "a Cauchy matrix has no singular erasure pattern"
        wanted = bytearray()
        for index in lost:
            row = self._matrix[index * data : (index + 1) * data]
            for column in range(data):
                total = 0
                for term in range(data):
                    total ^= self._isal.gf_mul(row[term], inverse[term * data + column])
                wanted.append(total)
        return self._tables(bytes(wanted), len(lost))


class PyeclibCodec:
    """The fallback and the reference: copies everything and holds the GIL for the whole call.

    pyeclib aborts the process when decode is given anything but `bytes`, and prefixes 80 bytes to each fragment, which
    this class strips and, for decode, restores.
    """

    in_place = False
    HEADER_BYTES = 80

    def __init__(self, data: int, parity: int, codec_name: str) -> None:
        self.name = codec_name
        self._data, self._parity = data, parity
        self._driver = ECDriver(k=data, m=parity, ec_type=codec_name)
        self._headers = lru_cache(maxsize=16)(self._make_headers)

    def encode(self, rows: Sequence[memoryview], column_done: ColumnDone | None = None) -> None:
        """Fill the parity rows through a copy of the stripe."""
        length = _length(rows, self._data + self._parity)
        made = self._driver.encode(b"".join(bytes(row) for row in rows[: self._data]))
        for row, fragment in zip(rows[self._data :], made[self._data :], strict=True):
            assert len(fragment) == self.HEADER_BYTES + length
            row[:] = memoryview(fragment)[self.HEADER_BYTES :]
        if column_done is not None:
            column_done(0, length)

    def decode(self, rows: Mapping[int, memoryview], lost: Sequence[int], targets: Sequence[memoryview]) -> None:
        """Recover rows through copies."""
        present = _chosen(rows, lost, self._data, self._data + self._parity)
        if not lost:
            return
        length = _length([*(rows[index] for index in present), *targets], self._data + len(lost))
        headers = self._headers(length)
        fragments = [headers[index] + bytes(rows[index]) for index in present]
        for target, made in zip(targets, self._driver.reconstruct(fragments, list(lost)), strict=True):
            target[:] = memoryview(made)[self.HEADER_BYTES :]

    def _make_headers(self, length: int) -> list[bytes]:
        """The headers of a stripe with rows of `length` bytes: without payload checksum they depend on nothing else."""
        return [bytes(made[: self.HEADER_BYTES]) for made in self._driver.encode(bytes(self._data * length))]


def _length(rows: Sequence[memoryview], count: int) -> int:
    """The one length of `count` rows."""
    assert len(rows) == count
    length = len(rows[0])
    assert length > 0
    assert not length % PAGE_BYTES
    assert all(len(row) == length for row in rows)
    return length


def _chosen(rows: Mapping[int, memoryview], lost: Sequence[int], data: int, fragments: int) -> tuple[int, ...]:
    """The k rows to decode from: the lowest indexes, so that data rows come before parity."""
    assert len(rows) >= data, "fewer good rows than a stripe needs"
    assert not set(lost) & rows.keys()
    assert all(0 <= index < fragments for index in [*lost, *rows])
    return tuple(sorted(rows)[:data])


def _readable(row: memoryview) -> memoryview:
    """ctypes takes addresses of writable memory only: a read-only row is copied."""
    return memoryview(bytearray(row)) if row.readonly else row


def _address(row: memoryview) -> int:
    """Address of the first byte; valid while the caller holds the view."""
    return ctypes.addressof(ctypes.c_char.from_buffer(row))
