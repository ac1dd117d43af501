"""Bad input over raw sockets: the right code each, nothing written, connection and store healthy afterwards."""

import base64
import hashlib
import hmac
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from tests.live import LiveStore
from tests.protocol.raw import EMPTY, Answer, Request, Wire, assemble, build, signing_key

pytestmark = [pytest.mark.protocol, pytest.mark.xdist_group("bad-input")]
CANARY = b"the old content stays"
STREAMING = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"
UNSIGNED_TRAILER = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveStore]:
    with LiveStore(tmp_path_factory.mktemp("bad") / "data", workers=2) as live:
        client = live.client()
        client.create_bucket(Bucket="bad")
        client.put_object(Bucket="bad", Key="key", Body=CANARY)
        yield live


def md5(body: bytes) -> str:
    return base64.b64encode(hashlib.md5(body).digest()).decode()


def crc32(body: bytes) -> str:
    return base64.b64encode(zlib.crc32(body).to_bytes(4, "big")).decode()


B = b"new content"
PLAIN = Request(body=B)
Row = tuple[str, Request, int, str]

# fmt: off
REFUSED: list[Row] = [
    # signatures
    ("wrong secret", replace(PLAIN, secret_key="wrong-secret-key"), 403, "SignatureDoesNotMatch"),
    ("unknown key", replace(PLAIN, access_key="nobody"), 403, "InvalidAccessKeyId"),
    ("signature of zeros", replace(PLAIN, signature="0" * 64), 403, "SignatureDoesNotMatch"),
    ("streaming unsigned, signature of zeros", replace(PLAIN, payload=UNSIGNED_TRAILER, signature="0" * 64,
     headers={"x-amz-decoded-content-length": "11", "x-amz-trailer": "x-amz-checksum-crc32"}), 403, "SignatureDoesNotMatch"),
    ("clock 16 minutes behind", replace(PLAIN, skew_minutes=-16), 403, "RequestTimeTooSkewed"),
    ("clock 16 minutes ahead", replace(PLAIN, skew_minutes=16), 403, "RequestTimeTooSkewed"),
    ("wrong region", replace(PLAIN, region="eu-west-9"), 400, "AuthorizationHeaderMalformed"),
    ("wrong service", replace(PLAIN, service="ec2"), 400, "AuthorizationHeaderMalformed"),
    ("other algorithm", replace(PLAIN, algorithm="AWS4-HMAC-SHA1"), 400, ""),
    ("unsigned copy source", replace(PLAIN, unsigned={"x-amz-copy-source": "/bad/key"}), 403, "AccessDenied"),
    ("unsigned metadata", replace(PLAIN, unsigned={"x-amz-meta-a": "b"}), 403, "AccessDenied"),
    ("unsigned storage class", replace(PLAIN, unsigned={"x-amz-storage-class": "GLACIER"}), 403, "AccessDenied"),
    ("two mechanisms", replace(PLAIN, query="X-Amz-Signature=00&X-Amz-Algorithm=AWS4-HMAC-SHA256"), 400, "InvalidArgument"),
    # checksums
    ("wrong payload hash", replace(PLAIN, payload=EMPTY), 400, "XAmzContentSHA256Mismatch"),
    ("payload word unknown", replace(PLAIN, payload="STREAMING-FOO"), 501, "NotImplemented"),
    ("payload word malformed", replace(PLAIN, payload="nonsense"), 400, "InvalidArgument"),
    ("wrong Content-MD5", replace(PLAIN, headers={"content-md5": md5(b"other")}), 400, "BadDigest"),
    ("malformed Content-MD5", replace(PLAIN, headers={"content-md5": "###"}), 400, "InvalidDigest"),
    ("wrong CRC32", replace(PLAIN, headers={"x-amz-checksum-crc32": crc32(b"other")}), 400, "BadDigest"),
    ("CRC32 of wrong length", replace(PLAIN, headers={"x-amz-checksum-crc32": "AAAA"}), 400, "BadDigest"),
    ("two checksums", replace(PLAIN, headers={"x-amz-checksum-crc32": crc32(B), "x-amz-checksum-sha1": "A" * 27 + "="}), 400, "InvalidRequest"),
    ("unserved checksum", replace(PLAIN, headers={"x-amz-checksum-blake3": "A" * 86 + "=="}), 501, "NotImplemented"),
    # names and numbers
    ("key of 1025 bytes", replace(PLAIN, path="/bad/" + "k" * 1025), 400, "KeyTooLongError"),
    ("key of 1026 bytes in 513 characters", replace(PLAIN, path="/bad/" + "%C3%A9" * 513), 400, "KeyTooLongError"),
    ("key not UTF-8", replace(PLAIN, path="/bad/a%ff"), 400, "InvalidURI"),
    ("bucket absent", replace(PLAIN, path="/absent-bucket/key"), 404, "NoSuchBucket"),
    ("metadata of 2 KiB and one", replace(PLAIN, headers={"x-amz-meta-a": "v" * 2048}), 400, "MetadataTooLarge"),
    ("storage class unknown", replace(PLAIN, headers={"x-amz-storage-class": "OUTPOSTS"}), 400, "InvalidStorageClass"),
    ("eleven tags", replace(PLAIN, headers={"x-amz-tagging": "&".join(f"k{n}=v" for n in range(11))}), 400, "InvalidTag"),
    ("version id on PUT", replace(PLAIN, query="versionId=null"), 400, "InvalidArgument"),
    ("upload id without part number", replace(PLAIN, query="uploadId=u"), 405, "MethodNotAllowed"),
    ("part number 0", replace(PLAIN, query="partNumber=0&uploadId=u"), 400, "InvalidArgument"),
    ("part number 10001", replace(PLAIN, query="partNumber=10001&uploadId=u"), 400, "InvalidArgument"),
    ("upload absent", replace(PLAIN, query="partNumber=1&uploadId=u"), 404, "NoSuchUpload"),
    ("max-keys negative", Request("GET", "/bad", "list-type=2&max-keys=-1"), 400, "InvalidArgument"),
    ("max-keys 1e3", Request("GET", "/bad", "list-type=2&max-keys=1e3"), 400, "InvalidArgument"),
    ("forged token", Request("GET", "/bad", "continuation-token=Zm9yZ2Vk&list-type=2"), 400, "InvalidArgument"),
    ("encoding type", Request("GET", "/bad", "encoding-type=base64&list-type=2"), 400, "InvalidArgument"),
    ("response header with line break", Request("GET", "/bad/key", "response-content-disposition=%0d%0aX:1"), 400, "InvalidArgument"),
    *[(f"bucket name {name!r}", Request("PUT", f"/{name}"), 400, "InvalidBucketName") for name in
      ("ab", "a" * 64, "a..b", "192.168.1.1", "Upper", "xn--a", "abc-", "under_score", "health", "minio")],
    # bodies
    ("no length", replace(PLAIN, with_length=False, wire_body=b"", payload="UNSIGNED-PAYLOAD"), 411, "MissingContentLength"),
    ("length not a number", replace(PLAIN, headers={"content-length": "eleven"}), 400, ""),
    ("length negative", replace(PLAIN, headers={"content-length": "-1"}), 400, ""),
    ("length with plus", replace(PLAIN, headers={"content-length": "+11"}), 400, ""),
    # documents
    ("broken XML", Request("PUT", "/bad", "versioning=", body=b"<Versioning", headers={"content-md5": md5(b"<Versioning")}), 400, "MalformedXML"),
    ("DOCTYPE", Request("PUT", "/bad", "versioning=", body=(X := b'<!DOCTYPE a [<!ENTITY e SYSTEM "file:///etc/passwd">]><a>&e;</a>'),
     headers={"content-md5": md5(X)}), 400, "MalformedXML"),
    ("document without checksum", Request("PUT", "/bad", "versioning=", payload="UNSIGNED-PAYLOAD",
     body=b"<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>"), 400, "InvalidRequest"),
    ("no keys to delete", Request("POST", "/bad", "delete=", body=b"<Delete></Delete>", headers={"content-md5": md5(b"<Delete></Delete>")}),
     400, "MalformedXML"),
    ("stray marker", Request("DELETE", "/bad", "versions="), 405, "MethodNotAllowed"),
    ("unserved operation", Request("PUT", "/bad", "replication=", body=b"<a/>", headers={"content-md5": md5(b"<a/>")}), 501, "NotImplemented"),
    ("unserved header", replace(PLAIN, headers={"x-amz-mfa": "0"}), 501, "NotImplemented"),
]
# fmt: on


