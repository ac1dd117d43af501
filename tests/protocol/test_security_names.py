"""The rows of the security table about names, documents and values, over raw sockets; ids begin with the row's id."""

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.live import ADMIN_TOKEN, LiveStore, descendants, get_json
from tests.protocol.hostile import (
    CONTENT,
    MISMATCH,
    Outcome,
    Presigned,
    State,
    ask,
    assert_untold,
    besieged,
    check,
    presign,
)
from tests.protocol.raw import Request, assemble, build
from tests.protocol.test_bad_input import md5

pytestmark = [pytest.mark.protocol, pytest.mark.xdist_group("security"), pytest.mark.timeout(120)]
B = b"new content"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveStore]:
    with besieged(tmp_path_factory.mktemp("names")) as live:
        yield live


@pytest.fixture(scope="module")
def state(store: LiveStore) -> State:
    return State(store)


def document(method: str, path: str, query: str, body: bytes) -> Request:
    return Request(method, path, query, body=body, headers={"content-md5": md5(body)})


# -------------------------------------------------------------------------------------------------- names


def test_s20_every_spelling_is_its_own_key(store: LiveStore, state: State) -> None:
    client = store.client()
    client.create_bucket(Bucket="sec-names")
    keys = [
        "a/b",
        "a%2Fb",
        "//a",
        "a+b",
        "a%2Bb",
        "a b",
        "a%20b",
        "a%25b",
        "~",
        "é",
        "e\u0301",
        "😀",
        "*",
        ";",
        "=",
        "a\\b",
        "a?b#c",
    ]
    for key in keys:
        client.put_object(Bucket="sec-names", Key=key, Body=key.encode())
    for key in keys:
        assert client.get_object(Bucket="sec-names", Key=key)["Body"].read() == key.encode()
        client.delete_object(Bucket="sec-names", Key=key)
    client.delete_bucket(Bucket="sec-names")
    state.hold()


@pytest.mark.parametrize(
    "other", ["a+b", "a%2bb", "%61%2Bb", "./a%2Bb", "x/../a%2Bb", "/a%2Bb", "a%252Bb", "a%2Bb/", "A%2Bb"]
)
def test_s20_a_signature_holds_for_one_spelling(store: LiveStore, state: State, other: str) -> None:
    host = f"127.0.0.1:{store.port}"
    for raw in (build(Request(path="/sec/a%2Bb", body=B), host), presign(Presigned("PUT", "/sec/a%2Bb", body=B), host)):
        check(ask(store, raw.replace(b"/sec/a%2Bb", b"/sec/" + other.encode(), 1)), [MISMATCH])
    state.hold()


TRAVERSALS = [
    "..",
    ".",
    "..%2F..%2Fx",
    "%2e%2e/%2e%2e/x",
    "%2Fetc%2Fpasswd",
    "..%5C..%5Cx",
    "a/../../b",
    "%2e",
    "~/x",
    "C:%5Cx",
    "%00x",
]


@pytest.mark.parametrize("path", TRAVERSALS)
def test_s54_dots_are_letters(store: LiveStore, state: State, path: str) -> None:
    check(ask(store, Request("GET", f"/sec/{path}")), [(404, "NoSuchKey")])
    check(ask(store, Request("GET", f"/{path}/sec/key")), [(404, "NoSuchBucket"), (400, "InvalidBucketName")])
    check(ask(store, Request("PUT", f"/{path}")), [(400, "*"), (404, "NoSuchBucket")])
    assert ask(store, Request("PUT", f"/sec/{path}", body=b"s54")).status == 200
    assert ask(store, Request("GET", f"/sec/{path}")).body == b"s54"
    assert ask(store, Request("DELETE", f"/sec/{path}")).status == 204
    named = {file.name for file in store.data.parent.rglob("*")}
    assert named.isdisjoint({"x", "b", "passwd", "key"})
    state.hold()


