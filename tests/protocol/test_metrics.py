"""Metrics as operators get them: a real Prometheus scrapes a live store, and what we ship works on what it got."""

import json
import os
import re
import shutil
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.live import ADMIN_TOKEN, SECRET_KEY, LiveStore, free_port, get_json
from tests.protocol.serving import until

pytestmark = [pytest.mark.protocol, pytest.mark.timeout(120)]

DEPLOY = Path(__file__).parents[2] / "deploy"
DASHBOARD = DEPLOY / "grafana" / "dashboards" / "isotherm.json"

needs_promtool = pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
needs_prometheus = pytest.mark.skipif(shutil.which("prometheus") is None, reason="prometheus is not installed")

REQUIRED = {
    "isotherm_s3_requests_total", "isotherm_s3_request_seconds_bucket", "isotherm_s3_ttfb_seconds_bucket",
    "isotherm_tier_bytes_total", "isotherm_tier_operation_seconds_bucket", "isotherm_tier_capacity_bytes",
    "isotherm_tier_objects", "isotherm_repair_queue", "isotherm_event_loop_lag_seconds", "isotherm_fast_lane_enabled",
    "isotherm_commit_batches_total",
}  # fmt: skip
"""Names of the fixed interface that exist by now; a dashboard somewhere rests on them."""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveStore]:
    folder = tmp_path_factory.mktemp("metrics")
    with LiveStore(folder / "data", workers=2, ISOTHERM_ACCESS_LOG=str(folder / "access.log")) as live:
        client = live.client()
        client.create_bucket(Bucket="measured")
        for number in range(20):
            client.put_object(Bucket="measured", Key=f"{number}", Body=b"x" * 1000)
            client.get_object(Bucket="measured", Key=f"{number}")["Body"].read()
        client.put_object(Bucket="measured", Key="large", Body=b"x" * 1_000_000)
        client.list_objects_v2(Bucket="measured")
        yield live


class Prometheus:
    """A Prometheus with the shipped configuration, aimed at one store."""

    def __init__(self, store: LiveStore, folder: Path) -> None:
        self.port = free_port()
        shutil.copy(DEPLOY / "alerts.yml", folder / "alerts.yml")
        token = folder / "token"
        token.write_text(ADMIN_TOKEN)
        config = (DEPLOY / "prometheus.yml").read_text()
        for shipped, ours in (
            ("isotherm:9001", f"127.0.0.1:{store.admin_port}"),
            ("/run/secrets/isotherm_metrics_token", str(token)),
            ("15s", "1s"),
        ):
            assert shipped in config
            config = config.replace(shipped, ours)
        (folder / "prometheus.yml").write_text(config)
        self._process = subprocess.Popen(
            [
                "prometheus", f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{self.port}", "--log.level=warn",
            ],
            stderr=(folder / "log").open("w"),
        )  # fmt: skip

    def get(self, path: str, **query: str) -> Any:
        with urllib.request.urlopen(
            f"http://127.0.0.1:{self.port}{path}?{urllib.parse.urlencode(query)}", timeout=10
        ) as answer:
            document = json.loads(answer.read())
        assert document["status"] == "success"
        return document["data"]

    def value(self, expression: str) -> float:
        """The one value of an expression, 0 when there is none yet."""
        result = self.get("/api/v1/query", query=expression)["result"]
        return float(result[0]["value"][1]) if result else 0.0

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(30)


