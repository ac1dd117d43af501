"""Lifecycle configurations: what is refused and how, what comes back, and what reads tell of them."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from botocore.exceptions import ClientError
from hypothesis import given
from hypothesis import strategies as st

from gateway.s3.errors import S3Error
from gateway.s3.schemas.lifecycle import parse_rules, render
from tests.unit.lifecycle.test_rules import drawn_rules
from tests.unit.s3.gateway import Gateway
from tiers.lifecycle.documents import Lifecycle, Rule

CLASSES = {"STANDARD", "STANDARD_IA", "GLACIER", "DEEP_ARCHIVE", "warm"}
NOW = datetime.fromtimestamp(1_700_000_000, UTC)
EXPIRE = "<Expiration><Days>9</Days></Expiration>"
ALL = "<Filter/>"
TAG = "<Tag><Key>a</Key><Value>1</Value></Tag>"
LARGER = "<ObjectSizeGreaterThan>5</ObjectSizeGreaterThan>"


def parse(*insides: str, status: str = "<Status>Enabled</Status>") -> tuple[Rule, ...]:
    each = "".join(f"<Rule>{inside}{status}</Rule>" for inside in insides)
    return parse_rules(f"<LifecycleConfiguration>{each}</LifecycleConfiguration>".encode(), CLASSES)


def code_of(*insides: str, status: str = "<Status>Enabled</Status>") -> str:
    try:
        parse(*insides, status=status)
    except S3Error as error:
        return error.code.name
    return ""


def move(when: str, storage_class: str = "GLACIER") -> str:
    return f"<Transition>{when}<StorageClass>{storage_class}</StorageClass></Transition>"


def later(inside: str, action: str = "Expiration") -> str:
    return f"<NoncurrentVersion{action}>{inside}</NoncurrentVersion{action}>"


def expire(inside: str) -> str:
    return f"<Expiration>{inside}</Expiration>"


def filtered(inside: str) -> str:
    return f"<Filter>{inside}</Filter>{EXPIRE}"


ABORT = "<AbortIncompleteMultipartUpload><DaysAfterInitiation>{}</DaysAfterInitiation></AbortIncompleteMultipartUpload>"
DAYS = "<NoncurrentDays>{}</NoncurrentDays>"


@pytest.mark.parametrize(
    ("inside", "code"),
    [
        # filters
        (ALL + EXPIRE, ""),
        ("<Prefix/>" + EXPIRE, ""),
        (EXPIRE, "MalformedXML"),
        ("<Prefix>a</Prefix>" + filtered(""), "MalformedXML"),
        (filtered("<Prefix>a</Prefix>"), ""),
        (filtered(TAG), ""),
        (filtered(LARGER), ""),
        (filtered("<Prefix>a</Prefix>" + TAG), "MalformedXML"),
        (filtered(TAG + TAG), "MalformedXML"),
        (filtered("<And/>"), "MalformedXML"),
        (filtered(f"<And>{TAG}</And>"), "MalformedXML"),
        (filtered(f"<And>{TAG}{LARGER}</And>"), ""),
        (filtered(f"<And>{TAG}{TAG}</And>"), "InvalidRequest"),
        (filtered(f"<And>{TAG}{LARGER}</And>{TAG}"), "MalformedXML"),
        (filtered("<Tag><Key/><Value>1</Value></Tag>"), "InvalidTag"),
        (filtered(f"<Tag><Key>{'k' * 129}</Key><Value>1</Value></Tag>"), "InvalidTag"),
        (filtered("<Tag><Key>a</Key></Tag>"), "MalformedXML"),
        (filtered("<ObjectSizeGreaterThan>x</ObjectSizeGreaterThan>"), "MalformedXML"),
        (filtered("<ObjectSizeLessThan>0</ObjectSizeLessThan>"), "InvalidArgument"),
        (filtered(f"<And>{LARGER}<ObjectSizeLessThan>5</ObjectSizeLessThan></And>"), "InvalidRequest"),
        (filtered(f"<And>{LARGER}<ObjectSizeLessThan>6</ObjectSizeLessThan></And>"), ""),
        # identities
        (f"<ID>{'i' * 255}</ID>{ALL}{EXPIRE}", ""),
        (f"<ID>{'i' * 256}</ID>{ALL}{EXPIRE}", "InvalidArgument"),
        # actions
        (ALL, "InvalidRequest"),
        (ALL + expire(""), "InvalidRequest"),
        (ALL + expire("<ExpiredObjectDeleteMarker>false</ExpiredObjectDeleteMarker>"), "InvalidRequest"),
        (ALL + expire("<ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker>"), ""),
        (ALL + expire("<ExpiredObjectDeleteMarker>yes</ExpiredObjectDeleteMarker>"), "MalformedXML"),
        (ALL + expire("<Days>1</Days><ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker>"), "MalformedXML"),
        (ALL + expire("<Days>1</Days><ExpiredObjectDeleteMarker>false</ExpiredObjectDeleteMarker>"), ""),
        (ALL + "<Unknown/>" + EXPIRE, "MalformedXML"),
        # days and dates
        (ALL + expire("<Days>0</Days>"), "InvalidArgument"),
        (ALL + expire("<Days>-3</Days>"), "InvalidArgument"),
        (ALL + expire("<Days>2147483648</Days>"), "InvalidArgument"),
        (ALL + expire("<Days>1.5</Days>"), "MalformedXML"),
        (ALL + move("<Days>0</Days>"), ""),
        (ALL + move("<Days>-1</Days>"), "InvalidArgument"),
        (ALL + move(""), "MalformedXML"),
        (ALL + later(DAYS.format(0)), "InvalidArgument"),
        (ALL + later(DAYS.format(1)), ""),
        (ALL + later(""), "MalformedXML"),
        (ALL + ABORT.format(0), "InvalidArgument"),
        (ALL + ABORT.format(7), ""),
        (ALL + expire("<Date>2030-01-01</Date>"), ""),
        (ALL + expire("<Date>2030-01-01T00:00:00.000Z</Date>"), ""),
        (ALL + expire("<Date>2030-01-01T02:00:00+02:00</Date>"), ""),
        (ALL + expire("<Date>2030-01-01T00:00:01Z</Date>"), "InvalidArgument"),
        (ALL + expire("<Date>0001-01-01</Date>"), "InvalidArgument"),
        (ALL + expire("<Date>9999-12-31</Date>"), ""),
        (ALL + expire("<Date>20300101</Date>"), "InvalidArgument"),
        (ALL + expire("<Date>soon</Date>"), "InvalidArgument"),
        (ALL + move("<Date>20300101</Date>"), "InvalidArgument"),
        (ALL + expire("<Days>1</Days><Date>2030-01-01</Date>"), "InvalidRequest"),
        (ALL + expire("<Days>9</Days>") + move("<Date>2030-01-01</Date>"), "InvalidRequest"),
        (ALL + move("<Days>1</Days>") + move("<Date>2030-01-01</Date>", "warm"), "InvalidRequest"),
        # order
        (ALL + EXPIRE + move("<Days>8</Days>"), ""),
        (ALL + EXPIRE + move("<Days>9</Days>"), "InvalidArgument"),
        (ALL + EXPIRE + move("<Days>1</Days>", "warm") + move("<Days>10</Days>"), "InvalidArgument"),
        (ALL + expire("<Date>2030-01-01</Date>") + move("<Date>2030-01-01</Date>"), "InvalidArgument"),
        (ALL + expire("<Date>2030-01-02</Date>") + move("<Date>2030-01-01</Date>"), ""),
        (
            ALL + later(DAYS.format(3)) + later(DAYS.format(3) + "<StorageClass>GLACIER</StorageClass>", "Transition"),
            "InvalidArgument",
        ),
        # classes and counts
        (ALL + move("<Days>1</Days>", "SNOW"), "MalformedXML"),
        (ALL + move("<Days>1</Days>", ""), "MalformedXML"),
        (ALL + move("<Days>1</Days>") + move("<Days>2</Days>"), "InvalidRequest"),
        (ALL + later(DAYS.format(1) + "<StorageClass>SNOW</StorageClass>", "Transition"), "MalformedXML"),
        (ALL + later(DAYS.format(0) + "<StorageClass>warm</StorageClass>", "Transition"), ""),
        (ALL + later(DAYS.format(1) + "<NewerNoncurrentVersions>0</NewerNoncurrentVersions>"), "InvalidArgument"),
        (ALL + later(DAYS.format(1) + "<NewerNoncurrentVersions>100</NewerNoncurrentVersions>"), ""),
        (ALL + later(DAYS.format(1) + "<NewerNoncurrentVersions>101</NewerNoncurrentVersions>"), "InvalidArgument"),
        (ALL + later(DAYS.format(1) + "<NewerNoncurrentVersions>x</NewerNoncurrentVersions>"), "MalformedXML"),
        # what a filter cannot see
        (f"<Filter>{TAG}</Filter>{ABORT.format(7)}", "InvalidRequest"),
        (f"<Filter>{LARGER}</Filter>{ABORT.format(7)}", "InvalidRequest"),
        (
            f"<Filter>{TAG}</Filter><Expiration><ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker></Expiration>",
            "InvalidRequest",
        ),
        (f"<Filter><Prefix>a</Prefix></Filter>{ABORT.format(7)}", ""),
    ],
)
def test_validation(inside: str, code: str) -> None:
    assert code_of(inside) == code


@pytest.mark.parametrize("status", ["", "<Status>enabled</Status>", "<Status/>", "<Status>Paused</Status>"])
def test_status(status: str) -> None:
    assert code_of(ALL + EXPIRE, status=status) == "MalformedXML"


def test_rules_as_a_whole() -> None:
    assert code_of() == "MalformedXML"
    assert code_of(f"<ID>x</ID>{ALL}{EXPIRE}", f"<ID>x</ID>{ALL}{EXPIRE}") == "InvalidArgument"
    assert len(parse(*[ALL + EXPIRE] * 1000)) == 1000
    assert code_of(*[ALL + EXPIRE] * 1001) == "MalformedXML"


def test_ids_are_made_and_the_same_for_the_same_document() -> None:
    rules = parse(ALL + EXPIRE, ALL + EXPIRE, f"<ID>mine</ID>{ALL}{EXPIRE}")
    ids = [rule.rule_id for rule in rules]
    assert len(set(ids)) == 3
    assert all(ids)
    assert ids[2] == "mine"
    assert parse(ALL + EXPIRE, ALL + EXPIRE, f"<ID>mine</ID>{ALL}{EXPIRE}") == rules
    squatter = parse(f"<ID>{ids[0]}</ID>{ALL}{EXPIRE}", ALL + EXPIRE)
    assert len({rule.rule_id for rule in squatter}) == 2


@given(st.lists(drawn_rules, min_size=1, max_size=3, unique_by=lambda rule: rule.rule_id))
def test_what_is_accepted_comes_back_the_same(rules: list[Rule]) -> None:
    """A document is a fixed point: parsed, rendered and parsed again it is what it was the first time."""
    try:
        once = parse_rules(render(Lifecycle(tuple(rules))), CLASSES)
    except S3Error:
        return
    assert parse_rules(render(Lifecycle(once)), CLASSES) == once


@pytest.fixture
def s3(gateway: Gateway) -> Any:
    return gateway.client()


@pytest.fixture
def short(tmp_path: Path) -> Iterator[Gateway]:
    """A plane whose day has ten seconds."""
    (tmp_path / "short").mkdir()
    opened = Gateway(tmp_path / "short", seconds_per_day=10.0)
    yield opened
    opened.close()


def put_rules(s3: Any, *rules: dict[str, Any], **arguments: Any) -> Any:
    configuration = {"Rules": list(rules)}
    return s3.put_bucket_lifecycle_configuration(Bucket="bucket", LifecycleConfiguration=configuration, **arguments)


MIDNIGHT = datetime(2030, 1, 1, tzinfo=UTC)
RULES: list[dict[str, Any]] = [
    {"ID": "old form", "Prefix": "a/", "Status": "Disabled", "Expiration": {"Days": 7}},
    {"ID": "empty", "Filter": {}, "Status": "Enabled", "Expiration": {"Date": MIDNIGHT}},
    {
        "ID": "<&>",
        "Filter": {"Prefix": ""},
        "Status": "Enabled",
        "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 3},
    },
    {"ID": "tag", "Filter": {"Tag": {"Key": "k", "Value": ""}}, "Status": "Enabled", "Expiration": {"Days": 1}},
    {
        "ID": "all of it",
        "Filter": {
            "And": {
                "Prefix": "p",
                "Tags": [{"Key": "b", "Value": "1"}, {"Key": "a", "Value": "2"}],
                "ObjectSizeGreaterThan": 1,
                "ObjectSizeLessThan": 1 << 40,
            }
        },
        "Status": "Enabled",
        "Transitions": [{"Days": 30, "StorageClass": "STANDARD_IA"}, {"Days": 0, "StorageClass": "warm"}],
        "Expiration": {"Days": 365},
        "NoncurrentVersionTransitions": [{"NoncurrentDays": 3, "NewerNoncurrentVersions": 2, "StorageClass": "warm"}],
        "NoncurrentVersionExpiration": {"NoncurrentDays": 60, "NewerNoncurrentVersions": 5},
    },
    {
        "ID": "markers",
        "Filter": {"Prefix": "m"},
        "Status": "Enabled",
        "Expiration": {"ExpiredObjectDeleteMarker": True},
    },
    {"ID": "size", "Filter": {"ObjectSizeLessThan": 9}, "Status": "Enabled", "Expiration": {"Days": 2}},
]


def test_g10_read_back_as_put(s3: Any) -> None:
    answer = put_rules(s3, *RULES)
    assert answer["TransitionDefaultMinimumObjectSize"] == "all_storage_classes_128K"
    read = s3.get_bucket_lifecycle_configuration(Bucket="bucket")
    assert read["Rules"] == RULES
    assert read["TransitionDefaultMinimumObjectSize"] == "all_storage_classes_128K"
    answer = put_rules(s3, *read["Rules"][:1], TransitionDefaultMinimumObjectSize="varies_by_storage_class")
    read = s3.get_bucket_lifecycle_configuration(Bucket="bucket")
    assert (read["Rules"], read["TransitionDefaultMinimumObjectSize"]) == (RULES[:1], "varies_by_storage_class")
    s3.delete_bucket_lifecycle(Bucket="bucket")
    s3.delete_bucket_lifecycle(Bucket="bucket")
    with pytest.raises(ClientError, match="NoSuchLifecycleConfiguration"):
        s3.get_bucket_lifecycle_configuration(Bucket="bucket")


def test_a_refused_document_changes_nothing(s3: Any) -> None:
    put_rules(s3, RULES[0])
    with pytest.raises(ClientError, match="InvalidArgument"):
        put_rules(s3, RULES[1], TransitionDefaultMinimumObjectSize="small")
    unknown = {"Filter": {}, "Status": "Enabled", "Transitions": [{"Days": 1, "StorageClass": "SNOW"}]}
    with pytest.raises(ClientError, match="MalformedXML") as caught:
        put_rules(s3, unknown)
    assert dict(caught.value.response["Error"])["StorageClass"] == "SNOW"
    assert s3.get_bucket_lifecycle_configuration(Bucket="bucket")["Rules"] == RULES[:1]


def expiry(due: datetime, rule_id: str) -> str:
    return f'expiry-date="{due:%a, %d %b %Y %H:%M:%S} GMT", rule-id="{quote(rule_id, safe="")}"'


def test_expiration_is_told_by_every_answer_about_a_current_version(s3: Any) -> None:
    assert "Expiration" not in s3.put_object(Bucket="bucket", Key="d/0", Body=b"x")
    days = {"ID": 'a "rule"/1', "Filter": {"Prefix": "d/"}, "Status": "Enabled", "Expiration": {"Days": 1}}
    tagged = {
        "ID": "t",
        "Filter": {"Tag": {"Key": "k", "Value": "v"}},
        "Status": "Enabled",
        "Expiration": {"Date": MIDNIGHT},
    }
    put_rules(s3, days, tagged)
    due = NOW.replace(hour=0, minute=0, second=0) + timedelta(days=2)
    soon = expiry(due, 'a "rule"/1')
    assert s3.head_object(Bucket="bucket", Key="d/0")["Expiration"] == soon
    assert s3.put_object(Bucket="bucket", Key="d/1", Body=b"x")["Expiration"] == soon
    assert s3.get_object(Bucket="bucket", Key="d/1")["Expiration"] == soon
    assert s3.copy_object(Bucket="bucket", Key="d/2", CopySource="bucket/d/1")["Expiration"] == soon
    upload_id = s3.create_multipart_upload(Bucket="bucket", Key="d/3")["UploadId"]
    named = {"Bucket": "bucket", "Key": "d/3", "UploadId": upload_id}
    etag = s3.upload_part(**named, PartNumber=1, Body=b"x")["ETag"]
    done = s3.complete_multipart_upload(**named, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": etag}]})
    assert done["Expiration"] == soon
    assert "Expiration" not in s3.put_object(Bucket="bucket", Key="e", Body=b"x")
    s3.put_object_tagging(Bucket="bucket", Key="e", Tagging={"TagSet": [{"Key": "k", "Value": "v"}]})
    assert s3.head_object(Bucket="bucket", Key="e")["Expiration"] == expiry(MIDNIGHT, "t")
    s3.put_bucket_versioning(Bucket="bucket", VersioningConfiguration={"Status": "Enabled"})
    s3.put_object(Bucket="bucket", Key="d/1", Body=b"newer")
    assert "Expiration" not in s3.head_object(Bucket="bucket", Key="d/1", VersionId="null")


def test_an_end_beyond_all_dates_is_told_as_the_last_one(s3: Any) -> None:
    put_rules(s3, {"ID": "r", "Filter": {}, "Status": "Enabled", "Expiration": {"Days": 2**31 - 1}})
    told = s3.put_object(Bucket="bucket", Key="k", Body=b"x")["Expiration"]
    assert told == expiry(datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC), "r")


def test_a_scaled_day_scales_what_is_told(short: Gateway) -> None:
    s3 = short.client()
    put_rules(s3, {"ID": "r", "Filter": {}, "Status": "Enabled", "Expiration": {"Days": 3}})
    told = s3.put_object(Bucket="bucket", Key="k", Body=b"x")["Expiration"]
    assert told == expiry(NOW + timedelta(seconds=30), "r")