@pytest.mark.parametrize("path", ["a%ff", "a%fe", "a%c3", "%ed%a0%80", "%c0%80", "%f4%90%80%80"])
def test_s57_only_utf8(store: LiveStore, state: State, path: str) -> None:
    for method in ("PUT", "GET", "DELETE"):
        check(ask(store, Request(method, f"/sec/{path}", body=b"")), [(400, "InvalidURI")])
    source = {"x-amz-copy-source": f"/sec/{path}"}
    check(ask(store, Request(path="/sec/key", headers=source)), [(400, "InvalidURI")])
    state.hold()


SIZES: list[tuple[str, Request, Outcome]] = [
    ("key 1024", Request(path="/sec/" + "k" * 1024, body=B), (200, "")),
    ("key 1025", Request(path="/sec/" + "k" * 1025, body=B), (400, "KeyTooLongError")),
    ("key 1024 bytes in 512 characters", Request(path="/sec/" + "%C3%A9" * 512, body=B), (200, "")),
    ("key 1025 bytes in 513 characters", Request(path="/sec/k" + "%C3%A9" * 512, body=B), (400, "KeyTooLongError")),
    ("segments of 255", Request(path="/sec/" + "/".join(["s" * 255] * 4), body=B), (200, "")),
    ("metadata 2048", Request(path="/sec/m", headers={"x-amz-meta-a": "v" * 2047}, body=B), (200, "")),
    ("metadata 2049", Request(path="/sec/m", headers={"x-amz-meta-a": "v" * 2048}, body=B), (400, "MetadataTooLarge")),
    *[(f"{count} tags", Request(path="/sec/t", headers={"x-amz-tagging": "&".join(f"k{n}=v" for n in range(count))}, body=B), outcome)
      for count, outcome in ((10, (200, "")), (11, (400, "InvalidTag")))],
    *[(f"tag {text}", Request(path="/sec/t", headers={"x-amz-tagging": text}, body=B), (400, "InvalidTag"))
      for text in ("a=%00", "a=%1f", "%ef%bf%bf=a", "=b", "a=1&a=2", "aws:a=b", "k" * 129 + "=v", "k=" + "v" * 257)],
]  # fmt: skip


@pytest.mark.parametrize(("name", "request_", "outcome"), SIZES, ids=[f"S59-{row[0]}" for row in SIZES])
def test_length(store: LiveStore, state: State, name: str, request_: Request, outcome: Outcome) -> None:
    check(ask(store, request_), [outcome])
    if outcome[0] == 200:
        assert ask(store, Request("DELETE", request_.path)).status == 204
    state.hold()


NAMES = [
    "a",
    "ab",
    "a" * 64,
    "a..b",
    "..",
    "192.168.1.1",
    "Upper",
    "xn--a",
    "abc.",
    "abc-",
    "-abc",
    "_internal",
    "a_b",
    "a.-b",
    "sthree-a",
    "a-s3alias",
]


@pytest.mark.parametrize("name", [*NAMES, "health", "minio", "v20180820", "%C3%A9%C3%A9%C3%A9", "a%00b", "a%0Ab"])
def test_s60_names_that_no_bucket_has(store: LiveStore, state: State, name: str) -> None:
    check(ask(store, Request("PUT", f"/{name}")), [(400, "InvalidBucketName")])
    state.hold()


def test_s60_names_of_other_ports_are_buckets(store: LiveStore, state: State) -> None:
    for name in ("admin", "console", "metrics", "health-x"):
        assert ask(store, Request("PUT", f"/{name}")).status == 200
        check(ask(store, Request("GET", f"/{name}/v1/users")), [(404, "NoSuchKey")])
        assert ask(store, Request("DELETE", f"/{name}")).status == 204
    state.hold()


OVERRIDES = ["cache-control", "content-disposition", "content-encoding", "content-language", "content-type", "expires"]
BROKEN = "a%0D%0Ax-injected%3A1"


