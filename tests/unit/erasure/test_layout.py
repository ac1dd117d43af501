"""Layout arithmetic at its borders; the properties are in tests/property/test_erasure.py."""

import pytest

from tiers.erasure.layout import PAGE_BYTES, Layout, Piece

MIB = 1 << 20


@pytest.mark.parametrize(
    ("text", "quorum", "row"),
    [("4+2:4194304", 5, MIB), ("8+3:4194304", 9, MIB // 2), ("1+1:4194304", 2, 4 * MIB), ("1+2:4194304", 2, 4 * MIB),
     ("5+1:20480", 6, PAGE_BYTES), ("1+0:4096", 1, PAGE_BYTES)],
)  # fmt: skip
def test_shipped_layouts(text: str, quorum: int, row: int) -> None:
    layout = Layout.parse(text)
    assert str(layout) == text
    assert (layout.write_quorum, layout.row_bytes_full) == (quorum, row)


@pytest.mark.parametrize(
    "text",
    ["", "4+2", "4+2:", "4+2:0", "4+2:4194305", "4+2:8192", "0+2:4096", "+2:4096", "-4+2:16384", "4+2:16384 ",
     "4+2:1e6", "200+56:819200", "copies:3"],
)  # fmt: skip
def test_nonsense_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="layout"):
        Layout.parse(text)


def test_last_stripe_shrinks_to_whole_pages_a_row() -> None:
    layout = Layout(4, 2, 4 * MIB)
    assert [layout.row_length(size) for size in (1, 4 * PAGE_BYTES, 4 * PAGE_BYTES + 1, 4 * MIB)] == [
        PAGE_BYTES, PAGE_BYTES, 2 * PAGE_BYTES, MIB,
    ]  # fmt: skip
    assert layout.fragment_bytes(0) == 2 * PAGE_BYTES
    assert layout.fragment_bytes(1) == 4 * PAGE_BYTES
    assert layout.fragment_bytes(4 * MIB) == MIB + 3 * PAGE_BYTES
    assert layout.fragment_bytes(4 * MIB + 1) == MIB + 4 * PAGE_BYTES


def test_pieces_cross_rows_and_stripes() -> None:
    layout = Layout(2, 1, 2 * PAGE_BYTES)
    size = 3 * PAGE_BYTES
    assert list(layout.pieces(size, start=PAGE_BYTES - 1, stop=size)) == [
        Piece(0, 0, PAGE_BYTES - 1, PAGE_BYTES),
        Piece(0, 1, 0, PAGE_BYTES),
        Piece(1, 0, 0, PAGE_BYTES),
    ]
    assert list(layout.pieces(size, start=7, stop=7)) == []


def test_blocks_never_cross_rows() -> None:
    layout = Layout(1, 1, 20 * PAGE_BYTES)
    assert layout.blocks_per_row == 2
    assert layout.first_block(3) == 6
    assert layout.block_count(20 * PAGE_BYTES + 1) == 3
