"""Documents of listings, and the pages they answer. A page of 1000 keys is one pass of f-strings over the rows."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Self
from urllib.parse import quote

from gateway.http.call import Answer
from gateway.s3 import tokens, xml
from gateway.s3.headers import iso_time
from gateway.s3.request import Request
from gateway.s3.schemas.answers import XML_TYPE
from gateway.s3.schemas.described import invalid, is_id
from metadata.types import Version
from tiers.namespace.types import ListPage, ListQuery

KEYS_MAX: Final = 1000
_URL_SAFE: Final = b"/-_.~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def encoding_of(request: Request) -> bool:
    """Whether names are to be percent-encoded. Errors: InvalidArgument for anything but `url`."""
    value = request.query.get("encoding-type", "")
    if value not in ("", "url"):
        raise invalid("encoding-type", value, "Invalid Encoding Method specified in Request")
    return value == "url"


def name_text(name: str, *, is_encoded: bool) -> str:
    """A key, prefix or delimiter as XML text."""
    return quote(name, safe="/-_.~") if is_encoded else xml.escape(name)


def _query(request: Request, after: str, after_version: str = "") -> ListQuery:
    return ListQuery(
        request.bucket_name,
        request.query.get("prefix", ""),
        request.query.get("delimiter", ""),
        after,
        after_version,
        request.number("max-keys", KEYS_MAX, least=0, most=KEYS_MAX),
    )


@dataclass(frozen=True, slots=True)
class ListObjects:
    """One page of current versions, first form."""

    query: ListQuery
    is_encoded: bool

    @classmethod
    async def decode(cls, request: Request) -> Self:
        return cls(_query(request, request.query.get("marker", "")), encoding_of(request))


@dataclass(frozen=True, slots=True)
class ListObjectsV2:
    """One page of current versions, second form. `token` None means none was sent; an empty one is echoed."""

    query: ListQuery
    is_encoded: bool
    with_owner: bool
    start_after: str
    token: str | None

    @classmethod
    async def decode(cls, request: Request) -> Self:
        query = request.query
        if query["list-type"] != "2":
            raise invalid("list-type", query["list-type"], "Invalid value for list-type; only 2 is known")
        start_after, token = query.get("start-after", ""), query.get("continuation-token")
        listed = _query(request, start_after)
        if token:
            after = tokens.open_token(request.services.token_key, token, token_scope(listed))
            listed = _query(request, after)
        return cls(listed, encoding_of(request), query.get("fetch-owner") == "true", start_after, token)


def token_scope(query: ListQuery) -> tuple[str, str, str, str]:
    """What a continuation token of a listing is good for."""
    return "objects", query.bucket, query.prefix, query.delimiter


@dataclass(frozen=True, slots=True)
class ListObjectVersions:
    """One page of versions and delete markers."""

    query: ListQuery
    is_encoded: bool

    @classmethod
    async def decode(cls, request: Request) -> Self:
        key_marker = request.query.get("key-marker", "")
        version_marker = request.query.get("version-id-marker", "")
        if version_marker and not key_marker:
            message = "A version-id marker cannot be specified without a key marker."
            raise invalid("version-id-marker", version_marker, message)
        if not is_id(version_marker):
            raise invalid("version-id-marker", version_marker, "Invalid version id specified")
        return cls(_query(request, key_marker, version_marker), encoding_of(request))


# --------------------------------------------------------------------------------------------------------------- pages


def keys_as_text(page: ListPage, *, is_encoded: bool) -> list[str]:
    """The keys of a page as XML text; one look at the whole page when no key needs a change."""
    packed = [version.key for version in page.entries]
    if is_encoded:
        if not b"".join(packed).translate(None, _URL_SAFE):
            return [key.decode() for key in packed]
        return [quote(key, safe="/-_.~") for key in packed]
    keys = [key.decode() for key in packed]
    return [xml.escape(key) for key in keys] if xml.needs_escape("".join(keys)) else keys


def checksum_words(version: Version) -> str:
    """Algorithm and type of a version's checksum, as listings name them."""
    return _checksum_elements(version.checksum.rpartition(":")[0])


