"""XML in and out: expat behind limits for what clients send, string pieces for what we answer.

Answers never become an element tree. A request document is read against an `Element` schema: namespaces are ignored, an
element the schema does not name is refused, and limits are noticed while parsing.
"""

import asyncio
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar
from xml.parsers import expat

from gateway.s3.errors import S3Code, S3Error

T = TypeVar("T")

DOCUMENT_BYTES_MAX: Final = 1024 * 1024
COMPLETE_BYTES_MAX: Final = 4 * 1024 * 1024
DELETE_BYTES_MAX: Final = 8 * 1024 * 1024
PROMPT_BYTES_MAX: Final = 16 * 1024
"""A document up to here is parsed in a few milliseconds at most, whatever is in it."""
DEPTH_MAX: Final = 16
NAMESPACE: Final = "http://s3.amazonaws.com/doc/2006-03-01/"
DECLARATION: Final = '<?xml version="1.0" encoding="UTF-8"?>\n'
_SCHEMA_INSTANCE: Final = "http://www.w3.org/2001/XMLSchema-instance"
_SEPARATOR: Final = "\x1f"
_TYPE: Final = f"{_SCHEMA_INSTANCE}{_SEPARATOR}type"

# Characters that must not appear as they are in character data. Control characters are written as references, which
# every lenient S3 client reads back; XML 1.0 has no legal form for them.
_ESCAPES: Final = {ord("&"): "&amp;", ord("<"): "&lt;", ord(">"): "&gt;", ord("\r"): "&#13;"} | {
    code: f"&#{code};" for code in (*range(32), 0xFFFE, 0xFFFF) if code not in {9, 10, 13}
}
_SPECIAL: Final = re.compile("[&<>\x00-\x08\x0b-\x1f\ufffe\uffff]")
_UNSPEAKABLE: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
_LONG_TAG: Final = re.compile(rb"<[^<]{65536}").search
"""More than any text or tag of a request: expat would make an object of every attribute before we see one."""


@dataclass(frozen=True, slots=True)
class Element:
    """What may stand at one place of a request document.

    A leaf has text and no children. `many` is how often the element may stand in its parent; one more is MalformedXML
    and is noticed while parsing, before it costs memory.
    """

    children: Mapping[str, "Element"] = field(default_factory=dict)
    many: int = 1
    is_required: bool = False


LEAF: Final = Element()
REQUIRED_LEAF: Final = Element(is_required=True)


class Node:
    """One element as received: its text and its children in document order.

    `kind` is its `xsi:type`, the only attribute that means anything in a request; empty when it has none.
    """

    __slots__ = ("children", "counts", "kind", "name", "schema", "text")

    def __init__(self, name: str, schema: Element, kind: str = "") -> None:
        self.name = name
        self.schema = schema
        self.kind = kind
        self.text = ""
        self.children: list[Node] = []
        self.counts: dict[str, int] = {}

    def all(self, name: str) -> list["Node"]:
        """The children of that name, in order."""
        return [child for child in self.children if child.name == name]

    def get(self, name: str, default: str = "") -> str:
        """Text of the only child of that name, `default` when it is absent."""
        return next((child.text for child in self.children if child.name == name), default)

    def has(self, name: str) -> bool:
        return name in self.counts


def malformed(message: str | None = None) -> S3Error:
    """The error for a document that does not fit its schema."""
    return S3Error(S3Code.MalformedXML, message)


def read(document: bytes, roots: Mapping[str, Element], limit: int = DOCUMENT_BYTES_MAX) -> Node:
    """Parse a request document whose root is one of `roots`.

    Errors: MalformedXML for anything that is not well-formed UTF-8 XML within the limits, has a DOCTYPE, an unknown or
    repeated element, text where elements belong, or lacks a required element. Cost: linear in the document.
    """
    # A NUL is how expat would tell UTF-16, whatever encoding it is given.
    if len(document) > limit or b"\0" in document or _LONG_TAG(document):
        raise malformed()
    return _Reading(roots).run(document)


async def take(document: bytes, parse: Callable[[bytes], T]) -> T:
    """What `parse` makes of a request document; a long one is parsed by a thread, beside the event loop.

    Errors: those of `parse`.
    """
    if len(document) <= PROMPT_BYTES_MAX:
        return parse(document)
    return await asyncio.get_running_loop().run_in_executor(None, parse, document)


