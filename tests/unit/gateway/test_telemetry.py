"""Telemetry: counts arrive whole and once, secrets never arrive, a slow sink costs records and not requests."""

import json
import logging
import os
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import generate_latest, values

from gateway.http.call import Answer, Call
from gateway.http.observer import Observer, Transfer
from gateway.telemetry.access_log import RECORDS_MAX, AccessLog, AccessRecord, format_record
from gateway.telemetry.exposition import forget_process, prepare_folder, render
from gateway.telemetry.families import LATENCY_BOUNDS, MULTIPROCESS_FOLDER, Families
from gateway.telemetry.flusher import Flusher
from gateway.telemetry.logs import JsonFormatter
from gateway.telemetry.meters import CommitMeter, DeviceMeter, EventMeter, RequestMeter
from gateway.telemetry.observer import RequestObserver
from gateway.telemetry.redaction import redact_query, redact_text
from tiers.commit.committer import CommitCounters

CANARY = "CANARYcanary0123456789"


@pytest.fixture(autouse=True)
def restore_value_class() -> Any:
    before, folder = values.ValueClass, os.environ.get(MULTIPROCESS_FOLDER)
    yield
    values.ValueClass = before
    if folder is None:
        os.environ.pop(MULTIPROCESS_FOLDER, None)


def samples(families: Families) -> dict[str, float]:
    return parsed(generate_latest(families.registry))


