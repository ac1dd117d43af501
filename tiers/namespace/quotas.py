"""Quotas and rates: what a bucket, a user and a tenant may hold and how fast, and the judgement of a growing change.

Quotas are hard and exact: a mutation that grows a bucket is judged in its own transaction, on the counters that it
changes. What a bucket's limits are is read once a revision of the bucket; whoever changes a limit therefore raises the
revision of every bucket that it concerns, in the same transaction (`quota_mutations`), and a write pays one look-up.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import msgpack

from metadata.contract import Reader, Transaction
from metadata.tables import BUCKET_DOCUMENT, PRINCIPAL, USAGE, Table
from metadata.types import Bucket, DocumentKind, Principal, Version, Versioning
from tiers.errors import QuotaExceeded

STORE_ID: Final = 0
"""Stands for the bucket in documents that concern no bucket; no bucket has this id."""

FORMAT: Final = 1
_SCAN_ROWS: Final = 1000


class Quota(NamedTuple):
    """How much may be held; None is any amount. `byte_count` counts versions and the parts of open uploads."""

    byte_count: int | None = None
    object_count: int | None = None


class Rate(NamedTuple):
    """How fast requests may come and bytes may go, each in one second; 0 is any rate."""

    requests: int = 0
    bytes: int = 0


BYTES_PER_SECOND_MIN: Final = 64 * 1024
"""The least bandwidth that may be set: one buffer of an answer is not to wait longer than a client listens."""

NO_QUOTA: Final = Quota()
NO_RATE: Final = Rate()
NO_RATES: Final[Mapping[str, Rate]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Allowance:
    """The limits of a bucket, a user or a tenant. `keys` are the rates of a user's access keys, by id."""

    quota: Quota = NO_QUOTA
    rate: Rate = NO_RATE
    keys: Mapping[str, Rate] = field(default_factory=lambda: NO_RATES)


UNLIMITED: Final = Allowance()


def pack_allowance(allowance: Allowance) -> bytes:
    """As stored with a principal or as a document; empty for no limit at all."""
    if allowance == UNLIMITED:
        return b""
    keys = {key: list(rate) for key, rate in sorted(allowance.keys.items())}
    packed: bytes = msgpack.packb([FORMAT, list(allowance.quota), list(allowance.rate), keys])
    return packed


def unpack_allowance(stored: bytes | None) -> Allowance:
    """Inverse of `pack_allowance`; None and empty are no limit. What does not fit is our bug and raises."""
    if not stored:
        return UNLIMITED
    version, quota, rate, keys = msgpack.unpackb(stored)
    assert version == FORMAT
    return Allowance(Quota(*quota), Rate(*rate), {key: Rate(*pair) for key, pair in keys.items()})


class Held(NamedTuple):
    """What is held: current versions, and the bytes of everything."""

    object_count: int
    byte_count: int


NOTHING: Final = Held(0, 0)


def exceeded(quota: Quota, before: Held, after: Held) -> str:
    """Which limit a change from `before` to `after` breaks, empty for none; pure.

    A change that does not grow what is limited breaks nothing, also above the limit: who is over may always shrink.
    """
    if quota.byte_count is not None and before.byte_count < after.byte_count > quota.byte_count:
        return "bytes"
    if quota.object_count is not None and before.object_count < after.object_count > quota.object_count:
        return "objects"
    return ""


class Limits(NamedTuple):
    """Every quota that concerns one bucket. `tenants` are the principals whose usage counts together."""

    bucket: Quota = NO_QUOTA
    owner: Quota = NO_QUOTA
    tenant: Quota = NO_QUOTA
    members: tuple[str, ...] = ()


FREE: Final = Limits()


def read_limits(transaction: Transaction, bucket: Bucket) -> Limits:
    """The quotas of a bucket as they stand. Before the first put of a step. Cost: two rows, more for a tenant."""
    own = transaction.get(BUCKET_DOCUMENT, (bucket.bucket_id, DocumentKind.QUOTA.value))
    owner = transaction.get(PRINCIPAL, (bucket.owner_id,))
    tenant = NO_QUOTA
    members: tuple[str, ...] = ()
    if owner is not None and owner.tenant:
        row = transaction.get(BUCKET_DOCUMENT, (STORE_ID, tenant_kind(owner.tenant)))
        tenant = unpack_allowance(None if row is None else row.document).quota
        if tenant != NO_QUOTA:
            members = tuple(row.principal_id for row in members_of(transaction, owner.tenant))
    return Limits(
        unpack_allowance(None if own is None else own.document).quota,
        unpack_allowance(None if owner is None else owner.quotas).quota,
        tenant,
        members,
    )


