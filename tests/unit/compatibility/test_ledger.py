"""The published files: golden text of a small run, and the operations as the tables have them."""

import json

from botocore.loaders import Loader

from compatibility import ledger, operations
from compatibility.gate import Entry
from compatibility.junit import Outcome, Verdict
from compatibility.operations import Row, Support
from compatibility.reasons import AWS, Reason
from gateway.s3.operations import OPERATIONS
from gateway.s3.request import not_implemented

LATER = Reason("later", "Not served | yet.", tests=frozenset({"test_s3.py::test_b"}))
RUN = ledger.Run(
    commit="0123456789ab",
    date="2026-12-01",
    suite_commit="ba9876543210",
    clients={"boto3": "1.44.8"},
    profile={"ISOTHERM_AUTH__SIGV2": "all"},
    entries=[
        Entry(Outcome("test_iam.py", "test_u", Verdict.NOT_APPLICABLE, "no account"), LATER),
        Entry(Outcome("test_s3.py", "test_a[1|2]", Verdict.PASSED), None),
        Entry(Outcome("test_s3.py", "test_b", Verdict.FAILED, "<Code> 501"), LATER),
        Entry(Outcome("test_s3.py", "test_c", Verdict.FAILED, "", frozenset({"fails_on_aws"})), AWS),
    ],
    operations=[Row("GetObject", Support.FULL, ""), Row("PutBucketWebsite", Support.REFUSED, "")],
    remarks={"test_iam.py": "Hollow."},
)


def test_totals_by_file_and_of_all() -> None:
    assert ledger.table(RUN.entries).splitlines()[2:] == [
        "| test_iam.py | 0 | 0 | 1 | 1 |",
        "| test_s3.py | 1 | 2 | 0 | 3 |",
        "| all | 1 | 2 | 1 | 4 |",
    ]
    assert ledger.table(ledger.expected(RUN.entries)).splitlines()[-1] == "| all | 1 | 1 | 1 | 3 |"


def test_markdown_has_every_test_operation_and_reason() -> None:
    lines = ledger.markdown(RUN).splitlines()
    for wanted in (
        "| test_a[1\\|2] | passed |  |  |",
        "| test_b | failed | later | &lt;Code> 501 |",
        "| test_c | failed | aws |  |",
        "| test_u | not applicable | later | no account |",
        "| later | 2 | Not served \\| yet. |",
        "| PutBucketWebsite | 501 |  |",
        "Hollow.",
    ):
        assert wanted in lines
    assert "Commit 0123456789ab of 2026-12-01; s3-tests ba9876543210; boto3 1.44.8." in lines


def test_json_says_the_same() -> None:
    document = json.loads(ledger.document(RUN))
    assert document["totals"]["all"] == {"passed": 1, "failed": 2, "not applicable": 1, "collected": 4}
    assert document["totals_expected_on_aws"]["all"]["collected"] == 3
    assert [test["result"] for test in document["tests"]] == ["not applicable", "passed", "failed", "failed"]
    assert document["tests"][2]["why"] == "Not served | yet."
    assert document["operations"]["GetObject"] == {"support": "full", "missing": ""}


def test_summary_names_the_totals() -> None:
    text = " ".join(ledger.summary(RUN).split())
    assert "**1 of 4** tests passed" in text
    assert "of the 3 that AWS itself is expected to pass, **1**" in text
    assert "Of the 2 operations of the AWS model 1 are served in full, 0 in part, 0 as stubs, and 1 are refused" in text


def test_every_operation_of_the_model_has_its_row() -> None:
    notes = operations.read_notes(operations.FILE.read_text())
    found = operations.rows(notes)
    assert [row.operation for row in found] == sorted(Loader().load_service_model("s3", "service-2")["operations"])
    assert operations.stale(notes, found) == []
    refused = {operation.name for operation in OPERATIONS if operation.handler is not_implemented}
    assert refused <= {row.operation for row in found if row.support is Support.REFUSED}


def test_what_can_only_be_read_as_unset_is_a_stub() -> None:
    found = {row.operation: row.support for row in operations.rows({})}
    assert found["PutBucketWebsite"] is Support.REFUSED
    assert found["GetBucketWebsite"] is found["DeleteBucketWebsite"] is Support.STUB
    assert found["GetObject"] is found["UploadPart"] is found["ListParts"] is Support.FULL
    assert found["GetBucketVersioning"] is Support.FULL


def test_notes_override_and_are_stale_when_nothing_serves_the_operation() -> None:
    notes = operations.read_notes('[partial]\nGetObject = "no torrents"\n[stub]\nPutBucketWebsite = "no"\n')
    found = operations.rows(notes)
    assert Row("GetObject", Support.PARTIAL, "no torrents") in found
    assert operations.stale(notes, found) == ["PutBucketWebsite"]
