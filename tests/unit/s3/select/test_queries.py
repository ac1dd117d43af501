"""Queries understood, refused and rendered; framing as botocore reads it."""

import pytest
from botocore.eventstream import EventStreamBuffer

from gateway.s3.select import framing
from gateway.s3.select.framing import Statistics
from gateway.s3.select.refusals import SelectRefused
from gateway.s3.select.syntax import parse
from gateway.s3.select.terms import Format
from gateway.s3.select.translation import Plan, Translator
from gateway.s3.select.tree import EVERY, Call, Literal, Reference


def plan(expression: str, kind: Format = Format.CSV, names: tuple[str, ...] = ("name", "age")) -> Plan:
    return Translator(parse(expression), kind, names, "2024-01-01T00:00:00").plan()


def test_a_query_is_a_tree() -> None:
    query = parse("select s.\"a b\"[1].c AS x, count(*) from S3Object[*].p['q'] AS s where not a = 1 or b limit 5;")
    assert (query.source, query.alias, query.limit) == ((EVERY, "p", "q"), "s", 5)
    assert query.items[0].expression == Reference(("s", "a b", 1, "c"))
    assert query.items[0].name == "x"
    assert query.condition == Call(
        "OR", (Call("NOT", (Call("=", (Reference(("a",)), Literal("number", "1"))),)), Reference(("b",)))
    )


@pytest.mark.parametrize(("expression", "code"), [
    ("", "UnsupportedSqlOperation"),
    ("DROP TABLE x", "UnsupportedSqlOperation"),
    ("SELECT *", "ParseSelectMissingFrom"),
    ("SELECT * FROM read_csv('/etc/passwd')", "InvalidDataSource"),
    ("SELECT * FROM S3Object, S3Object", "ParseUnexpectedToken"),
    ("SELECT * FROM S3Object ORDER BY a", "UnsupportedSqlOperation"),
    ("SELECT * FROM S3Object; SELECT 1", "UnsupportedSqlOperation"),
    ("SELECT * FROM S3Object WHERE", "ParseUnexpectedToken"),
    ("SELECT getenv('HOME') FROM S3Object", "UnsupportedFunction"),
    ("SELECT to_string(a, 'y') FROM S3Object", "UnsupportedFunction"),
    ("SELECT nullif(1) FROM S3Object", "ParseInvalidArguments"),
    ("SELECT cast(a AS blob) FROM S3Object", "ParseUnknownType"),
    ("SELECT extract(week FROM a) FROM S3Object", "ParseExpectedDatePart"),
    ("SELECT a\x00 FROM S3Object", "LexerInvalidChar"),
    ("SELECT a[b] FROM S3Object", "ParseInvalidPathComponent"),
    (f"SELECT {'(' * 60}1{')' * 60} FROM S3Object", "ExpressionTooLong"),
    (f"SELECT 1{'+1' * 600} FROM S3Object", "ExpressionTooLong"),
    ("SELECT " + "a" * 262_145, "ExpressionTooLong"),
])  # fmt: skip
def test_what_is_not_understood_is_refused(expression: str, code: str) -> None:
    with pytest.raises(SelectRefused) as raised:
        parse(expression)
    assert raised.value.code == code


@pytest.mark.parametrize(("expression", "code"), [
    ("SELECT nope FROM S3Object", "EvaluatorBindingDoesNotExist"),
    ("SELECT name.x FROM S3Object", "EvaluatorBindingDoesNotExist"),
    ("SELECT name, count(*) FROM S3Object", "UnsupportedSqlOperation"),
    ("SELECT count(max(age)) FROM S3Object", "UnsupportedSqlOperation"),
    ("SELECT * FROM S3Object WHERE count(*) > 1", "UnsupportedSqlOperation"),
    ("SELECT '\x00' FROM S3Object", "LexerInvalidChar"),
    ("SELECT (1 = 1) + 1 FROM S3Object", "InvalidDataType"),
    ("SELECT * FROM S3Object WHERE 1", "InvalidDataType"),
    ("SELECT name LIKE 'a' ESCAPE 'ab' FROM S3Object", "LikeInvalidInputs"),
])  # fmt: skip
def test_what_has_no_rendering_is_refused(expression: str, code: str) -> None:
    with pytest.raises(SelectRefused) as raised:
        plan(expression)
    assert raised.value.code == code


