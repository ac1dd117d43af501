"""Objects that the store writes into clients' buckets by itself: server access logs and inventory reports.

They belong to the owner of the bucket they are written into, and are encrypted as that bucket asks. Whether they may be
written at all is `gateway.auth.service_access`'s to say, each time.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from gateway.auth.acl import NO_LIST, AskedAcl, Grant, Ownership, Permission, own_object
from gateway.auth.public_access import NO_BLOCK
from gateway.auth.refusals import Refused
from gateway.s3.configuration import Configuration, Configurations
from gateway.s3.content_keys import ContentKeys
from gateway.s3.encryption import Wish
from gateway.s3.errors import S3Error
from metadata.types import Bucket, Version
from tiers.datapath.body import Body
from tiers.errors import BucketNotFound, PlacementMoved, QuotaExceeded, StorageError
from tiers.namespace.buckets import documents_bytes
from tiers.namespace.namespace import Namespace
from tiers.namespace.types import Description

FINAL: Final[tuple[type[Exception], ...]] = (S3Error, Refused, BucketNotFound, PlacementMoved, QuotaExceeded)
"""Faults that another try soon will not mend: what was to be written is given up."""

TRANSIENT: Final = StorageError
"""Any other fault of the store."""


@dataclass(frozen=True, slots=True)
class Deposits:
    """Writes for the services of one process, whose collaborators it shares."""

    namespace: Namespace
    content_keys: ContentKeys
    configurations: Configurations = field(default_factory=Configurations)

    async def configuration(self, bucket: Bucket) -> Configuration:
        """The configuration of a bucket at the revision of its row."""
        kept = self.configurations.find(bucket)
        if kept is not None:
            return kept
        documents = await self.namespace.buckets.documents(bucket)
        configuration = Configuration(documents)
        self.configurations.keep(bucket, configuration, documents_bytes(documents))
        return configuration

    async def put(
        self,
        bucket: Bucket,
        key: str,
        body: Body,
        content_type: str,
        *,
        wish: Wish | None = None,
        grants: Sequence[Grant] = (),
    ) -> Version:
        """Write an object that the bucket's owner owns; `grants` besides, where lists count.

        `wish` None encrypts as the bucket asks. Errors: those of FINAL, and TRANSIENT.
        """
        configuration = await self.configuration(bucket)
        wish = wish or self.content_keys.default_of(configuration.encryption).wish
        content_key = None if wish is None else await self.content_keys.make(wish)
        description = Description(
            owner_id=bucket.owner_id,
            acl=_list_of(bucket, configuration, grants),
            writer_id=bucket.owner_id,
            bucket=bucket,
            attributes=f"content-type: {content_type}\r\n".encode("ascii"),
        )
        put = self.namespace.objects.put
        return (await put(bucket.name, key, body, description, content_key=content_key)).version


def _list_of(bucket: Bucket, configuration: Configuration, grants: Sequence[Grant]) -> bytes:
    if not grants or configuration.ownership is Ownership.ENFORCED:
        asked = NO_LIST
    else:
        asked = AskedAcl(grants=(Grant(bucket.owner_id, Permission.FULL_CONTROL), *grants))
    blocks = (configuration.public_access_block or NO_BLOCK).block_public_acls
    return own_object(asked, bucket.owner_id, bucket.owner_id, configuration.ownership, blocks=blocks).acl


class HeldBody:
    """A body in memory."""

    def __init__(self, content: bytes) -> None:
        self._rest = memoryview(content)
        self.length: int | None = len(content)
        self.digests: frozenset[str] = frozenset()

    async def fill(self, view: memoryview) -> int:
        """See `Body.fill`."""
        taken = min(len(view), len(self._rest))
        view[:taken] = self._rest[:taken]
        self._rest = self._rest[taken:]
        return taken

    async def read_all(self, limit: int) -> bytes:
        """See `Body.read_all`."""
        assert len(self._rest) <= limit
        content, self._rest = bytes(self._rest), self._rest[:0]
        return content

    def verify(self, digests: object) -> None:
        """Nothing was declared."""
