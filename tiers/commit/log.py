"""The commit log's format: batches appended to pack files. Pure encoding and decoding.

A batch is `header | bodies | record`, padded with zeros to a page. The bodies are small contents back to back; the
record holds the redo images of every row the batch changed, as msgpack. A *commit batch* has a record; a *body batch*
(in the pack of a tier other than the log's) has bodies only and is referenced by the commit batch flushed after it.

Batches form one chain: each commit batch names its predecessor. What was flushed but never committed is on no chain
that a later batch continues, and recovery drops it. Rows of earlier programs have
fewer columns and are completed by `metadata.tables.stored_row`. Format version 1; see decisions/0009-commit-log.md.
"""

import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import msgpack
from awscrt.checksums import crc64nvme

from metadata.tables import BY_CODE, Table, stored_row

PAGE: Final = 4096
MAGIC: Final = b"ISOBATCH"
VERSION: Final = 1
GENESIS: Final = bytes(16)
"""Predecessor of the first batch ever."""

BODY_BYTES_MAX: Final = 16 << 20
RECORD_BYTES_MAX: Final = 64 << 20
"""Bounds checked before a length found on a device is used."""

# magic, version, flags, pack id, batch id, predecessor id, first and last sequence, body and record bytes and their
# checksums; then the checksum of all that.
_FIELDS: Final = struct.Struct("<8sHHI16s16s16sQQQQQQ")
HEADER_BYTES: Final = _FIELDS.size + 8
_IS_COMMIT: Final = 1

Image = tuple[Table[Any], tuple[Any, ...], tuple[Any, ...] | None]
ReadAt = Callable[[int, int], bytes]


@dataclass(frozen=True, slots=True)
class BatchHeader:
    """The header of one batch, verified."""

    pack_id: bytes
    batch_id: bytes
    predecessor_id: bytes
    first_sequence: int
    last_sequence: int
    body_bytes: int
    record_bytes: int
    bodies_checksum: int
    record_checksum: int
    is_commit: bool

    @property
    def padded_bytes(self) -> int:
        """Bytes of the whole batch on a device, padding included."""
        return padded(HEADER_BYTES + self.body_bytes + self.record_bytes)


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch found in a pack: its header and the absolute offset it begins at."""

    header: BatchHeader
    offset: int


def padded(byte_count: int) -> int:
    """`byte_count` rounded up to whole pages."""
    return -(-byte_count // PAGE) * PAGE


def encode_header(header: BatchHeader) -> bytes:
    """The header as `HEADER_BYTES` bytes."""
    fields = _FIELDS.pack(
        MAGIC,
        VERSION,
        _IS_COMMIT if header.is_commit else 0,
        0,
        header.pack_id,
        header.batch_id,
        header.predecessor_id,
        header.first_sequence,
        header.last_sequence,
        header.body_bytes,
        header.record_bytes,
        header.bodies_checksum,
        header.record_checksum,
    )
    checksum: int = crc64nvme(fields)
    return fields + checksum.to_bytes(8, "little")


def decode_header(raw: bytes, pack_id: bytes) -> BatchHeader | None:
    """The header in `raw`, or None when these bytes are no intact header of that pack."""
    if len(raw) < HEADER_BYTES or not raw.startswith(MAGIC):
        return None
    fields = raw[: _FIELDS.size]
    checksum: int = crc64nvme(fields)
    if checksum != int.from_bytes(raw[_FIELDS.size : HEADER_BYTES], "little"):
        return None
    _, version, flags, _, found_id, batch_id, predecessor_id, *numbers = _FIELDS.unpack(fields)
    first, last, body_bytes, record_bytes, bodies_checksum, record_checksum = numbers
    header = BatchHeader(
        found_id,
        batch_id,
        predecessor_id,
        first,
        last,
        body_bytes,
        record_bytes,
        bodies_checksum,
        record_checksum,
        bool(flags & _IS_COMMIT),
    )
    if version != VERSION or header.pack_id != pack_id:
        return None
    if header.body_bytes > BODY_BYTES_MAX or header.record_bytes > RECORD_BYTES_MAX:
        return None
    return header


def encode_record(changes: Iterable[Image]) -> bytes:
    """Redo images as bytes: `[code, *row]` for a row that is now so, `[-code, *key]` for a row that is gone."""
    images = [(table.code, *row) if row is not None else (-table.code, *key) for table, key, row in changes]
    packed: bytes = msgpack.packb(images, use_bin_type=True)
    return packed


def decode_record(record: bytes) -> list[Image]:
    """Inverse of `encode_record`. A record has passed its checksum, so what does not fit is our bug and is asserted."""
    return [_image(fields) for fields in msgpack.unpackb(record, raw=False, strict_map_key=False)]


def _image(fields: list[Any]) -> Image:
    code, values = fields[0], fields[1:]
    table = BY_CODE[abs(code)]
    if code < 0:
        assert len(values) == table.key_columns
        return table, tuple(values), None
    row = stored_row(table, values)
    return table, table.key_of(row), row


def walk(pack_id: bytes, copies: list[ReadAt], start: int) -> Iterator[Batch]:
    """Batches of a pack from `start` on, each intact (header and record) on at least one copy.

    Bodies are not read: `bodies_intact` does that for the one batch where it matters, the last.
    """
    at = start
    while True:
        header = next((found for read in copies if (found := _intact(read, pack_id, at)) is not None), None)
        if header is None:
            return
        yield Batch(header, at)
        at += header.padded_bytes


def _intact(read: ReadAt, pack_id: bytes, at: int) -> BatchHeader | None:
    header = decode_header(read(at, HEADER_BYTES), pack_id)
    if header is None or read_record(read, Batch(header, at)) is None:
        return None
    return header


def read_record(read: ReadAt, batch: Batch) -> bytes | None:
    """The record of a batch from one copy, or None when this copy's bytes are not what was written."""
    header = batch.header
    record = read(batch.offset + HEADER_BYTES + header.body_bytes, header.record_bytes)
    return record if len(record) == header.record_bytes and crc64nvme(record) == header.record_checksum else None


def read_whole(read: ReadAt, batch: Batch) -> bytes | None:
    """All bytes of a batch from one copy, padding included, or None unless header, bodies and record are intact."""
    header = batch.header
    raw = read(batch.offset, HEADER_BYTES + header.body_bytes + header.record_bytes)
    bodies = raw[HEADER_BYTES : HEADER_BYTES + header.body_bytes]
    record = raw[HEADER_BYTES + header.body_bytes :]
    whole = (
        decode_header(raw, header.pack_id) == header
        and crc64nvme(bodies) == header.bodies_checksum
        and crc64nvme(record) == header.record_checksum
    )
    return raw + bytes(header.padded_bytes - len(raw)) if whole else None
