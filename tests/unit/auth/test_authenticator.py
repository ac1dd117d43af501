import ast
from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.auth import refusals
from gateway.auth.authenticator import Mechanism
from gateway.auth.keyring import ANONYMOUS
from gateway.auth.payload import PayloadMode
from gateway.http.call import Call
from gateway.s3.errors import S3Code
from tests.unit.auth.plain import sign_header
from tests.unit.auth.signing import (
    ALICE,
    ENDPOINT,
    NOW,
    REGION,
    SECRET,
    Clock,
    authenticate,
    make_authenticator,
    received,
    refusal_of,
    signed,
    with_header,
    without_header,
)

Change = Callable[[Call], object]
MISMATCH = "SignatureDoesNotMatch"
PAYLOAD = b"x-amz-content-sha256"


def authorization(old: bytes, new: bytes) -> Change:
    def change(call: Call) -> None:
        assert old in call.fields[b"authorization"]
        with_header(call, b"authorization", call.fields[b"authorization"].replace(old, new))

    return change


def test_every_code_refused_with_is_in_the_catalogue() -> None:
    named = {
        node.args[0].value
        for path in Path(refusals.__file__).parent.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Refused"
        if isinstance(node.args[0], ast.Constant)
    }
    assert len(named) > 8
    assert named <= S3Code.__members__.keys()


@pytest.mark.parametrize(
    ("mechanism", "expected"),
    [("header", Mechanism.HEADER_V4), ("query", Mechanism.QUERY_V4), ("v2 query", Mechanism.QUERY_V2)],
)
def test_mechanisms(mechanism: str, expected: Mechanism) -> None:
    outcome = authenticate(signed(mechanism=mechanism))
    assert (outcome.principal, outcome.mechanism, outcome.chunks) == (ALICE, expected, None)


def test_anonymous() -> None:
    outcome = authenticate(received("GET", ENDPOINT + "/bucket?list-type=2&Expires=1", {}))
    assert (outcome.principal, outcome.mechanism) == (ANONYMOUS, Mechanism.ANONYMOUS)


def test_a_known_key_never_suspends() -> None:
    work = make_authenticator().authenticate(signed())
    with pytest.raises(StopIteration) as finished:
        work.send(None)
    assert finished.value.value.principal == ALICE