@pytest.mark.parametrize(("expression", "sql"), [
    ("SELECT _2 FROM S3Object", "r[2]"),
    ("SELECT NAME FROM S3Object", "r[1]"),
    ("SELECT s.age + 1 FROM S3Object s", "(CAST(r[2] AS DOUBLE) + 1)"),
    ("SELECT age > 5 FROM S3Object", "(TRY_CAST(r[2] AS DOUBLE) > 5)"),
    ("SELECT 'it''s; --' FROM S3Object", "'it''s; --'"),
    ("SELECT nullif(name, 'x') FROM S3Object", "nullif(r[1], 'x')"),
    ("SELECT case name when 'a' then 1 end FROM S3Object", "(CASE r[1] WHEN 'a' THEN 1 ELSE NULL END)"),
])  # fmt: skip
def test_renderings(expression: str, sql: str) -> None:
    assert plan(expression).batch == f"SELECT {sql} FROM batch"


def test_names_cannot_leave_their_quotes() -> None:
    sql = plan('SELECT "a""; DROP" FROM S3Object', Format.PARQUET, ('a"; DROP',)).batch
    assert sql == 'SELECT "a""; DROP" FROM batch'
    with pytest.raises(SelectRefused):
        plan('SELECT s."a\'""b" FROM S3Object s', Format.JSON)
    assert plan('SELECT s."a\'b" FROM S3Object s', Format.JSON).batch == (
        "SELECT json_extract(r, '$.\"a''b\"') FROM batch"
    )


def test_aggregates_are_partial_and_total() -> None:
    made = plan("SELECT count(*) + 1, avg(cast(age AS int)) AS mean FROM S3Object WHERE name = 'a'")
    assert made.batch == (
        "SELECT count(1) AS p0, sum(CAST(r[2] AS BIGINT)) AS p1, count(CAST(r[2] AS BIGINT)) AS p2 "
        "FROM batch WHERE (r[1] = 'a')"
    )
    assert made.total == "SELECT (coalesce(sum(p0), 0)::BIGINT + 1), sum(p1) / nullif(sum(p2), 0) FROM partials"
    assert [column.name for column in made.columns] == ["_1", "mean"]


@pytest.mark.parametrize("form", ["nullif({}, 2)", "case {} when 1 then 2 end", "coalesce({}, 1)", "(1 + {})"])
def test_nesting_costs_its_length(form: str) -> None:
    inner = "age"
    for _ in range(24):
        inner = form.format(inner)
    assert len(plan(f"SELECT {inner} FROM S3Object").batch) < 3000


def test_framing_is_what_botocore_reads() -> None:
    buffer = EventStreamBuffer()
    numbers = Statistics(1, 2, 3)
    buffer.add_data(framing.records(b"a,b\n") + framing.CONTINUATION + framing.statistics("Progress", numbers))
    buffer.add_data(framing.statistics("Stats", numbers) + framing.END + framing.failure("CastFailed", "\u00e9"))
    messages = [event.to_response_dict() for event in buffer]
    assert [message["headers"].get(":event-type") for message in messages] == [
        *("Records", "Cont", "Progress", "Stats", "End"),
        None,
    ]
    assert messages[0]["body"] == b"a,b\n"
    assert b"<BytesReturned>3</BytesReturned>" in messages[3]["body"]
    assert (messages[5]["status_code"], messages[5]["headers"][":error-code"]) == (400, "CastFailed")
