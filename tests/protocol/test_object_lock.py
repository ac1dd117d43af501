"""Object Lock and conditional deletes over the wire, on two workers: races, and who may bypass what."""

import json
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count
from threading import Barrier
from typing import Any, NamedTuple

import pytest
from botocore.exceptions import ClientError

from tests.live import ADMIN_TOKEN, LiveStore
from tests.protocol.test_acls import client

pytestmark = [pytest.mark.protocol, pytest.mark.timeout(120)]

RACERS = 8
UNTIL = datetime.now(UTC).replace(microsecond=0) + timedelta(days=30)
GOVERNED = {"ObjectLockMode": "GOVERNANCE", "ObjectLockRetainUntilDate": UNTIL}


class World(NamedTuple):
    """Root owns the buckets; bob is another account. `fresh` gives a bucket, with Object Lock unless told otherwise."""

    root: Any
    bob: Any
    bob_id: str
    fresh: Callable[..., str]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with LiveStore(tmp_path_factory.mktemp("lock") / "data", workers=2) as store:

        def post(path: str, document: dict[str, str]) -> dict[str, str]:
            request = urllib.request.Request(
                f"{store.admin}{path}",
                data=json.dumps(document).encode(),
                headers={"Authorization": f"Bearer {ADMIN_TOKEN}", "Content-Type": "application/json"},
            )
            with urllib.request.urlopen(request, timeout=10) as answer:
                made: dict[str, str] = json.load(answer)
                return made

        numbers = count()
        root = store.client(max_pool_connections=2 * RACERS)

        def fresh(**arguments: Any) -> str:
            name = f"lock-{next(numbers)}"
            root.create_bucket(Bucket=name, **({"ObjectLockEnabledForBucket": True} | arguments))
            return name

        bob_id = post("/admin/v1/users", {"name": "bob"})["id"]
        bob = client(store, post(f"/admin/v1/users/{bob_id}/keys", {}))
        yield World(root, bob, bob_id, fresh)


def outcome(function: Any, **arguments: Any) -> str:
    """Error code of an operation, empty for success."""
    try:
        function(**arguments)
    except ClientError as error:
        return str(error.response["Error"]["Code"])
    return ""


def race(attempts: Sequence[Callable[[], str]]) -> list[str]:
    """What each of several calls came to that started at the same moment."""
    start = Barrier(len(attempts))

    def run(attempt: Callable[[], str]) -> str:
        start.wait()
        return attempt()

    with ThreadPoolExecutor(len(attempts)) as pool:
        return list(pool.map(run, attempts))


def test_a_locked_version_outlives_every_delete(world: World) -> None:
    """Single deletes, lists of keys, deletes of the key and new versions, all at once: what is locked stays whole."""
    s3, bucket = world.root, world.fresh()
    version = s3.put_object(Bucket=bucket, Key="k", Body=b"kept", **GOVERNED)["VersionId"]
    named = {"Key": "k", "VersionId": version}

    def from_list() -> str:
        answer = s3.delete_objects(Bucket=bucket, Delete={"Objects": [named] * 3})
        assert len(answer["Errors"]) == 3
        return str(answer["Errors"][0]["Code"])

    removals: list[Callable[[], str]] = [partial(outcome, s3.delete_object, Bucket=bucket, **named), from_list] * RACERS
    covers = [
        partial(outcome, s3.delete_object, Bucket=bucket, Key="k"),
        partial(outcome, s3.put_object, Bucket=bucket, Key="k", Body=b"on top"),
    ]
    codes = race([*removals, *covers])
    assert (set(codes[: len(removals)]), codes[len(removals) :]) == ({"AccessDenied"}, ["", ""])
    got = s3.get_object(Bucket=bucket, **named)
    assert (got["Body"].read(), got["ObjectLockMode"]) == (b"kept", "GOVERNANCE")


def test_a_hold_and_a_delete_never_both_succeed(world: World) -> None:
    s3, bucket = world.root, world.fresh()
    for number in range(15):
        key = f"k{number}"
        version = s3.put_object(Bucket=bucket, Key=key, Body=b"x")["VersionId"]
        named = {"Bucket": bucket, "Key": key, "VersionId": version}
        put_hold = partial(outcome, s3.put_object_legal_hold, LegalHold={"Status": "ON"}, **named)
        held, deleted = race([put_hold, partial(outcome, s3.delete_object, **named)])
        assert (held, deleted) in {("", "AccessDenied"), ("NoSuchVersion", "")}
        assert outcome(s3.head_object, **named) == ("" if held == "" else "404")


