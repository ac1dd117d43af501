"""Tag sets: rules, header form, document form, stored form."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.s3 import tags
from gateway.s3.errors import S3Code, S3Error

TEXT = st.text(
    st.characters(blacklist_categories=["Cs", "Cc"], blacklist_characters="\ufffe\uffff"), min_size=1, max_size=20
)
SETS = st.dictionaries(TEXT.filter(lambda key: not key.startswith("aws:")), TEXT | st.just(""), max_size=10)


@given(SETS)
def test_what_is_written_is_read_back(pairs: dict[str, str]) -> None:
    listed = list(pairs.items())
    assert tags.unpack(tags.pack(listed)) == listed
    assert tags.parse_document(tags.render(listed), tags.OBJECT_TAGS_MAX) == listed


def code(tag_list: tags.Tags, count_max: int = 10) -> S3Code | None:
    try:
        tags.checked(tag_list, count_max)
    except S3Error as error:
        return error.code
    return None


def test_rules() -> None:
    assert code([(str(at), "") for at in range(10)]) is None
    assert code([(str(at), "") for at in range(11)]) is S3Code.InvalidTag
    assert code([("k" * 128, "v" * 256)]) is None
    assert code([("k" * 129, "")]) is S3Code.InvalidTag
    assert code([("k", "v" * 257)]) is S3Code.InvalidTag
    assert code([("", "v")]) is S3Code.InvalidTag
    assert code([("a", "1"), ("a", "2")]) is S3Code.InvalidTag
    assert code([("aws:x", "1")]) is S3Code.InvalidTag


def test_header() -> None:
    assert tags.parse_header(b"d&b+c=%C3%A9%3D&a=1") == [("a", "1"), ("b c", "é="), ("d", "")]
    with pytest.raises(S3Error) as caught:
        tags.parse_header(b"a=%ff")
    assert caught.value.code is S3Code.InvalidArgument


def test_document_must_have_a_tag_set() -> None:
    assert tags.parse_document(b"<Tagging><TagSet/></Tagging>", 10) == []
    assert tags.parse_document(b"<Tagging><TagSet></TagSet></Tagging>", 10) == []
    for document in (b"<Tagging/>", b"<TagSet/>", b"<Tagging><TagSet><Tag><Value>v</Value></Tag></TagSet></Tagging>"):
        with pytest.raises(S3Error) as caught:
            tags.parse_document(document, 10)
        assert caught.value.code is S3Code.MalformedXML