def assert_unharmed(store: LiveStore) -> None:
    """The old content is whole, and it is all there is."""
    client = store.client()
    assert client.get_object(Bucket="bad", Key="key")["Body"].read() == CANARY
    listed = client.list_object_versions(Bucket="bad")
    assert [v["Key"] for v in listed["Versions"]] == ["key"]
    assert client.list_buckets()["Buckets"][0]["Name"] == "bad"
    assert len(client.list_buckets()["Buckets"]) == 1


def healthy(store: LiveStore, wire: Wire, answer: Answer) -> None:
    """The same connection serves the next request, unless the server said that it closes it."""
    if answer.headers.get("connection", "").lower() == "close" or answer.status == 0:
        wire.close()
        wire = Wire(store)
    following = wire.call(Request("GET", "/bad/key"))
    assert (following.status, following.body) == (200, CANARY)
    wire.close()


@pytest.mark.parametrize(("name", "request_", "status", "code"), REFUSED, ids=[row[0] for row in REFUSED])
def test_refused(store: LiveStore, name: str, request_: Request, status: int, code: str) -> None:
    processes = store.processes()
    wire = Wire(store)
    answer = wire.call(request_)
    assert answer.status == status, (name, answer)
    assert code in {"", answer.code}, (name, answer)
    healthy(store, wire, answer)
    assert store.processes() == processes


