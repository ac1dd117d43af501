"""PF-10: the fast lane and ASGI answer alike. One corpus, byte by byte, over two stores that differ in one setting.

Both stores see the same requests in the same order. What may differ is what names a moment or a store: Date, the request
ids, `x-amz-id-2`, Last-Modified, version ids and upload ids.
"""

import re
import socket
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.s3.operations import OPERATIONS
from tests.live import LiveStore, get_json
from tests.protocol.hostile import (
    CONTENT,
    UNSIGNED_TRAILER,
    Presigned,
    besieged,
    presign,
    presign_v2,
    sign_v2,
)
from tests.protocol.raw import Request, assemble, build
from tests.protocol.test_bad_input import LENGTH, PIECES, crc32, md5, signed_stream, spoil_signature
from tests.protocol.test_security_access import target_of

pytestmark = [pytest.mark.protocol, pytest.mark.xdist_group("lane"), pytest.mark.timeout(120)]
B = b"new content"
MIB = 1 << 20
Make = Callable[[str], bytes]
"""The bytes of a request to a host, which is not the same for both stores."""


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LiveStore, LiveStore]]:
    folders = [tmp_path_factory.mktemp(name) for name in ("lane", "asgi")]
    with started(folders[0], lane=True) as lane, started(folders[1], lane=False) as asgi:
        yield lane, asgi


def started(folder: Path, *, lane: bool) -> "Started":
    return Started(folder, lane=lane)


