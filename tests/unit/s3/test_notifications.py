"""Notification documents: what is taken, what is refused, what is answered; and the record a receiver gets."""

import itertools
import json
from xml.etree import ElementTree

import botocore.session
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.s3.errors import S3Error
from gateway.s3.notifications import EVENTS, Targets, encode_record, overlaps, parse_document, render_document
from tiers.namespace.events import Happening, Notification, Origin, Rule, pack_notification

TARGETS = Targets(frozenset({"hook", "other"}), "us-east-1")
ARN = "arn:isotherm:sqs:us-east-1:hook:webhook"


def parse(body: str, *, is_checked: bool = True) -> Notification:
    ids = itertools.count()
    document = f"<NotificationConfiguration>{body}</NotificationConfiguration>".encode()
    return parse_document(document, TARGETS, lambda: f"made-{next(ids)}", is_checked=is_checked)


def queue(*pieces: str, arn: str = ARN, event: str = "s3:ObjectCreated:*") -> str:
    inner = "".join(pieces)
    return f"<QueueConfiguration>{inner}<Queue>{arn}</Queue><Event>{event}</Event></QueueConfiguration>"


def wanted(name: str, value: str) -> str:
    return f"<Filter><S3Key><FilterRule><Name>{name}</Name><Value>{value}</Value></FilterRule></S3Key></Filter>"


def test_events_are_those_of_the_model() -> None:
    model = botocore.session.get_session().get_service_model("s3")
    assert set(model.shape_for("Event").enum) == EVENTS  # type: ignore[attr-defined]  # a string shape
    assert len(EVENTS) == 31


def test_a_document_becomes_rules_and_is_answered_as_put() -> None:
    body = (
        f"<TopicConfiguration><Id>t</Id><Topic>{ARN}</Topic><Event>s3:ObjectRemoved:*</Event>{wanted('Prefix', 'a/')}"
        "</TopicConfiguration>"
        + queue("<Id>q</Id>", wanted("suffix", ".jpg"), arn="arn:minio:sqs::other:webhook")
        + f"<CloudFunctionConfiguration><CloudFunction>{ARN}</CloudFunction><Event>s3:ObjectTagging:Put</Event>"
        "</CloudFunctionConfiguration><EventBridgeConfiguration/>"
    )
    parsed = parse(body)
    assert parsed.rules == (
        Rule("t", "hook", ("s3:ObjectRemoved:*",), b"a/", b""),
        Rule("q", "other", ("s3:ObjectCreated:*",), b"", b".jpg"),
        Rule("made-0", "hook", ("s3:ObjectTagging:Put",), b"", b""),
    )
    answer = ElementTree.fromstring(render_document(pack_notification(parsed)))
    names = [element.tag.rpartition("}")[2] for element in answer.iter()]
    assert names.count("Id") == 3
    assert "EventBridgeConfiguration" in names
    texts = [element.text for element in answer.iter() if element.text]
    assert {"arn:minio:sqs::other:webhook", "Prefix", "a/", "Suffix", ".jpg", "made-0"} <= set(texts)


def test_unset_is_an_empty_document() -> None:
    assert len(ElementTree.fromstring(render_document(None))) == 0


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (queue(event="s3:ObjectCreated:Patch"), "InvalidArgument"),
        (queue(event=""), "InvalidArgument"),
        (queue(arn="arn:isotherm:sqs:us-east-1:absent:webhook"), "InvalidArgument"),
        (queue(arn="arn:isotherm:sqs:eu-west-1:hook:webhook"), "InvalidArgument"),
        (queue(arn="arn:aws:sqs:us-east-1:123456789012:queue"), "InvalidArgument"),
        (queue(arn="http://169.254.169.254/"), "InvalidArgument"),
        (queue(wanted("infix", "a")), "InvalidArgument"),
        (queue("<Id>same</Id>") + queue("<Id>same</Id>", event="s3:ObjectRemoved:*"), "InvalidArgument"),
        (queue(f"<Id>{'x' * 256}</Id>"), "InvalidArgument"),
        (queue() + queue(event="s3:ObjectCreated:Put"), "InvalidArgument"),
        (queue(wanted("prefix", "a")) + queue(wanted("prefix", "ab")), "InvalidArgument"),
        (queue(wanted("prefix", "a")) + queue(wanted("suffix", "b")), "InvalidArgument"),
        (queue("<Surprise/>"), "MalformedXML"),
        (f"<QueueConfiguration><Queue>{ARN}</Queue></QueueConfiguration>", "MalformedXML"),
        ("<QueueConfiguration><Event>s3:ObjectCreated:*</Event></QueueConfiguration>", "MalformedXML"),
        ("".join(queue(wanted("prefix", f"{n:03}")) for n in range(101)), "InvalidArgument"),
    ],
)
def test_refused(body: str, code: str) -> None:
    with pytest.raises(S3Error) as caught:
        parse(body)
    assert caught.value.code.name == code