# fmt: off
HEADER_CASES: list[tuple[str, Change, str]] = [
    ("another algorithm", authorization(b"AWS4-HMAC-SHA256", b"AWS4-HMAC-SHA1"), "InvalidArgument"),
    ("lower case", authorization(b"AWS4-HMAC", b"aws4-hmac"), "InvalidArgument"),
    ("two spaces", authorization(b"SHA256 ", b"SHA256  Credential=x,"), "AuthorizationHeaderMalformed"),
    ("extra space", authorization(b"SHA256 Cred", b"SHA256   Cred"), "AuthorizationHeaderMalformed"),
    ("bearer", authorization(b"AWS4-HMAC-SHA256 ", b"Bearer "), "InvalidArgument"),
    ("empty", lambda call: with_header(call, b"authorization", b""), "AccessDenied"),
    ("unreadable", lambda call: with_header(call, b"authorization", b"\xff"), "AccessDenied"),
    ("no signature", authorization(b", Signature=", b", Signed="), "AuthorizationHeaderMalformed"),
    ("zeros", lambda call: authorization(call.fields[b"authorization"][-64:], b"0" * 64)(call), MISMATCH),
    ("short", lambda call: with_header(call, b"authorization", call.fields[b"authorization"][:-1]), MISMATCH),
    ("upper-case names", authorization(b"host;", b"Host;"), "AuthorizationHeaderMalformed"),
    ("host unsigned", authorization(b"=host;", b"="), "AuthorizationHeaderMalformed"),
    ("unsorted names", authorization(b"host;x-amz-content-sha256", b"x-amz-content-sha256;host"),
     "AuthorizationHeaderMalformed"),
    ("other day", authorization(b"/20260101/", b"/20251231/"), "AuthorizationHeaderMalformed"),
    ("bad day", authorization(b"/20260101/", b"/2026/"), "AuthorizationHeaderMalformed"),
    ("other region", authorization(b"/us-east-1/", b"/eu-west-1/"), "AuthorizationHeaderMalformed"),
    ("other service", authorization(b"/s3/", b"/iam/"), "AuthorizationHeaderMalformed"),
    ("other end", authorization(b"/aws4_request", b"/aws5_request"), "AuthorizationHeaderMalformed"),
    ("escaped credential", authorization(b"/20260101/", b"%2F20260101%2F"), "AuthorizationHeaderMalformed"),
    ("unknown key", authorization(b"AKIDEXAMPLE", b"AKIDUNKNOWN"), "InvalidAccessKeyId"),
    ("no date", lambda call: without_header(call, b"x-amz-date"), "AccessDenied"),
    ("bad date", lambda call: with_header(call, b"x-amz-date", b"20260199T000000Z"), "AccessDenied"),
    ("no payload word", lambda call: without_header(call, b"x-amz-content-sha256"), "InvalidRequest"),
    ("other payload word", lambda call: with_header(call, b"x-amz-content-sha256", b"a" * 64), "SignatureDoesNotMatch"),
    ("upper-case hash", lambda call: with_header(call, PAYLOAD, b"A" * 64), "XAmzContentSHA256Mismatch"),
    ("no payload word known", lambda call: with_header(call, b"x-amz-content-sha256", b"hello"), "InvalidArgument"),
    ("ECDSA", lambda call: with_header(call, b"x-amz-content-sha256", b"STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD"),
     "NotImplemented"),
    ("streaming word", lambda call: with_header(call, b"x-amz-content-sha256", b"STREAMING-UNSIGNED-PAYLOAD-TRAILER"),
     "SignatureDoesNotMatch"),
    ("token", lambda call: with_header(call, b"x-amz-security-token", b"t"), "InvalidToken"),
    ("signed header gone", lambda call: without_header(call, b"x-amz-meta-a"), "SignatureDoesNotMatch"),
    ("both mechanisms", lambda call: setattr(call, "query", b"X-Amz-Algorithm=AWS4-HMAC-SHA256"), "InvalidArgument"),
    ("both, version 2", lambda call: setattr(call, "query", b"AWSAccessKeyId=A"), "InvalidArgument"),
    ("both, other case", lambda call: setattr(call, "query", b"x-amz-%53ignature=A"), "InvalidArgument"),
    ("twice the same name", lambda call: setattr(call, "query", b"prefix=a&prefix=b"), "InvalidArgument"),
    ("broken escape", lambda call: setattr(call, "query", b"prefix=%zz"), "InvalidURI"),
]
# fmt: on


@pytest.mark.parametrize(
    ("change", "code"), [case[1:] for case in HEADER_CASES], ids=[case[0] for case in HEADER_CASES]
)
def test_header_refusals(change: Change, code: str) -> None:
    call = signed(headers={"x-amz-meta-a": "b"})
    authenticate(signed(headers={"x-amz-meta-a": "b"}))
    change(call)
    assert refusal_of(call).code == code


def test_region_refusal_names_the_right_one() -> None:
    refusal = refusal_of(signed(region="eu-west-1"))
    assert refusal.elements == {"Region": REGION}
    assert (
        refusal.message
        == "The authorization header is malformed; the region 'eu-west-1' is wrong; expecting 'us-east-1'"
    )


@pytest.mark.parametrize("date", ["Thu, 01 Jan 2026 00:00:00 -0000", "Thu, 01 Jan 2026 01:00:00 +0100"])
def test_a_signed_date_in_place_of_the_stamp(date: str) -> None:
    """Botocore signs a Date of its own, in the zone -0000, when its caller sets one."""
    with_date = signed(headers={"Date": date})
    assert b"x-amz-date" not in with_date.fields
    assert authenticate(with_date).principal == ALICE


def test_a_date_of_the_last_year_there_is_is_skewed() -> None:
    call = with_header(signed(mechanism="v2 header"), b"date", b"Fri, 31 Dec 9999 23:59:59 GMT")
    assert refusal_of(call, sigv2="all").code == "RequestTimeTooSkewed"


