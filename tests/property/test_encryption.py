"""Sealed contents: what went in comes out of every range, and nothing that was changed comes out at all."""

import asyncio
import random
from collections.abc import Callable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.unit.datapath.encryption_bench import new_key, open_range, seal
from tiers.datapath.encryption import (
    BLOCK_BYTES,
    TAG_BYTES,
    ContentKey,
    Envelope,
    Run,
    blocks_of,
    cut_range,
    sealed_length,
)
from tiers.errors import ContentUnreadable

SIZES = st.one_of(
    st.integers(0, 40),
    st.sampled_from([BLOCK_BYTES - 1, BLOCK_BYTES, BLOCK_BYTES + 1, 4 * BLOCK_BYTES, 4 * BLOCK_BYTES + 1]),
    st.integers(0, 6 * BLOCK_BYTES),
)
SMALL_BLOCK = 7
Tamper = Callable[[ContentKey, bytes], tuple[ContentKey, bytes]]


def envelope_of(sizes: list[int]) -> Envelope:
    """An envelope with tiny blocks, for arithmetic alone."""
    runs = tuple([Run(number, size, bytes(16)) for number, size in enumerate(sizes, 1)])
    return Envelope("AES256", "", b"", bytes(16), block_bytes=SMALL_BLOCK, runs=runs)


def layout_of(sizes: list[int]) -> list[tuple[int, int]]:
    """For every plaintext byte: where its block begins and ends in the ciphertext. The plain model."""
    places, at = [], 0
    for size in sizes:
        for start in range(0, size, SMALL_BLOCK):
            length = min(SMALL_BLOCK, size - start) + TAG_BYTES
            places += [(at, at + length)] * (length - TAG_BYTES)
            at += length
    return places


@given(st.lists(st.integers(0, 30), min_size=1, max_size=6), st.data())
def test_a_range_costs_exactly_the_blocks_that_hold_it(sizes: list[int], data: st.DataObject) -> None:
    total = sum(sizes)
    if not total:
        return
    start = data.draw(st.integers(0, total - 1))
    stop = data.draw(st.integers(start + 1, total))
    envelope, places = envelope_of(sizes), layout_of(sizes)
    cut = cut_range(envelope, start, stop)
    assert (cut.start, cut.stop) == (places[start][0], places[stop - 1][1])
    blocks = list(blocks_of(envelope, start, stop))
    assert sum(block.size + TAG_BYTES for block in blocks) == len(cut)
    assert sum(block.stop - block.start for block in blocks) == stop - start
    assert sum(sealed_length(size, SMALL_BLOCK) for size in sizes) == (places[-1][1])


@settings(max_examples=40, deadline=None)
@given(st.lists(SIZES, min_size=1, max_size=3), st.integers(0, 2**32), st.sampled_from([1000, 65552, 262144]))
@example([0], 1, 1000)
@example([BLOCK_BYTES * 4, 0, 1], 1, 262144)
def test_every_range_comes_back(sizes: list[int], seed: int, length: int) -> None:
    rng = random.Random(seed)
    parts = [rng.randbytes(size) for size in sizes]
    content = b"".join(parts)

    async def check() -> None:
        key, sealed = await seal(new_key(rng), parts, rng)
        assert len(sealed) == sum(map(sealed_length, sizes))
        assert Envelope.unpack(key.envelope.pack()) == key.envelope
        for _ in range(4):
            if content:
                start = rng.randrange(len(content))
                stop = rng.randint(start + 1, len(content))
                assert await open_range(key, sealed, range(start, stop), length) == content[start:stop]
        if content:
            assert await open_range(key, sealed, range(len(content)), length) == content

    asyncio.run(check())


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 3 * BLOCK_BYTES), st.integers(0, 2**32), st.integers(0, 7))
def test_one_changed_bit_is_noticed(size: int, seed: int, bit: int) -> None:
    rng = random.Random(seed)

    async def check() -> None:
        key, sealed = await seal(new_key(rng), [rng.randbytes(size)], rng)
        at = rng.randrange(len(sealed))
        changed = sealed[:at] + bytes([sealed[at] ^ 1 << bit]) + sealed[at + 1 :]
        with pytest.raises(ContentUnreadable):
            await open_range(key, changed, range(size))

    asyncio.run(check())


