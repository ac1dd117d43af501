"""Every erasure pattern of every shipped layout, both implementations against each other (promises P4, F2)."""

import ctypes
import random
from collections.abc import Iterator
from itertools import combinations

import pytest

from tiers.erasure import codec as codec_module
from tiers.erasure.codec import CODECS, COLUMN_BYTES, Codec, IsalCodec, PyeclibCodec, codec_for
from tiers.erasure.layout import Layout

SHIPPED = [(1, 1), (4, 2), (8, 3)]
PAGE = 4096


def implementations(data: int, parity: int) -> list[Codec]:
    library = codec_module.isal()
    assert library is not None, "the pyeclib wheel bundles ISA-L"
    return [IsalCodec(data, parity, library), PyeclibCodec(data, parity, "isa_l_rs_cauchy")]


def stripe(data: int, parity: int, length: int = PAGE) -> list[memoryview]:
    rng = random.Random(data * 100 + parity)
    rows = [bytearray(rng.randbytes(length)) for _ in range(data)] + [bytearray(length) for _ in range(parity)]
    return [memoryview(row) for row in rows]


def patterns(fragments: int, lost_max: int) -> Iterator[tuple[int, ...]]:
    for count in range(lost_max + 1):
        yield from combinations(range(fragments), count)


@pytest.mark.parametrize(("data", "parity"), [*SHIPPED, (1, 2), (10, 4)])
def test_parity_equals_pyeclib(data: int, parity: int) -> None:
    in_place, reference = implementations(data, parity)
    rows = stripe(data, parity, 3 * PAGE)
    expected = [*rows[:data], *[memoryview(bytearray(3 * PAGE)) for _ in range(parity)]]
    in_place.encode(rows)
    reference.encode(expected)
    assert rows == expected
    assert any(any(row) for row in rows[data:])


@pytest.mark.parametrize(("data", "parity"), SHIPPED)
@pytest.mark.parametrize("which", [0, 1], ids=["isal", "pyeclib"])
def test_every_erasure_pattern_decodes(data: int, parity: int, which: int) -> None:
    codec = implementations(data, parity)[which]
    rows = stripe(data, parity)
    codec.encode(rows)
    for lost in patterns(data + parity, parity):
        good = {index: row for index, row in enumerate(rows) if index not in lost}
        targets = [memoryview(bytearray(b"\xff" * PAGE)) for _ in lost]
        codec.decode(good, lost, targets)
        assert targets == [rows[index] for index in lost], lost


def test_vandermonde_fallback_decodes_every_pattern_of_4_2() -> None:
    codec = codec_for(Layout(4, 2, 4 * PAGE), "liberasurecode_rs_vand")
    assert not codec.in_place
    rows = stripe(4, 2)
    codec.encode(rows)
    for lost in patterns(6, 2):
        targets = [memoryview(bytearray(PAGE)) for _ in lost]
        codec.decode({index: row for index, row in enumerate(rows) if index not in lost}, lost, targets)
        assert targets == [rows[index] for index in lost], lost


def test_one_plus_one_is_a_mirror() -> None:
    rows = stripe(1, 1)
    codec_for(Layout(1, 1, PAGE)).encode(rows)
    assert rows[0] == rows[1]


def test_long_rows_go_in_columns_and_are_reported_when_final() -> None:
    length = 2 * COLUMN_BYTES + PAGE
    rows, whole = stripe(4, 2, length), stripe(4, 2, length)
    columns: list[tuple[int, int]] = []
    parity: list[bytes] = []

    def column_done(start: int, stop: int) -> None:
        columns.append((start, stop))
        parity.append(bytes(rows[5][start:stop]))

    codec_for(Layout(4, 2, 4 * length)).encode(rows, column_done)
    assert columns == [(0, COLUMN_BYTES), (COLUMN_BYTES, 2 * COLUMN_BYTES), (2 * COLUMN_BYTES, length)]
    PyeclibCodec(4, 2, "isa_l_rs_cauchy").encode(whole)
    assert rows == whole
    assert b"".join(parity) == whole[5]
    target = memoryview(bytearray(length))
    codec_for(Layout(4, 2, 4 * length)).decode(dict(enumerate(rows[1:], 1)), [0], [target])
    assert target == whole[0]


def test_read_only_rows_decode() -> None:
    rows = stripe(4, 2)
    codec = codec_for(Layout(4, 2, 4 * PAGE))
    codec.encode(rows)
    target = memoryview(bytearray(PAGE))
    codec.decode({index: memoryview(bytes(rows[index])) for index in (0, 2, 4, 5)}, [1], [target])
    assert target == rows[1]


def test_without_isal_the_fallback_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec_module, "isal", lambda: None)
    codec_module._codec.cache_clear()
    try:
        codec = codec_for(Layout(2, 1, 2 * PAGE))
        assert isinstance(codec, PyeclibCodec)
    finally:
        codec_module._codec.cache_clear()


def test_default_is_in_place_with_the_gil_free() -> None:
    codec = codec_for(Layout(4, 2, 4 * PAGE))
    assert isinstance(codec, IsalCodec)
    assert codec.in_place
    assert not codec._isal._FuncPtr._flags_ & ctypes._FUNCFLAG_PYTHONAPI  # type: ignore[attr-defined]  # not in typeshed


def test_codec_that_cannot_keep_the_promise_is_refused() -> None:
    layout = Layout(9, 5, 9 * PAGE)
    with pytest.raises(ValueError, match="isa_l_rs_vand"):
        codec_for(layout, "isa_l_rs_vand")
    assert codec_for(layout, "isa_l_rs_cauchy")
    assert codec_for(Layout(4, 4, 4 * PAGE), "isa_l_rs_vand")
    with pytest.raises(ValueError, match="unknown"):
        codec_for(layout, "flat_xor_hd")
    assert set(CODECS) >= {"isa_l_rs_cauchy", "isa_l_rs_vand"}


def test_wrong_use_is_asserted() -> None:
    codec = codec_for(Layout(4, 2, 4 * PAGE))
    rows = stripe(4, 2)
    with pytest.raises(AssertionError):
        codec.encode(rows[:5])
    with pytest.raises(AssertionError):
        codec.decode(dict(enumerate(rows[:3])), [3], [memoryview(bytearray(PAGE))])
    with pytest.raises(AssertionError):
        codec.decode(dict(enumerate(rows)), [3], [memoryview(bytearray(PAGE))])
    plain = codec_for(Layout(1, 0, PAGE))
    plain.encode(rows[:1])
    with pytest.raises(AssertionError):
        plain.decode({0: rows[0]}, [1], [rows[1]])
