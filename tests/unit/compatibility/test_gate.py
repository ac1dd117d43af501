"""The gate: unlisted failures, rows that are out of date, names that nothing has."""

import pytest

from compatibility.gate import judge
from compatibility.junit import Outcome, Verdict
from compatibility.reasons import AWS, FILE, ReasonsRefused, parse

TABLE = """
[[reason]]
code = "later"
why = "Not served yet."
tests = ["test_s3.py::test_a", "test_s3.py::test_b[2]"]

[[reason]]
code = "group"
why = "A whole marker and a whole file."
markers = ["sns"]
files = ["test_sts.py"]
"""


def outcome(test: str, verdict: Verdict = Verdict.FAILED, *markers: str) -> Outcome:
    file, _, name = test.partition("::")
    return Outcome(file, name, verdict, "said", frozenset(markers))


LISTED = [
    outcome("test_s3.py::test_a[1]"),
    outcome("test_s3.py::test_b[1]", Verdict.PASSED),
    outcome("test_s3.py::test_b[2]", Verdict.NOT_APPLICABLE),
    outcome("test_sns.py::test_n", Verdict.FAILED, "sns"),
    outcome("test_sts.py::test_t"),
]


def test_good_when_everything_is_passed_or_listed() -> None:
    judgement = judge(LISTED, parse(TABLE))
    assert judgement.is_good
    codes = [entry.reason.code if entry.reason else "" for entry in judgement.entries]
    assert codes == ["later", "", "later", "group", "group"]


@pytest.mark.parametrize("verdict", [Verdict.FAILED, Verdict.NOT_APPLICABLE])
def test_what_is_neither_passed_nor_listed_is_an_offence(verdict: Verdict) -> None:
    judgement = judge([*LISTED, outcome("test_s3.py::test_new", verdict)], parse(TABLE))
    assert not judgement.is_good
    assert judgement.unlisted == ["test_s3.py::test_new: said"]


@pytest.mark.parametrize(
    ("test", "markers"),
    [("test_s3.py::test_a[2]", ()), ("test_sns.py::test_m", ("sns",)), ("test_sts.py::test_u", ())],
)
def test_a_listed_test_that_passes_is_an_offence(test: str, markers: tuple[str, ...]) -> None:
    judgement = judge([*LISTED, outcome(test, Verdict.PASSED, *markers)], parse(TABLE))
    assert not judgement.is_good
    assert [line.partition(": ")[0] for line in judgement.stale] == [test]


def test_a_row_about_nothing_is_an_offence() -> None:
    judgement = judge([each for each in LISTED if each.name != "test_b[2]"], parse(TABLE))
    assert not judgement.is_good
    assert judgement.unknown == ["test_s3.py::test_b[2]"]


def test_a_remark_about_nothing_is_an_offence() -> None:
    remarked = TABLE + '[remarks]\n"test_s3.py" = "So."\n"test_gone.py" = "So."\n'
    judgement = judge(LISTED, parse(remarked))
    assert judgement.unknown == ["test_gone.py"]
    assert judgement.remarks["test_s3.py"] == "So."


def test_what_fails_on_aws_needs_no_row_and_may_pass() -> None:
    aws = outcome("test_s3.py::test_rgw", Verdict.FAILED, "fails_on_aws")
    better = outcome("test_s3.py::test_other", Verdict.PASSED, "fails_on_aws")
    judgement = judge([*LISTED, aws, better], parse(TABLE))
    assert judgement.is_good
    assert [entry.reason for entry in judgement.entries[-2:]] == [AWS, None]
    assert not judgement.entries[-1].is_on_aws


@pytest.mark.parametrize(
    "text",
    [
        '[[reason]]\ncode = "a"\nwhy = "b"\n',
        '[[reason]]\ncode = "a"\ntests = ["x"]\n',
        '[[reason]]\ncode = "a"\nwhy = "b"\npattern = "x"\ntests = ["x"]\n',
        TABLE + '[[reason]]\ncode = "later"\nwhy = "b"\ntests = ["x"]\n',
        TABLE + '[[reason]]\ncode = "other"\nwhy = "b"\ntests = ["test_s3.py::test_a"]\n',
    ],
)
def test_a_table_that_is_not_clear_is_refused(text: str) -> None:
    with pytest.raises(ReasonsRefused):
        parse(text)


def test_the_table_of_the_tree_is_clear() -> None:
    assert all("test_" in test for row in parse(FILE.read_text()).rows for test in row.tests)
