"""Quotas and rates of users, buckets, tenants and access keys: show and set."""

from hashlib import sha256
from typing import Annotated, Final, TypeVar

from fastapi import Header, Path, Response
from pydantic import Field

from gateway.admin.documents import Document, Id
from gateway.admin.problems import Problem
from gateway.admin.services import Services, Serving
from gateway.admin.users import get_user, refused
from metadata.tables import ACCESS_KEY, BUCKET_DOCUMENT, USAGE
from metadata.types import DocumentKind, Usage
from tiers.errors import BucketNotFound
from tiers.namespace.accounts import AccountRefused
from tiers.namespace.quota_mutations import (
    SetBucketAllowance,
    SetKeyRate,
    SetTenantAllowance,
    SetUserAllowance,
    SetUserTenant,
)
from tiers.namespace.quotas import (
    BYTES_PER_SECOND_MIN,
    NO_RATE,
    STORE_ID,
    Allowance,
    Quota,
    Rate,
    tenant_kind,
    tenant_usage,
    unpack_allowance,
)

COUNT_MAX: Final = 2**63 - 1

T = TypeVar("T")

IfMatch = Annotated[str | None, Header(alias="If-Match", description="ETag of the limits as last seen.")]
BucketName = Annotated[str, Path(max_length=63)]
TenantName = Annotated[str, Path(pattern=r"^[A-Za-z0-9_.-]{1,64}$")]
Count = Annotated[int | None, Field(default=None, ge=0, le=COUNT_MAX)]


class RateLimits(Document):
    """How fast requests may come and bytes may go, each a second and over all data workers; 0 is any rate."""

    requests_per_second: int = Field(default=0, ge=0, le=1_000_000)
    bytes_per_second: int = Field(default=0, ge=0, le=1 << 40)


class TenantQuota(Document):
    """How much may be held; null is any amount. `byte_count_max` counts versions and the parts of open uploads."""

    byte_count_max: Count
    object_count_max: Count


class Limits(TenantQuota, RateLimits):
    """Quota and rates of a user or bucket. What a document leaves out is unlimited."""


class Usages(Document):
    """What is held now."""

    byte_count: int
    object_count: int


class ShownTenantQuota(TenantQuota, Usages):
    """A tenant's quota and what its users hold together."""


class ShownLimits(Limits, Usages):
    """Limits and what is held."""


class Membership(Document):
    """The tenant a user belongs to, empty for none."""

    tenant: str = Field(pattern=r"^[A-Za-z0-9_.-]{0,64}$")


async def show_user_quota(services: Serving, user_id: Id) -> Response:
    """Quota, rates and usage of a user, over all buckets it owns."""
    row = await get_user(services, user_id)
    return _shown(row.quotas, await _usage(services, user_id))


async def set_user_quota(services: Serving, user_id: Id, document: Limits, if_match: IfMatch = None) -> Response:
    """Set a user's limits. Quotas hold from the next commit on, rates within seconds."""
    row = await get_user(services, user_id)
    seen = _seen(row.quotas, if_match)
    change = SetUserAllowance(user_id, _allowance_of(document), seen)
    try:
        changed = await services.committer.submit(change)
    except AccountRefused as error:
        raise refused(error) from error
    return _shown(changed.quotas, await _usage(services, user_id))


async def show_bucket_quota(services: Serving, bucket: BucketName) -> Response:
    """Quota, rates and usage of a bucket."""
    stored, usage = await _bucket(services, bucket)
    return _shown(stored, usage)


async def set_bucket_quota(
    services: Serving, document: Limits, bucket: BucketName, if_match: IfMatch = None
) -> Response:
    """Set a bucket's limits, from the next commit and request on."""
    stored, _ = await _bucket(services, bucket)
    change = SetBucketAllowance(bucket, _allowance_of(document), _seen(stored, if_match))
    try:
        await services.committer.submit(change)
    except AccountRefused as error:
        raise refused(error) from error
    except BucketNotFound:
        raise _no_bucket() from None
    return await show_bucket_quota(services, bucket)


async def show_tenant_quota(services: Serving, tenant: TenantName) -> Response:
    """Quota of a tenant and what its users hold together. A tenant nobody is in holds nothing."""
    return await _tenant(services, tenant, await _tenant_document(services, tenant))


async def set_tenant_quota(
    services: Serving, document: TenantQuota, tenant: TenantName, if_match: IfMatch = None
) -> Response:
    """Set a tenant's quota, from the next commit on."""
    seen = _seen(await _tenant_document(services, tenant), if_match)
    allowance = Allowance(Quota(document.byte_count_max, document.object_count_max))
    try:
        stored = await services.committer.submit(SetTenantAllowance(tenant, allowance, seen))
    except AccountRefused as error:
        raise refused(error) from error
    return await _tenant(services, tenant, stored)


async def show_user_tenant(services: Serving, user_id: Id) -> Membership:
    """The tenant of a user."""
    return Membership(tenant=(await get_user(services, user_id)).tenant)


