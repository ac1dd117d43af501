"""multipart/form-data: the fields before the file, the file as a stream, and every way a form can be wrong."""

import asyncio
import random
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.http.call import BodyTooLong
from gateway.s3 import form_parts
from gateway.s3.errors import S3Code, S3Error
from gateway.s3.form_file import FormFile
from gateway.s3.form_parts import FormHead, parse_boundary, parse_head
from tests.unit.s3.calls import HeldBody

BOUNDARY = b"--XyZ"
SIZES = (0, 2**63 - 1)


def part(name: str, value: bytes, more: str = "") -> bytes:
    return BOUNDARY + f'\r\nContent-Disposition: form-data; name="{name}"{more}\r\n\r\n'.encode() + value + b"\r\n"


def form(*fields: bytes, file: bytes = b"content", more: str = '; filename="f.txt"', end: bytes = b"--\r\n") -> bytes:
    return b"".join(fields) + part("file", file, more) + BOUNDARY + end


def refusal_of(block: bytes) -> S3Error:
    with pytest.raises(S3Error) as caught:
        parse_head(block, BOUNDARY)
    return caught.value


@pytest.mark.parametrize(
    ("content_type", "boundary"),
    [
        (b"multipart/form-data; boundary=XyZ", b"--XyZ"),
        (b'Multipart/Form-Data;BOUNDARY="a b:c" ; charset=utf-8', b"--a b:c"),
        (b"multipart/form-data; boundary=----WebKitFormBoundaryAbC;", b"------WebKitFormBoundaryAbC"),
    ],
)
def test_boundaries(content_type: bytes, boundary: bytes) -> None:
    assert parse_boundary(content_type) == boundary


@pytest.mark.parametrize(
    ("content_type", "code"),
    [
        (b"", S3Code.PreconditionFailed),
        (b"application/x-www-form-urlencoded", S3Code.PreconditionFailed),
        (b"multipart/form-data", S3Code.MalformedPOSTRequest),
        (b"multipart/form-data; boundary=", S3Code.MalformedPOSTRequest),
        (b'multipart/form-data; boundary="a', S3Code.MalformedPOSTRequest),
        (b"multipart/form-data; boundary=a; boundary=b", S3Code.MalformedPOSTRequest),
        (b"multipart/form-data; boundary=" + b"a" * 71, S3Code.MalformedPOSTRequest),
        (b'multipart/form-data; boundary="a "', S3Code.MalformedPOSTRequest),
        (b"multipart/form-data, boundary=a", S3Code.PreconditionFailed),
    ],
)
def test_other_types(content_type: bytes, code: S3Code) -> None:
    with pytest.raises(S3Error) as caught:
        parse_boundary(content_type)
    assert caught.value.code is code


def test_fields_before_the_file() -> None:
    block = form(part("Key", b"a/b"), part("x", b""), part("y", b"1\r\n2\r\n--Xy", '; filename="y"'))
    head = parse_head(block, BOUNDARY)
    assert head == FormHead({b"key": b"a/b", b"x": b"", b"y": b"1\r\n2\r\n--Xy"}, b"f.txt", head.file_start)
    assert block[head.file_start :].startswith(b"content\r\n--XyZ--")


@pytest.mark.parametrize(
    ("spelled", "name"),
    [
        ('; filename="C:\\dir\\a.txt"', b"a.txt"),
        ('; filename="../../x"', b"x"),
        ('; filename="a\\"b"', b'a"b'),
        ("; filename=plain", b"plain"),
        ('; filename=""', b""),
        ("", b""),
        ('; filename="\u00fc.txt"', "\u00fc.txt".encode()),
    ],
)
def test_file_names(spelled: str, name: bytes) -> None:
    assert parse_head(form(more=spelled), BOUNDARY).file_name == name


LINES = b"Content-Disposition: form-data; name=a"


@pytest.mark.parametrize(
    "block",
    [
        b"",
        b"\r\n" + form(),
        b"preamble\r\n" + form(),
        b"--XyZ" + form(),
        b"--XyZ\nContent-Disposition: form-data; name=a\n\nv\n--XyZ--",
        *(
            b"--XyZ\r\n" + lines + b"\r\n\r\nv\r\n" + form()
            for lines in (
                b"",
                b"Content-Type: text/plain",
                b"Content-Disposition: attachment; name=a",
                b"Content-Disposition: form-data",
                b"Content-Disposition: form-data; name=",
                b'Content-Disposition: form-data; name=""',
                b"Content-Disposition: form-data; name=a; name=b",
                b"Content-Disposition: form-data; name=a; filename*=utf-8''b",
                b'Content-Disposition: form-data; name="a',
                b"Content-Disposition: form-data; name=a b",
                LINES + b"\r\n" + LINES,
                LINES + b"\r\nContent-Transfer-Encoding: base64",
                LINES + b"\r\n folded",
                LINES + b"\nx: y",
                LINES + b"\0",
            )
        ),
    ],
)
def test_malformed_heads(block: bytes) -> None:
    assert refusal_of(block).code is S3Code.MalformedPOSTRequest


@pytest.mark.parametrize(
    ("block", "code"),
    [
        (part("a", b"1") + part("A", b"2") + form(), S3Code.InvalidArgument),
        (part("a", b"1") + b"--XyZ--\r\n", S3Code.InvalidArgument),
        (part("a", b"1")[:-4], S3Code.InvalidArgument),
        (part("a", b"v" * form_parts.FIELD_BYTES_MAX) + form(), S3Code.MaxPostPreDataLengthExceeded),
        (part("a", b"v" * form_parts.HEAD_BYTES_MAX)[: form_parts.HEAD_BYTES_MAX], S3Code.MaxPostPreDataLengthExceeded),
        (
            b"".join(part(f"n{i}", b"") for i in range(10_000))[: form_parts.HEAD_BYTES_MAX],
            S3Code.MaxPostPreDataLengthExceeded,
        ),
    ],
    ids=["twice", "no file", "cut", "long fields", "endless field", "endless fields"],
)
def test_limits_of_the_head(block: bytes, code: S3Code) -> None:
    assert refusal_of(block).code is code