def parsed(text: bytes) -> dict[str, float]:
    lines = [line for line in text.decode().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def call_of(query: bytes = b"", operation: str = "GetObject") -> Call:
    headers = [(b"user-agent", b"boto3"), (b"authorization", CANARY.encode())]
    return Call(
        "GET", b"/bucket/key", query, headers, None, "REQ", "10.0.0.1", fields=dict(headers),  # type: ignore[arg-type]  # no body is read
        operation=operation, bucket="bucket", access_key_id="AKIA",
    )  # fmt: skip


class TestRequestMeter:
    def test_counts_arrive_once_however_often_it_flushes(self) -> None:
        families = Families()
        meter = RequestMeter(families)
        for seconds in (20e-6, 50e-6, 51e-6, 1.5, 99.0):
            tally = meter.observe("GetObject", 200, seconds, seconds / 2)
            tally.sent += 10
        meter.observe("", 400, 0.001, 0.001)
        meter.refuse(431)
        meter.flush()
        meter.flush()
        found = samples(families)
        assert found['isotherm_s3_requests_total{code="200",operation="GetObject"}'] == 5
        assert found['isotherm_s3_requests_total{code="400",operation="none"}'] == 1
        assert found['isotherm_s3_refused_total{code="431"}'] == 1
        assert found['isotherm_s3_sent_bytes_total{operation="GetObject"}'] == 50

    def test_every_observation_lies_in_the_bucket_prometheus_wants(self) -> None:
        """Oracle: the library's own `observe`, value by value, borders included."""
        families = Families()
        meter = RequestMeter(families)
        expected = families.tier_seconds.labels("hot", "read")
        for bound in (*LATENCY_BOUNDS, 60.0):
            for seconds in (bound * 0.999, bound, bound * 1.001):
                meter.observe("PutObject", 200, seconds, seconds)
                expected.observe(seconds)
        meter.flush()
        found = samples(families)
        for name, value in found.items():
            if name.startswith("isotherm_tier_operation_seconds_") and "created" not in name:
                twin = name.replace("isotherm_tier_operation_seconds", "isotherm_s3_request_seconds")
                twin = twin.replace('operation="read",tier="hot"', 'operation="PutObject"')
                twin = twin.replace('operation="read"', 'operation="PutObject"').replace(',tier="hot"', "")
                assert found[twin] == pytest.approx(value), twin

    def test_label_sets_are_bounded(self) -> None:
        families = Families()
        meter = RequestMeter(families)
        for number in range(1000):
            meter.observe(f"Invented{number}", 200, 0.1, 0.1)
        meter.flush()
        names = {name for name in samples(families) if name.startswith("isotherm_s3_requests_total")}
        assert len(names) <= 401
        assert 'isotherm_s3_requests_total{code="200",operation="other"}' in names


def test_device_meter_counts_bytes_by_direction() -> None:
    families = Families()
    meter = DeviceMeter(families, "hot", "client")
    meter("read", 100, 0.001)
    meter("read", 0, 0.001)
    meter("append", 4096, 0.002)
    meter.flush()
    meter.flush()
    found = samples(families)
    assert found['isotherm_tier_bytes_total{direction="read",purpose="client",tier="hot"}'] == 100
    assert found['isotherm_tier_bytes_total{direction="write",purpose="client",tier="hot"}'] == 4096
    assert found['isotherm_tier_operation_seconds_count{operation="read",tier="hot"}'] == 2


def test_commit_meter_follows_the_counters() -> None:
    families = Families()
    counters = CommitCounters(batches=2, operations=9)
    meter = CommitMeter(families, counters)
    meter.flush()
    counters.batches, counters.flushes = 5, 1
    meter.flush()
    found = samples(families)
    assert (found["isotherm_commit_batches_total"], found["isotherm_commit_flushes_total"]) == (5, 1)
    assert found["isotherm_commit_operations_total"] == 9


class TestManyProcesses:
    def test_counters_add_up_and_survive_their_process(self, tmp_path: Path) -> None:
        prepare_folder(tmp_path)
        for process in ("worker-0", "worker-1", "worker-0"):  # worker-0 dies and comes again
            families = Families(tmp_path, process)
            families.commit_batches.inc(10)
            families.in_flight.set(3)
            families.tier_capacity.labels("hot", "free").set(7)
        found = parsed(render(tmp_path))
        assert found["isotherm_commit_batches_total"] == 30
        assert found["isotherm_s3_requests_in_flight"] == 6
        assert found['isotherm_tier_capacity_bytes{state="free",tier="hot"}'] == 7

        forget_process(tmp_path, "worker-1")
        found = parsed(render(tmp_path))
        assert found["isotherm_commit_batches_total"] == 30
        assert found["isotherm_s3_requests_in_flight"] == 3

        prepare_folder(tmp_path)  # a restart of everything
        found = parsed(render(tmp_path))
        assert found["isotherm_commit_batches_total"] == 30
        assert "isotherm_s3_requests_in_flight" not in found

    def test_a_damaged_file_is_removed_and_the_rest_kept(self, tmp_path: Path) -> None:
        prepare_folder(tmp_path)
        Families(tmp_path, "worker-0").commit_batches.inc(4)
        (tmp_path / "counter_worker-1.db").write_bytes(b"\xff\x00\x01\x00" + b"garbage" * 1000)
        prepare_folder(tmp_path)
        assert parsed(render(tmp_path))["isotherm_commit_batches_total"] == 4

    def test_other_bucket_bounds_start_over(self, tmp_path: Path) -> None:
        prepare_folder(tmp_path)
        Families(tmp_path, "worker-0").commit_batches.inc(4)
        (tmp_path / "shape").write_text("[1, 2, 3]")
        prepare_folder(tmp_path)
        assert not list(tmp_path.glob("*.db"))


class TestRedaction:
    @pytest.mark.parametrize(
        "query",
        [
            f"X-Amz-Signature={CANARY}",
            f"x-amz-signature={CANARY}",
            f"X-Amz-Security-Token={CANARY}&list-type=2",
            f"X-Amz-Credential={CANARY}",
            f"Signature={CANARY}&AWSAccessKeyId={CANARY}&Expires=1",
            f"X-Amz-%53ignature={CANARY}",
            f"{CANARY}",
            f"{CANARY}=1",
            f"token={CANARY}",
            f"x-amz-server-side-encryption-customer-key={CANARY}",
            f"response-content-disposition={CANARY}",
        ],
    )
    def test_query_values_are_shown_by_allow_list(self, query: str) -> None:
        assert CANARY not in redact_query(query.encode())

    def test_what_helps_is_shown(self) -> None:
        shown = redact_query(b"list-type=2&prefix=a%2Fb&uploads&X-Amz-Expires=60&X-Amz-Signature=abc")
        assert shown == "list-type=2&prefix=a%2Fb&uploads&X-Amz-Expires=60&X-Amz-Signature=[redacted]"

    @pytest.mark.parametrize(
        "text",
        [
            f"Authorization: Bearer {CANARY}",
            f"Authorization: AWS AKIA:{CANARY}",
            f"Authorization: AWS4-HMAC-SHA256 Credential=AKIA/20250101, SignedHeaders=host, Signature={CANARY}",
            f"GET /b/k?X-Amz-Algorithm=x&X-Amz-Signature={CANARY}&a=b",
            f"GET /b/k?X-Amz-Security-Token={CANARY}",
            f"(b'x-amz-server-side-encryption-customer-key', b'{CANARY}')",
            f"x-amz-server-side-encryption-customer-key: {CANARY}",
            f"x-amz-copy-source-server-side-encryption-customer-key-md5: {CANARY}",
            f"postgresql://user:{CANARY}@host/name is away",
            f"secret_key={CANARY}",
            f'{{"SecretAccessKey": "{CANARY}"}}',
            f"password: {CANARY}",
        ],
    )
    def test_free_text_is_searched(self, text: str) -> None:
        assert CANARY not in redact_text(text)

    def test_patterns_are_linear(self) -> None:
        for text in ("signature=" * 20_000, "a://" * 50_000, "bearer " * 50_000, "secret_key" * 20_000):
            redact_text(text)  # a backtracking pattern would not return

    def test_the_process_log_is_one_redacted_object_a_line(self) -> None:
        record = logging.LogRecord("a", logging.ERROR, "f", 1, "line\nbreak \x1b[31m Bearer %s", (CANARY,), None)
        try:
            raise ValueError(f"Signature={CANARY}")
        except ValueError as error:
            record.exc_info = (type(error), error, error.__traceback__)
        line = JsonFormatter("worker-0").format(record)
        assert "\n" not in line
        assert "\x1b" not in line
        assert CANARY not in line
        assert json.loads(line)["process"] == "worker-0"


class TestAccessLog:
    def record(self, **changes: Any) -> AccessRecord:
        plain = AccessRecord(
            1_700_000_000.5, "REQ", "10.0.0.1", "GET", b"/bucket/k\xff\n", b"", "GetObject", "bucket", "AKIA",
            b"agent", 200, "", 0, 4096, 0.0123456789, 0.001,
        )  # fmt: skip
        return plain._replace(**changes)

    def test_one_object_a_line_with_the_fields_of_the_allow_list(self, tmp_path: Path) -> None:
        log = AccessLog(str(tmp_path / "access.log"))
        log.append(self.record())
        log.append(self.record(query=f"X-Amz-Signature={CANARY}".encode(), user_agent=b"a\nb\x1b"))
        log.flush()
        log.close()
        lines = (tmp_path / "access.log").read_text().splitlines()
        assert len(lines) == 2
        assert CANARY not in lines[1]
        assert set(json.loads(lines[0])) == {
            "time", "request_id", "peer", "method", "path", "query", "operation", "bucket", "access_key_id",
            "user_agent", "status", "error_code", "received_bytes", "sent_bytes", "seconds", "ttfb_seconds",
        }  # fmt: skip
        assert json.loads(lines[0])["time"] == "2023-11-14T22:13:20.500+00:00"

    def test_a_rotated_file_is_opened_anew(self, tmp_path: Path) -> None:
        path = tmp_path / "access.log"
        log = AccessLog(str(path))
        log.append(self.record())
        log.flush()
        path.rename(tmp_path / "access.log.1")
        log.append(self.record(request_id="AFTER"))
        log.flush()
        log.close()
        assert json.loads(path.read_text())["request_id"] == "AFTER"
        assert len((tmp_path / "access.log.1").read_text().splitlines()) == 1

    def test_a_failing_sink_drops_and_counts(self, tmp_path: Path) -> None:
        families = Families()
        log = AccessLog(str(tmp_path))  # a directory
        flusher = Flusher(families, log, [], lambda: 0.0)
        log.append(self.record())
        log.flush()
        flusher.flush()
        assert samples(families)["isotherm_access_log_dropped_total"] == 1

    def test_memory_is_bounded(self) -> None:
        log = AccessLog("-")
        record = self.record()
        for _ in range(RECORDS_MAX + 5):
            log.append(record)
        assert log.dropped == 5

    def test_the_observer_logs_nothing_of_the_authorization(self, tmp_path: Path) -> None:
        log = AccessLog(str(tmp_path / "a"))
        meter = RequestMeter(Families())
        observer: Observer = RequestObserver(meter, log, lambda: 1.0)
        call = call_of(query=f"X-Amz-Signature={CANARY}".encode())
        observer.started(call)
        assert meter.in_flight == 1
        observer.finished(call, Answer(200), Transfer(0.1, 0.2, 3, 4))
        observer.refused(400, CANARY, "10.0.0.1")
        assert meter.in_flight == 0
        log.flush()
        log.close()
        text = (tmp_path / "a").read_text()
        assert CANARY not in text
        assert json.loads(text)["access_key_id"] == "AKIA"

    def test_off_keeps_nothing(self) -> None:
        log = AccessLog("off")
        observer = RequestObserver(RequestMeter(Families()), log, lambda: 1.0)
        observer.started(call_of())
        observer.finished(call_of(), Answer(200), Transfer(0.1, 0.2, 3, 4))
        log.flush()
        assert log.dropped == 0


def test_format_cuts_what_is_long() -> None:
    record = TestAccessLog().record(raw_path=b"/" + b"k" * 100_000, user_agent=b"u" * 100_000)
    assert len(format_record(record)) < 8192


def test_counts_of_events_are_handed_on_and_exist_from_the_start() -> None:
    families = Families()
    counts = {"delivered": 0, "dropped": 0}
    meter = EventMeter(families.events, lambda: counts)
    assert families.registry.get_sample_value("isotherm_events_total", {"result": "dropped"}) == 0
    counts["delivered"] = 3
    meter.flush()
    meter.flush()
    assert families.registry.get_sample_value("isotherm_events_total", {"result": "delivered"}) == 3