@lru_cache(64)
def _checksum_elements(words: str) -> str:
    """`ALGORITHM:TYPE` as elements: there are few of them, and a listing names one a key."""
    if not words:
        return ""
    algorithm, _, kind = words.partition(":")
    return f"<ChecksumAlgorithm>{algorithm}</ChecksumAlgorithm><ChecksumType>{kind}</ChecksumType>"


def object_pieces(page: ListPage, *, is_encoded: bool, owners: Mapping[str, str]) -> list[str]:
    """One Contents element for each entry. `owners` are Owner elements by owner id, empty when none are wanted."""
    keys = keys_as_text(page, is_encoded=is_encoded)
    return [
        f"<Contents><Key>{key}</Key><LastModified>{iso_time(version.modified_ms)}</LastModified>"
        f"<ETag>&quot;{version.etag}&quot;</ETag>{checksum_words(version)}<Size>{version.size}</Size>"
        f"{owners[version.owner_id] if owners else ''}<StorageClass>{version.storage_class}</StorageClass>"
        "</Contents>"
        for key, version in zip(keys, page.entries, strict=True)
    ]


def version_pieces(page: ListPage, *, is_encoded: bool, owners: Mapping[str, str]) -> list[str]:
    """One Version or DeleteMarker element for each entry. `owners` are Owner elements by owner id."""
    keys = keys_as_text(page, is_encoded=is_encoded)
    return [
        _version_piece(key, version, owners[version.owner_id]) for key, version in zip(keys, page.entries, strict=True)
    ]


def _version_piece(key: str, version: Version, owner: str) -> str:
    latest = "false" if version.noncurrent_ms else "true"
    common = (
        f"<Key>{key}</Key><VersionId>{version.version_id}</VersionId><IsLatest>{latest}</IsLatest>"
        f"<LastModified>{iso_time(version.modified_ms)}</LastModified>{owner}"
    )
    if version.is_delete_marker:
        return f"<DeleteMarker>{common}</DeleteMarker>"
    return (
        f"<Version>{common}<ETag>&quot;{version.etag}&quot;</ETag>{checksum_words(version)}<Size>{version.size}</Size>"
        f"<StorageClass>{version.storage_class}</StorageClass></Version>"
    )


def prefix_pieces(prefixes: list[str], *, is_encoded: bool) -> list[str]:
    """One CommonPrefixes element for each common prefix."""
    return [
        f"<CommonPrefixes><Prefix>{name_text(prefix, is_encoded=is_encoded)}</Prefix></CommonPrefixes>"
        for prefix in prefixes
    ]


@dataclass(frozen=True, slots=True)
class Listing:
    """A page as its root element and pieces."""

    root: str
    pieces: list[str]

    def answer(self) -> Answer:
        body = xml.document(self.root, *self.pieces)
        return Answer(200, [XML_TYPE], body, len(body))


def page_head(document: ListObjects | ListObjectsV2 | ListObjectVersions, page: ListPage) -> list[str]:
    """The elements that begin every listing of keys."""
    query, is_encoded = document.query, document.is_encoded
    delimiter = name_text(query.delimiter, is_encoded=is_encoded)
    # The first form says its prefix as it came: its clients decode every other name, but not this one.
    prefix = name_text(query.prefix, is_encoded=is_encoded and not isinstance(document, ListObjects))
    return [
        f"<Name>{query.bucket}</Name><Prefix>{prefix}</Prefix>",
        f"<Delimiter>{delimiter}</Delimiter>" if delimiter else "",
        f"<MaxKeys>{query.limit}</MaxKeys>",
        "<EncodingType>url</EncodingType>" if is_encoded else "",
        xml.boolean("IsTruncated", value=page.is_truncated),
    ]
