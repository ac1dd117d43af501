"""Documents of bucket operations."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

from gateway.auth.acl import AskedAcl, Ownership
from gateway.s3 import tags, xml
from gateway.s3.errors import S3Code, S3Error
from gateway.s3.lock_headers import lock_enabled_of
from gateway.s3.request import Request
from gateway.s3.schemas.acls import OWNERSHIP_HEADER, asked_in_headers, ownership_of
from metadata.types import Versioning

BUCKETS_MAX: Final = 10_000
_REGIONS: Final = frozenset(
    f"{area}-{side}-{count}"
    for area in ("us", "eu", "ap", "sa", "ca", "af", "me", "il", "mx", "cn", "us-gov")
    for side in ("north", "south", "east", "west", "central", "northeast", "northwest", "southeast", "southwest")
    for count in (1, 2, 3, 4, 5, 6, 7)
) | {"EU"}

_CREATE_ROOTS: Final = {
    "CreateBucketConfiguration": xml.Element(
        {
            "LocationConstraint": xml.LEAF,
            "Tags": xml.Element({"Tag": xml.Element({"Key": xml.REQUIRED_LEAF, "Value": xml.LEAF}, many=51)}),
            "Location": xml.Element({"Name": xml.LEAF, "Type": xml.LEAF}),
            "Bucket": xml.Element({"DataRedundancy": xml.LEAF, "Type": xml.LEAF}),
        }
    )
}
_VERSIONING_ROOTS: Final = {"VersioningConfiguration": xml.Element({"Status": xml.LEAF, "MfaDelete": xml.LEAF})}
_STATES: Final[Mapping[str, Versioning]] = {"Enabled": Versioning.ENABLED, "Suspended": Versioning.SUSPENDED}


@dataclass(frozen=True, slots=True)
class ListBuckets:
    """One page of the caller's buckets. `region` empty means any."""

    prefix: str
    region: str
    token: str
    limit: int

    @classmethod
    async def decode(cls, request: Request) -> Self:
        query = request.query
        text = query.get("max-buckets", str(BUCKETS_MAX))
        if not (text.isascii() and text.isdigit()) or len(text) > 5 or not 1 <= int(text) <= BUCKETS_MAX:
            message = f"max-buckets must be an integer between 1 and {BUCKETS_MAX}"
            raise S3Error(S3Code.InvalidArgument, message, ArgumentName="max-buckets", ArgumentValue=text)
        token = query.get("continuation-token", "")
        return cls(query.get("prefix", ""), query.get("bucket-region", ""), token, int(text))


@dataclass(frozen=True, slots=True)
class CreateBucket:
    """A bucket to create.

    `region` is where the client wants it, empty when it does not say; `ownership` None when it names none; `has_lock`
    asks for Object Lock.
    """

    region: str
    tags: tags.Tags
    asked: AskedAcl
    ownership: Ownership | None
    has_lock: bool

    @classmethod
    async def decode(cls, request: Request) -> Self:
        ownership = _asked_ownership(request)
        has_lock = lock_enabled_of(request.fields)
        body = await request.read_document(xml.DOCUMENT_BYTES_MAX)
        asked = await asked_in_headers(request.fields, request.namespace.principals, {request.caller_id})
        if not body:
            return cls("", [], asked, ownership, has_lock)
        root = xml.read(body, _CREATE_ROOTS)
        if root.has("Location") or root.has("Bucket"):
            raise S3Error(S3Code.NotImplemented, "Directory buckets are not implemented.")
        sets = [tags.tags_of(node) for node in root.all("Tags")]
        return cls(
            _known_region(root.get("LocationConstraint"), request.services.region),
            tags.checked(sets[0], tags.BUCKET_TAGS_MAX) if sets else [],
            asked,
            ownership,
            has_lock,
        )


def _known_region(region: str, own: str) -> str:
    """The region asked for. Errors: InvalidLocationConstraint for a word that is no region."""
    if region and region != own and region not in _REGIONS:
        raise S3Error(S3Code.InvalidLocationConstraint, LocationConstraint=region)
    return region


def _asked_ownership(request: Request) -> Ownership | None:
    """The ownership asked for. Errors: InvalidArgument for what is none."""
    word = request.text(OWNERSHIP_HEADER)
    ownership = ownership_of(word)
    if OWNERSHIP_HEADER in request.fields and ownership is None:
        raise S3Error(S3Code.InvalidArgument, ArgumentName=OWNERSHIP_HEADER.decode(), ArgumentValue=word)
    return ownership


@dataclass(frozen=True, slots=True)
class PutBucketVersioning:
    """The state versioning is to have."""

    state: Versioning

    @classmethod
    async def decode(cls, request: Request) -> Self:
        root = xml.read(await request.read_document(xml.DOCUMENT_BYTES_MAX), _VERSIONING_ROOTS)
        state = _STATES.get(root.get("Status"))
        if root.get("MfaDelete", "Disabled") not in {"Enabled", "Disabled"} or state is None:
            raise xml.malformed()
        if root.get("MfaDelete") == "Enabled":
            raise S3Error(S3Code.NotImplemented, "MFA delete is not implemented.", Header="x-amz-mfa")
        return cls(state)


@dataclass(frozen=True, slots=True)
class PutBucketTagging:
    """The tags a bucket is to have."""

    tags: tags.Tags

    @classmethod
    async def decode(cls, request: Request) -> Self:
        body = await request.read_document(xml.DOCUMENT_BYTES_MAX)
        return cls(tags.parse_document(body, tags.BUCKET_TAGS_MAX))
