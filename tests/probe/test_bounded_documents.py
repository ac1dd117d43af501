"""The largest documents there are cost a worker neither its event loop nor its memory.

Beside each request somebody asks the same worker again and again whether it lives. How long that takes at most is how
long the loop stood still: a figure, judged nightly. An ordinary run counts the answers meanwhile: a loop that stands
still gives none.
"""

import base64
import hashlib
import json
import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.live import LiveStore
from tests.probe.wires import Pinger, resident_bytes, worker_of
from tests.protocol.raw import Answer, Request, Wire

pytestmark = [pytest.mark.probe, pytest.mark.timeout(600)]
IS_NIGHTLY = bool(os.environ.get("ISOTHERM_NIGHTLY"))
PARTS = 10_000 if IS_NIGHTLY else 500
PART_BYTES = 5 << 20
COPY_READ_BYTES_MAX = 5 << 30
STALL_SECONDS_MAX = 0.050
GROWN_BYTES_MAX = 64 << 20
TRIES = 3 if IS_NIGHTLY else 1
"""Of so many the one counts that was disturbed least: other programs hold a worker up as well."""
NO_UPLOAD = "0" * 32
KEY_BYTES = 1000


@dataclass
class Seen:
    """One large request and what was seen of its worker meanwhile."""

    answer: Answer
    pings: int
    stall_seconds: float
    grown_bytes: int


class Watch:
    """Sends requests to the only worker and looks at it."""

    def __init__(self, store: LiveStore) -> None:
        self.store = store
        self.wire = Wire(store, 120)
        self.pid = worker_of(store, self.wire)

    def call(self, request: Request) -> Answer:
        return self.wire.call(request)

    def see(self, request: Request) -> Seen:
        """Send one request and watch its worker until it is answered."""
        Path(f"/proc/{self.pid}/clear_refs").write_text("5")  # the peak is counted from here
        before = resident_bytes(self.pid)
        other = Wire(self.store, 60)
        with Pinger(other) as pinger:
            pinger.wait_for_some()
            first = len(pinger.seconds)
            answer = self.wire.call(request)
            last = len(pinger.seconds)
            pinger.wait_for_some()
        other.close()
        stall = max(pinger.seconds[first:])
        return Seen(answer, last - first, stall, resident_bytes(self.pid, "VmHWM") - before)

    def judge(self, name: str, status: int, make: Callable[[], Request]) -> Answer:
        """Send one large request, or several alike, and say what it cost."""
        seen = [self.see(make()) for _ in range(TRIES)]
        stall = min(one.stall_seconds for one in seen)
        grown = max(one.grown_bytes for one in seen)
        pings = max(one.pings for one in seen)
        print(f"{name}: {seen[0].answer.status}, loop stood still for {1e3 * stall:.0f} ms,"
              f" {pings} answers meanwhile, memory grew by {grown / 2**20:.1f} MiB")  # fmt: skip
        for one in seen:
            assert one.answer.status == status, (name, one.answer)
        assert grown < GROWN_BYTES_MAX, name
        assert max(one.pings for one in seen) or not IS_NIGHTLY, f"{name}: nobody else was answered"
        if IS_NIGHTLY:
            assert stall <= STALL_SECONDS_MAX, f"{name}: the event loop stood still for {stall:.3f} s"
        return seen[0].answer


@pytest.fixture(scope="module")
def watch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watch]:
    with LiveStore(tmp_path_factory.mktemp("bounded") / "data", workers=1) as live:
        live.client().create_bucket(Bucket="big")
        watch = Watch(live)
        yield watch
        watch.wire.close()


def document(method: str, query: str, body: bytes, path: str = "/big") -> Request:
    """A request with a document and the checksum that some must have."""
    digest = hashlib.md5(body, usedforsecurity=False).digest()
    return Request(method, path, query, {"content-md5": base64.b64encode(digest).decode()}, body)


def repeated(root: str, count: int, make: Callable[[int], str]) -> bytes:
    return f"<{root}>{''.join(make(number) for number in range(1, count + 1))}</{root}>".encode()


def long_part(number: int) -> str:
    """A part with as much text as fits 10,000 times into 4 MiB."""
    checksums = f"<ChecksumSHA256>{'A' * 43}=</ChecksumSHA256><ChecksumSHA1>{'A' * 200}</ChecksumSHA1>"
    return f'<Part><PartNumber>{number}</PartNumber><ETag>"{number:032x}"</ETag>{checksums}</Part>'


def rule(number: int) -> str:
    tag = f"<Tag><Key>k{number}</Key><Value>v</Value></Tag>"
    where = f"<Filter><And><Prefix>{'p' * 700}{number}</Prefix>{tag}</And></Filter>"
    return (
        f"<Rule><ID>r{number}</ID><Status>Enabled</Status>{where}<Expiration><Days>{number}</Days></Expiration></Rule>"
    )


def origins(number: int) -> str:
    many = "".join([f"<AllowedOrigin>http://{'o' * 60}{number}-{n}.example</AllowedOrigin>" for n in range(90)])
    return f"<CORSRule>{many}<AllowedMethod>GET</AllowedMethod></CORSRule>"


def policy() -> bytes:
    resources = [f"arn:aws:s3:::big/{'*a' * 50}{number}" for number in range(8_000)]
    statement = {"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject", "Resource": resources}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]}).encode()[: 1 << 20]