def test_nothing_was_written(store: LiveStore) -> None:
    assert_unharmed(store)


# --------------------------------------------------------------------------- aws-chunked bodies


def signed_stream(
    request: Request, host: str, pieces: list[bytes], mutate: Callable[[list[bytes]], list[bytes]]
) -> bytes:
    """A request whose body is a chain of signed aws-chunked pieces, changed by `mutate` before it is sent."""
    head = build(replace(request, body=b"", payload=STREAMING, wire_body=b"", with_length=False), host)
    stamp = next(line[12:].decode() for line in head.split(b"\r\n") if line.startswith(b"x-amz-date: "))
    scope = f"{stamp[:8]}/{request.region}/s3/aws4_request"
    previous = head.partition(b"Signature=")[2][:64].decode()
    key, frames = signing_key(request, stamp[:8]), []
    for piece in [*pieces, b""]:
        text = "\n".join(["AWS4-HMAC-SHA256-PAYLOAD", stamp, scope, previous, EMPTY, hashlib.sha256(piece).hexdigest()])
        previous = hmac.digest(key, text.encode(), "sha256").hex()
        frames.append(f"{len(piece):x};chunk-signature={previous}\r\n".encode() + piece + b"\r\n")
    body = b"".join(mutate(frames))
    return head[:-2] + f"content-length: {len(body)}\r\n\r\n".encode() + body


def spoil_signature(index: int) -> Callable[[list[bytes]], list[bytes]]:
    def mutate(frames: list[bytes]) -> list[bytes]:
        head, _, rest = frames[index].partition(b"chunk-signature=")
        flipped = b"0" if rest[:1] != b"0" else b"1"
        frames[index] = head + b"chunk-signature=" + flipped + rest[1:]
        return frames

    return mutate


