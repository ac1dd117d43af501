"""Version 2 signatures where they are served everywhere: by boto3's own signer, and in ways no client would use."""

import random
import urllib.request
from collections.abc import Iterator
from email.utils import formatdate
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from botocore.exceptions import ClientError

from tests.live import LiveStore
from tests.protocol.raw import Answer, Wire

pytestmark = pytest.mark.protocol

BUCKET = "version2"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveStore]:
    with LiveStore(Path(tmp_path_factory.mktemp("sigv2")) / "data", workers=1, ISOTHERM_AUTH__SIGV2="all") as live:
        live.client().create_bucket(Bucket=BUCKET)
        yield live


@pytest.fixture
def client(store: LiveStore) -> Any:
    """A client that signs headers and URLs by version 2."""
    return store.client(signature_version="s3")


def put(store: LiveStore, **headers: str) -> Answer:
    """An unsigned PUT with the headers given, `-` written as `_`."""
    wire = Wire(store)
    lines = {"host": wire.host, "content-length": "3"} | {
        name.replace("_", "-"): value for name, value in headers.items()
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    answer = wire.send(f"PUT /{BUCKET}/never HTTP/1.1\r\n{head}\r\nbar".encode())
    wire.close()
    return answer


def test_a_day_of_a_version_2_client(client: Any) -> None:
    content = random.Random(2).randbytes(300_000)
    described = {"ContentType": "text/x", "Metadata": {"who": "me"}, "Tagging": "a=b"}
    client.put_object(Bucket=BUCKET, Key="a b/\u00fc+&=", Body=content, **described)
    client.put_object(Bucket=BUCKET, Key="c", Body=b"")
    got = client.get_object(
        Bucket=BUCKET, Key="a b/\u00fc+&=", ResponseContentType="text/y", ResponseCacheControl="no-store"
    )
    assert got["Body"].read() == content
    assert (got["ContentType"], got["CacheControl"], got["Metadata"]) == ("text/y", "no-store", {"who": "me"})
    assert client.get_object_tagging(Bucket=BUCKET, Key="a b/\u00fc+&=")["TagSet"] == [{"Key": "a", "Value": "b"}]
    page = client.list_objects_v2(Bucket=BUCKET, Prefix="a b/", Delimiter="+", MaxKeys=5)
    assert [entry["Prefix"] for entry in page["CommonPrefixes"]] == ["a b/\u00fc+"]
    assert client.list_objects(Bucket=BUCKET, Marker="a")["Contents"][1]["Key"] == "c"
    upload = client.create_multipart_upload(Bucket=BUCKET, Key="m")["UploadId"]
    named = {"Bucket": BUCKET, "Key": "m", "UploadId": upload}
    etag = client.upload_part(**named, PartNumber=1, Body=b"part")["ETag"]
    client.complete_multipart_upload(**named, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": etag}]})
    assert client.get_object(Bucket=BUCKET, Key="m")["Body"].read() == b"part"
    gone = [{"Key": key} for key in ("a b/\u00fc+&=", "c", "m")]
    assert len(client.delete_objects(Bucket=BUCKET, Delete={"Objects": gone})["Deleted"]) == 3


def test_urls_of_version_2(client: Any) -> None:
    client.put_object(Bucket=BUCKET, Key="url", Body=b"content")
    changed = {"ResponseContentDisposition": 'attachment; filename="a b.txt"', "ResponseContentType": "text/z"}
    url = client.generate_presigned_url("get_object", {"Bucket": BUCKET, "Key": "url", **changed})
    with urllib.request.urlopen(url) as answer:
        assert (answer.read(), answer.headers["content-type"]) == (b"content", "text/z")
        assert answer.headers["content-disposition"] == 'attachment; filename="a b.txt"'
    for other in (url.replace("text%2Fz", "text%2Fhtml"), url.replace("&response-content-type=text%2Fz", "")):
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.urlopen(other)
    listing = client.generate_presigned_url("list_objects_v2", {"Bucket": BUCKET, "Prefix": "ur", "MaxKeys": 1})
    assert "encoding-type=url" in listing
    with urllib.request.urlopen(listing) as answer:
        assert b"<KeyCount>1</KeyCount>" in answer.read()
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(listing + "&foo=bar")


def test_a_header_changed_after_signing_is_refused(store: LiveStore, client: Any) -> None:
    sent: list[Any] = []

    def change(request: Any, **_: Any) -> None:
        request.headers["x-amz-meta-a"] = "changed"
        sent.append(request)

    client.meta.events.register("before-send.s3.PutObject", change)
    with pytest.raises(ClientError, match="SignatureDoesNotMatch"):
        client.put_object(Bucket=BUCKET, Key="never", Body=b"bar", Metadata={"a": "signed"})
    assert urlsplit(sent[0].url).path == f"/{BUCKET}/never"
    with pytest.raises(ClientError, match="404"):
        store.client().head_object(Bucket=BUCKET, Key="never")


@pytest.mark.parametrize(
    ("headers", "status", "code"),
    [
        ({"authorization": ""}, 403, "AccessDenied"),
        ({}, 403, "AccessDenied"),
        ({"authorization": "AWS HAHAHA", "date": formatdate(usegmt=True)}, 400, "InvalidArgument"),
        ({"authorization": "AWS nobody:FWeDfw", "date": formatdate(usegmt=True)}, 403, "InvalidAccessKeyId"),
        ({"authorization": "AWS test-root:FWeDfw", "date": formatdate(usegmt=True)}, 403, "SignatureDoesNotMatch"),
        ({"authorization": "AWS test-root:FWeDfw"}, 403, "AccessDenied"),
        ({"authorization": "AWS test-root:FWeDfw", "date": "Bad Date"}, 403, "AccessDenied"),
        ({"authorization": "AWS test-root:FWeDfw", "x_amz_date": ""}, 403, "AccessDenied"),
        ({"authorization": "AWS test-root:FWeDfw", "date": formatdate(0)}, 403, "RequestTimeTooSkewed"),
    ],
)
def test_broken_proofs(store: LiveStore, headers: dict[str, str], status: int, code: str) -> None:
    answer = put(store, **headers)
    assert (answer.status, answer.code) == (status, code)
