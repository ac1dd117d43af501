"""The authentication rows of the security table over raw sockets; a test's id begins with the id of its row.

After every request: the same processes, no 500, an error document that is well-formed and names a code of the
catalogue, no secret in the answer, nothing written.
"""

import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.live import LiveStore
from tests.protocol.hostile import (
    MISMATCH,
    NOT_SIGNED,
    SESSION_TOKEN,
    SIGNED_TRAILER,
    STREAMING,
    STREAMING_WORDS,
    UNSIGNED_TRAILER,
    Outcome,
    Presigned,
    Raw,
    State,
    ask,
    assert_untold,
    besieged,
    check,
    presign,
    presign_v2,
)
from tests.protocol.raw import EMPTY, Request, Wire, build
from tests.protocol.test_bad_input import LENGTH, PIECES, crc32, md5, signed_stream, spoil_signature

pytestmark = [pytest.mark.protocol, pytest.mark.xdist_group("security"), pytest.mark.timeout(120)]
B = b"new content"
PLAIN = Request(path="/sec/key", body=B)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveStore]:
    with besieged(tmp_path_factory.mktemp("security")) as live:
        yield live


@pytest.fixture(scope="module")
def state(store: LiveStore) -> State:
    return State(store)


ACTING = {
    "x-amz-copy-source": "/sec/key",
    "x-amz-acl": "public-read",
    "x-amz-grant-read": 'id="x"',
    "x-amz-grant-full-control": 'id="x"',
    "x-amz-tagging": "a=b",
    "x-amz-meta-a": "b",
    "x-amz-storage-class": "GLACIER",
    "x-amz-server-side-encryption": "AES256",
    "x-amz-server-side-encryption-customer-algorithm": "AES256",
    "x-amz-object-lock-mode": "COMPLIANCE",
    "x-amz-object-lock-legal-hold": "ON",
    "x-amz-website-redirect-location": "/evil",
    "x-amz-decoded-content-length": "3",
    "x-amz-trailer": "x-amz-checksum-crc32",
    "x-amz-sdk-checksum-algorithm": "CRC32",
    "x-amz-checksum-crc32": "AAAAAA==",
    "x-amz-bypass-governance-retention": "true",
    "x-amz-expected-bucket-owner": "someone",
    "x-amz-security-token": SESSION_TOKEN,
    "x-amz-unheard-of": "1",
    "x-tier-hint": "cold",
}
Row = tuple[str, Raw | Presigned, list[Outcome]]
DECODED = {"x-amz-decoded-content-length": "11"}
TRAILED = {**DECODED, "x-amz-trailer": "x-amz-checksum-crc32"}
CHUNKED_B = b"b\r\n" + B + b"\r\n0\r\nx-amz-checksum-crc32:" + crc32(B).encode() + b"\r\n\r\n"
ZEROS = "0" * 64
PUT_URL = Presigned("PUT", body=B)
AUTH = {"AuthorizationHeaderMalformed", "InvalidArgument"}

