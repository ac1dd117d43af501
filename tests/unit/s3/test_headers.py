"""Dates, entity tags, conditions."""

import pytest

from gateway.s3 import headers
from gateway.s3.errors import S3Code, S3Error
from gateway.s3.headers import (
    ANY_VERSION,
    Verdict,
    entity_tags,
    http_date,
    is_same,
    iso_time,
    judge,
    number,
    parse_http_date,
    read_conditions,
    source_conditions,
    write_conditions,
)
from tiers.namespace.types import UNCONDITIONAL, WriteConditions

MOMENT = 1_700_000_000
DATE = "Tue, 14 Nov 2023 22:13:20 GMT"
BEFORE, AFTER = "Tue, 14 Nov 2023 22:13:19 GMT", "Tue, 14 Nov 2023 22:13:21 GMT"


def test_dates() -> None:
    assert http_date(MOMENT) == DATE
    assert iso_time(MOMENT * 1000 + 7) == "2023-11-14T22:13:20.007Z"
    other_forms = ("Tuesday, 14-Nov-23 22:13:20 GMT", "Tue Nov 14 22:13:20 2023", "Tue, 14 Nov 2023 22:13:20 +0000")
    for text in (DATE, *other_forms):
        assert parse_http_date(text) == MOMENT
    for text in ("", "yesterday", "Tue, 99 Nov 2023 22:13:20 GMT", "Tue, 14 Nov 99999999999 22:13:20 GMT"):
        assert parse_http_date(text) is None


def test_entity_tags() -> None:
    assert entity_tags('"a", W/"b" ,c,*,,""') == ("a", "b", "c", "*", "")
    assert entity_tags(' "') == ('"',)


def test_numbers() -> None:
    assert [number(text) for text in ("0", "007", "12", "", "-1", "+1", "1.0", "²", " 1")] == [0, 7, 12, *[None] * 6]


def verdict(**fields: str) -> Verdict:
    packed = {name.replace("_", "-").encode(): value.encode() for name, value in fields.items()}
    return judge(read_conditions(packed), "tag", MOMENT * 1000 + 999)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, Verdict.SEND),
        ({"if_match": '"tag"'}, Verdict.SEND),
        ({"if_match": "tag"}, Verdict.SEND),
        ({"if_match": "*"}, Verdict.SEND),
        ({"if_match": '"other", "tag"'}, Verdict.SEND),
        ({"if_match": '"other"'}, Verdict.FAILED),
        ({"if_none_match": '"tag"'}, Verdict.NOT_MODIFIED),
        ({"if_none_match": "*"}, Verdict.NOT_MODIFIED),
        ({"if_none_match": '"other"'}, Verdict.SEND),
        ({"if_modified_since": DATE}, Verdict.NOT_MODIFIED),
        ({"if_modified_since": BEFORE}, Verdict.SEND),
        ({"if_modified_since": AFTER}, Verdict.NOT_MODIFIED),
        ({"if_modified_since": "nonsense"}, Verdict.SEND),
        ({"if_unmodified_since": DATE}, Verdict.SEND),
        ({"if_unmodified_since": BEFORE}, Verdict.FAILED),
        # If-Match true beats If-Unmodified-Since false; If-None-Match false beats If-Modified-Since true
        ({"if_match": '"tag"', "if_unmodified_since": BEFORE}, Verdict.SEND),
        ({"if_match": '"other"', "if_unmodified_since": AFTER}, Verdict.FAILED),
        ({"if_none_match": '"tag"', "if_modified_since": BEFORE}, Verdict.NOT_MODIFIED),
        ({"if_none_match": '"other"', "if_modified_since": AFTER}, Verdict.SEND),
        ({"if_match": '"tag"', "if_none_match": '"tag"'}, Verdict.NOT_MODIFIED),
        ({"if_match": '"other"', "if_none_match": '"tag"'}, Verdict.FAILED),
    ],
)
def test_conditions_of_reads(fields: dict[str, str], expected: Verdict) -> None:
    assert verdict(**fields) is expected


def test_conditions_of_copy_sources_have_their_own_names() -> None:
    assert source_conditions({b"if-match": b"a"}) is ANY_VERSION
    assert source_conditions({b"x-amz-copy-source-if-match": b'"a"'}).if_match == ("a",)


def test_conditions_of_writes() -> None:
    assert write_conditions({}) is UNCONDITIONAL
    assert write_conditions({b"if-none-match": b"*"}) == WriteConditions(None, ("*",))
    assert write_conditions({b"if-match": b'"a"'}) == WriteConditions(("a",), None)
    with pytest.raises(S3Error) as caught:
        write_conditions({b"if-match": b""})
    assert caught.value.code is S3Code.InvalidArgument


def test_if_range_names_one_content() -> None:
    assert all(is_same(value, "tag", MOMENT * 1000 + 7) for value in ("", '"tag"', "tag", DATE))
    assert not any(is_same(value, "tag", MOMENT * 1000) for value in ('"other"', 'W/"tag"', BEFORE, AFTER, "yesterday"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2030-01-01", 1_893_456_000_000),
        ("2030-01-01T00:00Z", 1_893_456_000_000),
        ("2030-01-01T00:00:00", 1_893_456_000_000),
        ("2030-01-01T01:00:00.5+01:00", 1_893_456_000_500),
        ("2030-01-01T00:00:00.123456789Z", 1_893_456_000_123),
        ("20300101", None),
        ("2030-13-01", None),
        ("2030-01-01 00:00:00", None),
        ("2030-01-01T00:00:00Z ", None),
        ("\u0662\u0660\u0663\u0660-01-01", None),
        ("", None),
    ],
)
def test_iso_times(text: str, expected: int | None) -> None:
    assert headers.parse_iso_time(text) == expected


def test_times_in_either_form() -> None:
    assert headers.parse_time("Tue, 01 Jan 2030 00:00:00 GMT") == headers.parse_time("2030-01-01T00:00:00.999Z")
    assert headers.parse_time("soon") is None
