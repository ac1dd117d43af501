"""`isotherm serve` as its users meet it: first start, replaced processes, reload, drain, restart."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.live import ACCESS_KEY, ADMIN_TOKEN, REGION, SECRET_KEY, LiveStore, free_port, get_json
from tests.protocol.serving import Load, established, processes, roles, until

pytestmark = [pytest.mark.protocol, pytest.mark.timeout(120)]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveStore]:
    """One store for the tests that leave it serving."""
    with LiveStore(tmp_path_factory.mktemp("shared") / "data", workers=2) as live:
        yield live


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LiveStore]:
    """A store for tests that stop it."""
    with LiveStore(tmp_path / "data", workers=2) as live:
        yield live


def test_put_get_list_and_large_contents(shared: LiveStore) -> None:
    client = shared.client()
    client.create_bucket(Bucket="first")
    large = os.urandom(9 << 20)
    client.put_object(Bucket="first", Key="small", Body=b"hello")
    client.put_object(Bucket="first", Key="large", Body=large)
    assert client.get_object(Bucket="first", Key="small")["Body"].read() == b"hello"
    assert client.get_object(Bucket="first", Key="large")["Body"].read() == large
    assert [entry["Key"] for entry in client.list_objects_v2(Bucket="first")["Contents"]] == ["large", "small"]


def test_connections_go_round_the_workers(shared: LiveStore) -> None:
    """An event loop on a shared socket takes all that waits; ours take turns, so that no worker idles."""
    until(lambda: len(roles(shared)["worker"]) == 2)
    connections = [socket.create_connection(("127.0.0.1", shared.port)) for _ in range(64)]
    try:
        until(lambda: sum(established(pid, shared.port) for pid in roles(shared)["worker"]) == 64)
        counts = [established(pid, shared.port) for pid in roles(shared)["worker"]]
        assert min(counts) >= 8, counts
    finally:
        for connection in connections:
            connection.close()


def test_a_killed_worker_is_replaced_while_requests_go_on(shared: LiveStore) -> None:
    """Requests in the killed process are cut, and an SDK's retry finds another worker: nobody sees a failure."""
    restarts_before = restarts(shared)
    with Load(shared) as load:
        for _ in range(3):
            before = roles(shared)["worker"]
            os.kill(before[0], signal.SIGKILL)
            until(lambda before=before: len(set(roles(shared)["worker"]) - {before[0]}) == 2)  # type: ignore[misc]  # bound now
            done = load.done
            until(lambda done=done: load.done > done + 10)  # type: ignore[misc]  # bound now
    assert not load.failures
    assert restarts(shared) == restarts_before + 3


def test_a_killed_control_process_costs_s3_nothing(shared: LiveStore) -> None:
    with Load(shared, attempts=1) as load:
        control = roles(shared)["control"][0]
        os.kill(control, signal.SIGKILL)
        done = load.done
        until(lambda: load.done > done + 20)
        until(lambda: roles(shared)["control"] not in ([], [control]))
        shared.wait_ready()
    assert not load.failures


def test_sigterm_answers_what_is_in_flight_and_leaves_no_process(store: LiveStore) -> None:
    """A PUT whose body is half sent when SIGTERM comes gets its 200, and the object is there after a restart."""
    client = store.client()
    client.create_bucket(Bucket="drain")
    body = os.urandom(3 << 20)
    url = client.generate_presigned_url("put_object", Params={"Bucket": "drain", "Key": "late"}, ExpiresIn=60)
    target = url.removeprefix(store.endpoint)
    pids = processes(store)
    with socket.create_connection(("127.0.0.1", store.port)) as connection:
        head = f"PUT {target} HTTP/1.1\r\nHost: 127.0.0.1:{store.port}\r\nContent-Length: {len(body)}\r\n\r\n"
        connection.sendall(head.encode() + body[: 1 << 20])
        time.sleep(0.2)  # the head has to be read before the drain begins
        assert store.process is not None
        store.process.terminate()
        time.sleep(0.5)
        connection.sendall(body[1 << 20 :])
        connection.settimeout(30)
        answer = b""
        while b"\r\n\r\n" not in answer:
            received = connection.recv(65536)
            assert received, answer
            answer += received
    assert answer.startswith(b"HTTP/1.1 200 "), answer
    assert store.stop() == 0
    assert [pid for pid in pids if Path(f"/proc/{pid}").exists()] == []
    store.start()
    assert store.client().get_object(Bucket="drain", Key="late")["Body"].read() == body


def test_sighup_replaces_every_process_without_a_failure(shared: LiveStore) -> None:
    with Load(shared) as load:
        before = set(processes(shared))
        os.kill(shared.pid, signal.SIGHUP)
        until(lambda: len(set(processes(shared)) & before) == 1 and len(processes(shared)) == 4)
        shared.wait_ready()
        done = load.done
        until(lambda: load.done > done + 10)
    assert not load.failures