# fmt: off
ROWS: list[Row] = [
    *[(f"S01-{name}", replace(PUT_URL, unsigned={name: value}), [NOT_SIGNED, (403, "InvalidToken"), (403, "SignatureDoesNotMatch")])
      for name, value in ACTING.items()],
    ("S01-moved into the query", replace(PUT_URL, query={"x-amz-copy-source": "/sec/key"}), [(501, "NotImplemented")]),
    ("S01-added to the query", replace(PUT_URL, after="&x-amz-acl=public-read"), [MISMATCH]),
    *[(f"S02-{name}", replace(PLAIN, unsigned={name: value}), [NOT_SIGNED, (403, "InvalidToken")]) for name, value in ACTING.items()],
    ("S02-upper case", replace(PLAIN, unsigned={"X-AMZ-META-A": "b"}), [NOT_SIGNED]),
    ("S04-PutObject", replace(PLAIN, payload=UNSIGNED_TRAILER, headers=TRAILED, wire_body=CHUNKED_B, signature=ZEROS), [MISMATCH]),
    ("S04-UploadPart", replace(PLAIN, query="partNumber=1&uploadId=u", payload=UNSIGNED_TRAILER, headers=TRAILED, wire_body=CHUNKED_B,
                               signature=ZEROS), [MISMATCH]),
    ("S11-absent", replace(PLAIN, payload=UNSIGNED_TRAILER, headers={"x-amz-trailer": "x-amz-checksum-crc32"}, wire_body=CHUNKED_B),
     [(411, "MissingContentLength")]),
    *[(f"S11-{value}", replace(PLAIN, payload=UNSIGNED_TRAILER, headers={**TRAILED, "x-amz-decoded-content-length": value},
                               wire_body=CHUNKED_B), [(400, "*")])
      for value in ("-1", "0", "10", "12", str(2**63), "+11", "0x0b", "1e1", "11 11")],
    ("S11-without a framing word", replace(PLAIN, headers={"x-amz-decoded-content-length": "3"}), [(400, "InvalidRequest")]),
    *[(f"S12-{name}", replace(PLAIN, payload=UNSIGNED_TRAILER, headers=TRAILED, wire_body=b"b\r\n" + B + b"\r\n0\r\n" + trailer), [(400, code)])
      for name, trailer, code in (
          ("wrong", f"x-amz-checksum-crc32:{crc32(b'other')}\r\n\r\n".encode(), "BadDigest"),
          ("missing", b"\r\n", "MalformedTrailerError"),
          ("undeclared", f"x-amz-checksum-sha1:{crc32(B)}\r\n\r\n".encode(), "MalformedTrailerError"),
          ("twice", f"x-amz-checksum-crc32:{crc32(B)}\r\n".encode() * 2 + b"\r\n", "MalformedTrailerError"),
          ("no colon", b"x-amz-checksum-crc32\r\n\r\n", "MalformedTrailerError"),
          ("bytes behind it", f"x-amz-checksum-crc32:{crc32(B)}\r\n\r\nmore".encode(), "InvalidRequest"))],
    ("S12-unserved algorithm", replace(PLAIN, payload=UNSIGNED_TRAILER, headers={**DECODED, "x-amz-trailer": "x-amz-checksum-blake3"},
                                       wire_body=CHUNKED_B), [(400, "InvalidRequest")]),
    ("S12-trailer of another name", replace(PLAIN, payload=UNSIGNED_TRAILER, headers={**DECODED, "x-amz-trailer": "x-amz-acl"},
                                            wire_body=CHUNKED_B), [(400, "InvalidRequest")]),
    *[(f"S14-{word}", replace(PLAIN, algorithm=word), [(400, code) for code in AUTH]) for word in
      ("AWS4-HMAC-SHA1", "aws4-hmac-sha256", "AWS4-HMAC-SHA256 ", "AWS4-ECDSA-P256-SHA256", "Bearer", "AWS4-HMAC-SHA256,")],
    ("S15-header and query", replace(PLAIN, query=f"X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Signature={ZEROS}"), [(400, "InvalidArgument")]),
    ("S15-query in lower case", replace(PLAIN, query=f"x-amz-signature={ZEROS}"), [(400, "InvalidArgument")]),
    ("S15-header and V2 query", replace(PLAIN, query="AWSAccessKeyId=a&Expires=1&Signature=b"), [(400, "InvalidArgument")]),
    ("S15-V2 and V4 query", replace(PUT_URL, query={"AWSAccessKeyId": "a", "Signature": "b"}), [(400, "InvalidArgument")]),
    *[(f"S16-{minutes} minutes", replace(PLAIN, skew_minutes=minutes), [(403, "RequestTimeTooSkewed")]) for minutes in (-16, 16, 525600)],
    *[(f"S16-region {region}", replace(PLAIN, region=region), [(400, "AuthorizationHeaderMalformed")]) for region in ("eu-west-9", "US-EAST-1", "")],
    *[(f"S16-service {name}", replace(PLAIN, service=name), [(400, "AuthorizationHeaderMalformed")]) for name in ("ec2", "s3 ", "S3")],
    *[(f"S17-expires {value}", replace(PUT_URL, expires=value), [(400, "AuthorizationQueryParametersError"), NOT_SIGNED])
      for value in ("0", "-1", "604801", "abc", "", "1e3", "9" * 30)],
    *[(f"S17-without {name}", replace(PUT_URL, drop=name), [(400, "AuthorizationQueryParametersError")])
      for name in ("X-Amz-Expires", "X-Amz-Date", "X-Amz-SignedHeaders", "X-Amz-Credential")],
    ("S17-without algorithm", replace(PUT_URL, drop="X-Amz-Algorithm"), [(400, "AuthorizationQueryParametersError")]),
    ("S17-in the future", replace(PUT_URL, skew_seconds=1000), [NOT_SIGNED]),
    ("S17-2 s late", replace(PUT_URL, skew_seconds=-12, expires="10"), [NOT_SIGNED]),
    ("S17-older than 7 days", replace(PUT_URL, skew_seconds=-604900, expires="604800"), [NOT_SIGNED]),
    ("S17-longer by hand", replace(PUT_URL, query={}, after="0"), [MISMATCH]),
    ("S17-expires twice", replace(PUT_URL, after="&X-Amz-Expires=604800"), [(400, "InvalidArgument")]),
    *[(f"S22-{name}", replace(PLAIN, payload=word), [(400, code)]) for name, word, code in
      (("of nothing", EMPTY, "XAmzContentSHA256Mismatch"), ("upper case", "A" * 64, "XAmzContentSHA256Mismatch"),
       ("short", "a" * 63, "InvalidArgument"), ("words", "UNSIGNED", "InvalidArgument"))],
    ("S22-other word for a signed one", replace(PLAIN, unsigned={"x-amz-content-sha256": "UNSIGNED-PAYLOAD"}), [MISMATCH]),
    ("S22-presigned hash", replace(PUT_URL, query={"X-Amz-Content-Sha256": EMPTY}, payload=EMPTY), [(400, "XAmzContentSHA256Mismatch")]),
    *[(f"S06-{word} presigned", replace(PUT_URL, query={"X-Amz-Content-Sha256": word}, payload=word), [(400, "InvalidRequest")])
      for word in STREAMING_WORDS],
    ("S84-session token", replace(PLAIN, headers={"x-amz-security-token": SESSION_TOKEN}), [(403, "InvalidToken")]),
    ("S84-session token in a query", replace(PUT_URL, query={"X-Amz-Security-Token": SESSION_TOKEN}), [(403, "InvalidToken")]),
]
# fmt: on


