"""Access control lists as values: who is granted what, the canned lists, and what a permission lets one do.

Pure. A grantee is one string: a canonical user id, or the URI of a group; no id is ever a URI. The owner of a bucket or
object may always read and replace its list, whatever the list says.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from functools import lru_cache
from typing import Final, NamedTuple, NoReturn

import msgpack

from gateway.auth.keyring import Principal
from gateway.auth.refusals import Refused

GRANTS_MAX: Final = 100
"""Grants of one list, as on AWS: about 10 KiB with their grantees."""


class Permission(StrEnum):
    """What a grant lets its grantee do with the bucket or object the list belongs to."""

    READ = "READ"
    WRITE = "WRITE"
    READ_ACP = "READ_ACP"
    WRITE_ACP = "WRITE_ACP"
    FULL_CONTROL = "FULL_CONTROL"


class Group(StrEnum):
    """Grantees that are many."""

    ALL_USERS = "http://acs.amazonaws.com/groups/global/AllUsers"
    AUTHENTICATED_USERS = "http://acs.amazonaws.com/groups/global/AuthenticatedUsers"
    LOG_DELIVERY = "http://acs.amazonaws.com/groups/s3/LogDelivery"


class Ownership(StrEnum):
    """Who owns what is written into a bucket, and whether its lists count at all. None means as WRITER."""

    ENFORCED = "BucketOwnerEnforced"
    PREFERRED = "BucketOwnerPreferred"
    WRITER = "ObjectWriter"


class Grant(NamedTuple):
    """One permission of one grantee."""

    grantee: str
    permission: Permission


class Acl(NamedTuple):
    """A list: the owner, and the grants in the order they are shown. Make one with `make_acl`."""

    owner_id: str
    grants: tuple[Grant, ...]


BUCKET_OWNER_READ: Final = "bucket-owner-read"
BUCKET_OWNER_FULL_CONTROL: Final = "bucket-owner-full-control"
PRIVATE: Final = "private"
EC2_BUNDLES_ID: Final = "6aa5a366c34c1cbe25dc49211496e913e0351eb0e8c37aa3477e40942ec6b97c"
"""The account that `aws-exec-read` names on AWS. Nobody here has it, so its grant is shown and lets nobody in."""

ANONYMOUS_OWNER_ID: Final = "65a011a29cdf8ec533ec3d1ccaae921c"
"""Owner of what nobody signed for, as on AWS. No principal has this id, and no request acts as it."""

_GRANTED: Final[Mapping[str, tuple[Grant, ...]]] = {
    PRIVATE: (),
    "public-read": (Grant(Group.ALL_USERS, Permission.READ),),
    "public-read-write": (Grant(Group.ALL_USERS, Permission.READ), Grant(Group.ALL_USERS, Permission.WRITE)),
    "authenticated-read": (Grant(Group.AUTHENTICATED_USERS, Permission.READ),),
    "aws-exec-read": (Grant(EC2_BUNDLES_ID, Permission.READ),),
    "log-delivery-write": (
        Grant(Group.LOG_DELIVERY, Permission.WRITE),
        Grant(Group.LOG_DELIVERY, Permission.READ_ACP),
    ),
}
_TO_BUCKET_OWNER: Final[Mapping[str, Permission]] = {
    BUCKET_OWNER_READ: Permission.READ,
    BUCKET_OWNER_FULL_CONTROL: Permission.FULL_CONTROL,
}
CANNED: Final = frozenset(_GRANTED) | frozenset(_TO_BUCKET_OWNER)
"""The names of the canned lists."""

_PUBLIC: Final = frozenset({Group.ALL_USERS.value, Group.AUTHENTICATED_USERS.value})
_GROUPS: Final = frozenset(group.value for group in Group)
_OWNERS_OWN: Final = frozenset({Permission.READ_ACP, Permission.WRITE_ACP})

BUCKET_PERMISSIONS: Final[Mapping[str, Permission]] = {
    "s3:ListBucket": Permission.READ,
    "s3:ListBucketVersions": Permission.READ,
    "s3:ListBucketMultipartUploads": Permission.READ,
    "s3:PutObject": Permission.WRITE,
    "s3:DeleteObject": Permission.WRITE,
    "s3:AbortMultipartUpload": Permission.WRITE,
    "s3:ListMultipartUploadParts": Permission.WRITE,
    "s3:GetBucketAcl": Permission.READ_ACP,
    "s3:PutBucketAcl": Permission.WRITE_ACP,
}
"""The permission on a bucket's list that allows an action; other actions no list of a bucket allows.