def test_a_reload_with_wrong_settings_changes_nothing(tmp_path: Path) -> None:
    config = tmp_path / "isotherm.toml"
    config.write_text("")
    with LiveStore(tmp_path / "data", workers=1, ISOTHERM_CONFIG=str(config)) as store:
        before = processes(store)
        config.write_text("[server]\nprot = 1\n")
        os.kill(store.pid, signal.SIGHUP)
        until(lambda: "reload refused" in store.log.read_text())
        assert "server.prot: is not a setting" in store.log.read_text()
        assert processes(store) == before


def test_nobody_outlives_the_supervisor(store: LiveStore) -> None:
    children = processes(store)[1:]
    assert store.process is not None
    store.process.kill()
    store.process.wait()
    until(lambda: not any(Path(f"/proc/{pid}").exists() and not is_zombie(pid) for pid in children))
    store.process = None


def is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def others() -> dict[str, str]:
    """The environment without anything of ours."""
    return {name: value for name, value in os.environ.items() if not name.startswith("ISOTHERM_")}


def test_first_start_generates_prints_once_and_creates_buckets(tmp_path: Path) -> None:
    """As a new user: no configuration at all."""
    port, admin_port = free_port(), free_port()
    environment = others()
    environment["ISOTHERM_BUCKETS"] = "plain,kept:versioned"
    command = [sys.executable, "-m", "gateway.cli", "serve", "--data", str(tmp_path / "data"), "--workers", "1"]
    command += ["--port", str(port), "--admin-port", str(admin_port)]
    log = tmp_path / "log"

    def start() -> tuple[subprocess.Popen[str], str]:
        with log.open("a") as stderr:
            process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=stderr, text=True)
        assert process.stdout is not None
        printed = ""
        while "serves S3 on" not in printed:
            line = process.stdout.readline()
            assert line, log.read_text()
            printed += line
        return process, printed

    process, printed = start()
    key, secret = re.search(r"access key +(\S+)", printed), re.search(r"secret key +(\S+)", printed)
    token = re.search(r"token, shown this once:\s+(\S+)", printed)
    assert key
    assert secret
    assert token
    client = boto3.client(
        "s3", endpoint_url=f"http://127.0.0.1:{port}", aws_access_key_id=key[1], aws_secret_access_key=secret[1],
        region_name=REGION,
    )  # fmt: skip
    assert [bucket["Name"] for bucket in client.list_buckets()["Buckets"]] == ["kept", "plain"]
    assert client.get_bucket_versioning(Bucket="kept")["Status"] == "Enabled"
    process.terminate()
    assert process.wait(60) == 0
    process, printed = start()
    assert secret[1] not in printed
    assert token[1] not in printed
    process.terminate()
    assert process.wait(60) == 0
    for name in (secret[1], token[1]):
        assert name not in log.read_text()
    modes = {path.name: oct(path.stat().st_mode & 0o777) for path in (tmp_path / "data" / "secrets").iterdir()}
    assert set(modes.values()) == {"0o600"}
    assert set(modes) == {"root", "admin", "master", "encryption-keys"}


def test_a_lost_master_key_refuses_to_start(store: LiveStore) -> None:
    assert store.stop() == 0
    master = store.data / "secrets" / "master"
    kept = master.read_bytes()
    master.unlink()
    with pytest.raises(AssertionError, match="restore it from your backup"):
        store.start()
    master.write_bytes(b"A" * 43 + b"=\n")
    master.chmod(0o600)
    with pytest.raises(AssertionError, match="does not open the root account's key"):
        store.start()
    master.write_bytes(kept)
    store.start()


def test_a_taken_port_is_said_at_once(shared: LiveStore, tmp_path: Path) -> None:
    second = LiveStore(tmp_path / "other", workers=1, ISOTHERM_SERVER__PORT=str(shared.port))
    with pytest.raises(AssertionError, match=r"cannot listen on 127.0.0.1"):
        second.start()


def test_a_disabled_user_and_a_revoked_key_are_refused_by_every_worker(shared: LiveStore) -> None:
    """Within 5 s, on every process, without a restart; and a fresh key works at once."""
    user = cli(shared, "user", "add", "alice")
    key = cli(shared, "key", "create", "alice")
    client = client_of(shared, key)
    client.create_bucket(Bucket="of-alice")  # a fresh key works at once
    cli(shared, "user", "disable", "alice")
    until(lambda: all(refused(client, "InvalidAccessKeyId") for _ in range(8)), 5)
    cli(shared, "user", "enable", "alice")
    until(lambda: not any(refused(client, "InvalidAccessKeyId") for _ in range(8)), 5)
    subprocess.run([*ISOTHERM, "key", "revoke", key["access_key_id"]], env=admin_environment(shared), check=True)
    until(lambda: all(refused(client, "InvalidAccessKeyId") for _ in range(8)), 5)
    assert "of-alice" in [bucket["name"] for bucket in cli(shared, "bucket", "list")]
    assert cli(shared, "bucket", "show", "of-alice")["owner_id"] == user["id"]
    removal = subprocess.run(
        [*ISOTHERM, "user", "remove", "alice"],
        env=admin_environment(shared),
        capture_output=True,
        text=True,
        check=False,
    )
    assert removal.returncode == 1
    assert "owns buckets" in removal.stderr
    assert {tier["name"] for tier in cli(shared, "tier", "list")} == {"gpu", "hot", "warm", "cold"}
    assert len(cli(shared, "device", "list")) == 20