@pytest.mark.parametrize(("name", "raw", "allowed"), ROWS, ids=[row[0] for row in ROWS])
def test_row(store: LiveStore, state: State, name: str, raw: Raw | Presigned, allowed: list[Outcome]) -> None:
    answer = ask(store, raw)
    check(answer, allowed)
    if name.startswith(("S01-x", "S02-x")) and answer.code == "AccessDenied":
        assert f"<HeadersNotSigned>{name[4:]}</HeadersNotSigned>".encode() in answer.body
    state.hold()


def test_s02_what_needs_no_signature(store: LiveStore) -> None:
    """The payload word may stay outside SignedHeaders; `x-amzn-trace-id` is not ours."""
    wire = Wire(store)
    head = build(Request("GET", "/sec/key", unsigned={"x-amzn-trace-id": "Root=1"}), wire.host)
    assert wire.send(head).status == 200
    unlisted = Presigned("GET", unsigned={"x-amz-content-sha256": "UNSIGNED-PAYLOAD"})
    assert wire.send(presign(unlisted, wire.host)).status == 200
    wire.close()


# -------------------------------------------------------------------------------------------------- bodies


def test_s07_the_last_signature_counts(store: LiveStore, state: State) -> None:
    wire = Wire(store)
    request = Request(path="/sec/key", headers={"x-amz-decoded-content-length": LENGTH})
    check(wire.send(signed_stream(request, wire.host, PIECES, spoil_signature(len(PIECES)))), [MISMATCH])
    wire.close()
    state.hold()


def test_s09_chunked_without_a_length(store: LiveStore, state: State) -> None:
    framed = b"%x\r\n" % len(CHUNKED_B) + CHUNKED_B + b"\r\n0\r\n\r\n"
    headers = {**TRAILED, "transfer-encoding": "chunked"}
    request = Request(path="/sec/s09", payload=UNSIGNED_TRAILER, headers=headers, wire_body=framed, with_length=False)
    answer = ask(store, request)
    check(answer, [(200, ""), (411, "MissingContentLength")])
    if answer.status == 200:
        assert ask(store, Request("GET", "/sec/s09")).body == B
        assert ask(store, Request("DELETE", "/sec/s09")).status == 204
    state.hold()


