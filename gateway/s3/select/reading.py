"""From an object's bytes to batches of records, in bounded memory; runs in the worker."""

import bz2
import csv
import json
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Final

from gateway.s3.select.job import Input
from gateway.s3.select.refusals import SelectRefused

BLOCK_BYTES: Final = 256 * 1024
BATCH_BYTES: Final = 1024 * 1024
BATCH_RECORDS: Final = 4096
RECORD_BYTES_MAX: Final = 1024 * 1024
DOCUMENT_BYTES_MAX: Final = 16 * 1024 * 1024

_STRUCTURE: Final = re.compile(rb'["\\{}\[\]]')
_BLANK: Final = re.compile(rb"[ \t\r\n]*").fullmatch
_TOO_LONG: Final = "OverMaxRecordSize", "The length of a record in the input is greater than the maximum."


class Blocks:
    """The bytes of the object, decompressed; counts what is read and what that becomes."""

    def __init__(self, read: Callable[[int], bytes], compression: str) -> None:
        self._read, self._compression = read, compression
        self.scanned = self.processed = 0

    def __iter__(self) -> Iterator[bytes]:
        opened = _OPENERS[self._compression](self._raw())
        for block in opened:
            self.processed += len(block)
            yield block

    def _raw(self) -> Iterator[bytes]:
        while block := self._read(BLOCK_BYTES):
            self.scanned += len(block)
            yield block


def _gunzip(blocks: Iterable[bytes]) -> Iterator[bytes]:
    inflater = zlib.decompressobj(31)
    is_open = False
    try:
        for block in blocks:
            rest = block
            while rest:
                if inflater.eof:  # a file of several members
                    inflater = zlib.decompressobj(31)
                is_open = True
                if piece := inflater.decompress(rest, BLOCK_BYTES):
                    yield piece
                rest = inflater.unconsumed_tail or inflater.unused_data
    except zlib.error as error:
        raise SelectRefused("InvalidCompressionFormat", "The object is not compressed by GZIP.") from error
    while is_open and not inflater.eof:
        piece = inflater.decompress(inflater.unconsumed_tail, BLOCK_BYTES)
        if not piece:
            raise SelectRefused("TruncatedInput", "The object ends within its compression.")
        yield piece


def _bunzip(blocks: Iterable[bytes]) -> Iterator[bytes]:
    inflater = bz2.BZ2Decompressor()
    is_open = False
    try:
        for block in blocks:
            rest = block
            while rest or not (inflater.needs_input or inflater.eof):
                if inflater.eof:
                    inflater = bz2.BZ2Decompressor()
                is_open = True
                if piece := inflater.decompress(rest, BLOCK_BYTES):
                    yield piece
                rest = inflater.unused_data if inflater.eof else b""
    except OSError as error:
        raise SelectRefused("InvalidCompressionFormat", "The object is not compressed by BZIP2.") from error
    if is_open and not inflater.eof:
        raise SelectRefused("TruncatedInput", "The object ends within its compression.")


_OPENERS: Final[dict[str, Callable[[Iterable[bytes]], Iterable[bytes]]]] = {
    "NONE": lambda blocks: blocks,
    "GZIP": _gunzip,
    "BZIP2": _bunzip,
}


def split_records(blocks: Iterable[bytes], delimiter: bytes) -> Iterator[bytes]:
    """The records between delimiters. Errors: SelectRefused OverMaxRecordSize."""
    rest = b""
    for block in blocks:
        *whole, rest = (rest + block).split(delimiter)
        yield from whole
        if len(rest) > RECORD_BYTES_MAX:
            raise SelectRefused(*_TOO_LONG)
    if rest:
        yield rest


def split_documents(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """The objects and arrays of a stream of JSON documents, whatever stands between their members.

    Errors: SelectRefused JSONParsingError for anything but space between them, OverMaxRecordSize.
    """
    kept, depth, in_text, is_escaped = bytearray(), 0, False, -1
    seen = 0  # of `kept`
    for block in blocks:
        kept += block
        start = 0
        for match in _STRUCTURE.finditer(kept, seen):
            mark, at = match.group(), match.start()
            if in_text:
                if at == is_escaped:
                    continue
                if mark == b"\\":
                    is_escaped = at + 1
                in_text = mark != b'"'
            elif mark == b'"':
                in_text = True
            else:
                depth += {b"{": 1, b"[": 1, b"}": -1, b"]": -1}.get(mark, 0)
                if depth == 0 and mark in b"}]":
                    yield bytes(kept[start : at + 1]).lstrip()
                    start = at + 1
        del kept[:start]
        is_escaped -= start
        seen = len(kept)
        if len(kept) > DOCUMENT_BYTES_MAX:
            raise SelectRefused(*_TOO_LONG)
    if not _BLANK(kept):
        raise SelectRefused("JSONParsingError", "The object does not end with a whole JSON document.")


def _decode(record: bytes) -> str:
    try:
        return record.decode()
    except UnicodeDecodeError as error:
        raise SelectRefused("InvalidTextEncoding", "The object is not encoded in UTF-8.") from error


def json_batches(blocks: Iterable[bytes], source: Input) -> Iterator[str]:
    """The JSON values of an object, some at a time as one array. Errors: SelectRefused."""
    split = split_documents(blocks) if source.is_document else split_records(blocks, b"\n")
    texts: list[str] = []
    size = 0
    for record in split:
        if _BLANK(record):
            continue
        texts.append(_decode(record))
        size += len(record)
        if size >= BATCH_BYTES or len(texts) >= BATCH_RECORDS:
            yield f"[{','.join(texts)}]"
            texts, size = [], 0
    if texts:
        yield f"[{','.join(texts)}]"


def csv_rows(blocks: Iterable[bytes], source: Input) -> Iterator[list[str]]:
    """The rows of a CSV object, its header among them. Errors: SelectRefused."""
    csv.field_size_limit(RECORD_BYTES_MAX)
    ending = "\n" if source.is_record_quoted else ""
    lines = (_decode(record) + ending for record in split_records(blocks, source.record.encode()))
    if source.comments:
        lines = (line for line in lines if not line.startswith(source.comments))
    is_doubled = source.escape == source.quote
    read = partial(
        csv.reader,
        delimiter=source.field,
        quotechar=source.quote or None,
        quoting=csv.QUOTE_MINIMAL if source.quote else csv.QUOTE_NONE,
        doublequote=is_doubled,
        escapechar=None if is_doubled or not source.quote else source.escape,
        strict=source.is_record_quoted,
    )
    # A reader goes on into the next line within quotes; where a record ends whatever is open, each gets its own.
    rows = read(lines) if source.is_record_quoted else (row for line in lines for row in read((line,)))
    try:
        for row in rows:
            if row:
                yield row
    except csv.Error as error:
        raise SelectRefused("CSVParsingError", f"The CSV object cannot be parsed: {error}.") from error


def csv_batches(rows: Iterable[list[str]]) -> Iterator[str]:
    """Rows, some at a time as one JSON array."""
    kept: list[list[str]] = []
    size = 0
    for row in rows:
        kept.append(row)
        size += sum(map(len, row)) + len(row)
        if size >= BATCH_BYTES or len(kept) >= BATCH_RECORDS:
            yield json.dumps(kept, ensure_ascii=False)
            kept, size = [], 0
    if kept:
        yield json.dumps(kept, ensure_ascii=False)
