"""Data files of inventory reports: CSV under gzip, and Parquet where pyarrow is installed."""

import csv
import importlib
import importlib.util
import io
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol
from urllib.parse import quote

from gateway.s3.inventory_columns import Column, Facts, Kind, text_of
from metadata.types import Version

_GZIP: Final = 16 + zlib.MAX_WBITS
GROUP_ROWS: Final = 20_000
"""Rows of one row group of Parquet, held until it is full: a few MiB."""


class CsvFile:
    """Rows as quoted CSV without a head, keys percent-encoded, compressed as they come."""

    def __init__(self, columns: Sequence[Column], facts: Facts) -> None:
        self._columns, self._facts = columns, facts
        self._gzip = zlib.compressobj(wbits=_GZIP)

    def add(self, rows: Sequence[Version]) -> bytes:
        """See `tiers.upkeep.inventory.Encoder`."""
        text = io.StringIO()
        csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(map(self._cells, rows))
        return self._gzip.compress(text.getvalue().encode())

    def _cells(self, row: Version) -> list[str]:
        cells = [text_of(column, column.cell(row, self._facts)) for column in self._columns]
        cells[1] = quote(cells[1], safe="/")
        return cells

    def finish(self) -> bytes:
        """See `tiers.upkeep.inventory.Encoder`."""
        return self._gzip.flush()


class _Sink:
    """Where Parquet writes, as a file: what came since the last look."""

    closed = False

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def write(self, data: bytes) -> int:
        """Keep a copy of the bytes, which may be of any buffer."""
        self._pieces.append(bytes(data))
        return len(data)

    def flush(self) -> None:
        """Nothing is held back."""

    def take(self) -> bytes:
        """What was written since the last call."""
        taken = b"".join(self._pieces)
        self._pieces.clear()
        return taken


class ParquetFile:
    """Rows as Parquet, row group by row group."""

    def __init__(self, columns: Sequence[Column], facts: Facts) -> None:
        self._columns, self._facts = columns, facts
        self._arrow: Any = importlib.import_module("pyarrow")  # an extra: absent from most installations
        parquet: Any = importlib.import_module("pyarrow.parquet")
        types = {
            Kind.TEXT: self._arrow.string(),
            Kind.NUMBER: self._arrow.int64(),
            Kind.TRUTH: self._arrow.bool_(),
            Kind.TIME: self._arrow.timestamp("ms", tz="UTC"),
        }
        self._schema = self._arrow.schema(
            [
                self._arrow.field(column.parquet_name, types[column.kind], nullable=at > 1)
                for at, column in enumerate(columns)
            ]
        )
        self._sink = _Sink()
        self._writer = parquet.ParquetWriter(self._sink, self._schema, compression="snappy")
        self._waiting: list[Version] = []

    def add(self, rows: Sequence[Version]) -> bytes:
        """See `tiers.upkeep.inventory.Encoder`."""
        self._waiting += rows
        if len(self._waiting) >= GROUP_ROWS:
            self._write_group()
        return self._sink.take()

    def _write_group(self) -> None:
        cells = [[column.cell(row, self._facts) for row in self._waiting] for column in self._columns]
        arrays = [self._arrow.array(column, type=field.type) for column, field in zip(cells, self._schema, strict=True)]
        self._writer.write_table(self._arrow.Table.from_arrays(arrays, schema=self._schema))
        self._waiting = []

    def finish(self) -> bytes:
        """See `tiers.upkeep.inventory.Encoder`."""
        if self._waiting:
            self._write_group()
        self._writer.close()
        return self._sink.take()


class DataEncoder(Protocol):
    """See `tiers.upkeep.inventory.Encoder`."""

    def add(self, rows: Sequence[Version]) -> bytes: ...
    def finish(self) -> bytes: ...


class Format(NamedTuple):
    """A format of data files; `module` is what has to be installed for it, empty for nothing."""

    suffix: str
    content_type: str
    encoder: Callable[[Sequence[Column], Facts], DataEncoder]
    schema: Callable[[Sequence[Column]], str]
    module: str = ""

    @property
    def is_served(self) -> bool:
        """Whether this installation can write it."""
        return not self.module or importlib.util.find_spec(self.module) is not None


def _names(columns: Sequence[Column]) -> str:
    return ", ".join(column.name for column in columns)


def _message(columns: Sequence[Column]) -> str:
    fields = [
        f"{'optional' if at > 1 else 'required'} {column.kind.value.format(column.parquet_name)};"
        for at, column in enumerate(columns)
    ]
    return f"message s3.inventory {{ {' '.join(fields)} }}"


FORMATS: Final[Mapping[str, Format]] = {
    "CSV": Format("csv.gz", "application/gzip", CsvFile, _names),
    "Parquet": Format("parquet", "application/octet-stream", ParquetFile, _message, module="pyarrow"),
}
"""By the word of the configuration."""