class _Reading:
    """State of one parse."""

    def __init__(self, roots: Mapping[str, Element]) -> None:
        self._open: list[Node] = []
        self._pieces: list[str] = []
        self._top = Node("", Element(children=roots))

    def run(self, document: bytes) -> Node:
        parser = expat.ParserCreate("UTF-8", _SEPARATOR)  # whatever the document says of itself
        parser.buffer_text = True
        parser.StartDoctypeDeclHandler = self._doctype
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._pieces.append
        try:
            parser.Parse(document, True)  # noqa: FBT003  # expat takes it by position only
        except (expat.ExpatError, ValueError, LookupError) as error:  # the last two: encodings Python refuses
            raise malformed() from error
        return self._top.children[0]

    def _doctype(self, *_: object) -> None:
        raise malformed("A document type declaration is not allowed.")

    def _start(self, name: str, attributes: Mapping[str, str]) -> None:
        parent = self._open[-1] if self._open else self._top
        local = name.rpartition(_SEPARATOR)[2]
        schema = parent.schema.children.get(local)
        count = parent.counts.get(local, 0) + 1
        if schema is None or count > schema.many or len(self._open) >= DEPTH_MAX:
            raise malformed()
        self._take_text(parent)
        parent.counts[local] = count
        node = Node(local, schema, attributes.get(_TYPE, "") if attributes else "")
        parent.children.append(node)
        self._open.append(node)

    def _end(self, _name: str) -> None:
        node = self._open.pop()
        self._take_text(node)
        for name, schema in node.schema.children.items():
            if schema.is_required and name not in node.counts:
                raise malformed()

    def _take_text(self, node: Node) -> None:
        """Text belongs to leaves; between elements only white space is allowed."""
        text = "".join(self._pieces)
        self._pieces.clear()
        if not node.schema.children:
            node.text = text
        elif text and not text.isspace():
            raise malformed()


def escape(text: str) -> str:
    """Text as XML character data; the text itself when nothing needs escaping."""
    return text.translate(_ESCAPES) if _SPECIAL.search(text) else text


def is_speakable(text: str) -> bool:
    """Whether XML 1.0 can carry every character of the text."""
    return _UNSPEAKABLE.search(text) is None


def legible(text: str) -> str:
    """Text with U+FFFD for what XML 1.0 cannot carry: for what must parse everywhere and nobody reads back."""
    return _UNSPEAKABLE.sub("\ufffd", text)


def needs_escape(text: str) -> bool:
    """Whether `escape` would change the text; asked once for a whole page of keys."""
    return _SPECIAL.search(text) is not None


def element(name: str, text: str) -> str:
    """One element with text; the text is escaped."""
    return f"<{name}>{escape(text)}</{name}>"


def optional(name: str, text: str) -> str:
    """One element with text, nothing when the text is empty."""
    return f"<{name}>{escape(text)}</{name}>" if text else ""


def boolean(name: str, *, value: bool) -> str:
    """One element with true or false."""
    return f"<{name}>{'true' if value else 'false'}</{name}>"


def document(name: str, *pieces: str) -> bytes:
    """A whole answer document in the S3 namespace from ready pieces."""
    return f'{DECLARATION}<{name} xmlns="{NAMESPACE}">{"".join(pieces)}</{name}>'.encode()


def owner(identity: str, display_name: str, name: str = "Owner") -> str:
    """An Owner or Initiator element."""
    return f"<{name}><ID>{escape(identity)}</ID><DisplayName>{escape(display_name)}</DisplayName></{name}>"


def grantee(identity: str, display_name: str) -> str:
    """A canonical-user Grantee element."""
    return (
        f'<Grantee xmlns:xsi="{_SCHEMA_INSTANCE}" xsi:type="CanonicalUser"><ID>{escape(identity)}</ID>'
        f"<DisplayName>{escape(display_name)}</DisplayName></Grantee>"
    )


def group_grantee(uri: str) -> str:
    """A Grantee element of a group."""
    return f'<Grantee xmlns:xsi="{_SCHEMA_INSTANCE}" xsi:type="Group"><URI>{escape(uri)}</URI></Grantee>'


def typed_grantee(kind: str, *pieces: str) -> str:
    """A Grantee element of any `xsi:type` from ready pieces."""
    return f'<Grantee xmlns:xsi="{_SCHEMA_INSTANCE}" xsi:type="{escape(kind)}">{"".join(pieces)}</Grantee>'
