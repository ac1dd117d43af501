"""The endpoint: every operation answers for itself, errors have one form, and nobody comes in unauthorised."""

import asyncio
import base64
import hashlib
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from botocore.exceptions import ClientError
from hypothesis import given
from hypothesis import strategies as st

from gateway.auth.canonical import parse_query as canonical_query
from gateway.auth.refusals import Refused
from gateway.http.call import BodyCut
from gateway.s3.endpoint import answer_for, parse_query, serve
from gateway.s3.errors import TRANSLATION, S3Code, S3Error
from gateway.s3.operations import OPERATIONS
from gateway.s3.request import Target, not_implemented
from gateway.s3.translation import is_translated, translate
from tests.unit.s3.calls import make_call
from tests.unit.s3.gateway import Gateway, body_of
from tiers.errors import DeleteMarkerFound, KeyNotFound, StoreBusy

PATHS = {
    Target.SERVICE: "/",
    Target.BUCKET: "/bucket",
    Target.OBJECT: "/bucket/k",
    Target.CONTROL: "/v20180820/tags/arn%3Aaws%3As3%3A%3A%3Abucket",
}


def request_of(operation: Any, key: str = "") -> tuple[str, str, dict[str, str]]:
    """Method, path and headers that mean an operation."""
    path = PATHS[operation.target] + key
    query = "&".join(f"{name}=2" if name == "list-type" else f"{name}=1" for name in sorted(operation.query))
    headers = dict.fromkeys(operation.headers, "bucket/k")
    if "attributes" in operation.query:
        headers["x-amz-object-attributes"] = "ETag"
    return operation.method, f"{path}?{query}" if query else path, headers


def test_g1_every_operation_answers_by_its_own_name(gateway: Gateway) -> None:
    """Never 500, never another operation's effect; what is not served says so by name."""
    gateway.client().put_object(Bucket="bucket", Key="k", Body=b"kept")
    for operation in OPERATIONS:
        method, path, headers = request_of(operation)
        body = b""
        if operation.needs_checksum:
            headers["Content-MD5"] = base64.b64encode(hashlib.md5(body).digest()).decode()
        if operation.name in {"DeleteObject", "DeleteBucket", "PutObject"}:
            continue
        answer = gateway.send(method, path, headers, body)
        assert answer.status != 500, operation.name
        if operation.handler is not_implemented:
            assert (answer.status, answer.error_code) == (501, "NotImplemented")
            assert f"<Operation>{operation.name}</Operation>".encode() in body_of(answer)
    got = gateway.client().get_object(Bucket="bucket", Key="k")
    assert got["Body"].read() == b"kept"


def test_nobody_acts_without_permission(gateway: Gateway) -> None:
    """Strangers and anonymous callers get 403 from every operation on a bucket, existing key or not."""
    gateway.client().put_object(Bucket="bucket", Key="k", Body=b"kept")
    for operation in OPERATIONS:
        if operation.handler is not_implemented or operation.name in {"ListBuckets", "CreateBucket"}:
            continue
        if operation.is_form or operation.name == "BatchHead":  # the caller of the one and the keys of the other, each
            continue  # judged alone, are in the body
        for key in ("", "-absent") if operation.target is Target.OBJECT else ("",):
            method, path, headers = request_of(operation, key)
            stranger = gateway.send(method, path, headers, who="other")
            assert (stranger.status, stranger.error_code) == (403, "AccessDenied"), operation.name
            anonymous = gateway.answer(make_call(method, path, headers, b"" if method in {"PUT", "POST"} else None))
            assert (anonymous.status, anonymous.error_code) == (403, "AccessDenied"), operation.name
    for path in ("/", "/fresh"):
        anonymous = gateway.answer(make_call("GET" if path == "/" else "PUT", path))
        assert (anonymous.status, anonymous.error_code) == (403, "AccessDenied")


def test_s97_expected_owner(gateway: Gateway) -> None:
    s3 = gateway.client()
    s3.put_object(Bucket="bucket", Key="k", Body=b"x", ExpectedBucketOwner="owner")
    for function, arguments in (
        (s3.get_object, {"Key": "k"}),
        (s3.put_object, {"Key": "k", "Body": b"y"}),
        (s3.list_objects_v2, {}),
        (s3.delete_object, {"Key": "k"}),
    ):
        with pytest.raises(ClientError) as caught:
            function(Bucket="bucket", ExpectedBucketOwner="someone", **arguments)
        assert caught.value.response["Error"]["Code"] == "AccessDenied"
    assert s3.get_object(Bucket="bucket", Key="k")["Body"].read() == b"x"


