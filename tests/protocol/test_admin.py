"""The admin port over the wire: S39 from its own OpenAPI document, the header guard, deadlines, S96."""

import json
import socket
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from tests.live import ACCESS_KEY, ADMIN_TOKEN, LiveStore, get_json

pytestmark = [pytest.mark.protocol, pytest.mark.timeout(120)]

SCOPES = ("operator", "read", "metrics")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveStore]:
    folder: Path = tmp_path_factory.mktemp("admin")
    tokens = []
    for scope in SCOPES:
        digest = sha256(token_of(scope).encode()).hexdigest()
        tokens.append(f'[[admin.tokens]]\nname = "{scope}"\nsha256 = "{digest}"\nscopes = ["{scope}"]\n')
    config = folder / "isotherm.toml"
    config.write_text("[admin]\nfailures_per_minute = 1000\n" + "".join(tokens))
    with LiveStore(folder / "data", workers=1, ISOTHERM_CONFIG=str(config)) as live:
        yield live


def token_of(scope: str) -> str:
    return ADMIN_TOKEN if scope == "admin" else f"canary-token-of-scope-{scope}"


def exchange(port: int, request: bytes) -> tuple[int, bytes]:
    """Status and whole answer of raw bytes on one connection, 0 when it was only closed."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(request)
        answer = b""
        while received := connection.recv(65536):
            answer += received
    return (int(answer[9:12]) if answer else 0), answer


def ask(store: LiveStore, method: str, path: str, *headers: str, body: bytes = b"") -> tuple[int, bytes]:
    lines = [f"{method} {path} HTTP/1.1", "Host: admin", "Connection: close", *headers]
    if body or method in {"POST", "PATCH"}:
        lines.append(f"Content-Length: {len(body)}")
    return exchange(store.admin_port, "\r\n".join([*lines, "", ""]).encode() + body)


def test_every_described_route_and_every_caller(store: LiveStore) -> None:
    """S39: generated from the OpenAPI document of the running server."""
    document = json.loads(get_json(f"{store.admin}/admin/openapi.json")[1])
    includes = {"admin": {"admin", "operator", "read", "metrics"}, "operator": {"operator", "read", "metrics"}}
    includes |= {"read": {"read", "metrics"}, "metrics": {"metrics"}}
    count = 0
    for path, operations in document["paths"].items():
        filled = path.replace("{", "x").replace("}", "x")
        for method, operation in operations.items():
            count += 1
            needed = operation["x-scope"]
            assert ask(store, method.upper(), filled)[0] == 401
            assert ask(store, method.upper(), filled, "Authorization: Bearer nobody")[0] == 401
            signed = f"Authorization: AWS4-HMAC-SHA256 Credential={ACCESS_KEY}/x, SignedHeaders=host, Signature=0"
            assert ask(store, method.upper(), filled, signed)[0] == 403
            for scope in ("admin", *SCOPES):
                status, answer = ask(store, method.upper(), filled, f"Authorization: Bearer {token_of(scope)}")
                if needed in includes[scope]:
                    assert status not in {401, 403, 500}, answer
                else:
                    assert status == 403, answer
    assert count == 36


def test_the_head_is_guarded_as_on_the_s3_port(store: LiveStore) -> None:
    token = f"Authorization: Bearer {ADMIN_TOKEN}"
    assert ask(store, "GET", "/admin/v1/info", token)[0] == 200
    assert ask(store, "GET", "/admin/v1/info", token, token)[0] == 400
    assert ask(store, "GET", "/admin/v1/info", token, "Host: other")[0] == 400
    assert ask(store, "GET", "http://other/admin/v1/info", token)[0] == 400
    assert ask(store, "GET", "/admin/v1/info", token, "X: " + "y" * 20_000)[0] == 431
    both = ask(store, "POST", "/admin/v1/users", token, "Transfer-Encoding: chunked", body=b"{}")
    assert both[0] == 400
    assert ask(store, "GET", "/admin/v1/info", token)[0] == 200


def test_answers_say_little(store: LiveStore) -> None:
    for request in (("GET", "/nothing"), ("POST", "/admin/v1/users"), ("TRACE", "/admin/v1/info")):
        status, answer = ask(store, *request, f"Authorization: Bearer {ADMIN_TOKEN}")
        assert 400 <= status < 500
        for word in (b"Traceback", b"uvicorn", b"starlette", b"fastapi", b".py", str(store.data).encode()):
            assert word not in answer.lower()


def test_health_answers_a_word_on_both_ports(store: LiveStore) -> None:
    for port in (store.port, store.admin_port):
        for path in ("/health/live", "/health/ready", "/health/cluster"):
            for method in ("GET", "HEAD"):
                head = f"{method} {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode()
                status, answer = exchange(port, head)
                assert status == 200
                assert answer.endswith(b'{"status":"ok"}' if method == "GET" else b"\r\n\r\n")
    alias = b"GET /minio/health/ready HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    assert exchange(store.port, alias)[0] == 200


def test_metrics_with_the_metrics_scope_alone(store: LiveStore) -> None:
    assert get_json(f"{store.admin}/metrics", token_of("metrics"))[0] == 200
    assert get_json(f"{store.admin}/admin/v1/info", token_of("metrics"))[0] == 403
    assert get_json(f"{store.admin}/metrics?token={ADMIN_TOKEN}", "nobody")[0] == 401
