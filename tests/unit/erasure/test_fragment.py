"""The fragment format: golden bytes, names, every refusal. Damage of whole files: tests/property/test_erasure.py."""

import random
import struct
from dataclasses import replace

import pytest
from awscrt.checksums import crc64nvme

from tiers.erasure.fragment import (
    ChecksumTable,
    Identity,
    check_header,
    decode_header,
    decode_trailer,
    encode_header,
    encode_tail,
    fragment_name,
    parse_fragment_name,
    row_checksums,
)
from tiers.erasure.layout import BLOCK_BYTES, PAGE_BYTES, Layout
from tiers.errors import FragmentCorrupt

LAYOUT = Layout(4, 2, 4 << 20)
IDENTITY = Identity(bytes(range(16)), LAYOUT, 5, 7)


def resealed(page: bytes, offset: int, data: bytes) -> bytes:
    """A page changed on purpose, its checksum right: what a bug or an attacker would write."""
    changed = bytearray(page)
    changed[offset : offset + len(data)] = data
    return bytes(changed[:-8]) + struct.pack("<Q", crc64nvme(bytes(changed[:-8])))


def crc64_bitwise(data: bytes) -> int:
    """CRC-64/NVME from its definition, so that the format does not rest on one library's word."""
    value = (1 << 64) - 1
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = value >> 1 ^ (0x9A6C9329AC4BC9B5 if value & 1 else 0)
    return value ^ (1 << 64) - 1


def test_golden_block_checksum() -> None:
    """An entry is the CRC of blob id, fragment index, block number and bytes, read as one string."""
    assert crc64_bitwise(b"123456789") == 0xAE8B14860A799888
    row = memoryview(b"abcdefgh" * 512)
    for stripe in (0, 3):
        number = stripe * LAYOUT.blocks_per_row
        bound = struct.pack("<16sIQ", IDENTITY.blob_id, IDENTITY.index, number) + row
        assert row_checksums(IDENTITY, stripe, row) == struct.pack("<Q", crc64_bitwise(bound))


def test_golden_header() -> None:
    """The on-device format is a promise: a change needs a new version, and old bytes stay readable."""
    page = encode_header(IDENTITY, 5_000_000)
    golden = bytes.fromhex(
        "49534f4652414701" "0100" "0100" "0400" "0200" "00004000" "000102030405060708090a0b0c0d0e0f"
        "0700000000000000" "05000000" "00000100" "404b4c0000000000" "0000000000000000" "00000000" "0000000000000000"
    )  # fmt: skip
    assert page[: len(golden)] == golden
    assert not any(page[len(golden) : -8])
    assert page[-8:] == struct.pack("<Q", crc64_bitwise(page[:-8]))
    assert page[-8:].hex() == "7cbb0b0e28da72a4"
    assert decode_header(page, IDENTITY) == (IDENTITY, 5_000_000)


def test_names_round_trip_and_strangers_are_told_apart() -> None:
    assert IDENTITY.name == fragment_name(IDENTITY.blob_id, 5, 7) == "000102030405060708090a0b0c0d0e0f.5.7"
    assert parse_fragment_name(IDENTITY.name) == (IDENTITY.blob_id, 5, 7)
    for stranger in (
        "",
        "x",
        "store.1.2",
        "zz" * 16 + ".0.1",
        "00" * 16 + ".0",
        "00" * 16 + ".00.1",
        "AB" * 16 + ".0.1",
    ):
        assert parse_fragment_name(stranger) is None


