"""Layout, codec and fragment format against plain models, with damage of every class of byte (promises P4, P11)."""

import random
from dataclasses import replace
from functools import lru_cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tiers.erasure.codec import codec_for
from tiers.erasure.fragment import (
    ChecksumTable,
    Identity,
    check_header,
    decode_header,
    decode_trailer,
    encode_header,
    encode_tail,
    row_checksums,
)
from tiers.erasure.layout import PAGE_BYTES, Layout
from tiers.errors import FragmentCorrupt

BLOB = bytes(range(16))
SMALL = Layout(2, 1, 2 * 20 * PAGE_BYTES)  # rows of one whole block and one of a quarter


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    data, parity = draw(st.integers(1, 10)), draw(st.integers(0, 4))
    return Layout(data, parity, data * PAGE_BYTES * draw(st.sampled_from([1, 2, 16, 17, 33])))


def sizes_of(layout: Layout) -> st.SearchStrategy[int]:
    """Sizes near every border (0, 1, k, page, row, segment), and others."""
    borders = [0, 1, layout.data_fragments, PAGE_BYTES, layout.row_bytes_full, layout.segment_bytes]
    near = st.builds(lambda border, delta: max(0, border + delta), st.sampled_from(borders), st.integers(-1, 1))
    several = st.builds(lambda count, rest: count * layout.segment_bytes + rest, st.integers(0, 3), near)
    return st.one_of(near, several, st.integers(0, 3 * layout.segment_bytes))


def rows_of(layout: Layout, content: bytes) -> list[list[memoryview]]:
    """Every stripe of a content, encoded: what a writer must produce."""
    stripes = []
    for number in range(layout.stripes(len(content))):
        segment = content[number * layout.segment_bytes :][: layout.segment_bytes]
        length = layout.row_length(len(segment))
        padded = segment.ljust(length * layout.data_fragments, b"\0")
        rows = [memoryview(bytearray(padded[at : at + length])) for at in range(0, len(padded), length)]
        rows += [memoryview(bytearray(length)) for _ in range(layout.parity_fragments)]
        codec_for(layout).encode(rows)
        stripes.append(rows)
    return stripes


def fragment_of(identity: Identity, size: int, stripes: list[list[memoryview]]) -> bytes:
    layout = identity.layout
    rows = [stripe[identity.index] for stripe in stripes]
    table = b"".join(row_checksums(identity, number, row) for number, row in enumerate(rows))
    file = bytearray(encode_header(identity, size))
    for number, row in enumerate(rows):
        assert len(file) == layout.row_offset(number)
        file += row
    assert len(file) == layout.table_offset(size)
    return bytes(file + encode_tail(identity, size, table))


def read_all(file: bytes, expected: Identity) -> list[bytes]:
    """Every row of a fragment file, verified: what a scrub does. Errors: FragmentCorrupt."""
    trailer = decode_trailer(file[-PAGE_BYTES:], file_size=len(file), expected=expected)
    check_header(decode_header(file[:PAGE_BYTES], expected), trailer)
    layout = trailer.identity.layout
    checks = ChecksumTable(trailer, file[trailer.table_offset : trailer.table_offset + trailer.table_bytes])
    rows = []
    for number in range(layout.stripes(trailer.size)):
        at = layout.row_offset(number)
        row = file[at : at + layout.stripe_row_length(trailer.size, number)]
        checks.verify(number, 0, memoryview(row))
        rows.append(row)
    return rows


@lru_cache(maxsize=4)
def golden(blob_id: bytes = BLOB, generation: int = 1, seed: int = 1) -> tuple[bytes, ...]:
    """The three fragment files of a content of two stripes, the second one shrunk."""
    content = random.Random(seed).randbytes(SMALL.segment_bytes + 3 * PAGE_BYTES)
    stripes = rows_of(SMALL, content)
    identities = [Identity(blob_id, SMALL, index, generation) for index in range(3)]
    return tuple(fragment_of(identity, len(content), stripes) for identity in identities)


@given(data=st.data(), layout=layouts())
@settings(max_examples=150, deadline=None)
def test_pieces_are_the_bytes_of_a_range(data: st.DataObject, layout: Layout) -> None:
    size = data.draw(sizes_of(layout))
    start = data.draw(st.integers(0, size))
    stop = data.draw(st.integers(start, size))
    content = random.Random(size).randbytes(size)
    stripes = rows_of(layout, content)
    found = b"".join(
        bytes(stripes[piece.stripe][piece.row][piece.start : piece.stop])
        for piece in layout.pieces(size, start=start, stop=stop)
    )
    assert found == content[start:stop]
    assert {piece.stripe for piece in layout.pieces(size, start=start, stop=stop)} == set(
        layout.segments_covering(start, stop)
    )


@given(data=st.data(), layout=layouts())
@settings(max_examples=100, deadline=None)
def test_files_are_as_long_as_the_layout_says_and_read_back(data: st.DataObject, layout: Layout) -> None:
    size = data.draw(sizes_of(layout))
    index = data.draw(st.integers(0, layout.fragments - 1))
    stripes = rows_of(layout, random.Random(size).randbytes(size))
    identity = Identity(BLOB, layout, index, 3)
    file = fragment_of(identity, size, stripes)
    assert len(file) == layout.fragment_bytes(size)
    assert read_all(file, identity) == [bytes(stripe[index]) for stripe in stripes]


