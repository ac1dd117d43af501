"""The access rows of the security table: every operation by every mechanism, tokens, uploads of others, admin tokens."""

import json
import socket
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import pytest

from gateway.s3.operations import OPERATIONS
from gateway.s3.request import Operation, Target
from tests.live import ADMIN_TOKEN, LiveStore
from tests.protocol.hostile import (
    NOT_SIGNED,
    STREAMING_WORDS,
    UNSIGNED_TRAILER,
    Outcome,
    Presigned,
    State,
    ask,
    assert_untold,
    besieged,
    check,
    look,
    presign,
    presign_v2,
    remember,
    sign_v2,
)
from tests.protocol.raw import Request, Wire, assemble, build

pytestmark = [pytest.mark.protocol, pytest.mark.xdist_group("security"), pytest.mark.timeout(120)]
B = b"new content"
ZEROS = "0" * 64


def user(store: LiveStore, name: str) -> tuple[str, str]:
    """Access key and secret of a new user."""

    def post(path: str, document: object) -> Any:
        headers = {"authorization": f"Bearer {ADMIN_TOKEN}", "content-type": "application/json"}
        request = urllib.request.Request(store.admin + path, json.dumps(document).encode(), headers)
        with urllib.request.urlopen(request, timeout=20) as answer:
            return json.load(answer)

    made = post("/admin/v1/users", {"name": name})
    key = post(f"/admin/v1/users/{made['id']}/keys", {})
    remember(key["secret_key"])
    return key["access_key_id"], key["secret_key"]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveStore]:
    with besieged(tmp_path_factory.mktemp("access")) as live:
        yield live


@pytest.fixture(scope="module")
def state(store: LiveStore) -> State:
    return State(store)


@pytest.fixture(scope="module")
def stranger(store: LiveStore) -> tuple[str, str]:
    return user(store, "stranger")


def target_of(operation: Operation) -> tuple[str, str, dict[str, str]]:
    """Path, canonical query and marker headers of a request that means `operation`."""
    paths = {Target.SERVICE: "/", Target.BUCKET: "/sec", Target.OBJECT: "/sec/key"}
    path = paths.get(operation.target, "/v20180820/tags/arn%3Aaws%3As3%3A%3A%3Asec")
    values = {"list-type": "2", "partNumber": "1", "uploadId": "u", "id": "i"}
    query = "&".join(f"{name}={values.get(name, '')}" for name in sorted(operation.query))
    return path, query, dict.fromkeys(operation.headers, "/sec/key")


OPEN_TO_EVERYBODY = {"ListBuckets", "CreateBucket"}
"""Operations that any account may call: they concern no bucket of another."""


@pytest.mark.parametrize("operation", OPERATIONS, ids=[f"S06-{operation.name}" for operation in OPERATIONS])
def test_matrix(store: LiveStore, state: State, stranger: tuple[str, str], operation: Operation) -> None:
    """Every operation by every mechanism that must not succeed for it."""
    path, query, markers = target_of(operation)
    host = f"127.0.0.1:{store.port}"
    key, secret = stranger
    plain = Request(operation.method, path, query, headers=markers)
    pairs = dict(pair.split("=") for pair in query.split("&") if pair)
    url = Presigned(operation.method, path, query=pairs, headers=markers)
    named = {"host": host, **markers}
    refused = {
        "none": assemble(plain, named),
        "anonymous streaming": assemble(plain, {**named, "x-amz-content-sha256": UNSIGNED_TRAILER}),
        "bad signature": build(replace(plain, signature=ZEROS), host),
        "unknown key": build(replace(plain, access_key="nobody"), host),
        "other secret": build(replace(plain, secret_key="another-secret-key"), host),
        "V2 header": sign_v2(operation.method, path, host),
        "V2 query": presign_v2(replace(url, query={}, signature="AAAA"), host, subresources=query),
        "V4 query": presign(replace(url, signature=ZEROS), host),
        "bearer": assemble(plain, {**named, "authorization": f"Bearer {ADMIN_TOKEN}"}),
        "basic": assemble(plain, {**named, "authorization": "Basic dGVzdC1yb290OmNhbmFyeQ=="}),
        "form": assemble(plain, {**named, "content-type": "multipart/form-data; boundary=x"}),
    }
    for word in STREAMING_WORDS:
        headers = {**markers, "x-amz-decoded-content-length": "5"}
        refused[word] = build(replace(plain, payload=word, headers=headers), host)
        refused[f"{word} unsigned"] = build(replace(plain, payload=word, headers=headers, signature=ZEROS), host)
        streamed = replace(url, query={**pairs, "X-Amz-Content-Sha256": word}, payload=word)
        refused[f"{word} in a query"] = presign(streamed, host)
    if operation.name not in OPEN_TO_EVERYBODY:
        refused["stranger"] = build(replace(plain, access_key=key, secret_key=secret), host)
        refused["stranger's URL"] = presign(replace(url, access_key=key, secret_key=secret), host)
    for mechanism, raw in refused.items():
        answer = ask(store, raw)
        assert 400 <= answer.status < 500 or answer.status == 501, (mechanism, answer)
        look(answer)
    state.hold()


