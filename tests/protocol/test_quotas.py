"""Quotas and rates of a live store with two workers, set by admin API and command line."""

import json
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.live import ADMIN_TOKEN, LiveStore
from tests.protocol.raw import Request, Wire

pytestmark = pytest.mark.protocol

LIMIT = 400_000
WRITERS = 16


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveStore]:
    with LiveStore(tmp_path_factory.mktemp("quotas") / "data", workers=2) as live:
        yield live


def admin(store: LiveStore, method: str, path: str, document: object = None, etag: str = "") -> tuple[int, Any, str]:
    """Status, document and ETag of an admin call."""
    headers = {"Authorization": f"Bearer {ADMIN_TOKEN}", "Content-Type": "application/json"}
    headers |= {"If-Match": etag} if etag else {}
    body = None if document is None else json.dumps(document).encode()
    request = urllib.request.Request(f"{store.admin}/admin/v1{path}", body, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, json.loads(answer.read()), answer.headers.get("etag", "")
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read()), ""


def command(store: LiveStore, *words: str) -> Any:
    """What `isotherm quota` prints as JSON."""
    environment = {**store.environment, "ISOTHERM_ADMIN_TOKEN": ADMIN_TOKEN}
    line = [sys.executable, "-m", "gateway.cli", "quota", *words, "--url", store.admin, "--json"]
    done = subprocess.run(line, env=environment, capture_output=True, text=True, check=True, timeout=60)
    return json.loads(done.stdout)


def code_of(error: ClientError) -> str:
    return str(error.response["Error"]["Code"])


