"""The CORS document of a bucket."""

import re
from dataclasses import dataclass
from typing import Final, Self

from gateway.s3 import xml
from gateway.s3.cors import METHODS, CorsRule, CorsRules
from gateway.s3.errors import S3Code, S3Error
from gateway.s3.request import Request

RULES_MAX: Final = 100
ENTRIES_MAX: Final = 1000
ID_CHARACTERS_MAX: Final = 255
_AGE_MAX: Final = 2**31 - 1

_ENTRY: Final = xml.Element(many=ENTRIES_MAX)
_NEEDED: Final = xml.Element(many=ENTRIES_MAX, is_required=True)
_RULE: Final = xml.Element(
    {
        "ID": xml.LEAF,
        "AllowedHeader": _ENTRY,
        "AllowedMethod": _NEEDED,
        "AllowedOrigin": _NEEDED,
        "ExposeHeader": _ENTRY,
        "MaxAgeSeconds": xml.LEAF,
    },
    many=RULES_MAX,
    is_required=True,
)
_ROOTS: Final = {"CORSConfiguration": xml.Element({"CORSRule": _RULE})}

_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_ORIGIN: Final = re.compile(r"[!-~]+")


@dataclass(frozen=True, slots=True)
class PutBucketCors:
    """The cross-origin rules a bucket is to have."""

    rules: CorsRules

    @classmethod
    async def decode(cls, request: Request) -> Self:
        return cls(await xml.take(await request.read_document(xml.DOCUMENT_BYTES_MAX), parse_rules))


def parse_rules(body: bytes) -> CorsRules:
    """The rules of a CORSConfiguration. Errors: MalformedXML, InvalidRequest for a value that a rule cannot have."""
    return tuple(_rule(node) for node in xml.read(body, _ROOTS).all("CORSRule"))


def _rule(node: xml.Node) -> CorsRule:
    rule = CorsRule(
        node.get("ID") if node.has("ID") else None,
        _texts(node, "AllowedMethod"),
        _texts(node, "AllowedOrigin"),
        _texts(node, "AllowedHeader"),
        _texts(node, "ExposeHeader"),
        _age(node.get("MaxAgeSeconds")) if node.has("MaxAgeSeconds") else None,
    )
    if len(rule.rule_id or "") > ID_CHARACTERS_MAX:
        raise xml.malformed()
    for method in rule.methods:
        if method not in METHODS:
            raise _refused(f"Found unsupported HTTP method in CORS config. Unsupported method is {method}")
    for origin in rule.origins:
        _check(origin, _ORIGIN, "AllowedOrigin", stars=1)
    for header in rule.headers:
        _check(header, _TOKEN, "AllowedHeader", stars=1)
    for header in rule.exposed:
        _check(header, _TOKEN, "ExposeHeader", stars=0)
    return rule


def _texts(node: xml.Node, name: str) -> tuple[str, ...]:
    return tuple(child.text for child in node.all(name))


def _age(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > 10 or int(text) > _AGE_MAX:
        raise xml.malformed()
    return int(text)


def _check(text: str, form: re.Pattern[str], name: str, *, stars: int) -> None:
    """Errors: InvalidRequest for too many wildcards, or for characters that have no place in such a value."""
    if text.count("*") > stars:
        limit = "can not have more than one wildcard." if stars else "contains wildcard, which is not supported."
        raise _refused(f'{name} "{text}" {limit}')
    if form.fullmatch(text) is None:
        raise _refused(f'{name} "{text}" contains invalid characters.')


def _refused(message: str) -> S3Error:
    return S3Error(S3Code.InvalidRequest, message)


def render(rules: CorsRules) -> bytes:
    """The document as put."""
    return xml.document("CORSConfiguration", *(_render_rule(rule) for rule in rules))


def _render_rule(rule: CorsRule) -> str:
    pieces = [] if rule.rule_id is None else [xml.element("ID", rule.rule_id)]
    lists = (
        ("AllowedHeader", rule.headers),
        ("AllowedMethod", rule.methods),
        ("AllowedOrigin", rule.origins),
        ("ExposeHeader", rule.exposed),
    )
    for name, values in lists:
        pieces += [xml.element(name, value) for value in values]
    if rule.max_age is not None:
        pieces.append(f"<MaxAgeSeconds>{rule.max_age}</MaxAgeSeconds>")
    return f"<CORSRule>{''.join(pieces)}</CORSRule>"