def test_s27_every_bit_of_a_continuation_token(store: LiveStore, state: State) -> None:
    client = store.client()
    client.create_bucket(Bucket="sec-pages")
    for key in ("a", "b", "c"):
        client.put_object(Bucket="sec-pages", Key=key, Body=b"")
    token = client.list_objects_v2(Bucket="sec-pages", MaxKeys=1)["NextContinuationToken"]
    wire = Wire(store)

    def ask_for(text: str, bucket: str = "sec-pages", more: str = "") -> Outcome:
        pairs = f"continuation-token={quote(text, safe='~', encoding='latin-1')}&list-type=2{more}"
        answer = wire.call(Request("GET", f"/{bucket}", pairs))
        look(answer)
        return answer.status, answer.code

    assert ask_for(token)[0] == 200
    for at in range(len(token)):
        for bit in range(8):
            flipped = token[:at] + chr(ord(token[at]) ^ 1 << bit) + token[at + 1 :]
            refusal = "InvalidArgument" if bit < 7 else "InvalidURI"  # the eighth bit makes it no UTF-8
            assert ask_for(flipped) == (400, refusal), (at, bit)
    for other in (token + "=", token + "\n", token[:-1], token + token, "!" + token):
        assert ask_for(other) == (400, "InvalidArgument")
    assert ask_for(token, bucket="sec") == (400, "InvalidArgument")
    assert ask_for(token, more="&prefix=a") == (400, "InvalidArgument")
    wire.close()
    for key in ("a", "b", "c"):
        client.delete_object(Bucket="sec-pages", Key=key)
    client.delete_bucket(Bucket="sec-pages")
    state.hold()


def test_s35_uploads_of_others(store: LiveStore, state: State, stranger: tuple[str, str]) -> None:
    client = store.client()
    upload = client.create_multipart_upload(Bucket="sec", Key="up")["UploadId"]
    one = f"partNumber=1&uploadId={upload}"
    document = (
        b"<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>a</ETag></Part></CompleteMultipartUpload>"
    )
    calls = [
        Request("PUT", "/sec/up", one, body=B),
        Request("POST", "/sec/up", f"uploadId={upload}", body=document),
        Request("DELETE", "/sec/up", f"uploadId={upload}"),
        Request("GET", "/sec/up", f"uploadId={upload}"),
        Request("PUT", "/sec/up", one, headers={"x-amz-copy-source": "/sec/key"}),
    ]
    for call in calls:
        check(ask(store, replace(call, access_key=stranger[0], secret_key=stranger[1])), [NOT_SIGNED])
        check(ask(store, replace(call, path="/sec/other")), [(404, "NoSuchUpload")])
        for wrong in (upload[:-1] + ("0" if upload[-1] != "0" else "1"), "%00", "..%2F..", "%0D%0AX%3A1", "a" * 4000):
            check(ask(store, replace(call, query=call.query.replace(upload, wrong))), [(404, "NoSuchUpload")])
    client.abort_multipart_upload(Bucket="sec", Key="up", UploadId=upload)
    state.hold()


def test_s84_nothing_secret_was_told(store: LiveStore) -> None:
    assert_untold(store)


def test_s96_admin_tokens_travel_in_one_header(store: LiveStore) -> None:
    def answer(target: str, *headers: str, method: str = "GET") -> int:
        lines = "".join(f"{line}\r\n" for line in headers)
        raw = f"{method} {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{lines}\r\n".encode()
        with socket.create_connection(("127.0.0.1", store.admin_port), timeout=20) as connection:
            connection.sendall(raw)
            received = connection.makefile("rb").read()
        assert ADMIN_TOKEN.encode() not in received
        return int(received[9:12])

    right = f"Authorization: Bearer {ADMIN_TOKEN}"
    assert answer("/admin/v1/info", right) == 200
    assert answer(f"/admin/v1/info?token={ADMIN_TOKEN}&access_token={ADMIN_TOKEN}") == 401
    for header in (
        f"Cookie: token={ADMIN_TOKEN}",
        f"Referer: http://a/?t={ADMIN_TOKEN}",
        f"X-Admin-Token: {ADMIN_TOKEN}",
    ):
        assert answer("/admin/v1/info", header) == 401
    form = ("Content-Type: application/x-www-form-urlencoded", "Content-Length: 0", "Origin: http://evil")
    assert answer("/admin/v1/users", *form, method="POST") == 401
    assert answer("/admin/v1/info", f"Authorization: Basic {ADMIN_TOKEN}") == 403
    for near in (ADMIN_TOKEN[:-1], ADMIN_TOKEN + "x", ADMIN_TOKEN.upper(), ""):
        assert answer("/admin/v1/info", f"Authorization: Bearer {near}") == 401
    statuses = [answer("/admin/v1/info", "Authorization: Bearer guess") for _ in range(10)]
    assert statuses[-1] == 429
    assert answer("/admin/v1/info", right) == 429  # nor does an answer tell which guess was right