async def set_user_tenant(services: Serving, user_id: Id, document: Membership) -> Membership:
    """Move a user, with all it holds, to a tenant, or out of one."""
    try:
        row = await services.committer.submit(SetUserTenant(user_id, document.tenant))
    except AccountRefused as error:
        raise refused(error) from error
    return Membership(tenant=row.tenant)


async def show_key_rate(services: Serving, access_key_id: Id) -> Response:
    """The rates of an access key."""
    return _rate_shown((await _key_allowance(services, access_key_id)).keys.get(access_key_id, NO_RATE))


async def set_key_rate(
    services: Serving, access_key_id: Id, document: RateLimits, if_match: IfMatch = None
) -> Response:
    """Set the rates of an access key; every worker follows within seconds."""
    rate = (await _key_allowance(services, access_key_id)).keys.get(access_key_id, NO_RATE)
    seen = None if if_match is None else _matching(rate, _rate_etag(rate), if_match)
    try:
        changed = await services.committer.submit(SetKeyRate(access_key_id, _rate_of(document), seen))
    except AccountRefused as error:
        raise refused(error) from error
    return _rate_shown(changed)


def _allowance_of(document: Limits) -> Allowance:
    return Allowance(Quota(document.byte_count_max, document.object_count_max), _rate_of(document))


def _rate_of(document: RateLimits) -> Rate:
    """Errors: Problem 422 for a bandwidth under which no content of usual size would ever get through."""
    if 0 < document.bytes_per_second < BYTES_PER_SECOND_MIN:
        raise Problem(422, "RateTooLow", f"bytes_per_second is 0 or at least {BYTES_PER_SECOND_MIN}.")
    return Rate(document.requests_per_second, document.bytes_per_second)


def _shown(stored: bytes, usage: Usages) -> Response:
    allowance = unpack_allowance(stored)
    document = ShownLimits(
        byte_count_max=allowance.quota.byte_count,
        object_count_max=allowance.quota.object_count,
        requests_per_second=allowance.rate.requests,
        bytes_per_second=allowance.rate.bytes,
        byte_count=usage.byte_count,
        object_count=usage.object_count,
    )
    return _response(document, _etag(stored))


def _rate_shown(rate: Rate) -> Response:
    document = RateLimits(requests_per_second=rate.requests, bytes_per_second=rate.bytes)
    return _response(document, _rate_etag(rate))


async def _tenant(services: Services, tenant: str, stored: bytes) -> Response:
    held = await tenant_usage(services.reader, tenant)
    quota = unpack_allowance(stored).quota
    document = ShownTenantQuota(
        byte_count_max=quota.byte_count,
        object_count_max=quota.object_count,
        byte_count=held.byte_count,
        object_count=held.object_count,
    )
    return _response(document, _etag(stored))


def _response(document: Document, etag: str) -> Response:
    return Response(document.model_dump_json(), 200, {"etag": etag}, "application/json")


def _etag(stored: bytes) -> str:
    return f'"{sha256(stored).hexdigest()[:32]}"'


def _rate_etag(rate: Rate) -> str:
    return _etag(repr(tuple(rate)).encode())


def _seen(stored: bytes, if_match: str | None) -> bytes | None:
    """What an If-Match stands for, so that the commit can compare. Errors: Problem 412."""
    return None if if_match is None else _matching(stored, _etag(stored), if_match)


def _matching(value: T, etag: str, if_match: str) -> T:
    if if_match.strip() not in {"*", etag}:
        raise Problem(412, "ChangedMeanwhile", "The limits are not as they were when last seen.")
    return value


async def _usage(services: Services, owner_id: str) -> Usages:
    row = await services.reader.get_row(USAGE, (owner_id,)) or Usage(owner_id, 0, 0)
    return Usages(byte_count=row.byte_count, object_count=row.object_count)


async def _bucket(services: Services, name: str) -> tuple[bytes, Usages]:
    bucket = await services.reader.find_bucket(name)
    if bucket is None:
        raise _no_bucket()
    row = await services.reader.get_row(BUCKET_DOCUMENT, (bucket.bucket_id, DocumentKind.QUOTA.value))
    usage = Usages(byte_count=bucket.byte_count, object_count=bucket.object_count)
    return (b"" if row is None else row.document), usage


def _no_bucket() -> Problem:
    return Problem(404, "NotFound", "There is no such bucket.")


async def _tenant_document(services: Services, tenant: str) -> bytes:
    row = await services.reader.get_row(BUCKET_DOCUMENT, (STORE_ID, tenant_kind(tenant)))
    return b"" if row is None else row.document


async def _key_allowance(services: Services, access_key_id: str) -> Allowance:
    key = await services.reader.get_row(ACCESS_KEY, (access_key_id,))
    if key is None:
        raise Problem(404, "NotFound", "There is no such access key.")
    return unpack_allowance((await get_user(services, key.principal_id)).quotas)
