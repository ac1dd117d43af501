"""Range headers against a model of RFC 9110: whatever is sent, the bytes chosen are those the words name."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gateway.s3.errors import S3Code, S3Error
from gateway.s3.headers import ByteRange, parse_copy_range, parse_range

SIZES = st.integers(0, 300)
NUMBERS = st.integers(0, 400)
TEXT = st.text(alphabet="bytes=0123456789-, \t+٣", max_size=24)


def model(value: str, size: int) -> list[int] | str | None:
    """The indexes of the bytes a range names, None for all of them, "416" for none. Written the slow way."""
    match = re.fullmatch(r"\s*bytes\s*=\s*([0-9]*)-([0-9]*)\s*", value, re.IGNORECASE | re.ASCII)
    if match is None or match.groups() == ("", ""):
        return None
    first, last = match.groups()
    if not first:
        chosen = list(range(size))[-int(last) :] if int(last) else []
    elif last and int(last) < int(first):
        return None
    else:
        chosen = [at for at in range(size) if at >= int(first) and (not last or at <= int(last))]
    return chosen or "416"


def actual(value: str, size: int) -> list[int] | str | None:
    try:
        piece = parse_range(value, size)
    except S3Error as error:
        is_right = error.code is S3Code.InvalidRange and error.elements["ActualObjectSize"] == str(size)
        return "416" if is_right else str(error)
    return None if piece is None else list(range(*piece))


@given(NUMBERS, NUMBERS, SIZES)
def test_two_ends(first: int, last: int, size: int) -> None:
    value = f"bytes={first}-{last}"
    assert actual(value, size) == model(value, size)


@given(NUMBERS, SIZES)
def test_open_end_and_suffix(number: int, size: int) -> None:
    for value in (f"bytes={number}-", f"bytes=-{number}"):
        assert actual(value, size) == model(value, size)


@given(TEXT, SIZES)
@example("bytes=0-0,2-3", 10)
@example("bytes=--1", 10)
@example("bytes=-", 10)
@example("bytes=5-2", 10)
@example("BYTES=1-2", 10)
@example("bytes=+1-2", 10)
@example("bytes=٣-٣", 10)
def test_any_text(value: str, size: int) -> None:
    assert actual(value, size) == model(value, size)


def test_numbers_of_any_length_are_only_compared() -> None:
    huge = "9" * 9000
    assert parse_range(f"bytes=0-{huge}", 5) == ByteRange(0, 5)
    assert parse_range(f"bytes=-{huge}", 5) == ByteRange(0, 5)
    assert parse_range(f"bytes={'0' * 9000}1-2", 5) == ByteRange(1, 3)
    with pytest.raises(S3Error):
        parse_range(f"bytes={huge}-", 5)


@given(NUMBERS, NUMBERS, SIZES)
def test_copy_range(first: int, last: int, size: int) -> None:
    value = f"bytes={first}-{last}"
    if first <= last < size:
        assert parse_copy_range(value, size) == (first, last + 1)
        return
    with pytest.raises(S3Error) as caught:
        parse_copy_range(value, size)
    assert caught.value.code is (S3Code.InvalidArgument if last < first else S3Code.InvalidRange)


@pytest.mark.parametrize(
    "value", ["0-3", "bytes=0-", "bytes=-3", "bytes=a-b", "bytes=0-1,2-3", "bytes=3-1", "hello", ""]
)
def test_other_copy_ranges_are_refused(value: str) -> None:
    with pytest.raises(S3Error) as caught:
        parse_copy_range(value, 10)
    assert caught.value.code is S3Code.InvalidArgument