PIECES = [b"a" * 8192, b"b" * 8192, b"c" * 100]
LENGTH = str(sum(map(len, PIECES)))
MUTATIONS: list[tuple[str, str | None, Callable[[list[bytes]], list[bytes]], int, str]] = [
    ("second signature", LENGTH, spoil_signature(1), 403, "SignatureDoesNotMatch"),
    ("last signature", LENGTH, spoil_signature(3), 403, "SignatureDoesNotMatch"),
    ("swapped", LENGTH, lambda f: [f[1], f[0], *f[2:]], 403, "SignatureDoesNotMatch"),
    ("last missing", LENGTH, lambda f: f[:-1], 400, "IncompleteBody"),
    (
        "a byte changed",
        LENGTH,
        lambda f: [f[0].replace(b"a" * 10, b"a" * 9 + b"x", 1), *f[1:]],
        403,
        "SignatureDoesNotMatch",
    ),
    ("decoded length absent", None, lambda f: f, 411, "MissingContentLength"),
    ("decoded length one more", str(int(LENGTH) + 1), lambda f: f, 400, "IncompleteBody"),
    ("decoded length one less", str(int(LENGTH) - 1), lambda f: f, 400, ""),
    ("decoded length negative", "-1", lambda f: f, 400, ""),
    ("decoded length huge", str(2**63), lambda f: f, 400, ""),
    ("size not hexadecimal", LENGTH, lambda f: [b"zz" + f[0][4:], *f[1:]], 400, ""),
]


@pytest.mark.parametrize(("name", "length", "mutate", "status", "code"), MUTATIONS, ids=[row[0] for row in MUTATIONS])
def test_misframed_stream(
    store: LiveStore,
    name: str,
    length: str | None,
    mutate: Callable[[list[bytes]], list[bytes]],
    status: int,
    code: str,
) -> None:
    headers = {"x-amz-decoded-content-length": length} if length is not None else {}
    wire = Wire(store)
    answer = wire.send(signed_stream(Request(headers=headers), wire.host, PIECES, mutate))
    assert answer.status == status, (name, answer)
    assert code in {"", answer.code}
    wire.close()
    assert_unharmed(store)


def test_the_same_stream_unchanged_is_accepted(store: LiveStore) -> None:
    wire = Wire(store)
    request = Request(path="/bad/stream", headers={"x-amz-decoded-content-length": LENGTH})
    answer = wire.send(signed_stream(request, wire.host, PIECES, lambda frames: frames))
    assert answer.status == 200, answer
    assert wire.call(Request("GET", "/bad/stream")).body == b"".join(PIECES)
    assert wire.call(Request("DELETE", "/bad/stream")).status == 204
    wire.close()


@pytest.mark.parametrize(
    ("name", "trailer", "status", "code"),
    [
        ("right", f"x-amz-checksum-crc32:{crc32(B)}\r\n\r\n", 200, ""),
        ("wrong", f"x-amz-checksum-crc32:{crc32(b'other')}\r\n\r\n", 400, "BadDigest"),
        ("missing", "\r\n", 400, "MalformedTrailerError"),
        ("undeclared", f"x-amz-checksum-crc32c:{crc32(B)}\r\n\r\n", 400, "MalformedTrailerError"),
        (
            "twice",
            f"x-amz-checksum-crc32:{crc32(B)}\r\nx-amz-checksum-crc32:{crc32(B)}\r\n\r\n",
            400,
            "MalformedTrailerError",
        ),
    ],
)
def test_trailer(store: LiveStore, name: str, trailer: str, status: int, code: str) -> None:
    body = b"b\r\n" + B + b"\r\n0\r\n" + trailer.encode()
    headers = {"x-amz-decoded-content-length": "11", "x-amz-trailer": "x-amz-checksum-crc32"}
    wire = Wire(store)
    path = f"/bad/trailer-{name}"
    answer = wire.call(Request(path=path, headers=headers, payload=UNSIGNED_TRAILER, wire_body=body))
    assert (answer.status, code) == (status, answer.code if code else ""), answer
    assert wire.call(Request("DELETE", path)).status == 204
    wire.close()
    assert_unharmed(store)


