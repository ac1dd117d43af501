"""Intelligent-tiering configurations of a bucket, as put and as the lifecycle engine reads them."""

from dataclasses import dataclass
from typing import Final

from gateway.s3 import tags, xml
from gateway.s3.errors import S3Code, S3Error

_DAYS_MAX: Final = 730
_DAYS_MIN: Final = {"ARCHIVE_ACCESS": 90, "DEEP_ARCHIVE_ACCESS": 180}
_TAG: Final = {"Key": xml.REQUIRED_LEAF, "Value": xml.REQUIRED_LEAF}
_TIERING: Final = xml.Element(
    {"Days": xml.REQUIRED_LEAF, "AccessTier": xml.REQUIRED_LEAF}, many=len(_DAYS_MIN), is_required=True
)
ROOTS: Final = {
    "IntelligentTieringConfiguration": xml.Element(
        {
            "Id": xml.REQUIRED_LEAF,
            "Filter": xml.Element(
                {
                    "Prefix": xml.LEAF,
                    "Tag": xml.Element(_TAG),
                    "And": xml.Element({"Prefix": xml.LEAF, "Tag": xml.Element(_TAG, many=tags.OBJECT_TAGS_MAX)}),
                }
            ),
            "Status": xml.REQUIRED_LEAF,
            "Tiering": _TIERING,
        }
    )
}


@dataclass(frozen=True, slots=True)
class IntelligentTiering:
    """What one configuration asks for. `tierings` are access tiers with the days without access that lead there."""

    tiering_id: str
    is_enabled: bool
    prefix: str
    tags: tuple[tuple[str, str], ...]
    tierings: tuple[tuple[str, int], ...]


def parse(root: xml.Node) -> IntelligentTiering:
    """The configuration in a document read against `ROOTS`.

    Errors: MalformedXML for a value outside its list or two filters without `And`, InvalidArgument for days outside
    their range, InvalidTag.
    """
    if root.get("Status") not in {"Enabled", "Disabled"}:
        raise xml.malformed()
    filters = root.all("Filter")
    prefix, pairs = _filter(filters[0]) if filters else ("", [])
    tierings = tuple(_tiering(node) for node in root.all("Tiering"))
    if len(dict(tierings)) != len(tierings):
        raise xml.malformed()
    return IntelligentTiering(root.get("Id"), root.get("Status") == "Enabled", prefix, tuple(pairs), tierings)


def _filter(node: xml.Node) -> tuple[str, tags.Tags]:
    if len(node.children) > 1:
        raise xml.malformed()
    inner = node.all("And")[0] if node.has("And") else node
    if node.has("And") and len(inner.children) < 2:
        raise xml.malformed()
    return inner.get("Prefix"), tags.checked(tags.tags_of(inner), tags.OBJECT_TAGS_MAX)


def _tiering(node: xml.Node) -> tuple[str, int]:
    tier, text = node.get("AccessTier"), node.get("Days")
    if tier not in _DAYS_MIN or not (text.isascii() and text.isdigit()):
        raise xml.malformed()
    days = int(text) if len(text) <= 4 else _DAYS_MAX + 1
    if not _DAYS_MIN[tier] <= days <= _DAYS_MAX:
        message = f"Days of {tier} must be from {_DAYS_MIN[tier]} to {_DAYS_MAX}."
        raise S3Error(S3Code.InvalidArgument, message, ArgumentName="Days", ArgumentValue=text)
    return tier, days
