"""Lifecycle rules over the wire, with days of two seconds: they act, once, also over a kill of the control process."""

import os
import signal
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.live import ADMIN_TOKEN, LiveStore

pytestmark = [pytest.mark.protocol, pytest.mark.timeout(180)]

PATIENCE_SECONDS = 90


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveStore]:
    data = tmp_path_factory.mktemp("lifecycle") / "data"
    with LiveStore(data, workers=1, ISOTHERM_SECONDS_PER_DAY="2") as live:
        yield live


def until(holds: Callable[[], bool]) -> None:
    """Wait for what the engine is to do; how soon it does it is no matter of this test."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < deadline, "the engine did not act"
        time.sleep(0.1)


def put_rules(client: Any, bucket: str, *rules: dict[str, Any]) -> None:
    whole = [{"ID": f"r{at}", "Status": "Enabled", "Filter": {}, **rule} for at, rule in enumerate(rules)]
    client.put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration={"Rules": whole})


def keys(client: Any, bucket: str) -> list[str]:
    return [entry["Key"] for entry in client.list_objects_v2(Bucket=bucket).get("Contents", [])]


def test_everything_ends_that_rules_end(store: LiveStore) -> None:
    client = store.client()
    client.create_bucket(Bucket="plain")
    client.create_bucket(Bucket="versioned")
    client.put_bucket_versioning(Bucket="versioned", VersioningConfiguration={"Status": "Enabled"})
    for key in ("old/a", "old/b", "kept"):
        client.put_object(Bucket="plain", Key=key, Body=b"x")  # stored before there are rules
    upload = client.create_multipart_upload(Bucket="plain", Key="old/upload")
    for _ in range(3):
        client.put_object(Bucket="versioned", Key="k", Body=b"x")
    put_rules(
        client, "plain",
        {"Filter": {"Prefix": "old/"}, "Expiration": {"Days": 1},
         "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 1}},
    )  # fmt: skip
    put_rules(
        client, "versioned",
        {"Expiration": {"Days": 1}, "NoncurrentVersionExpiration": {"NoncurrentDays": 1}},
    )  # fmt: skip
    answer = client.put_object(Bucket="plain", Key="old/later", Body=b"x")
    assert 'rule-id="r0"' in answer["Expiration"]
    until(lambda: keys(client, "plain") == ["kept"])
    until(lambda: "Uploads" not in client.list_multipart_uploads(Bucket="plain"))
    with pytest.raises(client.exceptions.NoSuchUpload):
        client.list_parts(Bucket="plain", Key="old/upload", UploadId=upload["UploadId"])

    def is_empty() -> bool:
        found = client.list_object_versions(Bucket="versioned")
        return "Versions" not in found and "DeleteMarkers" not in found

    until(is_empty)


def test_a_lock_outlasts_the_rules(store: LiveStore) -> None:
    client = store.client()
    client.create_bucket(Bucket="locked", ObjectLockEnabledForBucket=True)
    held = client.put_object(Bucket="locked", Key="k", Body=b"x", ObjectLockLegalHoldStatus="ON")["VersionId"]
    free = client.put_object(Bucket="locked", Key="free", Body=b"x")["VersionId"]
    put_rules(client, "locked", {"Expiration": {"Days": 1}, "NoncurrentVersionExpiration": {"NoncurrentDays": 1}})

    def versions() -> set[str]:
        return {row["VersionId"] for row in client.list_object_versions(Bucket="locked").get("Versions", [])}

    until(lambda: versions() == {held} and keys(client, "locked") == [])
    client.put_object_legal_hold(Bucket="locked", Key="k", VersionId=held, LegalHold={"Status": "OFF"})
    until(lambda: versions() == set())
    assert free not in versions()


def control_process(store: LiveStore) -> int:
    """The child that listens on the admin port: the one that is no data worker."""
    owners = []
    for pid in store.processes()[1:]:
        sockets = {str(link.readlink()) for link in Path(f"/proc/{pid}/fd").iterdir() if link.is_symlink()}
        table = [line.split() for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]]
        wanted = f":{store.admin_port:04X}"
        listening = {f"socket:[{row[9]}]" for row in table if row[1].endswith(wanted) and row[3] == "0A"}
        if sockets & listening:
            owners.append(pid)
    assert owners
    return owners[-1]


def done(store: LiveStore, action: str) -> float:
    request = urllib.request.Request(f"{store.admin}/metrics", headers={"Authorization": f"Bearer {ADMIN_TOKEN}"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    wanted = f'isotherm_lifecycle_actions_total{{action="{action}",result="done"}}'
    return sum(float(line.split()[-1]) for line in lines if line.startswith(wanted))


def test_a_kill_of_the_engine_doubles_and_loses_nothing(store: LiveStore) -> None:
    """Every key of a versioned bucket gets one delete marker, however often the engine dies among them."""
    client = store.client()
    client.create_bucket(Bucket="killed")
    client.put_bucket_versioning(Bucket="killed", VersioningConfiguration={"Status": "Enabled"})
    names = [f"{number:04}" for number in range(300)]
    for name in names:
        client.put_object(Bucket="killed", Key=name, Body=b"x")
    before = done(store, "expire")
    put_rules(client, "killed", {"Expiration": {"Days": 1}})

    def markers() -> list[str]:
        pages = client.get_paginator("list_object_versions").paginate(Bucket="killed")
        return [row["Key"] for page in pages for row in page.get("DeleteMarkers", [])]

    until(lambda: len(markers()) > 0)
    for _ in range(2):
        os.kill(control_process(store), signal.SIGKILL)
        store.wait_ready()
    until(lambda: len(markers()) >= len(names))
    assert markers() == names
    pages = client.get_paginator("list_object_versions").paginate(Bucket="killed")
    assert [row["Key"] for page in pages for row in page.get("Versions", [])] == names
    assert done(store, "expire") - before <= len(names)