async def read_file(body: HeldBody, rest: bytes, view_bytes: int, sizes: tuple[int, int] = SIZES) -> bytes:
    """The file read through views of one length, as a writer would; a short view is the end."""
    file, content = FormFile(body, BOUNDARY, rest, sizes), b""
    while True:
        view = memoryview(bytearray(view_bytes))
        count = await file.fill(view)
        content += view[:count]
        if count < view_bytes:
            assert await file.fill(view) == 0
            return content


def file_of(block: bytes, *, seen: int = 0, view_bytes: int = 64, sizes: tuple[int, int] = SIZES) -> bytes:
    return asyncio.run(read_file(HeldBody(block[seen:]), block[:seen], view_bytes, sizes))


@given(st.binary(max_size=300), st.integers(1, 120), st.integers(0, 400), st.sampled_from([b"--", b"--\r\n"]))
def test_a_file_comes_back_whatever_it_holds(content: bytes, view_bytes: int, seen: int, end: bytes) -> None:
    block = content + b"\r\n" + BOUNDARY + end
    assert file_of(block, seen=seen, view_bytes=view_bytes) == content


@given(
    st.lists(st.sampled_from([b"\r", b"\n", b"\r\n--XyZ"[:5], b"\r\n--Xy", b"-", b"Z", b"\r\n--"]), max_size=60),
    st.integers(1, 40),
)
def test_near_delimiters_are_content(pieces: list[bytes], view_bytes: int) -> None:
    content = b"".join(pieces)
    if b"\r\n--XyZ" not in content:
        assert file_of(content + b"\r\n--XyZ--\r\n", view_bytes=view_bytes) == content


def test_a_delimiter_across_every_place_of_a_search() -> None:
    rng = random.Random(7)
    step = 256 * 1024
    for size in (step - 8, step - 1, step, step + 1, 2 * step - 3, 3 * step):
        content = rng.randbytes(size)
        block = content + b"\r\n--XyZ--\r\n"
        assert file_of(block, view_bytes=4 * step) == content
        assert file_of(block, view_bytes=step + 5, seen=100) == content


@pytest.mark.parametrize(
    ("tail", "code"),
    [
        (b"", S3Code.MalformedPOSTRequest),
        (b"\r\n--Xy", S3Code.MalformedPOSTRequest),
        (b"\r\n--XyZ", S3Code.MalformedPOSTRequest),
        (b"\r\n--XyZ-", S3Code.MalformedPOSTRequest),
        (b"\r\n--XyZ\r\n", S3Code.MalformedPOSTRequest),
        (b"\r\n--XyZ--\r\nmore", S3Code.MalformedPOSTRequest),
        (b"\r\n--XyZabc--\r\n", S3Code.MalformedPOSTRequest),
        (b"\r\n" + part("submit", b"go"), S3Code.MalformedPOSTRequest),
        (b"\r\n" + part("a", b"v" * form_parts.TAIL_BYTES_MAX) + b"--XyZ--", S3Code.MalformedPOSTRequest),
        (b"\r\n" + part("file", b"second") + b"--XyZ--\r\n", S3Code.InvalidArgument),
    ],
)
def test_a_form_that_does_not_end_well(tail: bytes, code: S3Code) -> None:
    for view_bytes in (5, 64, 4096, 65536):
        with pytest.raises(S3Error) as caught:
            file_of(b"content" + tail, view_bytes=view_bytes)
        assert caught.value.code is code


def test_fields_behind_the_file_mean_nothing() -> None:
    for view_bytes in (5, 64, 4096):
        assert file_of(b"content\r\n" + part("submit", b"go") + b"--XyZ--\r\n", view_bytes=view_bytes) == b"content"


@pytest.mark.parametrize(
    ("size", "code"), [(1, S3Code.EntityTooSmall), (2, None), (5, None), (6, S3Code.EntityTooLarge)]
)
def test_sizes(size: int, code: S3Code | None) -> None:
    block = b"x" * size + b"\r\n--XyZ--\r\n"
    for view_bytes in (1, 3, 64):
        if code is None:
            assert len(file_of(block, view_bytes=view_bytes, sizes=(2, 5))) == size
        else:
            with pytest.raises(S3Error) as caught:
                file_of(block, view_bytes=view_bytes, sizes=(2, 5))
            assert caught.value.code is code


PIECES = [
    b"--XyZ",
    b"\r\n",
    b"--",
    b"Content-Disposition: form-data; ",
    b'name="',
    b'"',
    b"file",
    b"a",
    b"; filename=",
    b"\0",
]


@given(st.lists(st.sampled_from(PIECES) | st.binary(max_size=3), max_size=40))
def test_no_bytes_break_the_parser(pieces: list[bytes]) -> None:
    block = b"".join(pieces)
    with suppress(S3Error):
        head = parse_head(block, BOUNDARY)
        assert 0 < head.file_start <= len(block)
        file_of(block[head.file_start :])


def test_a_file_read_whole() -> None:
    block = b"content\r\n--XyZ--\r\n"
    assert asyncio.run(FormFile(HeldBody(block), BOUNDARY, b"", SIZES).read_all(7)) == b"content"
    with pytest.raises(BodyTooLong):
        asyncio.run(FormFile(HeldBody(block), BOUNDARY, b"", SIZES).read_all(6))