Aborting an upload and listing its parts are further bound to whoever opened it.
"""

OBJECT_PERMISSIONS: Final[Mapping[str, Permission]] = {
    "s3:GetObject": Permission.READ,
    "s3:GetObjectVersion": Permission.READ,
    "s3:GetObjectAcl": Permission.READ_ACP,
    "s3:GetObjectVersionAcl": Permission.READ_ACP,
    "s3:PutObjectAcl": Permission.WRITE_ACP,
    "s3:PutObjectVersionAcl": Permission.WRITE_ACP,
}
"""The permission on an object's list that allows an action; other actions no list of an object allows."""


def make_acl(owner_id: str, grants: Iterable[Grant]) -> Acl:
    """A list with each grant once, those of groups first: clients compare lists, and this is the order they expect."""
    once = dict.fromkeys(grants)
    return Acl(owner_id, tuple(sorted(once, key=lambda grant: grant.grantee not in _GROUPS)))


def private_acl(owner_id: str) -> Acl:
    """The list of everything that was given none: full control for the owner, nothing for others."""
    return Acl(owner_id, (Grant(owner_id, Permission.FULL_CONTROL),))


def canned_acl(name: str, owner_id: str, bucket_owner_id: str) -> Acl:
    """The list a canned name means for a bucket or object of `owner_id` in a bucket of `bucket_owner_id`.

    `name` is one of CANNED. A bucket is its own: there the two lists for the bucket's owner mean the private one.
    """
    own = Grant(owner_id, Permission.FULL_CONTROL)
    if name not in _TO_BUCKET_OWNER:
        return make_acl(owner_id, (own, *_GRANTED[name]))
    if bucket_owner_id == owner_id:
        return Acl(owner_id, (own,))
    return make_acl(owner_id, (own, Grant(bucket_owner_id, _TO_BUCKET_OWNER[name])))


def grants(acl: Acl, principal: Principal, permission: Permission) -> bool:
    """Whether a list lets `principal` have a permission. Anonymous is of AllUsers only, and never an owner."""
    identity = principal.principal_id
    if identity and identity == acl.owner_id and permission in _OWNERS_OWN:
        return True
    wanted = (permission, Permission.FULL_CONTROL)
    return any(grant.permission in wanted and _is_of(identity, grant.grantee) for grant in acl.grants)


def _is_of(identity: str, grantee: str) -> bool:
    if grantee == Group.ALL_USERS:
        return True
    return bool(identity) and grantee in {identity, Group.AUTHENTICATED_USERS}


def allows_on_bucket(acl: Acl, principal: Principal, action: str) -> bool:
    """Whether a bucket's list allows an action on the bucket or on what is in it."""
    permission = BUCKET_PERMISSIONS.get(action)
    return permission is not None and grants(acl, principal, permission)


def allows_on_object(acl: Acl, principal: Principal, action: str) -> bool:
    """Whether an object's list allows an action on the object."""
    permission = OBJECT_PERMISSIONS.get(action)
    return permission is not None and grants(acl, principal, permission)


def is_public(acl: Acl) -> bool:
    """Whether a list grants anything to everybody, or to everybody with an account: public as AWS means it."""
    return any(grant.grantee in _PUBLIC for grant in acl.grants)


def is_shared(acl: Acl) -> bool:
    """Whether a list grants anything to anybody but the owner."""
    return any(grant.grantee != acl.owner_id for grant in acl.grants)


def without_public(acl: Acl) -> Acl:
    """The list as it counts while public lists are ignored."""
    return Acl(acl.owner_id, tuple(grant for grant in acl.grants if grant.grantee not in _PUBLIC))


def is_canonical(grantee: str) -> bool:
    """Whether a grantee is one user and no group."""
    return grantee not in _GROUPS


# ------------------------------------------------------------------------------------------------------ stored form


def pack_acl(acl: Acl) -> bytes:
    """The stored form without the owner: `[[grantee, permission], ...]` as msgpack, empty for the private list."""
    if acl == private_acl(acl.owner_id):
        return b""
    packed: bytes = msgpack.packb([list(grant) for grant in acl.grants])
    return packed


