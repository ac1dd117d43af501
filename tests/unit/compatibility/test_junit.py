"""A JUnit report becomes one outcome a test."""

from compatibility.junit import Outcome, Verdict, read

REPORT = """<?xml version="1.0" encoding="utf-8"?>
<testsuites><testsuite name="pytest">
<testcase classname="s3tests.functional.test_s3" name="test_works" time="0.5">
  <properties><property name="markers" value="checksum fails_on_aws"/></properties></testcase>
<testcase classname="s3tests.functional.test_s3" name="test_fails[a-1]" time="1">
  <properties><property name="markers" value=""/></properties>
  <failure message="assert 501 == 200&#10;  second line">trace</failure></testcase>
<testcase classname="s3tests.functional.test_iam" name="test_skipped" time="0">
  <skipped type="pytest.skip" message="no account | here">where</skipped></testcase>
<testcase classname="s3tests.functional.test_s3" name="test_leaves_a_mess" time="0"></testcase>
<testcase classname="s3tests.functional.test_s3" name="test_leaves_a_mess" time="0">
  <error message="failed on teardown with &quot;t-0a1b2c3d4e5f6a7b8c-12 is not empty&quot;">trace</error></testcase>
</testsuite></testsuites>
"""


def test_every_kind_of_case() -> None:
    assert read(REPORT) == [
        Outcome("test_iam.py", "test_skipped", Verdict.NOT_APPLICABLE, "no account | here", frozenset(), 0.0),
        Outcome("test_s3.py", "test_fails[a-1]", Verdict.FAILED, "assert 501 == 200", frozenset(), 1.0),
        Outcome("test_s3.py", "test_leaves_a_mess", Verdict.FAILED, 'failed on teardown with "<bucket> is not empty"'),
        Outcome("test_s3.py", "test_works", Verdict.PASSED, "", frozenset({"checksum", "fails_on_aws"}), 0.5),
    ]


def test_a_test_is_named_with_and_without_its_parameters() -> None:
    outcome = Outcome("test_s3.py", "test_fails[a::b[0]]", Verdict.FAILED)
    assert (outcome.test, outcome.function) == ("test_s3.py::test_fails[a::b[0]]", "test_s3.py::test_fails")


def test_what_differs_between_runs_is_taken_out() -> None:
    one = REPORT.replace("501 == 200", "<aws at 0x7f00aa> == t-abcdefgh12345-7".replace("<", "&lt;"))
    two = REPORT.replace("501 == 200", "<aws at 0x7e11bb> == t-zyxwvuts98765-3".replace("<", "&lt;"))
    assert read(one) == read(two) != read(REPORT)