FULL = BLOCK_BYTES + TAG_BYTES
BLOCKS = 3
PART = BLOCKS * BLOCK_BYTES


def swap_blocks(key: ContentKey, sealed: bytes) -> tuple[ContentKey, bytes]:
    return key, sealed[FULL : 2 * FULL] + sealed[:FULL] + sealed[2 * FULL :]


def swap_parts(key: ContentKey, sealed: bytes) -> tuple[ContentKey, bytes]:
    return key, sealed[BLOCKS * FULL :] + sealed[: BLOCKS * FULL]


def swap_parts_and_runs(key: ContentKey, sealed: bytes) -> tuple[ContentKey, bytes]:
    """Whoever can write rows too swaps salts along with the bytes; the numbers stay."""
    one, two = key.envelope.runs
    runs = (one._replace(salt=two.salt), two._replace(salt=one.salt))
    return ContentKey(key.data_key, key.envelope._replace(runs=runs)), sealed[BLOCKS * FULL :] + sealed[: BLOCKS * FULL]


def drop_last_block(key: ContentKey, sealed: bytes) -> tuple[ContentKey, bytes]:
    """The row is shortened as well, so that only the end of the run can tell."""
    one, two = key.envelope.runs
    runs = (one, two._replace(size=PART - BLOCK_BYTES))
    return ContentKey(key.data_key, key.envelope._replace(runs=runs)), sealed[:-FULL]


def cut_off_bytes(key: ContentKey, sealed: bytes) -> tuple[ContentKey, bytes]:
    return key, sealed[:-1]


def repeat_block(key: ContentKey, sealed: bytes) -> tuple[ContentKey, bytes]:
    return key, sealed[:FULL] * 2 + sealed[2 * FULL :]


def other_data_key(key: ContentKey, sealed: bytes) -> tuple[ContentKey, bytes]:
    return ContentKey(bytes(32), key.envelope), sealed


def other_nonce(key: ContentKey, sealed: bytes) -> tuple[ContentKey, bytes]:
    return ContentKey(key.data_key, key.envelope._replace(nonce=bytes(16))), sealed


@pytest.mark.parametrize(
    "tamper",
    [
        swap_blocks,
        swap_parts,
        swap_parts_and_runs,
        drop_last_block,
        cut_off_bytes,
        repeat_block,
        other_data_key,
        other_nonce,
    ],
)
def test_rearranged_contents_do_not_open(tamper: Tamper) -> None:
    rng = random.Random(7)

    async def check() -> None:
        parts = [rng.randbytes(PART), rng.randbytes(PART)]
        key, sealed = await seal(new_key(rng), parts, rng)
        assert await open_range(key, sealed, range(2 * PART)) == b"".join(parts)
        changed_key, changed = tamper(key, sealed)
        with pytest.raises(ContentUnreadable):
            await open_range(changed_key, changed, range(changed_key.envelope.size))

    asyncio.run(check())


def test_contents_of_equal_bytes_share_no_block() -> None:
    rng = random.Random(7)

    async def check() -> None:
        key = new_key(rng)
        _, one = await seal(key, [bytes(PART)], rng)
        _, two = await seal(key, [bytes(PART)], rng)
        _, other = await seal(new_key(rng), [bytes(PART)], rng)
        blocks = [content[at : at + FULL] for content in (one, two, other) for at in (0, FULL)]
        assert len(set(blocks)) == 6

    asyncio.run(check())


@pytest.mark.parametrize(
    "packed", [b"", b"\xc1", b"\x90", b"\x93\x02\x01\x90", Envelope("a", "", b"", b"").pack()[:-1]]
)
def test_a_record_of_another_form_is_refused(packed: bytes) -> None:
    with pytest.raises(ContentUnreadable):
        Envelope.unpack(packed)


def test_runs_out_of_order_are_refused() -> None:
    """Salts, numbers and bytes may all be swapped together: then only the order of the numbers tells."""
    one, two = Run(1, 5, bytes(16)), Run(2, 5, bytes(16))
    in_order = Envelope("AES256", "", b"", bytes(16), runs=(one, two))
    assert Envelope.unpack(in_order.pack()) == in_order
    with pytest.raises(ContentUnreadable):
        Envelope.unpack(in_order._replace(runs=(two, one)).pack())