@lru_cache(4096)
def unpack_acl(packed: bytes, owner_id: str) -> Acl:
    """Inverse of `pack_acl` for the bucket or object of that owner."""
    if not packed:
        return private_acl(owner_id)
    return Acl(owner_id, tuple(Grant(grantee, Permission(word)) for grantee, word in msgpack.unpackb(packed)))


# -------------------------------------------------------------------------------------------------------- ownership


def unpack_ownership(document: bytes) -> Ownership:
    """The ownership that an OWNERSHIP document, its name, says."""
    return Ownership(document.decode())


class AskedAcl(NamedTuple):
    """The list a request asks for: a canned name, or grants, or neither. All grantees are known to exist."""

    canned: str = ""
    grants: tuple[Grant, ...] | None = None

    @property
    def is_none(self) -> bool:
        return not self.canned and self.grants is None

    def expand(self, owner_id: str, bucket_owner_id: str) -> Acl:
        """The list meant for a bucket or object of that owner."""
        if self.grants is not None:
            return make_acl(owner_id, self.grants)
        return canned_acl(self.canned or PRIVATE, owner_id, bucket_owner_id)


class Owned(NamedTuple):
    """Who is to own what is written, and its list in the stored form."""

    owner_id: str
    acl: bytes


NO_LIST: Final = AskedAcl()


def own_object(
    asked: AskedAcl, writer_id: str, bucket_owner_id: str, ownership: Ownership | None, *, blocks: bool
) -> Owned:
    """Owner and list of an object that `writer_id` (empty: anonymous) writes under a bucket's rules.

    `blocks` says that the bucket refuses public lists. Errors: Refused AccessControlListNotSupported, AccessDenied.
    """
    if ownership is Ownership.ENFORCED:
        if not asked.is_none and not _gives_to_bucket_owner(asked, bucket_owner_id):
            _refuse_lists()
        return Owned(bucket_owner_id, b"")
    owner_id = writer_id or ANONYMOUS_OWNER_ID
    if ownership is Ownership.PREFERRED and asked.canned == BUCKET_OWNER_FULL_CONTROL:
        owner_id = bucket_owner_id
    acl = asked.expand(owner_id, bucket_owner_id)
    refuse_public(acl, blocks=blocks)
    return Owned(owner_id, pack_acl(acl))


def change_acl(
    asked: AskedAcl, owner_id: str, bucket_owner_id: str, ownership: Ownership | None, *, blocks: bool
) -> bytes | None:
    """The stored form of the list a bucket or object is to have from now on; None when it has to stay as it is.

    Errors: Refused AccessControlListNotSupported, AccessDenied.
    """
    if ownership is Ownership.ENFORCED:
        if not _gives_to_bucket_owner(asked, bucket_owner_id):
            _refuse_lists()
        return None
    acl = asked.expand(owner_id, bucket_owner_id)
    refuse_public(acl, blocks=blocks)
    return pack_acl(acl)


def _refuse_lists() -> NoReturn:
    raise Refused("AccessControlListNotSupported")


def refuse_public(acl: Acl, *, blocks: bool) -> None:
    """Errors: Refused AccessDenied for a public list where these are blocked."""
    if blocks and is_public(acl):
        raise Refused("AccessDenied")


def _gives_to_bucket_owner(asked: AskedAcl, bucket_owner_id: str) -> bool:
    """Whether a list says what holds anyway where lists do not count: everything for the bucket's owner."""
    if asked.grants is not None:
        return set(asked.grants) == {Grant(bucket_owner_id, Permission.FULL_CONTROL)}
    return asked.canned == BUCKET_OWNER_FULL_CONTROL


def object_acl(packed: bytes, owner_id: str, bucket_owner_id: str, ownership: Ownership | None) -> Acl:
    """The list of a stored object as it counts now: where lists do not, the bucket's owner owns everything."""
    if ownership is Ownership.ENFORCED:
        return private_acl(bucket_owner_id)
    return unpack_acl(packed, owner_id)


def bucket_acl(packed: bytes | None, bucket_owner_id: str, ownership: Ownership | None) -> Acl:
    """The list of a bucket as it counts now; `packed` is its ACL document, None when it has none."""
    if ownership is Ownership.ENFORCED:
        return private_acl(bucket_owner_id)
    return unpack_acl(packed or b"", bucket_owner_id)