@pytest.mark.parametrize(
    ("offset", "code"), [(901, "RequestTimeTooSkewed"), (-901, "RequestTimeTooSkewed"), (900, ""), (-900, "")]
)
def test_skew(offset: int, code: str) -> None:
    clock = Clock(NOW + offset)
    if not code:
        assert authenticate(signed(), make_authenticator(clock)).principal == ALICE
        return
    refusal = refusal_of(signed(), clock)
    assert (refusal.code, refusal.elements["MaxAllowedSkewMilliseconds"]) == (code, "900000")


@pytest.mark.parametrize(
    "target", ["/b?prefix=a/b&delimiter=/", "/b?list-type=2&&prefix=x", "/b?uploads", "/b?prefix=a:b%2fc"]
)
def test_queries_signed_as_spelled(target: str) -> None:
    """botocore signs a URL that the caller spelled himself without encoding it again."""
    assert authenticate(signed(target=target.replace("&&", "&"))).principal == ALICE


def test_plus_is_signed_as_a_space_only() -> None:
    """Whoever reads the query takes `+` for a space, so a signature over a literal plus would act as something else."""
    call = signed(target="/b?prefix=a%20b")
    call.query = b"prefix=a+b"
    assert authenticate(call).principal == ALICE
    assert refusal_of(signed(target="/b?prefix=a+b")).code == "SignatureDoesNotMatch"


SPELLINGS = [
    ("a%2Fb", ["a/b", "a%2fb"]), ("//a", ["/a", "a", "%2F/a"]), ("a/./b", ["a/b", "a/%2E/b"]),
    ("a/../b", ["b", "a/%2E%2E/b"]), ("a%2Bb", ["a+b", "a%2bb", "a%20b"]), ("a%252Bb", ["a%2Bb", "a%25%32Bb"]),
    ("a%20b", ["a+b", "a%2520b"]), ("a%25b", ["a%b"]), ("~", ["%7E", "%7e"]), ("e%CC%81", ["%C3%A9", "e%cc%81"]),
    ("%C3%A9", ["e%CC%81"]), ("%F0%9F%98%80", ["%f0%9f%98%80"]), ("%2A", ["*"]), ("%3B", [";"]), ("%3D", ["="]),
]  # fmt: skip


@pytest.mark.parametrize("mechanism", ["header", "query"])
@pytest.mark.parametrize(("path", "others"), SPELLINGS)
def test_each_spelling_of_a_path_is_its_own(path: str, others: list[str], mechanism: str) -> None:
    assert authenticate(signed(target=f"/bucket/{path}", mechanism=mechanism)).principal == ALICE
    for other in others:
        call = signed(target=f"/bucket/{path}", mechanism=mechanism)
        call.raw_path = f"/bucket/{other}".encode()
        assert refusal_of(call).code == "SignatureDoesNotMatch"


def test_repeated_headers_are_joined_as_they_were_signed() -> None:
    call = signed(headers={"x-amz-meta-a": "1,2"})
    call.headers = [line for line in call.headers if line[0] != b"x-amz-meta-a"]
    call.headers += [(b"x-amz-meta-a", b"1"), (b"x-amz-meta-a", b"2")]
    call.fields[b"x-amz-meta-a"] = b"1"
    authenticate(call)
    assert call.fields[b"x-amz-meta-a"] == dict(call.headers)[b"x-amz-meta-a"] == b"1,2"


def test_a_repeated_single_header_is_refused() -> None:
    call = signed()
    call.headers.append((b"authorization", call.fields[b"authorization"]))
    assert refusal_of(call).code == "InvalidRequest"


def test_streaming_words_need_an_operation_that_streams() -> None:
    headers = {"x-amz-content-sha256": "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"}
    outcome = authenticate(_streaming(headers))
    assert (outcome.payload.mode, outcome.chunks is not None) == (PayloadMode.SIGNED_CHUNKS, True)
    call = _streaming(headers)
    call.operation = "PutBucketTagging"
    assert refusal_of(call).code == "InvalidRequest"


def _streaming(headers: dict[str, str]) -> Call:
    return sign_header("PUT", "/bucket/key", headers)


def test_no_refusal_tells_a_secret() -> None:
    for change in [case[1] for case in HEADER_CASES]:
        call = signed(headers={"x-amz-meta-a": "b"})
        signature = call.fields[b"authorization"][-64:].decode()
        change(call)
        refusal = refusal_of(call)
        told = f"{refusal} {refusal.elements}"
        assert signature not in told
        assert SECRET not in told
