"""Quotas: hard and exact whatever comes together, and free where there are none."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metadata.tables import BUCKET, PRINCIPAL, USAGE
from metadata.types import Versioning
from tests.world import OWNER, BytesBody, World, open_world
from tiers.errors import QuotaExceeded, StorageError
from tiers.namespace.accounts import AccountRefused, CreatePrincipal
from tiers.namespace.quota_mutations import SetBucketAllowance, SetTenantAllowance, SetUserAllowance, SetUserTenant
from tiers.namespace.quotas import (
    NO_QUOTA,
    UNLIMITED,
    Allowance,
    Held,
    Quota,
    Rate,
    exceeded,
    pack_allowance,
    unpack_allowance,
)
from tiers.namespace.types import CompletedPart, DeleteTarget


def run(path: Path, act: Callable[[World], Awaitable[None]]) -> None:
    async def inside() -> None:
        async with open_world(path) as world:
            await world.committer.submit(CreatePrincipal("owner", "owner"))
            await act(world)

    asyncio.run(inside())


async def limit_bucket(world: World, **quota: int) -> None:
    await world.committer.submit(SetBucketAllowance("bucket", Allowance(Quota(**quota))))


async def held(world: World, name: str = "bucket") -> Held:
    bucket = await world.reader.find_bucket(name)
    assert bucket is not None
    return Held(bucket.object_count, bucket.byte_count)


@pytest.mark.parametrize(
    ("quota", "before", "after", "limit"),
    [
        (NO_QUOTA, Held(0, 0), Held(9, 9), ""),
        (Quota(10), Held(0, 0), Held(1, 10), ""),
        (Quota(10), Held(0, 0), Held(1, 11), "bytes"),
        (Quota(10), Held(2, 20), Held(1, 19), ""),
        (Quota(10), Held(2, 20), Held(3, 20), ""),
        (Quota(None, 2), Held(2, 20), Held(3, 20), "objects"),
        (Quota(None, 2), Held(3, 20), Held(3, 99), ""),
        (Quota(0, 0), Held(0, 0), Held(0, 0), ""),
        (Quota(0), Held(0, 0), Held(1, 1), "bytes"),
    ],
)
def test_growth_is_judged(quota: Quota, before: Held, after: Held, limit: str) -> None:
    assert exceeded(quota, before, after) == limit


def test_allowances_come_back_as_stored() -> None:
    allowance = Allowance(Quota(5, None), Rate(1, 2), {"AKIA": Rate(3, 4)})
    assert unpack_allowance(pack_allowance(allowance)) == allowance
    assert pack_allowance(UNLIMITED) == b""
    assert unpack_allowance(b"") == unpack_allowance(None) == UNLIMITED


def test_bytes_of_a_bucket_are_hard(tmp_path: Path) -> None:
    async def act(world: World) -> None:
        await limit_bucket(world, byte_count=100)
        await world.put("bucket", "a", b"x" * 100)
        with pytest.raises(QuotaExceeded):
            await world.put("bucket", "b", b"y")
        assert await held(world) == Held(1, 100)
        await world.put("bucket", "a", b"z" * 40)
        await world.put("bucket", "b", b"y" * 60)
        await world.namespace.objects.delete("bucket", DeleteTarget("a"))
        await world.put("bucket", "c", b"y" * 40)
        assert await held(world) == Held(2, 100)

    run(tmp_path, act)


def test_a_large_content_is_refused_before_it_is_read(tmp_path: Path) -> None:
    async def act(world: World) -> None:
        await limit_bucket(world, byte_count=1000)
        body = BytesBody(b"x" * (1 << 20))
        with pytest.raises(QuotaExceeded):
            await world.namespace.objects.put("bucket", "a", body, OWNER)
        assert len(await body.read_all(1 << 20)) == 1 << 20
        assert await held(world) == Held(0, 0)

    run(tmp_path, act)


def test_objects_of_a_bucket_are_counted(tmp_path: Path) -> None:
    async def act(world: World) -> None:
        await limit_bucket(world, object_count=1)
        await world.put("bucket", "a", b"1")
        await world.put("bucket", "a", b"2")
        with pytest.raises(QuotaExceeded):
            await world.put("bucket", "b", b"1")

    run(tmp_path, act)


def test_parts_of_open_uploads_count(tmp_path: Path) -> None:
    async def act(world: World) -> None:
        await limit_bucket(world, byte_count=250)
        multipart = world.namespace.multipart
        upload = await multipart.create("bucket", "k", OWNER)
        one = await multipart.put_part("bucket", "k", upload.upload_id, 1, BytesBody(b"1" * 200))
        with pytest.raises(QuotaExceeded):
            await multipart.put_part("bucket", "k", upload.upload_id, 2, BytesBody(b"2" * 51))
        await multipart.put_part("bucket", "k", upload.upload_id, 2, BytesBody(b"2" * 50))
        await multipart.complete("bucket", "k", upload.upload_id, [CompletedPart(1, one.etag, "")])
        assert await held(world) == Held(1, 200)

    run(tmp_path, act)


def test_versions_and_copies_count(tmp_path: Path) -> None:
    async def act(world: World) -> None:
        await world.namespace.buckets.set_versioning("bucket", Versioning.ENABLED)
        await limit_bucket(world, byte_count=100)
        await world.put("bucket", "a", b"x" * 50)
        await world.put("bucket", "a", b"x" * 50)
        source = await world.namespace.objects.find("bucket", "a")
        with pytest.raises(QuotaExceeded):
            await world.namespace.objects.copy(source, "bucket", "b", OWNER)
        await world.namespace.objects.delete("bucket", DeleteTarget("a"))
        with pytest.raises(QuotaExceeded):
            await world.put("bucket", "a", b"x")

    run(tmp_path, act)


def test_a_user_is_judged_over_all_buckets_and_at_once(tmp_path: Path) -> None:
    async def act(world: World) -> None:
        await world.namespace.buckets.create("second", "owner", "us-east-1")
        await world.put("bucket", "a", b"x" * 60)
        await world.put("second", "a", b"x" * 60)
        await world.committer.submit(SetUserAllowance("owner", Allowance(Quota(130))))
        with pytest.raises(QuotaExceeded):
            await world.put("second", "b", b"x" * 11)
        await world.put("bucket", "b", b"x" * 10)
        await world.committer.submit(SetUserAllowance("owner", UNLIMITED))
        await world.put("second", "b", b"x" * 11)

    run(tmp_path, act)


def test_a_tenant_is_judged_over_all_its_users(tmp_path: Path) -> None:
    async def act(world: World) -> None:
        await world.committer.submit(CreatePrincipal("other", "other"))
        await world.namespace.buckets.create("theirs", "other", "us-east-1")
        await world.committer.submit(SetTenantAllowance("team", Allowance(Quota(100))))
        await world.put("bucket", "a", b"x" * 60)
        await world.committer.submit(SetUserTenant("owner", "team"))
        await world.committer.submit(SetUserTenant("other", "team"))
        theirs = OWNER.__class__("other")
        put = world.namespace.objects.put
        with pytest.raises(QuotaExceeded):
            await put("theirs", "a", BytesBody(b"x" * 41), theirs)
        await put("theirs", "a", BytesBody(b"x" * 40), theirs)
        with pytest.raises(QuotaExceeded):
            await world.put("bucket", "b", b"x")
        await world.committer.submit(SetUserTenant("other", ""))
        await world.put("bucket", "b", b"x" * 40)

    run(tmp_path, act)


def test_limits_seen_earlier_are_compared(tmp_path: Path) -> None:
    async def act(world: World) -> None:
        stored = await world.committer.submit(SetBucketAllowance("bucket", Allowance(Quota(5)), b""))
        with pytest.raises(AccountRefused):
            await world.committer.submit(SetBucketAllowance("bucket", UNLIMITED, b""))
        assert await world.committer.submit(SetBucketAllowance("bucket", UNLIMITED, stored)) == b""
        await world.put("bucket", "a", b"x" * 60)
        assert await world.reader.get_row(PRINCIPAL, ("owner",)) is not None

    run(tmp_path, act)


SIZES = st.integers(0, 60)
ACTS = st.lists(st.tuples(st.sampled_from(["put", "delete", "copy"]), st.sampled_from("abc"), SIZES), max_size=12)


@settings(max_examples=15, deadline=None)
@given(acts=ACTS, limit=st.integers(0, 150), count=st.integers(0, 3), is_versioned=st.booleans())
def test_the_transaction_agrees_with_the_model(
    tmp_path_factory: pytest.TempPathFactory,
    acts: list[tuple[str, str, int]],
    limit: int,
    count: int,
    is_versioned: bool,
) -> None:
    """Whatever comes, all at once: never over, and a refusal only where the order of commits explains it."""

    async def act(world: World) -> None:
        if is_versioned:
            await world.namespace.buckets.set_versioning("bucket", Versioning.ENABLED)
        await limit_bucket(world, byte_count=limit, object_count=count)

        async def one(verb: str, key: str, size: int) -> None:
            if verb == "put":
                await world.put("bucket", key, b"x" * size)
            elif verb == "delete":
                await world.namespace.objects.delete("bucket", DeleteTarget(key))
            else:
                found = await world.namespace.objects.find("bucket", key)
                await world.namespace.objects.copy(found, "bucket", "copy", OWNER)

        answers = await asyncio.gather(*[one(*each) for each in acts], return_exceptions=True)
        assert all(answer is None or isinstance(answer, StorageError) for answer in answers)
        after = await held(world)
        usage = await world.reader.get_row(USAGE, ("owner",))
        assert after.byte_count <= limit
        assert after.object_count <= count
        assert after == (Held(0, 0) if usage is None else Held(usage.object_count, usage.byte_count))
        sizes = [row.size for row in await world.reader.page_objects(await number(world), b"", None, 100)]
        assert is_versioned or sum(sizes) == after.byte_count
        for size in range(after.byte_count, limit + 2):
            fits = size + after.byte_count <= limit and after.object_count < count
            try:
                await world.put("bucket", "fresh", b"x" * size)
            except QuotaExceeded:
                assert not fits
            else:
                assert fits
            break

    run(tmp_path_factory.mktemp("quota"), act)


async def number(world: World) -> int:
    row = await world.reader.find_bucket("bucket")
    assert row is not None
    assert BUCKET.key_of(row) == ("bucket",)
    return row.bucket_id