@pytest.mark.parametrize(
    "request_",
    [
        *[Request("GET", "/sec/key", f"response-{name}={BROKEN}") for name in OVERRIDES],
        *[Request("GET", "/sec/key", f"response-{name}=a%0Ax-injected%3A1") for name in OVERRIDES],
        *[Request(method, "/sec/none", f"versionId={BROKEN}") for method in ("GET", "DELETE", "HEAD")],
        Request("PUT", "/sec/key", "tagging=&versionId=" + BROKEN),
        Request("GET", "/sec", f"key-marker=a&version-id-marker={BROKEN}&versions="),
        Request("GET", f"/sec/{BROKEN}"),
        Request("GET", f"/{BROKEN}"),
        *[Request(path="/sec/key", headers={name: f"a{end}x-injected: 1"}) for name in ("x-amz-meta-a", "x-amz-website-redirect-location", "content-type") for end in ("\r\n ", "\n", "\r")],
    ],
)  # fmt: skip
def test_s61_no_header_is_injected(store: LiveStore, state: State, request_: Request) -> None:
    answer = ask(store, request_)
    check(answer, [(400, "*"), (404, "*")])
    assert "x-injected" not in answer.headers
    state.hold()


# -------------------------------------------------------------------------------------------------- documents

DOCUMENTS = [
    ("PUT", "/sec", "versioning=", "VersioningConfiguration"),
    ("PUT", "/sec", "tagging=", "Tagging"),
    ("PUT", "/sec/key", "tagging=", "Tagging"),
    ("PUT", "/sec-new", "", "CreateBucketConfiguration"),
    ("POST", "/sec", "delete=", "Delete"),
    ("POST", "/sec/key", "uploadId=u", "CompleteMultipartUpload"),
]


def bombs(root: str) -> dict[str, bytes]:
    opened, closed = f"<{root}>".encode(), f"</{root}>".encode()
    levels = b"".join(b'<!ENTITY a%d "%s">' % (n, b"&a%d;" % (n - 1) * 10) for n in range(1, 12))
    return {
        "file": b'<!DOCTYPE a [<!ENTITY e SYSTEM "file:///etc/passwd">]>' + opened + b"&e;" + closed,
        "remote": b'<!DOCTYPE a SYSTEM "http://127.0.0.1/x.dtd">' + opened + closed,
        "entities": b'<!DOCTYPE a [<!ENTITY a0 "lol">' + levels + b"]>" + opened + b"&a11;" + closed,
        "long entity": b'<!DOCTYPE a [<!ENTITY a "' + b"x" * 50_000 + b'">]>' + opened + b"&a;" * 5_000 + closed,
        "deep": opened + b"<a>" * 200_000,
        "deep in itself": opened * 50_000,
        "attributes": f"<{root} ".encode() + b" ".join(b'a%d=""' % n for n in range(80_000)) + b"/>",
        "wide": opened + b"<Object><Key>a</Key></Object>" * 30_000 + closed,
        "UTF-16": f"<{root}/>".encode("utf-16"),
        "latin-1": b'<?xml version="1.0" encoding="ISO-8859-1"?>' + opened + b"\xe9" + closed,
        "wrong root": b'<Other xmlns="urn:other"/>',
        "two roots": opened + closed + opened + closed,
        "nothing": b"",
    }


@pytest.mark.parametrize(
    ("method", "path", "query", "root"), DOCUMENTS, ids=[f"S63-S64-{row[1]}-{row[3]}" for row in DOCUMENTS]
)
def test_bombs(store: LiveStore, state: State, method: str, path: str, query: str, root: str) -> None:
    before = memory(store)
    for name, body in bombs(root).items():
        if root == "CreateBucketConfiguration" and name == "nothing":
            continue  # a bucket without a document is what most clients ask for
        began = time.monotonic()
        answer = ask(store, document(method, path, query, body))
        check(answer, [(400, "MalformedXML")])
        assert b"root:" not in answer.body
        assert time.monotonic() - began < 3, name
    assert memory(store) - before < 64 << 20
    state.hold()


def memory(store: LiveStore) -> int:
    """Resident bytes of all processes."""
    pages = [int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in descendants(store.pid)]
    return sum(pages) * 4096