@pytest.mark.parametrize(
    "other",
    [replace(IDENTITY, blob_id=bytes(16)), replace(IDENTITY, index=4), replace(IDENTITY, generation=6),
     replace(IDENTITY, layout=Layout(4, 2, 8 << 20)), replace(IDENTITY, layout=Layout(4, 3, 4 << 20)),
     replace(IDENTITY, codec="liberasurecode_rs_vand")],
)  # fmt: skip
def test_intact_pages_of_another_fragment_are_refused(other: Identity) -> None:
    tail = encode_tail(other, 0, b"")
    with pytest.raises(FragmentCorrupt):
        decode_header(encode_header(other), IDENTITY)
    with pytest.raises(FragmentCorrupt):
        decode_trailer(tail, file_size=2 * PAGE_BYTES, expected=IDENTITY)
    assert decode_trailer(tail, file_size=2 * PAGE_BYTES).identity == other
    with pytest.raises(FragmentCorrupt):
        check_header(decode_header(encode_header(other)), decode_trailer(encode_tail(IDENTITY, 0, b""), file_size=8192))


@pytest.mark.parametrize(
    ("offset", "data"),
    [(0, b"ISOEVIL\x01"), (8, b"\x02\x00"), (10, b"\x09\x00"), (12, b"\0\0"), (14, b"\xff\xff"), (16, b"\x01\0\0\0"),
     (44, b"\x06\0\0\0"), (48, b"\0\0\x02\0"), (52, b"\xff" * 8), (60, b"\0" * 8), (60, b"\xff" * 8), (68, b"\0" * 4),
     (68, b"\xff" * 4)],
)  # fmt: skip
def test_fields_out_of_bounds_are_refused_although_the_checksum_is_right(offset: int, data: bytes) -> None:
    size = LAYOUT.segment_bytes
    table = row_checksums(IDENTITY, 0, memoryview(bytes(LAYOUT.row_bytes_full)))
    page = encode_tail(IDENTITY, size, table)[-PAGE_BYTES:]
    file_size = LAYOUT.fragment_bytes(size)
    assert decode_trailer(page, file_size=file_size).size == size
    with pytest.raises(FragmentCorrupt):
        decode_trailer(resealed(page, offset, data), file_size=file_size)


def test_pages_are_not_interchangeable() -> None:
    with pytest.raises(FragmentCorrupt):
        decode_header(encode_tail(IDENTITY, 0, b""))
    with pytest.raises(FragmentCorrupt):
        decode_trailer(encode_header(IDENTITY), file_size=2 * PAGE_BYTES)
    for length in (0, 100, PAGE_BYTES - 1, PAGE_BYTES + 1):
        with pytest.raises(FragmentCorrupt):
            decode_header(bytes(length))
    with pytest.raises(FragmentCorrupt):
        decode_header(resealed(encode_header(IDENTITY), 60, b"\x01"))


def test_header_size_may_be_unknown_but_not_different() -> None:
    trailer = decode_trailer(encode_tail(IDENTITY, 0, b""), file_size=2 * PAGE_BYTES)
    check_header(decode_header(encode_header(IDENTITY)), trailer)
    with pytest.raises(FragmentCorrupt):
        check_header(decode_header(encode_header(IDENTITY, 9)), trailer)


def test_blocks_are_judged_one_by_one() -> None:
    row = memoryview(bytearray(random.Random(1).randbytes(LAYOUT.row_bytes_full)))
    table = row_checksums(IDENTITY, 0, row)
    assert len(table) == 8 * LAYOUT.blocks_per_row
    tail = encode_tail(IDENTITY, LAYOUT.segment_bytes, table)
    trailer = decode_trailer(tail[-PAGE_BYTES:], file_size=LAYOUT.fragment_bytes(LAYOUT.segment_bytes))
    checks = ChecksumTable(trailer, tail[:-PAGE_BYTES])
    checks.verify(0, 0, row)
    row[3 * BLOCK_BYTES] ^= 1
    checks.verify(0, 0, row[: 3 * BLOCK_BYTES])
    checks.verify(0, 4, row[4 * BLOCK_BYTES :])
    with pytest.raises(FragmentCorrupt, match="block 3"):
        checks.verify(0, 2, row[2 * BLOCK_BYTES :])
    with pytest.raises(FragmentCorrupt, match="block 1"):
        checks.verify(0, 1, row[:BLOCK_BYTES])  # intact bytes of block 0, from another place
    with pytest.raises(AssertionError):
        checks.verify(0, 0, row[:100])