def test_targets_may_be_taken_unseen() -> None:
    absent = queue(arn="arn:isotherm:sqs:us-east-1:absent:webhook")
    assert parse(absent, is_checked=False).rules[0].target == "absent"
    with pytest.raises(S3Error):
        parse(queue(arn="http://elsewhere/"), is_checked=False)


def test_rules_side_by_side() -> None:
    body = queue(wanted("prefix", "a")) + queue(wanted("prefix", "b")) + queue(event="s3:ObjectRemoved:*")
    assert len(parse(body).rules) == 3


PIECES = st.text("ab", max_size=3).map(str.encode)
RULES = st.builds(
    Rule,
    st.just("id"),
    st.just("hook"),
    st.sampled_from([("s3:ObjectCreated:*",), ("s3:ObjectCreated:Put",), ("s3:ObjectRemoved:Delete",)]),
    PIECES,
    PIECES,
)


@given(one=RULES, other=RULES, key=st.text("ab", max_size=8).map(str.encode))
def test_rules_that_do_not_overlap_never_ask_for_the_same_event(one: Rule, other: Rule, key: bytes) -> None:
    names = [name for name in EVENTS if not name.endswith("*")]
    both = any(one.matches(name, key) and other.matches(name, key) for name in names)
    assert not both or overlaps(one, other)
    assert overlaps(one, other) == overlaps(other, one)


def happening(**changes: object) -> Happening:
    made = Happening(
        ("hook",), "s3:ObjectCreated:Put", "rule", "bucket", "owner", "a b/ü+.txt".encode(), 7, "etag", "v1",
        1_700_000_000_123, Origin("me", "10.0.0.9", "REQUEST"),
    )  # fmt: skip
    return made._replace(**changes)  # type: ignore[arg-type]  # the tests' own


def test_records_have_the_shape_of_aws() -> None:
    (record,) = json.loads(encode_record(happening(), 255, "eu-west-1"))["Records"]
    assert record["eventVersion"].startswith("2.")
    assert record["eventName"] == "ObjectCreated:Put"
    assert record["eventTime"] == "2023-11-14T22:13:20.123Z"
    assert record["awsRegion"] == "eu-west-1"
    assert record["userIdentity"] == {"principalId": "me"}
    assert record["requestParameters"] == {"sourceIPAddress": "10.0.0.9"}
    assert record["responseElements"]["x-amz-request-id"] == "REQUEST"
    assert record["s3"]["configurationId"] == "rule"
    assert record["s3"]["bucket"]["arn"] == "arn:aws:s3:::bucket"
    assert record["s3"]["object"] == {
        "key": "a+b/%C3%BC%2B.txt",
        "size": 7,
        "eTag": "etag",
        "versionId": "v1",
        "sequencer": "00000000000000FF",
    }


def test_sequencers_sort_as_text() -> None:
    texts = [
        json.loads(encode_record(happening(), number, ""))["Records"][0]["s3"]["object"]["sequencer"]
        for number in (9, 10, 255, 256, 2**40)
    ]
    assert texts == sorted(texts)


def test_the_test_event_is_plain() -> None:
    document = json.loads(encode_record(happening(name="s3:TestEvent"), 1, ""))
    assert (document["Service"], document["Event"], document["Bucket"]) == ("Amazon S3", "s3:TestEvent", "bucket")