ISOTHERM = [sys.executable, "-m", "gateway.cli"]


def admin_environment(store: LiveStore) -> dict[str, str]:
    return {
        **store.tool_environment(),
        "ISOTHERM_ADMIN_URL": store.admin,
        "ISOTHERM_ADMIN_TOKEN": ADMIN_TOKEN,
    }


def cli(store: LiveStore, *words: str) -> Any:
    done = subprocess.run(
        [*ISOTHERM, *words, "--json"], env=admin_environment(store), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def client_of(store: LiveStore, key: dict[str, str]) -> Any:
    return boto3.client(
        "s3", endpoint_url=store.endpoint, aws_access_key_id=key["access_key_id"], region_name=REGION,
        aws_secret_access_key=key["secret_key"], config=Config(retries={"max_attempts": 1}),
    )  # fmt: skip


def refused(client: Any, code: str) -> bool:
    """Whether a request on a connection of its own is refused with the code."""
    client._endpoint.http_session.close()  # another connection, perhaps another worker
    try:
        client.list_buckets()
    except ClientError as error:
        return bool(error.response["Error"]["Code"] == code)
    return False


def restarts(store: LiveStore) -> float:
    """Workers replaced so far, as Prometheus would read it."""
    status, body = get_json(f"{store.admin}/metrics")
    assert status == 200
    found = re.search(rb'isotherm_process_restarts_total\{role="worker"\} (\S+)', body)
    assert found
    return float(found[1])


def test_doctor_and_rebuild_on_a_stopped_store(store: LiveStore) -> None:
    client = store.client()
    client.create_bucket(Bucket="kept")
    client.put_object(Bucket="kept", Key="small", Body=b"s" * 1000)
    client.put_object(Bucket="kept", Key="large", Body=b"l" * 1_000_000)
    assert store.stop() == 0
    environment = {**others(), "ISOTHERM_DATA": str(store.data), "ISOTHERM_SERVER__PORT": str(store.port)}
    environment |= {"ISOTHERM_SERVER__ADMIN_PORT": str(store.admin_port)}
    doctor = subprocess.run(
        [*ISOTHERM, "doctor", "--json"], env=environment, capture_output=True, text=True, check=False
    )
    findings = json.loads(doctor.stdout)
    assert doctor.returncode == 0, findings
    assert any("on one disk" in finding["detail"] for finding in findings)
    assert {"database", "secrets", "erasure coding", "MD5", "fast lane"} <= {finding["check"] for finding in findings}

    refused_rebuild = subprocess.run(
        [*ISOTHERM, "rebuild"], env=environment, capture_output=True, text=True, check=False
    )
    assert refused_rebuild.returncode == 1
    assert "not empty" in refused_rebuild.stderr
    for file in store.data.glob("metadata.db*"):
        file.unlink()
    subprocess.run([*ISOTHERM, "rebuild", "--json"], env=environment, check=True, capture_output=True)
    store.start()
    client = store.client()
    assert client.get_object(Bucket="kept", Key="small")["Body"].read() == b"s" * 1000
    assert client.get_object(Bucket="kept", Key="large")["Body"].read() == b"l" * 1_000_000


def test_tls_on_the_s3_port(tmp_path: Path) -> None:
    certificate, key = self_signed(tmp_path)
    store = LiveStore(
        tmp_path / "data",
        workers=1,
        ISOTHERM_SERVER__CERTIFICATE=str(certificate),
        ISOTHERM_SERVER__PRIVATE_KEY=str(key),
    )
    with pytest.raises(AssertionError, match="not ready"):
        store.start(wait_seconds=0)  # its probe speaks no TLS
    try:
        client = boto3.client(
            "s3", endpoint_url=f"https://127.0.0.1:{store.port}", aws_access_key_id=ACCESS_KEY,
            aws_secret_access_key=SECRET_KEY, region_name=REGION, verify=str(certificate),
            config=Config(retries={"max_attempts": 1}),
        )  # fmt: skip
        until(lambda: "serves S3 on https://" in store.log.read_text())
        client.create_bucket(Bucket="private")
        body = os.urandom(2 << 20)
        client.put_object(Bucket="private", Key="large", Body=body)
        assert client.get_object(Bucket="private", Key="large")["Body"].read() == body
        with socket.create_connection(("127.0.0.1", store.port)) as plain:
            plain.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            assert not plain.recv(100).startswith(b"HTTP/")
        client.put_object(Bucket="private", Key="after", Body=b"still serving")
    finally:
        assert store.stop() == 0


def self_signed(folder: Path) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    names = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(names, critical=False)
        .sign(key, hashes.SHA256())
    )
    plain = serialization.NoEncryption()
    encoding = serialization.Encoding.PEM
    (folder / "key.pem").write_bytes(key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, plain))
    (folder / "certificate.pem").write_bytes(certificate.public_bytes(encoding))
    return folder / "certificate.pem", folder / "key.pem"
