"""Access control lists in requests: the ACL and grant headers, the AccessControlPolicy document, ownership controls.

A list is read purely into grants as they were written, whose grantees are then looked up: a list with a grantee that
does not exist is refused whole.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, Self

from gateway.auth.acl import (
    CANNED,
    EC2_BUNDLES_ID,
    GRANTS_MAX,
    NO_LIST,
    AskedAcl,
    Grant,
    Group,
    Owned,
    Ownership,
    Permission,
    own_object,
)
from gateway.auth.public_access import NO_BLOCK
from gateway.s3 import xml
from gateway.s3.errors import S3Code, S3Error
from gateway.s3.request import Request
from tiers.namespace.principals import Principals

CANNED_HEADER: Final = b"x-amz-acl"
GRANT_HEADERS: Final[Mapping[bytes, Permission]] = {
    b"x-amz-grant-read": Permission.READ,
    b"x-amz-grant-write": Permission.WRITE,
    b"x-amz-grant-read-acp": Permission.READ_ACP,
    b"x-amz-grant-write-acp": Permission.WRITE_ACP,
    b"x-amz-grant-full-control": Permission.FULL_CONTROL,
}
OWNERSHIP_HEADER: Final = b"x-amz-object-ownership"
_NAMES: Final = (CANNED_HEADER, *GRANT_HEADERS)
_GROUPS: Final = tuple(group.value for group in Group)
_OWNERSHIPS: Final[Mapping[str, Ownership]] = {ownership.value: ownership for ownership in Ownership}

GRANTEE_KINDS: Final[Mapping[str, str]] = {
    "CanonicalUser": "ID",
    "Group": "URI",
    "AmazonCustomerByEmail": "EmailAddress",
}
"""The `xsi:type` of a grantee, and the element that names it."""
_HEADER_KINDS: Final[Mapping[str, str]] = {"id": "ID", "uri": "URI", "emailaddress": "EmailAddress"}
_HEADER_GRANTEE: Final = re.compile(r"\s*(id|uri|emailAddress)\s*=\s*(?:\"([^\"]*)\"|([^\",\s]+))\s*(?:,|$)", re.I)

_OWNER: Final = xml.Element({"ID": xml.REQUIRED_LEAF, "DisplayName": xml.LEAF}, is_required=True)
GRANTEE: Final = xml.Element(
    {"ID": xml.LEAF, "DisplayName": xml.LEAF, "URI": xml.LEAF, "EmailAddress": xml.LEAF}, is_required=True
)
_GRANT: Final = xml.Element({"Grantee": GRANTEE, "Permission": xml.REQUIRED_LEAF}, many=GRANTS_MAX)
_POLICY_ROOTS: Final = {
    "AccessControlPolicy": xml.Element(
        {"Owner": _OWNER, "AccessControlList": xml.Element({"Grant": _GRANT}, is_required=True)}
    )
}
_RULE: Final = xml.Element({"ObjectOwnership": xml.REQUIRED_LEAF}, is_required=True)
_OWNERSHIP_ROOTS: Final = {"OwnershipControls": xml.Element({"Rule": _RULE})}


class WrittenGrant(NamedTuple):
    """A grant as a client wrote it; `kind` is ID, URI or EmailAddress."""

    kind: str
    value: str
    permission: Permission


def _malformed() -> S3Error:
    return S3Error(S3Code.MalformedACLError)


def has_acl(fields: Mapping[bytes, bytes]) -> bool:
    """Whether headers say anything about a list."""
    return any(name in fields for name in _NAMES)


def written_in_headers(fields: Mapping[bytes, bytes]) -> list[WrittenGrant]:
    """The grants of the grant headers, in the order of GRANT_HEADERS. Errors: InvalidArgument."""
    found: list[WrittenGrant] = []
    for name, permission in GRANT_HEADERS.items():
        text = fields.get(name, b"").decode("latin-1")
        at = 0
        while at < len(text) or (name in fields and at == 0):
            match = _HEADER_GRANTEE.match(text, at)
            if match is None or len(found) >= GRANTS_MAX:
                message = "Argument format not recognized"
                raise S3Error(S3Code.InvalidArgument, message, ArgumentName=name.decode(), ArgumentValue=text)
            found.append(WrittenGrant(_HEADER_KINDS[match[1].lower()], match[2] or match[3] or "", permission))
            at = match.end()
    return found


def canned_in_headers(fields: Mapping[bytes, bytes]) -> str:
    """The canned name of the ACL header, empty when there is none. Errors: InvalidArgument for an unknown one."""
    name = fields.get(CANNED_HEADER, b"").decode("latin-1")
    if CANNED_HEADER in fields and name not in CANNED:
        raise S3Error(S3Code.InvalidArgument, ArgumentName=CANNED_HEADER.decode(), ArgumentValue=name)
    return name


def written_in_document(document: bytes) -> tuple[str, list[WrittenGrant]]:
    """The owner and the grants of an AccessControlPolicy document. Errors: MalformedACLError."""
    try:
        root = xml.read(document, _POLICY_ROOTS)
    except S3Error as error:
        raise _malformed() from error
    owner = root.all("Owner")[0].get("ID")
    nodes = root.all("AccessControlList")[0].all("Grant")
    return owner, [_written(node) for node in nodes]


def _written(node: xml.Node) -> WrittenGrant:
    word = node.get("Permission")
    if word not in Permission.__members__:
        raise _malformed()
    return WrittenGrant(*written_grantee(node.all("Grantee")[0]), Permission(word))


def written_grantee(grantee: xml.Node) -> tuple[str, str]:
    """Kind, as of a WrittenGrant, and value of a Grantee element. Errors: MalformedACLError."""
    kind = GRANTEE_KINDS.get(grantee.kind.rpartition(":")[2], "")
    named = {name for name in ("ID", "URI", "EmailAddress") if grantee.has(name)}
    if named != {kind}:
        raise _malformed()
    return kind, grantee.get(kind)


async def resolve(written: Iterable[WrittenGrant], principals: Principals, known: Iterable[str]) -> tuple[Grant, ...]:
    """The grants with their grantees looked up; ids in `known` exist without a look.

    Errors: InvalidArgument for an id or group that does not exist, UnresolvableGrantByEmailAddress.
    """
    found = {identity: identity for identity in (*known, EC2_BUNDLES_ID, *_GROUPS)}
    resolved: list[Grant] = []
    for grant in written:
        if grant.value not in found:
            found[grant.value] = await _look_up(grant, principals)
        elif (grant.kind == "URI") is not (grant.value in _GROUPS):
            raise _unknown(grant)
        resolved.append(Grant(found[grant.value], grant.permission))
    return tuple(resolved)


async def _look_up(grant: WrittenGrant, principals: Principals) -> str:
    if grant.kind == "EmailAddress":
        row = await principals.find_email(grant.value)
        if row is None:
            raise S3Error(S3Code.UnresolvableGrantByEmailAddress, EmailAddress=grant.value)
        return row.principal_id
    row = await principals.get(grant.value) if grant.kind == "ID" else None
    if row is None:
        raise _unknown(grant)
    return row.principal_id


def _unknown(grant: WrittenGrant) -> S3Error:
    message = "Invalid group uri" if grant.kind == "URI" else "Invalid id"
    name = "Grantee/URI" if grant.kind == "URI" else "CanonicalUser/ID"
    return S3Error(S3Code.InvalidArgument, message, ArgumentName=name, ArgumentValue=grant.value)


async def asked_in_headers(fields: Mapping[bytes, bytes], principals: Principals, known: Iterable[str]) -> AskedAcl:
    """The list that headers, or the fields of a form by the same names, ask for.

    Errors: InvalidRequest for a canned name together with grants, InvalidArgument, UnresolvableGrantByEmailAddress.
    """
    if not has_acl(fields):
        return NO_LIST
    canned, written = canned_in_headers(fields), written_in_headers(fields)
    if canned and written:
        message = "Specifying both Canned ACLs and Header Grants is not allowed"
        raise S3Error(S3Code.InvalidRequest, message)
    return AskedAcl(canned) if canned else AskedAcl(grants=await resolve(written, principals, known))


async def owned_object(request: Request) -> Owned:
    """Owner and list of the object a request writes into the bucket it was authorised with.

    Errors: those of `asked_in_headers`; AccessControlListNotSupported, AccessDenied for a public list where blocked.
    """
    bucket, fields = request.owned_bucket, request.fields
    is_asked = has_acl(fields)
    if not is_asked and request.caller_id == bucket.owner_id:
        return Owned(bucket.owner_id, b"")
    asked = NO_LIST
    if is_asked:
        asked = await asked_in_headers(fields, request.namespace.principals, _known(request))
    configuration = await request.configuration()
    blocks = (configuration.public_access_block or NO_BLOCK).block_public_acls
    return own_object(asked, request.caller_id, bucket.owner_id, configuration.ownership, blocks=blocks)


def _known(request: Request) -> set[str]:
    """Ids that need no look: the owner of the bucket, and who asks."""
    return {request.owned_bucket.owner_id, request.caller_id} - {""}


@dataclass(frozen=True, slots=True)
class PutAcl:
    """The list a bucket or object is to have. `owner_id` is the owner as the document says, empty for headers."""

    asked: AskedAcl
    owner_id: str = ""

    @classmethod
    async def decode(cls, request: Request) -> Self:
        body = await request.read_document(xml.DOCUMENT_BYTES_MAX)
        principals, known = request.namespace.principals, _known(request)
        if has_acl(request.fields):
            if body:
                raise S3Error(S3Code.UnexpectedContent)
            return cls(await asked_in_headers(request.fields, principals, known))
        if not body:
            raise S3Error(S3Code.MissingSecurityHeader, MissingHeaderName=CANNED_HEADER.decode())
        owner_id, written = written_in_document(body)
        return cls(AskedAcl(grants=await resolve(written, principals, known)), owner_id)


def ownership_of(word: str) -> Ownership | None:
    """The ownership of that name, None for what is no name of one."""
    return _OWNERSHIPS.get(word)


@dataclass(frozen=True, slots=True)
class PutBucketOwnershipControls:
    """Who is to own what is written into a bucket."""

    ownership: Ownership

    @classmethod
    async def decode(cls, request: Request) -> Self:
        root = xml.read(await request.read_document(xml.DOCUMENT_BYTES_MAX), _OWNERSHIP_ROOTS)
        ownership = ownership_of(root.all("Rule")[0].get("ObjectOwnership"))
        if ownership is None:
            raise xml.malformed()
        return cls(ownership)
