"""Cross-origin answers over the wire: preflights, lines on every answer with an origin, and none without."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from botocore.exceptions import ClientError

from tests.live import LiveStore
from tests.protocol.forms import TYPE, encode, policy_of, signed_v2
from tests.protocol.raw import Answer, Request, Wire

pytestmark = pytest.mark.protocol

RULES = {
    "CORSRules": [
        {
            "ID": "app",
            "AllowedMethods": ["GET", "PUT", "POST"],
            "AllowedOrigins": ["https://*.app.test"],
            "AllowedHeaders": ["x-amz-*", "content-type"],
            "ExposeHeaders": ["ETag", "x-amz-version-id"],
            "MaxAgeSeconds": 3000,
        },
        {"AllowedMethods": ["HEAD"], "AllowedOrigins": ["*"]},
    ]
}
APP = "https://my.app.test"
ALLOW = "access-control-allow-"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveStore]:
    with LiveStore(Path(tmp_path_factory.mktemp("cors")) / "data", workers=2) as live:
        client = live.client()
        for name in ("with-rules", "without-rules"):
            client.create_bucket(Bucket=name)
            client.put_object(Bucket=name, Key="key", Body=b"content")
        client.put_bucket_cors(Bucket="with-rules", CORSConfiguration=RULES)
        yield live


def ask(store: LiveStore, method: str, target: str, **headers: str) -> Answer:
    """An unsigned request on a connection of its own, so that either worker may answer it."""
    wire = Wire(store)
    lines = {"host": wire.host} | {name.replace("_", "-"): value for name, value in headers.items()}
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    answer = wire.send(f"{method} {target} HTTP/1.1\r\n{head}\r\n".encode())
    wire.close()
    return answer


def call(store: LiveStore, request: Request) -> Answer:
    wire = Wire(store)
    answer = wire.call(request)
    wire.close()
    return answer


def allowed(answer: Answer) -> dict[str, str]:
    return {
        name: value for name, value in answer.headers.items() if name.startswith("access-control-") or name == "vary"
    }


def test_the_document_reads_back_as_put(store: LiveStore) -> None:
    client = store.client()
    assert client.get_bucket_cors(Bucket="with-rules")["CORSRules"] == RULES["CORSRules"]
    for rules in ({"AllowedMethods": ["BREW"]}, {"AllowedOrigins": ["*.*"]}):
        broken: Any = {"CORSRules": [{"AllowedMethods": ["GET"], "AllowedOrigins": ["*"], **rules}]}
        with pytest.raises(ClientError, match="InvalidRequest"):
            client.put_bucket_cors(Bucket="with-rules", CORSConfiguration=broken)
    assert client.get_bucket_cors(Bucket="with-rules")["CORSRules"] == RULES["CORSRules"]


def test_a_preflight_is_answered_to_anybody(store: LiveStore) -> None:
    headers = {"origin": APP, "access_control_request_method": "PUT"}
    for target in (
        "/with-rules",
        "/with-rules/",
        "/with-rules/any?partNumber=1&uploadId=x&versions",
        "/with-rules?cors",
    ):
        answer = ask(store, "OPTIONS", target, **headers, access_control_request_headers="Content-Type, x-amz-date")
        assert (answer.status, answer.body) == (200, b"")
        assert allowed(answer) == {
            f"{ALLOW}origin": APP,
            f"{ALLOW}methods": "GET, PUT, POST",
            f"{ALLOW}headers": "content-type, x-amz-date",
            f"{ALLOW}credentials": "true",
            "access-control-expose-headers": "ETag, x-amz-version-id",
            "access-control-max-age": "3000",
            "vary": "Origin, Access-Control-Request-Headers, Access-Control-Request-Method",
        }


@pytest.mark.parametrize(
    ("target", "headers", "status", "code"),
    [
        ("/with-rules/key", {}, 400, "BadRequest"),
        ("/with-rules/key", {"origin": APP}, 400, "BadRequest"),
        ("/with-rules/key", {"access_control_request_method": "GET"}, 400, "BadRequest"),
        ("/with-rules/key", {"origin": APP, "access_control_request_method": "BREW"}, 400, "BadRequest"),
        ("/with-rules/key", {"origin": APP, "access_control_request_method": "DELETE"}, 403, "AccessForbidden"),
        (
            "/with-rules/key",
            {"origin": "https://evil.test", "access_control_request_method": "PUT"},
            403,
            "AccessForbidden",
        ),
        (
            "/with-rules/key",
            {"origin": APP, "access_control_request_method": "GET", "access_control_request_headers": "authorization"},
            403,
            "AccessForbidden",
        ),
        ("/without-rules/key", {"origin": APP, "access_control_request_method": "GET"}, 403, "AccessForbidden"),
        ("/of-nobody/key", {"origin": APP, "access_control_request_method": "GET"}, 403, "AccessForbidden"),
        ("/", {"origin": APP, "access_control_request_method": "GET"}, 403, "AccessForbidden"),
    ],
)
def test_preflights_refused(store: LiveStore, target: str, headers: dict[str, str], status: int, code: str) -> None:
    answer = ask(store, "OPTIONS", target, **headers)
    assert (answer.status, answer.code) == (status, code)
    assert allowed(answer) == {}


def test_lines_go_with_every_answer_that_names_an_origin(store: LiveStore) -> None:
    """Success, absence, refusal, a form, a head, and a request that nobody can authenticate."""
    form = encode(signed_v2(policy_of("with-rules")), b"x")
    head = {"host": f"127.0.0.1:{store.port}", "content-type": TYPE, "content-length": str(len(form)), "origin": APP}
    lines = "".join(f"{name}: {value}\r\n" for name, value in head.items())
    wire = Wire(store)
    posted = wire.send(f"POST /with-rules HTTP/1.1\r\n{lines}\r\n".encode() + form)
    wire.close()
    answers = [
        posted,
        call(store, Request("GET", "/with-rules/key", headers={"origin": APP})),
        call(store, Request("GET", "/with-rules", "list-type=2", headers={"origin": APP})),
        call(store, Request("GET", "/with-rules/absent", headers={"origin": APP})),
        call(store, Request("PUT", "/with-rules/new", headers={"origin": APP}, body=b"x", signature="0" * 64)),
        ask(store, "GET", "/with-rules/key", origin=APP),
    ]
    assert [answer.status for answer in answers] == [204, 200, 200, 404, 403, 403]
    for answer in answers:
        assert answer.headers[f"{ALLOW}origin"] == APP
        assert answer.headers[f"{ALLOW}methods"] == "GET, PUT, POST"
        assert answer.headers["access-control-expose-headers"] == "ETag, x-amz-version-id"
        assert answer.headers["vary"].startswith("Origin, ")
    anyone = call(store, Request("HEAD", "/with-rules/key", headers={"origin": "null"}))
    assert (anyone.headers[f"{ALLOW}origin"], f"{ALLOW}credentials" in anyone.headers) == ("*", False)


def test_lines_of_a_presigned_url(store: LiveStore) -> None:
    for version in ("s3", "s3v4"):
        client = store.client(signature_version=version)
        url = urlsplit(client.generate_presigned_url("get_object", {"Bucket": "with-rules", "Key": "key"}))
        target = f"{url.path}?{url.query}"
        answer = ask(store, "GET", target, origin=APP)
        assert (answer.status, answer.body, answer.headers[f"{ALLOW}origin"]) == (200, b"content", APP)
        assert ask(store, "OPTIONS", target, origin=APP, access_control_request_method="GET").status == 200


def test_no_lines_for_others(store: LiveStore) -> None:
    """S91 among them: an origin that no rule names is never echoed."""
    evil = call(store, Request("GET", "/with-rules/key", headers={"origin": "https://evil.test"}))
    assert allowed(evil) == {"vary": "Origin, Access-Control-Request-Headers, Access-Control-Request-Method"}
    for request in (
        Request("GET", "/with-rules/key"),
        Request("GET", "/without-rules/key", headers={"origin": APP}),
        Request("GET", "/of-nobody/key", headers={"origin": APP}),
        Request("GET", "/", headers={"origin": APP}),
    ):
        assert allowed(call(store, request)) == {}


def test_a_page_that_names_its_method_is_judged_by_that(store: LiveStore) -> None:
    headers = {"origin": APP, "access-control-request-method": "DELETE"}
    assert f"{ALLOW}origin" not in call(store, Request("GET", "/with-rules/key", headers=headers)).headers


def test_every_process_knows_a_change_at_once(store: LiveStore) -> None:
    client = store.client()
    client.create_bucket(Bucket="changing")
    for number in range(6):
        origin = f"https://{number}.test"
        rules: Any = {"CORSRules": [{"AllowedMethods": ["GET"], "AllowedOrigins": [origin]}]}
        client.put_bucket_cors(Bucket="changing", CORSConfiguration=rules)
        for _ in range(4):
            assert ask(store, "OPTIONS", "/changing", origin=origin, access_control_request_method="GET").status == 200
    client.delete_bucket_cors(Bucket="changing")
    for _ in range(4):
        assert ask(store, "OPTIONS", "/changing", origin=origin, access_control_request_method="GET").status == 403
    with pytest.raises(ClientError, match="NoSuchCORSConfiguration"):
        client.get_bucket_cors(Bucket="changing")
    client.delete_bucket_cors(Bucket="changing")
