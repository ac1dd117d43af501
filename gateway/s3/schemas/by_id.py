"""Documents of the configurations that a bucket has many of, each under an id."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

from gateway.s3 import intelligent_tiering, inventory, xml
from gateway.s3.request import Request
from gateway.s3.schemas import described

BYTES_MAX: Final = 64 * 1024
"""Of one configuration, which holds a few short values."""
_ID: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")


@dataclass(frozen=True, slots=True)
class NamedConfiguration:
    """The configuration that the query names."""

    configuration_id: str

    @classmethod
    async def decode(cls, request: Request) -> Self:
        return cls(_id(request))


def _id(request: Request) -> str:
    """The id in the query. Errors: InvalidArgument for what cannot be one."""
    text = request.query["id"]
    if _ID.fullmatch(text) is None:
        raise described.invalid("id", text, "The configuration id is not valid.")
    return text


@dataclass(frozen=True, slots=True)
class ListConfigurations:
    """A page of the configurations of one kind; `token` empty for the first."""

    token: str

    @classmethod
    async def decode(cls, request: Request) -> Self:
        return cls(request.query.get("continuation-token", ""))


@dataclass(frozen=True, slots=True)
class PutInventory:
    """An inventory configuration; `elements` is what the document holds, as XML of our own spelling."""

    configuration: inventory.Inventory
    elements: bytes

    @classmethod
    async def decode(cls, request: Request) -> Self:
        root = await _read(request, inventory.ROOTS)
        return cls(inventory.parse(root), inner_xml(root))


@dataclass(frozen=True, slots=True)
class PutIntelligentTiering:
    """An intelligent-tiering configuration; `elements` as in `PutInventory`."""

    configuration: intelligent_tiering.IntelligentTiering
    elements: bytes

    @classmethod
    async def decode(cls, request: Request) -> Self:
        root = await _read(request, intelligent_tiering.ROOTS)
        return cls(intelligent_tiering.parse(root), inner_xml(root))


async def _read(request: Request, roots: Mapping[str, xml.Element]) -> xml.Node:
    """The document, whose id is the one in the query. Errors: MalformedXML, InvalidArgument when the ids differ."""
    named = _id(request)
    root = xml.read(await request.read_document(xml.DOCUMENT_BYTES_MAX), roots, BYTES_MAX)
    if root.get("Id") != named:
        raise described.invalid("id", named, "The id of the document differs from the one in the query.")
    return root


def inner_xml(node: xml.Node) -> bytes:
    """What a node holds, spelled anew: the same elements and texts in the same order, nothing else."""
    return "".join(_spelled(child) for child in node.children).encode()


def _spelled(node: xml.Node) -> str:
    if not node.schema.children:
        return xml.element(node.name, node.text)
    return f"<{node.name}>{''.join(_spelled(child) for child in node.children)}</{node.name}>"