@pytest.fixture(scope="module")
def prometheus(store: LiveStore, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    server = Prometheus(store, tmp_path_factory.mktemp("prometheus"))
    try:
        until(lambda: answers(server) and server.value('up{job="isotherm"}') == 1)
        yield server
    finally:
        server.stop()


def answers(server: Prometheus) -> bool:
    try:
        server.get("/api/v1/query", query="1")
    except OSError:
        return False
    return True


def shipped_expressions() -> list[str]:
    """Every expression of the dashboard and of the alert rules."""
    dashboard = json.loads(DASHBOARD.read_text())
    found = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", [])]
    rules = (DEPLOY / "alerts.yml").read_text()
    found += [match[1].strip() for match in re.finditer(r"expr: ([^|\n].*)", rules)]
    found += [re.sub(r"\s+", " ", match[1]) for match in re.finditer(r"expr: \|\n((?: {10,}.*\n)+)", rules)]
    return found


@needs_promtool
def test_rules_and_configuration_are_valid(tmp_path: Path) -> None:
    subprocess.run(["promtool", "check", "rules", DEPLOY / "alerts.yml"], check=True, capture_output=True)
    command = ["promtool", "check", "config", "--syntax-only", DEPLOY / "prometheus.yml"]
    subprocess.run(command, check=True, capture_output=True)


@needs_promtool
def test_the_exposition_passes_the_linter(store: LiveStore) -> None:
    status, text = get_json(f"{store.admin}/metrics")
    assert status == 200
    checked = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr


@needs_prometheus
def test_a_real_prometheus_sees_requests_and_tiers(store: LiveStore, prometheus: Prometheus) -> None:
    until(lambda: prometheus.value('sum(isotherm_s3_requests_total{operation="PutObject",code="200"})') >= 21)
    until(lambda: prometheus.value('sum(isotherm_s3_request_seconds_count{operation="GetObject"})') >= 20)
    written = 'sum(isotherm_tier_bytes_total{tier="hot",direction="write",purpose="client"})'
    until(lambda: prometheus.value(written) >= 1_500_000)  # 4+2
    until(lambda: prometheus.value('isotherm_tier_capacity_bytes{tier="hot",state="total"}') > 0)
    names = set(prometheus.get("/api/v1/label/__name__/values"))
    assert names >= REQUIRED
    quantile = "histogram_quantile(0.5, sum by (le) (isotherm_s3_ttfb_seconds_bucket))"
    assert 0 < prometheus.value(quantile) < 30


@needs_prometheus
def test_every_shipped_expression_names_what_exists(store: LiveStore, prometheus: Prometheus) -> None:
    """An alert or a panel over a metric that nobody writes is silent for ever."""
    until(lambda: set(prometheus.get("/api/v1/label/__name__/values")) >= REQUIRED)
    names = set(prometheus.get("/api/v1/label/__name__/values"))
    expressions = shipped_expressions()
    assert len(expressions) > 30
    for expression in expressions:
        filled = expression.replace("$__rate_interval", "1m").replace("$instance", ".*")
        prometheus.get("/api/v1/query", query=filled)
        used = set(re.findall(r"\bisotherm_[a-z0-9_]+", filled))
        assert used or "up{" in filled, expression
        assert used <= names, expression
    rules = prometheus.get("/api/v1/rules")["groups"]
    assert sum(len(group["rules"]) for group in rules) == 16
    assert all(rule["health"] in {"ok", "unknown"} for group in rules for rule in group["rules"])


def test_labels_come_from_closed_sets(store: LiveStore) -> None:
    """No key, bucket, user or secret is a label, whatever clients ask for."""
    client = store.client()
    for name in ("CANARY-key", "canary/../key"):
        client.put_object(Bucket="measured", Key=name, Body=b"")
    for path in ("/CANARY-bucket/CANARY-key?CANARY", "/measured/CANARY?X-Amz-Signature=CANARY"):
        request = urllib.request.Request(store.endpoint + path, headers={"User-Agent": "CANARY-agent"})
        with pytest.raises(OSError, match="40"):
            urllib.request.urlopen(request, timeout=10)
    time.sleep(1.5)  # one flush of the counters
    text = get_json(f"{store.admin}/metrics")[1].decode()
    for word in ("CANARY", "canary", "measured", ADMIN_TOKEN, SECRET_KEY):
        assert word not in text
    labels = set(re.findall(r'[{,]([a-z_]+)="', text))
    assert labels <= {
        "operation",
        "code",
        "le",
        "tier",
        "direction",
        "purpose",
        "state",
        "worker",
        "result",
        "role",
        "pid",
        "margin",
        "action",
        "kind",
    }


def test_the_access_log_has_every_request_and_no_secret(store: LiveStore) -> None:
    url = store.client().generate_presigned_url("get_object", Params={"Bucket": "measured", "Key": "1"})
    with urllib.request.urlopen(url, timeout=10) as answer:
        request_id = answer.headers["x-amz-request-id"]
    signature = re.search(r"Signature=([^&]+)", url)
    assert signature
    path = store.data.parent / "access.log"
    until(lambda: request_id in path.read_text())
    text = path.read_text()
    assert signature[1] not in text
    for secret in (SECRET_KEY, ADMIN_TOKEN):
        assert secret not in text
        assert secret not in store.log.read_text()
    entries = [json.loads(line) for line in text.splitlines()]
    mine = next(entry for entry in entries if entry["request_id"] == request_id)
    assert (mine["operation"], mine["status"], mine["sent_bytes"]) == ("GetObject", 200, 1000)
    assert mine["bucket"] == "measured"
    assert sum(entry["operation"] == "PutObject" for entry in entries) >= 21
    assert os.stat(path).st_mode & 0o777 == 0o640  # noqa: PTH116  # reads like the shell would


def test_counters_survive_a_restart(store: LiveStore) -> None:
    def puts() -> float:
        text = get_json(f"{store.admin}/metrics")[1].decode()
        found = re.search(r'isotherm_s3_requests_total\{code="200",operation="PutObject"\} (\S+)', text)
        return float(found[1]) if found else 0.0

    before = puts()
    assert before >= 21
    assert store.stop() == 0
    store.start()
    assert puts() >= before
