"""Lines of server access logs: their fields, and that nothing a client sends leaves its place."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.s3.log_lines import RESOURCES, LogLine, format_line, operation_word
from gateway.s3.log_targets import LogSource, LogTarget, log_day, log_key
from gateway.s3.operations import OPERATIONS

FIELDS = re.compile(r'\[[^\]]*\]|"[^"]*"|[^ ]+')
PLAIN = LogLine(
    owner_id="owner",
    bucket="bucket",
    seconds=1_700_000_000.9,
    peer="192.0.2.3",
    requester="caller",
    request_id="REQUEST1",
    operation="REST.GET.OBJECT",
    key="a b/ä",
    method="GET",
    raw_path=b"/bucket/a%20b",
    query=b"x-id=GetObject",
    status=206,
    error_code="",
    sent_bytes=5,
    size=10,
    total_seconds=0.0123,
    turnaround_seconds=0.01,
    referer=b"",
    user_agent=b"tool/1 (x)",
    version_id="v1",
    host_id="HOST1",
    signature="SigV4",
    authentication="AuthHeader",
    host=b"s3.test",
)
SOURCE = LogSource("bucket", "owner", "us-east-1")


def test_a_line_as_aws_writes_it() -> None:
    assert format_line(PLAIN) == (
        b"owner bucket [14/Nov/2023:22:13:20 +0000] 192.0.2.3 caller REQUEST1 REST.GET.OBJECT a%20b/%C3%A4 "
        b'"GET /bucket/a%20b?x-id=GetObject HTTP/1.1" 206 - 5 10 12 10 "-" "tool/1 (x)" v1 HOST1 SigV4 - AuthHeader '
        b"s3.test - - -\n"
    )


def test_what_is_not_there() -> None:
    bare = PLAIN._replace(requester="", key="", query=b"", sent_bytes=0, size=None, version_id="", signature="")
    fields = FIELDS.findall(format_line(bare).decode())
    assert [fields[at] for at in (4, 7, 11, 12, 17, 19)] == ["-"] * 6
    assert fields[8] == '"GET /bucket/a%20b HTTP/1.1"'


@pytest.mark.parametrize("name", [b"X-Amz-Signature", b"Signature", b"X-Amz-Security-Token", b"X-Amz-Signatur%65"])
def test_proofs_are_left_out(name: bytes) -> None:
    line = format_line(PLAIN._replace(query=b"a=1&" + name + b"=sEcReT&b=2"))
    assert b"sEcReT" not in line
    assert b"?a=1&" + name + b"=[redacted]&b=2 HTTP/1.1" in line


@given(st.binary(max_size=40), st.text(max_size=20), st.text(st.characters(codec="utf-8"), max_size=20))
def test_whatever_clients_send_stays_in_its_field(raw: bytes, version_id: str, key: str) -> None:
    hostile = PLAIN._replace(
        raw_path=b"/" + raw, query=raw, referer=raw, user_agent=raw, host=raw, key=key, method="G\n T"
    )
    hostile = hostile._replace(version_id=version_id.encode("utf-8", "replace").decode())
    line = format_line(hostile)
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    assert line.isascii()
    assert len(FIELDS.findall(line.decode().strip())) == 26


def test_every_resource_is_an_operation() -> None:
    assert RESOURCES.keys() <= {operation.name for operation in OPERATIONS}
    assert operation_word("GetObject", "GET") == "REST.GET.OBJECT"
    assert operation_word("CopyObject", "PUT", "_GET") == "REST.COPY.OBJECT_GET"
    assert operation_word("RestoreObject", "POST") == "REST.POST.RESTOREOBJECT"


@pytest.mark.parametrize(
    ("target", "key"),
    [
        (LogTarget("t", "log/"), "log/2023-11-14-22-13-20-U"),
        (LogTarget("t", "", key_format="SimplePrefix"), "2023-11-14-22-13-20-U"),
        (
            LogTarget("t", "p-", key_format="PartitionedPrefix", date_source="DeliveryTime"),
            "p-owner/us-east-1/bucket/2023/11/14/2023-11-14-22-13-20-U",
        ),
        (
            LogTarget("t", "", key_format="PartitionedPrefix", date_source="EventTime"),
            "owner/us-east-1/bucket/2023/11/14/2023-11-14-00-00-00-U",
        ),
    ],
)
def test_names_of_log_objects(target: LogTarget, key: str) -> None:
    assert log_key(target, SOURCE, 1_700_000_000, "U") == key
    assert log_day(target, 1_700_000_000) == (19675 if target.date_source == "EventTime" else 0)