def test_writers_together_never_exceed_a_quota(store: LiveStore) -> None:
    """Puts, overwrites, parts, copies and deletes of 16 writers over both workers: never over by one byte."""
    client = store.client()
    client.create_bucket(Bucket="full")
    status, shown, _ = admin(store, "PUT", "/buckets/full/quota", {"byte_count_max": LIMIT, "object_count_max": 60})
    assert (status, shown["byte_count"]) == (200, 0)
    refused: Counter[str] = Counter()
    highest = 0

    def write(number: int) -> None:
        own = store.client()
        for turn in range(12):
            key = f"k{number}-{turn % 5}"
            try:
                if turn % 4 == 3:
                    own.delete_object(Bucket="full", Key=f"k{number}-{turn % 5 - 1}")
                elif turn % 4 == 2:
                    own.copy_object(Bucket="full", Key=f"copy{number}", CopySource={"Bucket": "full", "Key": key})
                elif turn % 6 == 1:
                    upload = own.create_multipart_upload(Bucket="full", Key=key)["UploadId"]
                    own.upload_part(Bucket="full", Key=key, UploadId=upload, PartNumber=1, Body=b"p" * 9_000)
                else:
                    own.put_object(Bucket="full", Key=key, Body=b"x" * (7_000 + 1_000 * number))
            except ClientError as error:
                refused[code_of(error)] += 1

    threads = [threading.Thread(target=write, args=(number,)) for number in range(WRITERS)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        highest = max(highest, admin(store, "GET", "/buckets/full/quota")[1]["byte_count"])
        time.sleep(0.02)
    shown = admin(store, "GET", "/buckets/full/quota")[1]
    highest = max(highest, shown["byte_count"])
    assert LIMIT * 0.8 < highest <= LIMIT
    assert shown["object_count"] <= 60
    assert refused["QuotaExceeded"] > 0
    assert set(refused) <= {"QuotaExceeded", "NoSuchKey"}
    room = LIMIT - shown["byte_count"]
    with pytest.raises(ClientError, match="QuotaExceeded") as caught:
        client.put_object(Bucket="full", Key="k0-0-fresh", Body=b"x" * (room + 1))
    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 403
    listed = client.list_objects_v2(Bucket="full")["Contents"]
    client.delete_object(Bucket="full", Key=listed[0]["Key"])
    client.put_object(Bucket="full", Key=listed[0]["Key"], Body=b"x" * listed[0]["Size"])


def test_a_body_that_cannot_fit_is_not_received(store: LiveStore) -> None:
    store.client().create_bucket(Bucket="small")
    admin(store, "PUT", "/buckets/small/quota", {"byte_count_max": 1000})
    body = b"x" * (1 << 20)
    wire = Wire(store)
    try:
        request = Request(path="/small/key", body=body, wire_body=b"", headers={"expect": "100-continue"})
        request.headers["content-length"] = str(len(body))
        answer = wire.call(request)
    finally:
        wire.close()
    assert (answer.status, answer.code) == (403, "QuotaExceeded")


def test_limits_are_set_as_seen(store: LiveStore) -> None:
    store.client().create_bucket(Bucket="seen")
    _, _, etag = admin(store, "GET", "/buckets/seen/quota")
    status, _, newer = admin(store, "PUT", "/buckets/seen/quota", {"byte_count_max": 5}, etag)
    assert status == 200
    assert admin(store, "PUT", "/buckets/seen/quota", {"byte_count_max": 6}, etag)[0] == 412
    assert admin(store, "PUT", "/buckets/seen/quota", {"byte_count_max": 7}, newer)[0] == 200
    assert admin(store, "PUT", "/buckets/absent/quota", {})[0] == 404
    assert admin(store, "PUT", "/buckets/seen/quota", {"byte_count_max": -1})[0] == 422
    assert admin(store, "PUT", "/buckets/seen/quota", {"bytes": 1})[0] == 422


def test_the_command_line_sets_and_shows(store: LiveStore) -> None:
    store.client().create_bucket(Bucket="by-hand")
    set_ = command(store, "set", "--bucket", "by-hand", "--bytes", "2K", "--objects", "3")
    assert (set_["byte_count_max"], set_["object_count_max"]) == (2048, 3)
    changed = command(store, "set", "--bucket", "by-hand", "--objects", "none")
    assert (changed["byte_count_max"], changed["object_count_max"]) == (2048, None)
    assert command(store, "set", "--bucket", "by-hand", "--bytes", "1G", "--dry-run")["byte_count_max"] == 1 << 30
    assert command(store, "show", "--bucket", "by-hand")["byte_count_max"] == 2048
    assert command(store, "set", "--user", "root", "--objects", "1000000")["object_count_max"] == 1_000_000
    assert command(store, "set", "--user", "root", "--objects", "none")["object_count_max"] is None


def test_a_greedy_key_is_told_to_slow_down_and_a_modest_one_is_not(store: LiveStore) -> None:
    user = admin(store, "POST", "/users", {"name": "greedy"})[1]["id"]
    keys = [admin(store, "POST", f"/users/{user}/keys", {})[1] for _ in range(2)]
    assert admin(store, "PUT", f"/keys/{keys[0]['access_key_id']}/rate", {"requests_per_second": 4})[0] == 200
    wires = [Wire(store), Wire(store)]

    def ask(wire: Wire, key: dict[str, str]) -> Any:
        names = {"access_key": key["access_key_id"], "secret_key": key["secret_key"]}
        return wire.call(Request("GET", "/", **names))

    try:
        deadline = time.monotonic() + 30
        while (answer := ask(wires[0], keys[0])).status != 503:
            assert time.monotonic() < deadline
        assert (answer.code, answer.headers["retry-after"]) == ("SlowDown", "1")
        assert [ask(wires[1], keys[1]).status for _ in range(30)] == [200] * 30
        assert admin(store, "PUT", f"/keys/{keys[0]['access_key_id']}/rate", {})[0] == 200
        while not all(ask(wires[0], keys[0]).status == 200 for _ in range(30)):
            assert time.monotonic() < deadline
    finally:
        for wire in wires:
            wire.close()


def test_bandwidth_slows_bodies_both_ways_and_cuts_none(store: LiveStore) -> None:
    client = store.client()
    client.create_bucket(Bucket="slow")
    content = bytes(range(256)) * 4096
    client.put_object(Bucket="slow", Key="k", Body=content)
    limits = {"bytes_per_second": 1 << 20}
    assert admin(store, "PUT", "/buckets/slow/quota", limits)[0] == 200
    began = time.monotonic()
    client.put_object(Bucket="slow", Key="k", Body=content)
    assert client.get_object(Bucket="slow", Key="k")["Body"].read() == content
    assert time.monotonic() - began > 0.5  # each worker grants half a mebibyte at once, and then one in two seconds
    assert admin(store, "PUT", "/buckets/slow/quota", {"bytes_per_second": 1000})[0] == 422