@given(data=st.data(), layout=layouts())
@settings(max_examples=100, deadline=None)
def test_any_m_lost_rows_come_back(data: st.DataObject, layout: Layout) -> None:
    size = data.draw(sizes_of(layout).filter(bool))
    lost = data.draw(st.sets(st.integers(0, layout.fragments - 1), max_size=layout.parity_fragments).map(sorted))
    for rows in rows_of(layout, random.Random(size).randbytes(size)):
        targets = [memoryview(bytearray(len(rows[0]))) for _ in lost]
        codec_for(layout).decode({n: row for n, row in enumerate(rows) if n not in lost}, lost, targets)
        assert targets == [rows[n] for n in lost]


def classes() -> dict[str, range]:
    """Every class of byte of a golden file. Together they are the whole file."""
    size = SMALL.segment_bytes + 3 * PAGE_BYTES
    table, used = SMALL.table_offset(size), 8 * SMALL.block_count(size)
    end = SMALL.fragment_bytes(size)
    return {
        "magic": range(8),
        "header fields": range(8, 80),
        "header padding": range(80, PAGE_BYTES - 8),
        "header checksum": range(PAGE_BYTES - 8, PAGE_BYTES),
        "full row": range(PAGE_BYTES, SMALL.row_offset(1)),
        "last row": range(SMALL.row_offset(1), table),
        "checksums": range(table, table + used),
        "table padding": range(table + used, end - PAGE_BYTES),
        "trailer": range(end - PAGE_BYTES, end),
    }


def test_classes_cover_the_file() -> None:
    assert [byte for part in classes().values() for byte in part] == list(range(len(golden()[0])))


@given(data=st.data(), index=st.integers(0, 2), name=st.sampled_from(sorted(classes())))
@settings(max_examples=300, deadline=None)
def test_one_flipped_bit_anywhere_is_found(data: st.DataObject, index: int, name: str) -> None:
    part = classes()[name]
    at = data.draw(st.integers(part.start, part.stop - 1))
    file = bytearray(golden()[index])
    file[at] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(FragmentCorrupt):
        read_all(bytes(file), Identity(BLOB, SMALL, index, 1))


@given(data=st.data(), page=st.integers(0, len(golden()[0]) // PAGE_BYTES - 1))
@settings(max_examples=60, deadline=None)
def test_lost_misplaced_and_torn_pages_are_found(data: st.DataObject, page: int) -> None:
    file = golden()[0]
    at = page * PAGE_BYTES
    other = data.draw(st.integers(0, len(file) // PAGE_BYTES - 1))
    torn = data.draw(st.integers(1, PAGE_BYTES - 1))
    replacements = [
        bytes(PAGE_BYTES),
        file[other * PAGE_BYTES :][:PAGE_BYTES],
        file[at : at + torn].ljust(PAGE_BYTES, b"\0"),
    ]
    for new in replacements:
        damaged = file[:at] + new + file[at + PAGE_BYTES :]
        if damaged != file:
            with pytest.raises(FragmentCorrupt):
                read_all(damaged, Identity(BLOB, SMALL, 0, 1))


@given(cut=st.integers(1, len(golden()[0]) - PAGE_BYTES), tail=st.binary(min_size=1, max_size=2 * PAGE_BYTES))
@settings(max_examples=60, deadline=None)
def test_truncated_and_extended_files_are_found(cut: int, tail: bytes) -> None:
    file = golden()[0]
    for damaged in (file[:-cut], file[: -cut // PAGE_BYTES * PAGE_BYTES], file + tail, file + file):
        with pytest.raises(FragmentCorrupt):
            read_all(damaged, Identity(BLOB, SMALL, 0, 1))


@pytest.mark.parametrize(
    "foreign",
    [golden()[1], golden(blob_id=bytes(16))[0], golden(generation=2)[0]],
    ids=["other index", "other blob", "other generation"],
)
def test_foreign_fragments_are_found(foreign: bytes) -> None:
    """A whole file in another's place, and a stranger's block under this fragment's own header, table and trailer."""
    expected = Identity(BLOB, SMALL, 0, 1)
    with pytest.raises(FragmentCorrupt):
        read_all(foreign, expected)
    own = golden(seed=2)[0]  # the same fragment with other content: a stale version
    mixed = own[:PAGE_BYTES] + foreign[PAGE_BYTES : SMALL.row_offset(1)] + own[SMALL.row_offset(1) :]
    with pytest.raises(FragmentCorrupt):
        read_all(mixed, expected)


def test_equal_bytes_of_another_place_blob_or_fragment_have_other_checksums() -> None:
    identity = Identity(BLOB, SMALL, 0, 1)
    row = memoryview(bytes(SMALL.row_bytes_full))
    made = {
        row_checksums(one, stripe, row)
        for one in (identity, replace(identity, index=1), replace(identity, blob_id=bytes(16)))
        for stripe in (0, 1)
    }
    assert len(made) == 6
    assert len({table[at : at + 8] for table in made for at in range(0, 16, 8)}) == 12
