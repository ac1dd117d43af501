"""Objects cut into records, whatever the blocks they come in."""

import bz2
import gzip
import json
from collections.abc import Callable, Iterator
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.s3.select import reading
from gateway.s3.select.job import Input
from gateway.s3.select.reading import Blocks, csv_rows, json_batches, split_documents
from gateway.s3.select.refusals import SelectRefused


def next_of(pieces: Iterator[bytes], _size: int) -> bytes:
    return next(pieces)


def cut(content: bytes, size: int) -> list[bytes]:
    return [content[at : at + size] for at in range(0, len(content), size)]


JSON_VALUES = st.recursive(
    st.integers() | st.text(max_size=6) | st.booleans() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(st.dictionaries(st.text(max_size=4), JSON_VALUES, max_size=3), max_size=5), st.integers(1, 9))
def test_documents_are_found_in_any_blocks(documents: list[dict[str, object]], size: int) -> None:
    content = "\n ".join(json.dumps(document, indent=1, ensure_ascii=False) for document in documents).encode()
    assert [json.loads(found) for found in split_documents(cut(content, size))] == documents


@given(st.lists(st.lists(st.text("ab\"',\\ x", max_size=4), min_size=2, max_size=3), max_size=5), st.integers(1, 9))
def test_rows_are_found_in_any_blocks(rows: list[list[str]], size: int) -> None:
    def quoted(field: str) -> str:
        return '"' + field.replace('"', '""') + '"'

    content = "".join(",".join(map(quoted, row)) + "\n" for row in rows).encode()
    assert list(csv_rows(cut(content, size), Input("CSV"))) == rows


def test_a_row_may_hold_its_delimiter_where_that_is_allowed() -> None:
    content = b'a,"b\nc"\nd,e\n'
    assert list(csv_rows([content], Input("CSV", is_record_quoted=True))) == [["a", "b\nc"], ["d", "e"]]
    assert len(list(csv_rows([content], Input("CSV")))) == 3


def test_comments_and_delimiters() -> None:
    source = Input("CSV", field="|", record="#;", quote="'", escape="\\", comments="/")
    assert list(csv_rows([b"/no#;a|'it\\'s'#;b|c"], source)) == [["a", "it's"], ["b", "c"]]


@pytest.mark.parametrize(("name", "pack"), [("GZIP", gzip.compress), ("BZIP2", bz2.compress)])
def test_compression(name: str, pack: Callable[[bytes], bytes]) -> None:
    content = b"1,2\n" * 200_000
    packed = pack(content) + pack(b"end")
    pieces = iter([*cut(packed, 1000), b""])
    blocks = Blocks(lambda _size: next(pieces), name)
    found = list(blocks)
    assert b"".join(found) == content + b"end"
    assert max(map(len, found)) <= reading.BLOCK_BYTES
    assert (blocks.scanned, blocks.processed) == (len(packed), len(content) + 3)


@pytest.mark.parametrize(("name", "pack"), [("GZIP", gzip.compress), ("BZIP2", bz2.compress)])
def test_broken_compression(name: str, pack: Callable[[bytes], bytes]) -> None:
    for content, code in ((b"plain text", "InvalidCompressionFormat"), (pack(b"a" * 9000)[:-12], "TruncatedInput")):
        pieces = iter([content, b""])
        with pytest.raises(SelectRefused) as raised:
            list(Blocks(partial(next_of, pieces), name))
        assert raised.value.code == code


@pytest.mark.parametrize(("content", "source", "code"), [
    (b"x" * 1_100_000, Input("CSV"), "OverMaxRecordSize"),
    (b"\xff,1\n", Input("CSV"), "InvalidTextEncoding"),
    (b'a,"b', Input("CSV", is_record_quoted=True), "CSVParsingError"),
    (b'{"a": [1', Input("JSON", is_document=True), "JSONParsingError"),
    (b'{"a": "' + b"[" * (17 << 20), Input("JSON", is_document=True), "OverMaxRecordSize"),
])  # fmt: skip
def test_refusals(content: bytes, source: Input, code: str) -> None:
    read = csv_rows if source.format == "CSV" else json_batches
    with pytest.raises(SelectRefused) as raised:
        list(read(cut(content, 65536), source))
    assert raised.value.code == code
