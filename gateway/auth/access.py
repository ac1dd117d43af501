"""Who may do what, decided purely. The foundation knows owners only: policies and ACLs come with their own tables."""

from typing import Final

from gateway.auth.keyring import ANONYMOUS, Principal

_OF_ONESELF: Final = frozenset({"s3:ListAllMyBuckets", "s3:CreateBucket"})
"""Actions that concern no existing bucket."""


def decide(principal: Principal, action: str, bucket_owner_id: str | None) -> bool:
    """Whether `principal` may do `action` on a bucket of `bucket_owner_id` (None: no bucket, or none of that name).

    Root may everything, an owner everything on its buckets, anonymous nothing; what is not allowed here is denied.
    """
    if not principal.principal_id or principal == ANONYMOUS:
        return False
    if principal.is_root or action in _OF_ONESELF:
        return True
    return bucket_owner_id is not None and bucket_owner_id == principal.principal_id
