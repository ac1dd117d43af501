"""The batch format: what was written is read, anything else is not a batch."""

import random

import pytest

from metadata.tables import BUCKET, OBJECT
from metadata.types import Bucket
from tiers.commit.log import (
    GENESIS,
    HEADER_BYTES,
    Batch,
    BatchHeader,
    ReadAt,
    decode_header,
    decode_record,
    encode_header,
    encode_record,
    read_whole,
    walk,
)
from tiers.commit.log import crc64nvme as checksum

PACK = bytes(range(16))


def batch(number: int, body: bytes, record: bytes) -> bytes:
    header = BatchHeader(
        PACK, bytes([number]) * 16, GENESIS, number, number + 1, len(body), len(record), checksum(body),
        checksum(record), True,
    )  # fmt: skip
    raw = encode_header(header) + body + record
    return raw + bytes(header.padded_bytes - len(raw))


def reader(raw: bytes) -> ReadAt:
    return lambda offset, length: raw[offset : offset + length]


PACKED = batch(1, b"body" * 1000, b"record one") + batch(2, b"", b"record two") + batch(3, b"z", b"record three" * 999)


def test_batches_are_walked_in_order() -> None:
    found = list(walk(PACK, [reader(PACKED)], 0))
    assert [b.header.first_sequence for b in found] == [1, 2, 3]
    assert [read_whole(reader(PACKED), b) is not None for b in found] == [True] * 3
    assert list(walk(PACK, [reader(PACKED)], found[1].offset)) == found[1:]


def test_another_packs_batches_are_not_this_packs() -> None:
    assert list(walk(bytes(16), [reader(PACKED)], 0)) == []


@pytest.mark.parametrize("seed", range(20))
def test_any_flipped_bit_of_header_or_record_ends_the_walk(seed: int) -> None:
    rng = random.Random(seed)
    first = next(walk(PACK, [reader(PACKED)], 0)).header
    record_start = HEADER_BYTES + first.body_bytes
    at = rng.choice([rng.randrange(HEADER_BYTES), rng.randrange(record_start, record_start + first.record_bytes)])
    broken = bytearray(PACKED)
    broken[at] ^= 1 << rng.randrange(8)
    assert list(walk(PACK, [reader(bytes(broken))], 0)) == []
    assert len(list(walk(PACK, [reader(bytes(broken)), reader(PACKED)], 0))) == 3


def test_a_damaged_body_is_seen_where_bodies_are_looked_at() -> None:
    broken = bytearray(PACKED)
    broken[HEADER_BYTES + 10] ^= 1
    (first, *_) = walk(PACK, [reader(bytes(broken))], 0)
    assert read_whole(reader(bytes(broken)), first) is None
    assert read_whole(reader(PACKED), first) is not None


@pytest.mark.parametrize("size", [0, 1, HEADER_BYTES - 1, HEADER_BYTES])
def test_short_or_empty_bytes_are_no_header(size: int) -> None:
    assert decode_header(bytes(size), PACK) is None
    assert decode_header(PACKED[: min(size, HEADER_BYTES - 1)], PACK) is None


def test_record_round_trip() -> None:
    bucket = Bucket("b\u00e4r", 7, "root", 1, 0, "us-east-1", 1, 2, 3, 7)
    images = [(BUCKET, ("b\u00e4r",), bucket), (OBJECT, (7, b"k\x00\xff"), None)]
    assert decode_record(encode_record(images)) == images


def test_lengths_are_bounded_before_use() -> None:
    header = BatchHeader(PACK, PACK, GENESIS, 1, 2, 1 << 40, 1, 0, 0, True)
    read: list[int] = []

    def counting(offset: int, length: int) -> bytes:
        read.append(length)
        return (encode_header(header) + bytes(4096))[offset : offset + length]

    assert list(walk(PACK, [counting], 0)) == []
    assert max(read) <= 4096
    assert isinstance(Batch(header, 0).header.padded_bytes, int)