def test_truncated_streams_end_soon_and_leave_nothing(store: LiveStore) -> None:
    for size in (20, 5000, 9000):
        wire = Wire(store)
        whole = signed_stream(Request(headers={"x-amz-decoded-content-length": LENGTH}), wire.host, PIECES, lambda f: f)
        head, _, body = whole.partition(b"\r\n\r\n")
        answer = wire.send(head + b"\r\n\r\n" + body[:size], half_close=True)
        assert answer.status in {0, 400}
        assert answer.code in {"", "IncompleteBody"}
        wire.close()
    assert_unharmed(store)


def test_body_shorter_than_announced(store: LiveStore) -> None:
    for announced in (100, 1_000_000):
        wire = Wire(store)
        request = Request(headers={"content-length": str(announced)}, payload="UNSIGNED-PAYLOAD", wire_body=B)
        answer = wire.send(build(request, wire.host), half_close=True)
        assert answer.status in {0, 400}
        wire.close()
    assert_unharmed(store)


# --------------------------------------------------------------------------- header guard

HOST = "127.0.0.1"
GUARD: list[tuple[str, bytes, set[int]]] = [
    ("two hosts", b"GET /bad/key HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", {400}),
    ("no host", b"GET /bad/key HTTP/1.1\r\n\r\n", {400}),
    ("host with path", b"GET /bad/key HTTP/1.1\r\nHost: h/admin?\r\n\r\n", {400}),
    ("absolute form", b"GET http://a/bad/key HTTP/1.1\r\nHost: a\r\n\r\n", {400}),
    ("length and chunked", b"PUT /bad/key HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", {400}),
    ("two lengths", b"PUT /bad/key HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello", {400}),
    ("other coding", b"PUT /bad/key HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", {400, 501}),
    ("folded header", b"GET /bad/key HTTP/1.1\r\nHost: a\r\nX: b\r\n c\r\n\r\n", {400}),
    ("space before colon", b"GET /bad/key HTTP/1.1\r\nHost: a\r\nX : b\r\n\r\n", {400}),
    ("bare line feed", b"GET /bad/key HTTP/1.1\nHost: a\n\n", {400}),
    ("too many headers", b"GET / HTTP/1.1\r\nHost: a\r\n" + b"".join(b"x%d: y\r\n" % n for n in range(20000)) + b"\r\n", {400, 431}),
    ("header of 1 MB", b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"y" * 1_000_000 + b"\r\n\r\n", {400, 431}),
    ("target of 1 MB", b"GET /" + b"y" * 1_000_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n", {400, 414, 431}),
    ("not HTTP", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" * 20, {0, 400}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "raw", "statuses"), GUARD, ids=[row[0] for row in GUARD])
def test_header_guard(store: LiveStore, name: str, raw: bytes, statuses: set[int]) -> None:
    wire = Wire(store)
    following = assemble(Request("GET", "/bad/key"), {"host": "a"})
    answer = wire.send(raw + following)
    assert answer.status in statuses, (name, answer)
    again = wire.receive()
    assert again.status == 0, f"the second request was served: {again}"
    wire.close()
    assert_unharmed(store)


def test_keys_are_literal(store: LiveStore) -> None:
    """One parser for names: each spelling is its own key, none leaves the bucket."""
    paths = [
        "a%2Fb",
        "/a",
        "a/./b",
        "a/../b",
        "..",
        "%2e%2e",
        "a%2B",
        "a%20b",
        "a%25",
        "~",
        "%C3%A9",
        "e%CC%81",
        "*",
        "%00",
    ]
    client = store.client()
    client.create_bucket(Bucket="names")
    for number, path in enumerate(paths):
        wire = Wire(store)
        answer = wire.call(Request(path=f"/names/{path}", body=b"%d" % number))
        assert answer.status == 200, (path, answer)
        wire.close()
    wire = Wire(store)
    listed = wire.call(Request("GET", "/names", "encoding-type=url&list-type=2"))
    assert listed.body.count(b"<Key>") == len(set(paths)) - 1  # "%2e%2e" is "..": one key
    wire.close()
    for entry in client.list_objects_v2(Bucket="names")["Contents"]:
        client.delete_object(Bucket="names", Key=entry["Key"])
    client.delete_bucket(Bucket="names")
