"""What a bucket begins with: its list, its ownership and its public access block, as asked and by default."""

from collections.abc import Mapping
from typing import Final

from gateway.auth.acl import NO_LIST, AskedAcl, Ownership, is_public, is_shared, pack_acl
from gateway.auth.public_access import ALL_BLOCKED, pack_block
from gateway.s3.errors import S3Code, S3Error
from metadata.types import DocumentKind

AWS_DEFAULTS: Final = "aws"
"""The value of `s3.new_bucket_defaults` by which lists are off and everything public is blocked."""


def first_documents(
    owner_id: str, defaults: str, asked: AskedAcl = NO_LIST, ownership: Ownership | None = None
) -> dict[str, bytes]:
    """The documents that a new bucket of `owner_id` gets in the commit that makes it.

    `defaults` is `aws` or `open`; None means that the request names no ownership. Errors:
    InvalidBucketAclWithObjectOwnership, InvalidBucketAclWithBlockPublicAccessError.
    """
    is_aws = defaults == AWS_DEFAULTS
    if ownership is None and is_aws:
        ownership = Ownership.ENFORCED
    acl = asked.expand(owner_id, owner_id)
    if ownership is Ownership.ENFORCED and is_shared(acl):
        raise S3Error(S3Code.InvalidBucketAclWithObjectOwnership)
    if is_aws and is_public(acl):
        raise S3Error(S3Code.InvalidBucketAclWithBlockPublicAccessError)
    documents: Mapping[str, bytes] = {
        DocumentKind.OWNERSHIP: b"" if ownership is None else ownership.encode(),
        DocumentKind.PUBLIC_ACCESS_BLOCK: pack_block(ALL_BLOCKED) if is_aws else b"",
        DocumentKind.ACL: pack_acl(acl),
    }
    return {kind: document for kind, document in documents.items() if document}