class Started:
    """A store with the lane open or closed, and the objects that the corpus reads."""

    def __init__(self, folder: Path, *, lane: bool) -> None:
        self._context = besieged(folder, ISOTHERM_SERVER__FAST_LANE="true" if lane else "false")

    def __enter__(self) -> LiveStore:
        store = self._context.__enter__()
        client = store.client()
        client.create_bucket(Bucket="versioned")
        client.put_bucket_versioning(Bucket="versioned", VersioningConfiguration={"Status": "Enabled"})
        client.put_object(Bucket="sec", Key="large", Body=bytes(range(256)) * (6 * MIB // 256), ContentType="a/b")
        client.put_object(Bucket="sec", Key="empty", Body=b"", Metadata={"a": "b"}, Tagging="a=b")
        for key in ("gone", "kept"):
            client.put_object(Bucket="versioned", Key=key, Body=CONTENT)
        client.delete_object(Bucket="versioned", Key="gone")
        return store

    def __exit__(self, *_: object) -> None:
        self._context.__exit__(None, None, None)


MOMENTS = re.compile(
    rb"(?m)^(?:date|x-amz-request-id|x-amz-id-2|last-modified|x-amz-version-id): [^\r]*"
    rb"|(?<=<RequestId>)[^<]*|(?<=<HostId>)[^<]*|(?<=<LastModified>)[^<]*|(?<=<CreationDate>)[^<]*|(?<=<Initiated>)[^<]*"
    rb"|(?<=<VersionId>)[^<]*|(?<=<UploadId>)[^<]*|(?<=<ID>)[^<]*|(?<=<DisplayName>)[^<]*|(?<=<ServerTime>)[^<]*"
    rb"|(?<=<RequestTime>)[^<]*|(?<=<Expires>)[^<]*|(?<=<NextContinuationToken>)[^<]*"
)


def answers(store: LiveStore, raw: bytes, *, ends: bool = False) -> bytes:
    """Everything the store sends for `raw` until it is silent for the answer's end, without moments.

    A `Connection: close` request follows, so that the end of the connection is the end of the answers.
    """
    host = f"127.0.0.1:{store.port}"
    last = assemble(Request("GET", "/sec/key"), {"host": host, "connection": "close"})
    with socket.create_connection(("127.0.0.1", store.port), timeout=20) as connection:
        try:
            connection.sendall(raw if ends else raw + last)
            if ends:
                connection.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # refused and closed before everything was sent
        received = b""
        try:
            while got := connection.recv(1 << 16):
                received += got
        except ConnectionResetError:
            received += b"<reset>"
    received = received.replace(f":{store.port}".encode(), b":PORT")
    return MOMENTS.sub(b"*", received)


def signed(request: Request) -> Make:
    return lambda host: build(request, host)


def url(wanted: Presigned) -> Make:
    return lambda host: presign(wanted, host)


def plain(raw: bytes) -> Make:
    return lambda _: raw


GET, HEAD, PUT = (Request(method, "/sec/key") for method in ("GET", "HEAD", "PUT"))
DATES = {"past": "Sun, 06 Nov 1994 08:49:37 GMT", "future": "Fri, 31 Dec 2099 23:59:59 GMT", "broken": "yesterday"}
CONDITIONS = [
    {"if-match": "*"}, {"if-match": '"x"'}, {"if-none-match": "*"}, {"if-none-match": '"x"'}, {"if-none-match": '"x", *'},
    *[{f"if-{kind}-since": date} for kind in ("modified", "unmodified") for date in DATES.values()],
    *[{"range": value} for value in ("bytes=0-3", "bytes=-3", "bytes=5-", "bytes=99-", "bytes=0-1,3-4", "bytes=-0", "x")],
    {"range": "bytes=0-3", "if-range": '"x"'}, {"x-amz-checksum-mode": "ENABLED"}, {"expect": "100-continue"}, {"connection": "close"},
    {"x-amz-server-side-encryption": "AES256"}, {"x-amz-unheard-of": "1"}, {"x-amz-expected-bucket-owner": "nobody"},
]  # fmt: skip
PATHS = [
    "/", "//", "/sec", "/sec/", "/sec//", "/sec/a%2Fb", "/sec/./a", "/sec/../a", "/sec/%2e%2e", "/sec/a+b", "/sec/a%2Bb", "/sec/%ff", "/sec/%00",
    '/sec/"', "/sec/<>", "/sec/\\", "/sec/^`{|}", "/sec/%", "/sec/%zz", "/sec/~", "/*", "/sec/;a=b", "/sec/" + "k" * 1024, "/sec/" + "k" * 1025,
    "/health", "/health/live", "/health/live/", "/health/nothing", "/minio/health/ready", "/absent-bucket", "/absent-bucket/k", "/UPPER/k",
]  # fmt: skip
QUERIES = [
    "list-type=2", "list-type=2&max-keys=1", "list-type=2&prefix=k&delimiter=%2F", "list-type=3", "max-keys=0", "max-keys=-1", "versions=", "uploads=",
    "encoding-type=url&prefix=%C3%A9", "a?b", "?", "&&", "a=1&a=2", "%zz", "a=%ff", "location=", "acl=", "policy=", "versioning=", "website=", "uploadId=u",
]  # fmt: skip
BODIES = [0, 1, 1000, 70_000, 131_072, 131_073, 5 * MIB]


def corpus() -> Iterator[tuple[str, Make]]:
    for request in (GET, HEAD):
        for number, headers in enumerate(CONDITIONS):
            yield f"{request.method} {number} {headers}", signed(replace(request, headers=headers))
        for path in ("/sec/large", "/sec/empty", "/sec/none", "/versioned/gone", "/versioned/kept"):
            yield f"{request.method} {path}", signed(replace(request, path=path))
            ranged = replace(request, path=path, headers={"range": "bytes=100-3000000"})
            yield f"{request.method} {path} range", signed(ranged)
        for query in (
            "partNumber=1",
            "partNumber=2",
            "partNumber=x",
            "versionId=null",
            "versionId=x",
            "versionId=%0D%0A",
            "response-expires=a",
            "attributes=",
        ):
            yield f"{request.method} ?{query}", signed(replace(request, query=query))
    for path in PATHS:
        yield f"GET {path[:40]}", signed(replace(GET, path=path))
        yield f"anonymous {path[:40]}", lambda host, path=path: assemble(replace(GET, path=path), {"host": host})  # type: ignore[misc]
    for query in QUERIES:
        yield f"GET /sec?{query}", signed(replace(GET, path="/sec", query=query))
    for method in ("POST", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECT", "FOO", "LINK"):
        yield f"{method} absent", signed(Request(method, "/sec/absent"))
    yield from writes()
    yield from frames()


def writes() -> Iterator[tuple[str, Make]]:
    for size in BODIES:
        body = b"z" * size
        put = Request(path=f"/sec/put-{size}", body=body)
        yield f"PUT {size}", signed(put)
        yield f"PUT {size} continued", signed(replace(put, headers={"expect": "100-continue"}))
        yield f"PUT {size} wrong MD5", signed(replace(put, headers={"content-md5": md5(b"other")}))
        yield f"PUT {size} wrong signature", signed(replace(put, signature="0" * 64))
        yield f"PUT {size} into no bucket", signed(replace(put, path="/absent-bucket/k"))
        yield f"PUT {size} by URL", url(Presigned("PUT", f"/sec/url-{size}", body=body))
        chunked = b"%x\r\n" % size + body + b"\r\n0\r\n\r\n" if size else b"0\r\n\r\n"
        framed = replace(put, payload="UNSIGNED-PAYLOAD", wire_body=chunked, with_length=False)
        yield f"PUT {size} chunked", signed(replace(framed, headers={"transfer-encoding": "chunked"}))
        yield f"GET {size}", signed(Request("GET", f"/sec/put-{size}"))
    for headers in (
        {"if-match": "*"},
        {"if-none-match": "*"},
        {"x-amz-storage-class": "NOPE"},
        {"x-amz-meta-a": "b" * 3000},
        {"x-amz-acl": "public-read"},
    ):
        yield f"PUT {headers}", signed(replace(PUT, headers=headers, path="/sec/put-1", body=B))
    streamed = Request(path="/sec/streamed", headers={"x-amz-decoded-content-length": LENGTH})
    yield "streamed", lambda host: signed_stream(streamed, host, PIECES, lambda frames: frames)
    yield "streamed wrongly", lambda host: signed_stream(streamed, host, PIECES, spoil_signature(1))
    trailed = b"b\r\n" + B + b"\r\n0\r\nx-amz-checksum-crc32:" + crc32(B).encode() + b"\r\n\r\n"
    announced = {"x-amz-decoded-content-length": "11", "x-amz-trailer": "x-amz-checksum-crc32"}
    for name, body in (("trailer", trailed), ("no trailer", trailed[:-40] + b"\r\n"), ("more", trailed + b"x")):
        yield name, signed(Request(path="/sec/trailed", headers=announced, payload=UNSIGNED_TRAILER, wire_body=body))
    yield "no length", signed(replace(PUT, with_length=False, payload="UNSIGNED-PAYLOAD"))
    yield "copy", signed(Request(path="/sec/copied", headers={"x-amz-copy-source": "/sec/key"}))
    yield (
        "tag",
        signed(
            Request(path="/sec/key", query="tagging=", body=b"<Tagging/>", headers={"content-md5": md5(b"<Tagging/>")})
        ),
    )
    for key in ("put-1", "put-1", "copied", "streamed", "trailed"):
        yield f"DELETE {key}", signed(Request("DELETE", f"/sec/{key}"))
    yield "DELETE versioned", signed(Request("DELETE", "/versioned/none"))
    body = b"<Delete><Object><Key>put-0</Key></Object><Object><Key>none</Key></Object></Delete>"
    yield "DELETE many", signed(Request("POST", "/sec", "delete=", body=body, headers={"content-md5": md5(body)}))


def frames() -> Iterator[tuple[str, Make]]:
    """Auth kinds of every operation, refused heads, cut bodies, pipelines."""
    for operation in OPERATIONS:
        path, query, markers = target_of(operation)
        request = Request(operation.method, path, query, headers=markers)
        yield f"{operation.name} unknown key", signed(replace(request, access_key="nobody"))
        yield f"{operation.name} anonymous", lambda host, r=request: assemble(r, {"host": host, **r.headers})  # type: ignore[misc]
        yield f"{operation.name} V2", lambda host, r=request: sign_v2(r.method, r.path, host)  # type: ignore[misc]
        yield f"{operation.name} absent", signed(replace(request, path=path.replace("/sec", "/absent-bucket")))
    yield "V2 URL", lambda host: presign_v2(Presigned(), host)
    yield "URL", url(Presigned())
    yield "URL too late", url(Presigned(skew_seconds=-20, expires="10"))
    yield "pipeline", lambda host: build(GET, host) * 5 + build(HEAD, host) + build(replace(GET, path="/sec"), host)
    yield "1.0", plain(b"GET /sec/key HTTP/1.0\r\nhost: a\r\n\r\n")
    yield "two hosts", plain(b"GET /sec/key HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n")
    yield "expects else", plain(b"GET /sec/key HTTP/1.1\r\nhost: a\r\nexpect: x\r\n\r\n")
    yield "upgrade", plain(b"GET /sec/key HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n")
    repeated = b"x-amz-object-attributes: ETag\r\nx-amz-object-attributes: ObjectSize\r\n"
    yield "repeated list", plain(b"GET /sec/key?attributes HTTP/1.1\r\nhost: a\r\n" + repeated + b"\r\n")


CORPUS = list(corpus())


@pytest.mark.parametrize("part", range(8))
def test_the_lane_answers_as_asgi(stores: tuple[LiveStore, LiveStore], part: int) -> None:
    lane, asgi = stores
    size = -(-len(CORPUS) // 8)
    for name, make in CORPUS[part * size : (part + 1) * size]:
        by_lane, by_asgi = (answers(store, make(f"127.0.0.1:{store.port}")) for store in (lane, asgi))
        assert by_lane == by_asgi, name
        assert by_lane.startswith(b"HTTP/1.1 "), name


@pytest.mark.parametrize("size", [500, 200_000])
@pytest.mark.parametrize("sent", [0, 100])
def test_a_cut_body_ends_alike(stores: tuple[LiveStore, LiveStore], size: int, sent: int) -> None:
    request = Request(
        path="/sec/cut", payload="UNSIGNED-PAYLOAD", headers={"content-length": str(size)}, wire_body=b"x" * sent
    )
    by_lane, by_asgi = (answers(store, build(request, f"127.0.0.1:{store.port}"), ends=True) for store in stores)
    assert by_lane == by_asgi
    assert b"<Code>IncompleteBody</Code>" in by_lane


def test_both_say_which_way_is_open(stores: tuple[LiveStore, LiveStore]) -> None:
    """The corpus would prove nothing if both stores went one way."""
    for store, is_open in zip(stores, (b" 1.0", b" 0.0"), strict=True):
        metrics = get_json(f"{store.admin}/metrics")[1]
        lines = [line for line in metrics.splitlines() if line.startswith(b"isotherm_fast_lane_enabled{")]
        assert lines
        assert all(line.endswith(is_open) for line in lines)
