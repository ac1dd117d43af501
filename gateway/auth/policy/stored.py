"""A bucket policy as its bucket's document: the text as put, and whether it may shut out the bucket's owner."""

from typing import NamedTuple

import msgpack

from gateway.auth.policy.document import compile_policy
from gateway.auth.policy.statement import Policy


class StoredPolicy(NamedTuple):
    """What GetBucketPolicy answers, and what is asked about every request."""

    text: bytes
    binds_owner: bool
    policy: Policy


def pack_policy(text: bytes, *, binds_owner: bool) -> bytes:
    """The stored form of a policy that `compile_policy` accepted for the bucket."""
    packed: bytes = msgpack.packb([text, binds_owner])
    return packed


def unpack_policy(document: bytes) -> StoredPolicy:
    """Inverse of `pack_policy`. Errors: MalformedPolicy for what an older program accepted: nothing is allowed then."""
    text, binds_owner = msgpack.unpackb(document)
    return StoredPolicy(text, binds_owner, compile_policy(text))
