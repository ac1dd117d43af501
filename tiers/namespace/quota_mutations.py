"""Changes of limits. Each raises the revision of the buckets it concerns, in the same transaction."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from metadata.contract import Transaction
from metadata.tables import ACCESS_KEY, BUCKET, BUCKET_DOCUMENT, PRINCIPAL
from metadata.types import BucketDocument, DocumentKind, Principal
from tiers.commit.contract import Slot
from tiers.errors import BucketNotFound
from tiers.namespace.accounts import AccountChange, AccountRefused, Refusal
from tiers.namespace.quotas import (
    NO_RATE,
    STORE_ID,
    Allowance,
    Rate,
    members_of,
    pack_allowance,
    scan,
    tenant_kind,
    unpack_allowance,
)
from tiers.namespace.revisions import Key


def revise_buckets(transaction: Transaction, slot: Slot, owner_ids: Iterable[str]) -> None:
    """Raise the revision of every bucket of some owners, so that each process reads their limits anew.

    For every change of who belongs to a tenant, and of a user's or tenant's limits; before the first put of a step.
    Cost: one pass over the buckets.
    """
    owners = frozenset(owner_ids)
    concerned = [row for row in scan(transaction, BUCKET) if row.owner_id in owners]
    for row in concerned:
        transaction.put(BUCKET, row._replace(revision=slot.sequence))


@dataclass(frozen=True)
class SetUserAllowance(AccountChange):
    """Sets a user's limits; the root account may have some as well. `seen` is what the caller saw, None for any.

    The rates of its access keys stay as they are. Cost: one pass over the buckets.
    """

    principal_id: str
    allowance: Allowance
    seen: bytes | None = None

    def _keys(self) -> Iterable[Key]:
        yield PRINCIPAL, (self.principal_id,)

    def apply(self, transaction: Transaction, slot: Slot) -> Principal:
        """The row as it is now. Errors: AccountRefused NOT_FOUND, CHANGED."""
        row = transaction.get(PRINCIPAL, (self.principal_id,))
        if row is None:
            raise AccountRefused(Refusal.NOT_FOUND)
        if self.seen is not None and row.quotas != self.seen:
            raise AccountRefused(Refusal.CHANGED)
        kept = replace(self.allowance, keys=unpack_allowance(row.quotas).keys)
        changed = row._replace(quotas=pack_allowance(kept))
        if changed != row:
            revise_buckets(transaction, slot, (self.principal_id,))
            transaction.put(PRINCIPAL, changed)
            self._raise(transaction)
        return changed


@dataclass(frozen=True)
class SetKeyRate(AccountChange):
    """Sets the rate of one access key. `seen` is the rate the caller saw, None for any."""

    access_key_id: str
    rate: Rate
    seen: Rate | None = None

    def _keys(self) -> Iterable[Key]:
        yield ACCESS_KEY, (self.access_key_id,)

    def apply(self, transaction: Transaction, slot: Slot) -> Rate:
        """The rate. Errors: AccountRefused NOT_FOUND, CHANGED."""
        del slot
        key = transaction.get(ACCESS_KEY, (self.access_key_id,))
        owner = None if key is None else transaction.get(PRINCIPAL, (key.principal_id,))
        if owner is None:
            raise AccountRefused(Refusal.NOT_FOUND)
        allowance = unpack_allowance(owner.quotas)
        if self.seen is not None and allowance.keys.get(self.access_key_id, NO_RATE) != self.seen:
            raise AccountRefused(Refusal.CHANGED)
        keys = {**allowance.keys, self.access_key_id: self.rate}
        kept = {key: rate for key, rate in keys.items() if rate != NO_RATE}
        packed = pack_allowance(replace(allowance, keys=kept))
        if packed != owner.quotas:
            transaction.put(PRINCIPAL, owner._replace(quotas=packed))
            self._raise(transaction)
        return self.rate


@dataclass(frozen=True)
class SetUserTenant(AccountChange):
    """Moves a user, with all it holds, to a tenant; an empty name takes it out of the one it is in.

    Nothing is refused for a tenant that is full: it may only not grow from then on.
    """

    principal_id: str
    tenant: str

    def _keys(self) -> Iterable[Key]:
        yield PRINCIPAL, (self.principal_id,)

    def apply(self, transaction: Transaction, slot: Slot) -> Principal:
        """The row as it is now. Errors: AccountRefused NOT_FOUND."""
        row = transaction.get(PRINCIPAL, (self.principal_id,))
        if row is None:
            raise AccountRefused(Refusal.NOT_FOUND)
        if row.tenant != self.tenant:
            concerned = {row.principal_id}
            for tenant in filter(None, (row.tenant, self.tenant)):
                concerned |= {member.principal_id for member in members_of(transaction, tenant)}
            revise_buckets(transaction, slot, concerned)
            row = row._replace(tenant=self.tenant)
            transaction.put(PRINCIPAL, row)
            self._raise(transaction)
        return row


@dataclass(frozen=True)
class SetTenantAllowance(AccountChange):
    """Sets a tenant's limits; the tenant need have no user yet. `seen` as in `SetUserAllowance`."""

    tenant: str
    allowance: Allowance
    seen: bytes | None = None

    def _keys(self) -> Iterable[Key]:
        yield BUCKET_DOCUMENT, (STORE_ID, tenant_kind(self.tenant))

    def apply(self, transaction: Transaction, slot: Slot) -> bytes:
        """What is stored now. Errors: AccountRefused CHANGED."""
        members = [row.principal_id for row in members_of(transaction, self.tenant)]
        key = (STORE_ID, tenant_kind(self.tenant))
        row = transaction.get(BUCKET_DOCUMENT, key)
        stored = b"" if row is None else row.document
        if self.seen is not None and stored != self.seen:
            raise AccountRefused(Refusal.CHANGED)
        revise_buckets(transaction, slot, members)
        return _store(transaction, key, pack_allowance(self.allowance))


class SetBucketAllowance:
    """Sets a bucket's limits. `seen` as in `SetUserAllowance`."""

    __slots__ = ("allowance", "body", "bucket_name", "seen", "tier")

    def __init__(self, bucket_name: str, allowance: Allowance, seen: bytes | None = None) -> None:
        self.bucket_name, self.allowance, self.seen = bucket_name, allowance, seen
        self.body: bytes | None = None
        self.tier = ""

    def reads(self) -> Iterable[Key]:
        """The bucket."""
        yield BUCKET, (self.bucket_name,)

    def apply(self, transaction: Transaction, slot: Slot) -> bytes:
        """What is stored now. Errors: BucketNotFound, AccountRefused CHANGED."""
        bucket = transaction.get(BUCKET, (self.bucket_name,))
        if bucket is None:
            raise BucketNotFound(self.bucket_name)
        key = (bucket.bucket_id, DocumentKind.QUOTA.value)
        row = transaction.get(BUCKET_DOCUMENT, key)
        stored = b"" if row is None else row.document
        if self.seen is not None and stored != self.seen:
            raise AccountRefused(Refusal.CHANGED)
        transaction.put(BUCKET, bucket._replace(revision=slot.sequence))
        return _store(transaction, key, pack_allowance(self.allowance))


def _store(transaction: Transaction, key: tuple[int, str], document: bytes) -> bytes:
    if document:
        transaction.put(BUCKET_DOCUMENT, BucketDocument(*key, document))
    elif transaction.get(BUCKET_DOCUMENT, key) is not None:
        transaction.delete(BUCKET_DOCUMENT, key)
    return document
