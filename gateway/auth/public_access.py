"""The public access block of a bucket: four switches against lists and policies that let everybody in."""

from typing import Final, NamedTuple

import msgpack


class PublicAccessBlock(NamedTuple):
    """What a bucket blocks: public lists when they are put, and in effect; public policies likewise."""

    block_public_acls: bool = False
    ignore_public_acls: bool = False
    block_public_policy: bool = False
    restrict_public_buckets: bool = False


NO_BLOCK: Final = PublicAccessBlock()
"""What holds where none was put."""

ALL_BLOCKED: Final = PublicAccessBlock(
    block_public_acls=True, ignore_public_acls=True, block_public_policy=True, restrict_public_buckets=True
)
"""What a new bucket gets by the defaults of AWS."""


def pack_block(block: PublicAccessBlock) -> bytes:
    """The stored form: four booleans as msgpack."""
    packed: bytes = msgpack.packb(list(block))
    return packed


def unpack_block(document: bytes) -> PublicAccessBlock:
    """Inverse of `pack_block`."""
    return PublicAccessBlock(*msgpack.unpackb(document))