def test_lock_and_suspension_exclude_each_other(world: World) -> None:
    """Whichever commits first refuses the other; a bucket is never both suspended and locked."""
    s3 = world.root
    for _ in range(8):
        bucket = world.fresh(ObjectLockEnabledForBucket=False)
        s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
        locking = {"Bucket": bucket, "ObjectLockConfiguration": {"ObjectLockEnabled": "Enabled"}}
        suspending = {"Bucket": bucket, "VersioningConfiguration": {"Status": "Suspended"}}
        put_lock = partial(outcome, s3.put_object_lock_configuration, **locking)
        codes = race([put_lock, partial(outcome, s3.put_bucket_versioning, **suspending)])
        assert sorted(codes) == ["", "InvalidBucketState"]
        is_suspended = s3.get_bucket_versioning(Bucket=bucket)["Status"] == "Suspended"
        assert is_suspended is (codes[0] != "")


def test_a_default_holds_for_the_next_write_of_every_worker(world: World) -> None:
    s3, bucket = world.root, world.fresh()
    for days in (3, 9, 1):
        rule = {"DefaultRetention": {"Mode": "COMPLIANCE", "Days": days}}
        configuration = {"ObjectLockEnabled": "Enabled", "Rule": rule}
        s3.put_object_lock_configuration(Bucket=bucket, ObjectLockConfiguration=configuration)
        put = partial(outcome, s3.put_object, Bucket=bucket, Body=b"x")
        race([partial(put, Key=f"k{at}") for at in range(RACERS)])
        for at in range(RACERS):
            told = s3.head_object(Bucket=bucket, Key=f"k{at}")
            assert told["ObjectLockMode"] == "COMPLIANCE"
            ahead = told["ObjectLockRetainUntilDate"] - told["LastModified"]
            assert timedelta(0) <= ahead - timedelta(days=days) < timedelta(seconds=1)


@pytest.mark.parametrize("is_locked_bucket", [False, True])
def test_of_many_conditional_deletes_one_succeeds(world: World, is_locked_bucket: bool) -> None:
    s3, bucket = world.root, world.fresh(ObjectLockEnabledForBucket=is_locked_bucket)
    for number in range(5):
        put = s3.put_object(Bucket=bucket, Key="k", Body=b"%d" % number)
        named = {"Bucket": bucket, "Key": "k", "IfMatch": put["ETag"], "IfMatchSize": 1}
        if is_locked_bucket:
            named["VersionId"] = put["VersionId"]
        codes = race([partial(outcome, s3.delete_object, **named)] * RACERS)
        absent = "NoSuchVersion" if is_locked_bucket else "NoSuchKey"
        assert sorted(codes) == ["", *[absent] * (RACERS - 1)]


def grant(world: World, bucket: str, *actions: str) -> None:
    resource = [f"arn:aws:s3:::{bucket}", f"arn:aws:s3:::{bucket}/*"]
    statement = {"Effect": "Allow", "Principal": {"AWS": world.bob_id}, "Action": list(actions), "Resource": resource}
    policy = {"Version": "2012-10-17", "Statement": [statement]}
    world.root.put_bucket_policy(Bucket=bucket, Policy=json.dumps(policy))


def test_bypass_needs_the_header_and_the_permission(world: World) -> None:
    bucket = world.fresh()
    version = world.root.put_object(Bucket=bucket, Key="k", Body=b"x", **GOVERNED)["VersionId"]
    named = {"Bucket": bucket, "Key": "k", "VersionId": version}
    shorter = {"Retention": {"Mode": "GOVERNANCE", "RetainUntilDate": UNTIL - timedelta(days=1)}}
    allowed = ["s3:GetObjectVersion", "s3:DeleteObject", "s3:DeleteObjectVersion", "s3:PutObjectRetention"]
    listed = {"Bucket": bucket, "Delete": {"Objects": [{"Key": "k", "VersionId": version}]}}
    grant(world, bucket, *allowed)
    for bypass in ({}, {"BypassGovernanceRetention": True}):
        assert outcome(world.bob.delete_object, **named, **bypass) == "AccessDenied"
        assert outcome(world.bob.put_object_retention, **named, **shorter, **bypass) == "AccessDenied"
        assert world.bob.delete_objects(**listed, **bypass)["Errors"][0]["Code"] == "AccessDenied"
    grant(world, bucket, *allowed, "s3:BypassGovernanceRetention")
    assert outcome(world.bob.delete_object, **named) == "AccessDenied"
    assert outcome(world.bob.put_object_retention, **named, **shorter, BypassGovernanceRetention=True) == ""
    assert outcome(world.bob.delete_object, **named, BypassGovernanceRetention=True) == ""


def test_a_read_tells_only_what_may_be_asked_for(world: World) -> None:
    bucket = world.fresh()
    world.root.put_object(Bucket=bucket, Key="k", Body=b"x", ObjectLockLegalHoldStatus="ON", **GOVERNED)
    told = {"s3:GetObjectRetention": "ObjectLockMode", "s3:GetObjectLegalHold": "ObjectLockLegalHoldStatus"}
    for actions in ([], ["s3:GetObjectRetention"], ["s3:GetObjectLegalHold"], list(told)):
        grant(world, bucket, "s3:GetObject", *actions)
        got = world.bob.get_object(Bucket=bucket, Key="k")
        assert [name in got for name in told.values()] == [action in actions for action in told]