MISSPELT = [
    *[("PUT", "/sec", "versioning=", f"<VersioningConfiguration>{inner}</VersioningConfiguration>") for inner in
      ("<Statuss>Enabled</Statuss>", "<status>Enabled</status>", "<Status>enabled</Status>", "<Status>1</Status>", "", "Enabled",
       "<Status>Enabled</Status><Status>Suspended</Status>", "<Status><Status>Enabled</Status></Status>", "<Status>Enabled</Status>x")],
    *[("POST", "/sec", "delete=", f"<Delete>{inner}</Delete>") for inner in
      ("<Objects><Key>key</Key></Objects>", "<Object><key>key</key></Object>", "<Object><Key>key</Key><Key>other</Key></Object>",
       "<Object><Key>key</Key><VersionID>x</VersionID></Object>", "<Object><Key>key</Key><VersionId></VersionId></Object>",
       "<Object><Key>key</Key></Object><Quiet>yes</Quiet>", "<Object><Key></Key></Object>", "<Object/>", "<Object>key</Object>")],
    *[("PUT", "/sec/key", "tagging=", f"<Tagging>{inner}</Tagging>") for inner in
      ("<Tag><Key>a</Key></Tag>", "<TagSet><Tag><Value>a</Value></Tag></TagSet>", "<TagSet/><TagSet/>", "")],
]  # fmt: skip


@pytest.mark.parametrize(("method", "path", "query", "text"), MISSPELT, ids=[f"S65-{row[3]}" for row in MISSPELT])
def test_misspelt(store: LiveStore, state: State, method: str, path: str, query: str, text: str) -> None:
    check(ask(store, document(method, path, query, text.encode())), [(400, "MalformedXML")])
    assert b"<Status>" not in ask(store, Request("GET", "/sec", "versioning=")).body
    state.hold()


@pytest.mark.parametrize(
    ("value", "status"),
    [
        ("bytes=" + "0-," * 4000, 200), ("bytes=0-,0-", 200), ("bytes=0-" + "9" * 5000, 206), ("bytes=" + "9" * 30 + "-", 416),
        ("bytes=-0", 416), ("bytes=-" + "9" * 30, 206), ("bytes=2-1", 200), ("bytes=--1", 200), ("octets=0-1", 200), ("bytes=\xb2-", 200),
        ("bytes=0x0-1", 200), ("bytes", 200), ("bytes=" + "-" * 5000, 200), ("bytes=21-", 416), ("bytes=20-", 206),
    ],
    ids=lambda value: f"S66-{str(value)[:20]}",
)  # fmt: skip
def test_range(store: LiveStore, value: str, status: int) -> None:
    raw = build(Request("GET", "/sec/key"), f"127.0.0.1:{store.port}")
    answer = ask(store, raw.replace(b"\r\n\r\n", b"\r\nrange: " + value.encode("latin-1") + b"\r\n\r\n", 1))
    check(answer, [(status, "InvalidRange" if status == 416 else "")])
    assert CONTENT.endswith(answer.body) or status == 416


# -------------------------------------------------------------------------------------------------- values


def test_s76_the_clock_is_ours(store: LiveStore, state: State) -> None:
    for date in ("Sun, 06 Nov 1994 08:49:37 GMT", "Fri, 31 Dec 2099 23:59:59 GMT"):
        headers = {"x-timestamp": "1", "date": date, "last-modified": date, "x-amz-meta-mtime": "1"}
        assert ask(store, Request(path="/sec/dated", body=B, headers=headers)).status == 200
        modified = store.client().head_object(Bucket="sec", Key="dated")["LastModified"]
        assert abs(modified.timestamp() - time.time()) < 60
    assert ask(store, Request("DELETE", "/sec/dated")).status == 204
    state.hold()


