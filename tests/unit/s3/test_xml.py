"""Request documents within limits, answers that every parser reads back."""

import asyncio
import threading
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.s3 import xml
from gateway.s3.errors import S3Code, S3Error
from gateway.s3.xml import LEAF, REQUIRED_LEAF, Element, escape, legible, read

THING = Element({"Key": REQUIRED_LEAF, "Note": LEAF}, many=3, is_required=True)
ROOTS = {"Root": Element({"Thing": THING, "Quiet": LEAF})}
ONE = "<Thing><Key>k</Key></Thing>"


def refused(document: str | bytes, **arguments: int) -> S3Code:
    with pytest.raises(S3Error) as caught:
        read(document.encode() if isinstance(document, str) else document, ROOTS, **arguments)
    return caught.value.code


@pytest.mark.parametrize("namespace", ["", ' xmlns="http://s3.amazonaws.com/doc/2006-03-01/"', ' xmlns="urn:x"'])
def test_reads_whatever_the_namespace(namespace: str) -> None:
    root = read(f"<Root{namespace}>\n <Thing>\n<Key> a&amp;b&#13; </Key></Thing>{ONE}</Root>".encode(), ROOTS)
    assert [thing.get("Key") for thing in root.all("Thing")] == [" a&b\r ", "k"]
    assert not root.has("Quiet")
    assert root.get("Quiet", "no") == "no"


def test_prefixed_names_and_other_encodings() -> None:
    thing = "<s3:Thing><s3:Key>é</s3:Key></s3:Thing>"
    text = f'<?xml version="1.0" encoding="{{}}"?><s3:Root xmlns:s3="urn:x">{thing}</s3:Root>'
    for encoding in ("UTF-8", "UTF-8-sig"):
        root = read(text.format("UTF-8").encode(encoding), ROOTS)
        assert root.all("Thing")[0].get("Key") == "é"
    for encoding in ("ISO-8859-1", "UTF-16", "UTF-16-LE", "UTF-16-BE", "UTF-32"):
        assert refused(text.format(encoding).encode(encoding))


def test_a_tag_is_no_longer_than_any_text() -> None:
    assert refused("<Root " + " ".join(f'a{number}=""' for number in range(10_000)) + f">{ONE}</Root>")


def test_what_xml_cannot_carry_is_told_legibly() -> None:
    assert legible("a\x00\x1f\ufffe\uffff\tb\n") == "a\ufffd\ufffd\ufffd\ufffd\tb\n"
    assert escape("\uffff") == "&#65535;"


@pytest.mark.parametrize(
    "document",
    [
        "",
        "text",
        "<Root>",
        f"<Root>{ONE}</Root><Root/>",
        f"<Other>{ONE}</Other>",
        f"<Root>{ONE}<Unknown/></Root>",
        f"<Root>{ONE}stray</Root>",
        "<Root><Thing><Key>k</Key><Key>k</Key></Thing></Root>",
        "<Root><Thing><Note>n</Note></Thing></Root>",
        "<Root/>",
        f"<Root>{ONE * 4}</Root>",
        "<Root><Thing><Key><b/></Key></Thing></Root>",
        f"<!DOCTYPE Root><Root>{ONE}</Root>",
        '<!DOCTYPE Root [<!ENTITY a "b">]><Root><Thing><Key>&a;</Key></Thing></Root>',
        '<!DOCTYPE Root SYSTEM "file:///etc/passwd"><Root/>',
        "<Root><Thing><Key>&unknown;</Key></Thing></Root>",
        '<?xml version="1.0" encoding="no-such"?><Root/>',
        b"<Root><Thing><Key>\xff</Key></Thing></Root>",
    ],
)
def test_everything_else_is_malformed(document: str | bytes) -> None:
    assert refused(document) is S3Code.MalformedXML


def test_limits_of_size_depth_and_count() -> None:
    document = f"<Root>{ONE * 3}</Root>"
    assert len(read(document.encode(), ROOTS, len(document)).all("Thing")) == 3
    assert refused(document, limit=len(document) - 1) is S3Code.MalformedXML
    deep = Element()
    for _ in range(20):
        deep = Element({"D": deep})
    for depth, fits in ((16, True), (17, False)):
        text = ("<D>" * depth + "</D>" * depth).encode()
        if fits:
            assert read(text, {"D": deep}).name == "D"
        else:
            with pytest.raises(S3Error):
                read(text, {"D": deep})


@given(st.text(alphabet=st.characters(blacklist_categories=["Cs", "Cc"], blacklist_characters="\ufffe\uffff")))
def test_written_text_is_read_back(text: str) -> None:
    body = xml.document("A", xml.element("B", text))
    assert (ElementTree.fromstring(body).findtext("{*}B") or "") == text
    assert xml.needs_escape(text) == (xml.escape(text) != text)


@pytest.mark.parametrize("text", ["\r", "a\rb", "\t\n", "]]>", "<a>&amp;'\""])
def test_white_space_and_markup_survive(text: str) -> None:
    assert ElementTree.fromstring(xml.document("A", xml.element("B", text))).findtext("{*}B") == text


def test_control_characters_never_stand_raw() -> None:
    assert xml.escape("a\x00\x01\x1fb") == "a&#0;&#1;&#31;b"


def test_small_pieces() -> None:
    assert xml.optional("A", "") == ""
    assert xml.boolean("A", value=False) == "<A>false</A>"
    assert xml.owner("a<b", "a<b") == "<Owner><ID>a&lt;b</ID><DisplayName>a&lt;b</DisplayName></Owner>"


@pytest.mark.parametrize(("size", "is_beside"), [(xml.PROMPT_BYTES_MAX, False), (xml.PROMPT_BYTES_MAX + 1, True)])
def test_a_long_document_is_parsed_beside_the_event_loop(size: int, *, is_beside: bool) -> None:
    """While it is parsed the loop turns: the parser waits for a turn of it, which comes only from beside."""

    async def check() -> None:
        turned = threading.Event()
        asyncio.get_running_loop().call_soon(turned.set)
        threads: list[threading.Thread] = []

        def parse(document: bytes) -> str:
            threads.append(threading.current_thread())
            assert turned.wait(20 if is_beside else 0) == is_beside
            return read(document, ROOTS).get("Quiet")

        document = f"<Root>{ONE}<Quiet>yes</Quiet></Root>".encode().ljust(size)
        assert await xml.take(document, parse) == "yes"
        assert (threads[0] is not threading.current_thread()) == is_beside

    asyncio.run(check())


def test_a_long_document_is_refused_as_a_short_one_is() -> None:
    with pytest.raises(S3Error) as caught:
        asyncio.run(xml.take(b"<Root>".ljust(xml.PROMPT_BYTES_MAX + 1), lambda document: read(document, ROOTS)))
    assert caught.value.code is S3Code.MalformedXML
