import hashlib
import zlib

import pytest
import xxhash
from awscrt import checksums
from hypothesis import given
from hypothesis import strategies as st

from tiers.datapath.digests import COMBINABLE, DIGEST_NAMES, DigestSet, combine

DIRECT = {
    "MD5": lambda data: hashlib.md5(data).digest(),
    "SHA1": lambda data: hashlib.sha1(data).digest(),
    "SHA256": lambda data: hashlib.sha256(data).digest(),
    "SHA512": lambda data: hashlib.sha512(data).digest(),
    "XXHASH64": lambda data: xxhash.xxh64_digest(data),
    "XXHASH3": lambda data: xxhash.xxh3_64_digest(data),
    "XXHASH128": lambda data: xxhash.xxh3_128_digest(data),
    "CRC32": lambda data: zlib.crc32(data).to_bytes(4, "big"),
    "CRC32C": lambda data: checksums.crc32c(data).to_bytes(4, "big"),
    "CRC64NVME": lambda data: checksums.crc64nvme(data).to_bytes(8, "big"),
}
CHECK_VALUES = {
    **{"CRC32": "cbf43926", "CRC32C": "e3069283", "CRC64NVME": "ae8b14860a799888"},
    "XXHASH64": "8cb841db40e6ae83",
}


def test_every_name_has_a_direct_counterpart() -> None:
    assert DIRECT.keys() == DIGEST_NAMES


@pytest.mark.parametrize(("name", "value"), CHECK_VALUES.items())
def test_published_check_values(name: str, value: str) -> None:
    """The standard check input of the CRC catalogues."""
    digests = DigestSet([name])
    digests.update(memoryview(b"123456789"))
    assert digests.results()[name].hex() == value


@given(st.lists(st.binary(max_size=300), max_size=8))
def test_pieces_give_the_digest_of_the_whole(pieces: list[bytes]) -> None:
    digests = DigestSet(DIGEST_NAMES)
    for piece in pieces:
        digests.update(memoryview(piece))
    whole = b"".join(pieces)
    assert digests.results() == {name: direct(whole) for name, direct in DIRECT.items()}


@given(st.lists(st.binary(max_size=400), max_size=6), st.sampled_from(sorted(COMBINABLE)))
def test_combined_checksums_equal_the_direct_value(parts: list[bytes], name: str) -> None:
    combined = combine(name, [(DIRECT[name](part), len(part)) for part in parts])
    assert combined == DIRECT[name](b"".join(parts))


@pytest.mark.parametrize("name", sorted(COMBINABLE))
def test_combination_of_long_parts(name: str) -> None:
    """Lengths whose bit count has many ones, past 32 bits of bits."""
    parts = [b"\x5a" * ((5 << 20) + 1), b"\xa5" * 4095, b"", b"x" * (9 << 20)]
    assert combine(name, [(DIRECT[name](part), len(part)) for part in parts]) == DIRECT[name](b"".join(parts))