def test_s77_sql_is_text(store: LiveStore, state: State) -> None:
    client = store.client()
    client.create_bucket(Bucket="sec-sql")
    keys = ["a' OR 1=1 --", "a%", "a%b", "a_b", "a\\b", "a--b", 'a"b', "aXb", "a;b"]
    for key in keys:
        client.put_object(Bucket="sec-sql", Key=key, Body=b"", Tagging=f"t={quote(key)}")
    for key in keys:
        listed = client.list_objects_v2(Bucket="sec-sql", Prefix=key)["Contents"]
        assert {entry["Key"] for entry in listed} == {name for name in keys if name.startswith(key)}
        after = client.list_objects_v2(Bucket="sec-sql", StartAfter=key).get("Contents", [])
        assert {entry["Key"] for entry in after} == {name for name in keys if name > key}
        marked = client.list_objects(Bucket="sec-sql", Marker=key).get("Contents", [])
        assert len(marked) == len(after)
        assert client.get_object_tagging(Bucket="sec-sql", Key=key)["TagSet"] == [{"Key": "t", "Value": key}]
        assert "Buckets" not in client.list_buckets(Prefix=key) or not client.list_buckets(Prefix=key)["Buckets"]
    for key in keys:
        client.delete_object(Bucket="sec-sql", Key=key)
    client.delete_bucket(Bucket="sec-sql")
    for name in ("' OR 1=1 --", "%", "a\\", "a;b"):
        assert get_json(f"{store.admin}/admin/v1/users?name={quote(name)}", ADMIN_TOKEN)[0] == 422
    state.hold()


NUMBERS = [
    "-1",
    "2147483648",
    "1e3",
    "%D9%A3",
    "%E0%A5%A7",
    "+5",
    "%205",
    "0x10",
    "1.0",
    "9" * 40,
    "%00",
    "5%0A",
    "%EF%BC%91",
]
COUNTED = [
    *[("/sec", "list-type=2&max-keys={}"), ("/sec", "max-keys={}"), ("/sec", "max-keys={}&versions=")],
    *[("/sec", "max-uploads={}&uploads="), ("/", "max-buckets={}"), ("/sec/key", "max-parts={}&uploadId=u")],
    *[("/sec/key", "part-number-marker={}&uploadId=u"), ("/sec/key", "partNumber={}")],
]


@pytest.mark.parametrize(("path", "query"), COUNTED, ids=[f"S78-{query}" for _, query in COUNTED])
def test_number(store: LiveStore, state: State, path: str, query: str) -> None:
    for number in NUMBERS:
        # "+" is a space to whoever reads a query, so it travels as an escape
        spelled = query.format(number.replace("+", "%2B"))
        check(ask(store, Request("GET", path, spelled)), [(400, "InvalidArgument")])
    for number in ("0", "10001", "-0", "1e1"):
        part = Request("PUT", "/sec/key", f"partNumber={number}&uploadId=u", body=B)
        check(ask(store, part), [(400, "InvalidArgument")])
    state.hold()


def test_s78_a_page_is_capped(store: LiveStore) -> None:
    for asked in ("1001", "5000", "2147483647"):
        answer = ask(store, Request("GET", "/sec", f"list-type=2&max-keys={asked}"))
        assert b"<MaxKeys>1000</MaxKeys>" in answer.body


@pytest.mark.parametrize(
    "query", ["%01=%02", "prefix=%EF%BF%BF%01&max-keys=%01", "versionId=%01", "continuation-token=%01&list-type=2"]
)
@pytest.mark.parametrize("path", ["/sec/%01", "/sec/%EF%BF%BE", "/%01%02%03", "/sec"])
def test_errors_are_always_xml(store: LiveStore, path: str, query: str) -> None:
    """What a client sends comes back in error documents; `check` parses them."""
    for method in ("GET", "DELETE", "PUT"):
        request = Request(method, path, query, headers={"x-amz-copy-source": "/sec/%01"} if method == "PUT" else {})
        answer = ask(store, replace(request))
        assert answer.status != 200 or path == "/sec"
        check(answer, [(answer.status, "*")])
    anonymous = assemble(Request("GET", path, query), {"host": "a"})
    check(ask(store, anonymous), [(403, "AccessDenied"), (400, "*"), (404, "NoSuchBucket")])


def test_s84_nothing_secret_was_told(store: LiveStore) -> None:
    assert_untold(store)