@pytest.mark.parametrize("word", [STREAMING, UNSIGNED_TRAILER])
def test_s10_half_a_chunk(store: LiveStore, state: State, word: str) -> None:
    began = time.monotonic()
    request = Request(path="/sec/key", payload=word, headers={"x-amz-decoded-content-length": "11"}, wire_body=b"")
    head = build(replace(request, with_length=False), f"127.0.0.1:{store.port}")[:-2]
    for frame in (b"content-length: 500\r\n\r\nb\r\nnew", b"transfer-encoding: chunked\r\n\r\n9\r\nb\r\nnew co"):
        check(ask(store, head + frame, half_close=True), [(400, "IncompleteBody"), (400, "InvalidRequest")])
    assert time.monotonic() - began < 10
    state.hold()


def test_s12_a_signed_trailer_is_verified(store: LiveStore, state: State) -> None:
    request = Request(path="/sec/key", payload=SIGNED_TRAILER, headers=TRAILED)
    body = b"b;chunk-signature=" + b"0" * 64 + b"\r\n" + B + b"\r\n0;chunk-signature=" + b"0" * 64 + b"\r\n\r\n"
    check(ask(store, replace(request, wire_body=body)), [MISMATCH])
    state.hold()


def test_s14_two_authorization_lines(store: LiveStore, state: State) -> None:
    raw = build(PLAIN, f"127.0.0.1:{store.port}")
    line = next(line for line in raw.split(b"\r\n") if line.startswith(b"authorization"))
    check(ask(store, raw.replace(line, line + b"\r\n" + line)), [(400, "")])
    state.hold()


def test_s16_the_date_of_the_scope(store: LiveStore, state: State) -> None:
    raw = build(PLAIN, f"127.0.0.1:{store.port}")
    day = raw.partition(b"x-amz-date: ")[2][:8]
    other = raw.replace(b"/" + day + b"/", b"/20200101/")
    check(ask(store, other), [(400, "AuthorizationHeaderMalformed")])
    ended = raw.replace(b"/aws4_request", b"/aws5_request")
    check(ask(store, ended), [(400, "AuthorizationHeaderMalformed")])
    state.hold()


def test_s17_a_bound_url_of_version_2(store: LiveStore, state: State) -> None:
    """An MD5 that the signer put into the query binds the body, as the header would."""
    host = f"127.0.0.1:{store.port}"
    url = Presigned("PUT", "/sec/v2", body=B)
    check(ask(store, presign_v2(url, host, content_md5=md5(b"another body"))), [(400, "BadDigest")])
    for after in ("&prefix=a", "&list-type=2", "&X-Amz-Acl=public-read", "&versionid=1"):
        check(ask(store, presign_v2(replace(url, after=after), host)), [NOT_SIGNED, (400, "InvalidArgument")])
    check(ask(store, presign_v2(replace(url, after="&uploads="), host)), [(405, "MethodNotAllowed"), MISMATCH])
    check(ask(store, presign_v2(replace(url, expires="-5"), host)), [NOT_SIGNED])
    for header in ("x-amz-acl", "x-amz-copy-source", "x-amz-meta-a"):
        check(ask(store, presign_v2(replace(url, unsigned={header: "/sec/key"}), host)), [MISMATCH])
    for word in STREAMING_WORDS:
        signed = replace(url, headers={"x-amz-content-sha256": word})
        check(ask(store, presign_v2(signed, host)), [(400, "InvalidRequest")])
    state.hold()
    assert ask(store, presign_v2(url, host, content_md5=md5(B))).status == 200
    assert ask(store, Request("DELETE", "/sec/v2")).status == 204
    state.hold()


def test_s19_the_host_is_signed(store: LiveStore, state: State) -> None:
    host = f"127.0.0.1:{store.port}"
    raw = build(PLAIN, host)
    signed_elsewhere = build(PLAIN, "127.0.0.1:1").replace(b"host: 127.0.0.1:1\r\n", f"host: {host}\r\n".encode())
    check(ask(store, signed_elsewhere), [MISMATCH])
    forwarded = signed_elsewhere.replace(b"\r\n\r\n", b"\r\nx-forwarded-host: 127.0.0.1:1\r\n\r\n", 1)
    check(ask(store, forwarded), [MISMATCH])
    unsigned = raw.replace(b"SignedHeaders=host;", b"SignedHeaders=")
    check(ask(store, unsigned), [(400, "AuthorizationHeaderMalformed")])
    check(ask(store, raw.replace(b"host: ", b"host: a\r\nhost: ", 1)), [(400, "")])
    check(ask(store, Presigned(unsigned={"host": "127.0.0.1:1"})), [MISMATCH])
    state.hold()


def test_s84_nothing_secret_was_told(store: LiveStore) -> None:
    assert_untold(store)