def judge_growth(transaction: Transaction, limits: Limits, before: Bucket, after: Bucket) -> None:
    """Refuse a change of a bucket's counters that breaks a quota; before the usage of the owner is moved.

    Errors: QuotaExceeded.
    """
    if limits is FREE:
        return
    grown = Held(after.object_count - before.object_count, after.byte_count - before.byte_count)
    _refuse("bucket", limits.bucket, Held(before.object_count, before.byte_count), grown)
    if limits.owner != NO_QUOTA:
        _refuse("user", limits.owner, _usage(transaction, (after.owner_id,)), grown)
    if limits.tenant != NO_QUOTA:
        _refuse("tenant", limits.tenant, _usage(transaction, limits.members), grown)


def _refuse(whose: str, quota: Quota, held: Held, grown: Held) -> None:
    after = Held(held.object_count + grown.object_count, held.byte_count + grown.byte_count)
    limit = exceeded(quota, held, after)
    if limit:
        raise QuotaExceeded(f"{limit} of the {whose}")


async def tenant_usage(reader: Reader, tenant: str) -> Held:
    """What the users of a tenant hold together. Cost: one pass over the principals, a row for each of the tenant's."""
    held = NOTHING
    after: tuple[Any, ...] | None = None
    while rows := await reader.scan(PRINCIPAL, after, _SCAN_ROWS):
        for member in rows:
            usage = await reader.get_row(USAGE, (member.principal_id,)) if member.tenant == tenant else None
            if usage is not None:
                held = Held(held.object_count + usage.object_count, held.byte_count + usage.byte_count)
        after = PRINCIPAL.key_of(rows[-1])
    return held


def growth(bucket: Bucket, current: Version | None, byte_count: int) -> Held:
    """What a new version of so many bytes adds at least, `current` being the one that it may replace; pure."""
    if current is None:
        return Held(1, byte_count)
    return Held(0, byte_count if bucket.versioning == Versioning.ENABLED else byte_count - current.size)


async def refuse_early(reader: Reader, bucket: Bucket, grown: Held) -> None:
    """Refuse a content that is about to be received when the commit would refuse it by what is held now.

    Spares the transfer and nothing else: it looks at committed rows of bucket and owner. Errors: QuotaExceeded.
    """
    own = await reader.get_row(BUCKET_DOCUMENT, (bucket.bucket_id, DocumentKind.QUOTA.value))
    quota = NO_QUOTA if own is None else unpack_allowance(own.document).quota
    if quota != NO_QUOTA:
        now = await reader.find_bucket(bucket.name)  # the counters of a row that was located may be older
        _refuse("bucket", quota, NOTHING if now is None else Held(now.object_count, now.byte_count), grown)
    owner = await reader.get_row(PRINCIPAL, (bucket.owner_id,))
    quota = NO_QUOTA if owner is None else unpack_allowance(owner.quotas).quota
    if quota != NO_QUOTA:
        usage = await reader.get_row(USAGE, (bucket.owner_id,))
        _refuse("user", quota, NOTHING if usage is None else Held(usage.object_count, usage.byte_count), grown)


def _usage(transaction: Transaction, owner_ids: Iterable[str]) -> Held:
    rows = [transaction.get(USAGE, (owner_id,)) for owner_id in owner_ids]
    return Held(
        sum(row.object_count for row in rows if row is not None), sum(row.byte_count for row in rows if row is not None)
    )


def tenant_kind(tenant: str) -> str:
    """Kind of the document that holds a tenant's limits."""
    return f"{DocumentKind.QUOTA.value}/{tenant}"


def members_of(transaction: Transaction, tenant: str) -> list[Principal]:
    """The principals of a tenant. Cost: one pass over the principals, before the first put of a step."""
    return [row for row in scan(transaction, PRINCIPAL) if row.tenant == tenant]


def scan(transaction: Transaction, table: Table[Any]) -> Iterator[Any]:
    """Every row of a table, page by page; before the first put of a step."""
    after: tuple[Any, ...] | None = None
    while rows := transaction.scan(table, after, _SCAN_ROWS):
        yield from rows
        if len(rows) < _SCAN_ROWS:
            return
        after = table.key_of(rows[-1])