def test_a_handler_that_forgets_to_authorise_answers_nothing(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    gateway.client().put_object(Bucket="bucket", Key="k", Body=b"secret")

    async def forgotten(*_: object) -> None:
        """As if it had never been called."""

    monkeypatch.setattr("gateway.s3.request.Request.authorise", forgotten)
    answer = gateway.send("GET", "/bucket/k")
    assert (answer.status, b"secret" in body_of(answer)) == (500, False)
    (fault,) = gateway.faults
    assert isinstance(fault, AssertionError)
    gateway.faults.clear()


def test_documents_of_errors(gateway: Gateway) -> None:
    answer = gateway.send("GET", "/bucket/a%26b%3C?versionId=x")
    root = ElementTree.fromstring(body_of(answer))
    assert root.tag == "Error"
    assert [root.findtext(name) for name in ("Code", "Resource", "RequestId", "HostId")] == [
        "NoSuchVersion",
        "/bucket/a%26b%3C",
        "REQUEST1",
        "HOST1",
    ]
    answer = gateway.send("GET", "/absent/k")
    assert b"<BucketName>absent</BucketName>" in body_of(answer)
    answer = gateway.send("GET", "/bucket/absent")
    assert b"<Key>absent</Key>" in body_of(answer)
    assert (b"x-amz-delete-marker", b"false") in answer.headers
    answer = gateway.send("HEAD", "/bucket/absent")
    assert (answer.status, answer.body, answer.content_length) == (404, None, 0)


def test_head_bucket_tells_the_region_even_to_strangers(gateway: Gateway) -> None:
    for answer in (gateway.send("HEAD", "/bucket", who="other"), gateway.answer(make_call("HEAD", "/bucket"))):
        assert answer.status == 403
        assert (b"x-amz-bucket-region", b"us-east-1") in answer.headers


def test_stray_markers_are_refused(gateway: Gateway) -> None:
    gateway.client().put_object(Bucket="bucket", Key="k", Body=b"before")
    for method, path, code in (
        ("PUT", "/bucket/k?uploadId=u", "MethodNotAllowed"),
        ("PUT", "/bucket/k?acl&tagging", "InvalidArgument"),
        ("DELETE", "/bucket?versions", "MethodNotAllowed"),
        ("DELETE", "/bucket/k?acl", "MethodNotAllowed"),
        ("PUT", "/v20180820/tags/arn:aws:s3:::bucket", "MethodNotAllowed"),
    ):
        assert gateway.send(method, path, None, b"after" if method == "PUT" else b"").error_code == code
    assert gateway.client().get_object(Bucket="bucket", Key="k")["Body"].read() == b"before"


def test_lane(gateway: Gateway) -> None:
    for method, path, is_taken in (
        ("GET", "/bucket/k", True),
        ("GET", "/bucket/k?partNumber=1", True),
        ("GET", "/bucket?list-type=2", True),
        ("GET", "/bucket?versions", False),
        ("PUT", "/bucket/k?tagging", False),
        ("GET", "/bucket/%ff", False),
        ("BREW", "/bucket/k", False),
    ):
        assert gateway.plane.takes(make_call(method, path)) is is_taken
    # a route found for one call never serves another
    gateway.plane.takes(make_call("GET", "/bucket"))
    answer = gateway.run(gateway.plane.answer(make_call("GET", "/bucket/k")))
    assert answer.error_code == "AccessDenied"


def test_presigned_urls_and_overrides(gateway: Gateway) -> None:
    s3 = gateway.client(signature_version="s3v4")
    s3.put_object(Bucket="bucket", Key="a b", Body=b"x")
    parameters = {"Bucket": "bucket", "Key": "a b", "ResponseContentDisposition": "attachment; filename=x y"}
    path = s3.generate_presigned_url("get_object", Params=parameters).removeprefix("http://s3.test:9000")
    answer = gateway.answer(make_call("GET", path))
    assert (answer.status, answer.body) == (200, b"x")
    assert b"content-disposition: attachment; filename=x y\r\n" in answer.raw_headers
    assert gateway.answer(make_call("GET", path + "&x-amz-acl=private")).status == 403
    anonymous = gateway.answer(make_call("GET", "/bucket/a%20b?response-content-type=a/b"))
    assert anonymous.error_code == "InvalidRequest"
    injected = gateway.send("GET", "/bucket/a%20b?response-content-type=a%0D%0AX%3A%201")
    assert injected.error_code == "InvalidArgument"


def test_virtual_hosted_style(gateway: Gateway) -> None:
    gateway.client().put_object(Bucket="bucket", Key="k", Body=b"x")
    call = make_call("GET", "/k")
    call.fields[b"host"] = b"bucket.s3.test:9000"
    assert gateway.answer(call).error_code == "AccessDenied"
    assert (call.operation, call.bucket) == ("GetObject", "bucket")


@given(st.text(alphabet="ab=&+%2FfX0 é", max_size=20))
def test_one_meaning_of_a_query(text: str) -> None:
    """Dispatch and signature read the same names and values out of a query."""
    raw = text.encode()
    try:
        canonical = canonical_query(raw)
    except Refused:
        return  # authentication refuses it whatever dispatch thinks
    try:
        mine = parse_query(raw)
    except S3Error as error:
        assert error.code is S3Code.InvalidURI  # noqa: PT017  # the alternative is a value, not a failure
        return
    assert {parse_one(name): parse_one(value) for name, value in canonical.values.items()} == mine


def parse_one(text: bytes) -> str:
    return next(iter(parse_query(b"x=" + text).values()))


def test_translation() -> None:
    for kind, code in TRANSLATION.items():
        error = kind.__new__(kind)  # some take more arguments than a message
        error.__dict__.update(condition="If-Match", is_delete_marker=False, version_id="", owner_id="")
        error.args = ("thing",)
        assert translate(error).code is code
        assert is_translated(error)
    assert translate(KeyNotFound("k")).code is S3Code.NoSuchKey
    assert translate(StoreBusy()).code is S3Code.SlowDown
    assert translate(Refused("SignatureDoesNotMatch", AWSAccessKeyId="x")).elements == {"AWSAccessKeyId": "x"}
    assert translate(BodyCut()).code is S3Code.IncompleteBody
    assert translate(RuntimeError("secret detail")).code is S3Code.InternalError
    assert not is_translated(RuntimeError())


def test_faults_are_logged_and_say_nothing(gateway: Gateway) -> None:
    fault = RuntimeError("secret detail")
    answer = answer_for(fault, make_call("GET", "/bucket/k"), gateway.services)
    assert (answer.status, answer.error_code, gateway.faults) == (500, "InternalError", [fault])
    assert b"secret" not in body_of(answer)
    busy = answer_for(StoreBusy("x"), make_call("GET", "/bucket/k"), gateway.services)
    assert (busy.status, (b"retry-after", b"1") in busy.headers) == (503, True)
    marker = answer_for(DeleteMarkerFound("v1", 1_700_000_000_000), make_call("GET", "/bucket/k"), gateway.services)
    assert marker.status == 405
    assert {name for name, _ in marker.headers} >= {b"allow", b"x-amz-delete-marker", b"x-amz-version-id"}
    gateway.faults.clear()


def test_a_cut_body_leaves_the_old_content(gateway: Gateway) -> None:
    s3 = gateway.client()
    s3.put_object(Bucket="bucket", Key="k", Body=b"before")
    for headers in ({"Content-Length": "9"}, {"Content-MD5": "AAAAAAAAAAAAAAAAAAAAAA=="}):
        assert gateway.send("PUT", "/bucket/k", headers, b"after").status == 400
    assert s3.get_object(Bucket="bucket", Key="k")["Body"].read() == b"before"


def test_serve_raises_and_answer_does_not(gateway: Gateway) -> None:
    with pytest.raises(S3Error):
        gateway.run(serve(make_call("GET", "/bucket/%ff"), gateway.services))
    assert gateway.run(gateway.plane.answer(make_call("GET", "/bucket/%ff"))).error_code == "InvalidURI"


def test_cancellation_is_no_fault(gateway: Gateway, tmp_path: Path) -> None:
    async def cancelled() -> None:
        task = asyncio.ensure_future(gateway.plane.answer(make_call("GET", "/bucket/k")))
        task.cancel()
        await task

    with pytest.raises(asyncio.CancelledError):
        gateway.run(cancelled())