LARGE: dict[str, tuple[int, Callable[[], Request]]] = {
    "Complete with 10,000 parts of no upload": (
        404,
        lambda: document(
            "POST", f"uploadId={NO_UPLOAD}", repeated("CompleteMultipartUpload", 10_000, long_part), "/big/k"
        ),
    ),
    "Complete with 4 MiB of white space": (
        400,
        lambda: document(
            "POST", f"uploadId={NO_UPLOAD}", b"<CompleteMultipartUpload>".ljust(4 << 20), "/big/k"
        ),
    ),
    "DeleteObjects of 1,000 long keys": (
        200,
        lambda: document(
            "POST", "delete=", repeated("Delete", 1000, lambda n: f"<Object><Key>{'d' * KEY_BYTES}{n}</Key></Object>")
        ),
    ),
    "DeleteObjects of 6 MB": (
        200,
        lambda: document(
            "POST", "delete=", repeated("Delete", 1000, lambda n: f"<Object><Key>{'&#120;' * 1000}{n}</Key></Object>")
        ),
    ),
    "lifecycle of 1,000 rules": (
        200, lambda: document("PUT", "lifecycle=", repeated("LifecycleConfiguration", 1000, rule)),
    ),
    "its answer": (200, lambda: Request("GET", "/big", "lifecycle=")),
    "cors of 9,000 origins": (200, lambda: document("PUT", "cors=", repeated("CORSConfiguration", 100, origins))),
    "policy of 1 MiB": (400, lambda: document("PUT", "policy=", policy())),
    "policy of brackets": (400, lambda: document("PUT", "policy=", b"[" * 500_000 + b"]" * 500_000)),
    "tagging of 4,000 tags": (
        400,
        lambda: document(
            "PUT", "tagging=",
            b"<Tagging>%b</Tagging>"
            % repeated("TagSet", 4000, lambda n: f"<Tag><Key>k{n}</Key><Value>v</Value></Tag>"),
        ),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LARGE)
def test_a_large_document_holds_nobody_up(watch: Watch, name: str) -> None:
    watch.judge(name, *LARGE[name])


def test_a_thousand_objects_are_deleted_beside_others(watch: Watch) -> None:
    def fill_and_list() -> Request:
        for number in range(1000):
            assert watch.call(Request("PUT", f"/big/d{number}", body=b"x")).status == 200
        return document("POST", "delete=", repeated("Delete", 1000, lambda n: f"<Object><Key>d{n - 1}</Key></Object>"))

    answer = watch.judge("DeleteObjects of 1,000 objects", 200, fill_and_list)
    assert answer.body.count(b"<Deleted>") == 1000
    listed = watch.call(Request("GET", "/big", "prefix=d"))
    assert b"<Contents>" not in listed.body


def upload(watch: Watch, key: str) -> tuple[str, list[str]]:
    """An upload whose parts all share the bytes of one object; its id and the parts' ETags."""
    found = re.search(rb"<UploadId>([^<]*)", watch.call(Request("POST", key, "uploads=")).body)
    assert found is not None
    upload_id = found[1].decode()
    etags = []
    for number in range(1, PARTS + 1):
        copied = Request("PUT", key, f"partNumber={number}&uploadId={upload_id}", {"x-amz-copy-source": "/big/source"})
        etag = re.search(rb"<ETag>&quot;([^&]*)", watch.call(copied).body)
        assert etag is not None
        etags.append(etag[1].decode())
    return upload_id, etags


def test_an_object_in_many_parts_is_handled_beside_others(watch: Watch) -> None:
    assert watch.call(Request("PUT", "/big/source", body=bytes(PART_BYTES))).status == 200
    made: list[Request] = []

    def complete() -> Request:
        key = f"/big/joined-{len(made)}"
        upload_id, etags = upload(watch, key)
        lines = [f'<Part><PartNumber>{n}</PartNumber><ETag>"{etag}"</ETag></Part>' for n, etag in enumerate(etags, 1)]
        body = f"<CompleteMultipartUpload>{''.join(lines)}</CompleteMultipartUpload>".encode()
        made.append(document("POST", f"uploadId={upload_id}", body, key))
        return made[-1]

    first = watch.judge(f"Complete of {PARTS} parts", 200, complete)
    again = watch.judge("the same again", 200, lambda: made[0])
    assert again.body == first.body
    key = made[0].path
    size = int(watch.call(Request("HEAD", key)).headers["content-length"])
    assert size == PARTS * PART_BYTES
    middle = {"range": f"bytes={size // 2}-{size // 2 + 99}"}
    assert watch.judge("100 bytes from its middle", 206, lambda: Request("GET", key, headers=middle)).body == bytes(100)
    if size > COPY_READ_BYTES_MAX:  # no byte of it is read
        source = {"x-amz-copy-source": quote(key)}
        watch.judge("a copy of it", 200, lambda: Request("PUT", "/big/copy", headers=source))
    over = iter(made)
    watch.judge("a write over it", 200, lambda: Request("PUT", next(over).path, body=b"small"))
    aborted = iter([upload(watch, "/big/aborted")[0] for _ in range(TRIES)])
    watch.judge("the end of an upload", 204, lambda: Request("DELETE", "/big/aborted", f"uploadId={next(aborted)}"))


def test_a_loop_that_stands_still_is_seen(watch: Watch) -> None:
    """The watch itself: a worker that is stopped for a moment gives no answer meanwhile, and is caught."""
    wire = Wire(watch.store, 60)
    with Pinger(wire) as pinger:
        pinger.wait_for_some()
        os.kill(watch.pid, signal.SIGSTOP)
        time.sleep(4 * STALL_SECONDS_MAX)
        os.kill(watch.pid, signal.SIGCONT)
        pinger.wait_for_some()
    wire.close()
    assert max(pinger.seconds) > STALL_SECONDS_MAX
