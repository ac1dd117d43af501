"""Listings through the plane, as boto3 sees them."""

from typing import Any

import pytest
from botocore.exceptions import ClientError
from botocore.handlers import set_list_objects_encoding_type_url

from tests.unit.s3.gateway import Gateway, body_of

KEYS = sorted(["a", "a b", "a/1", "a/2", "b+c", "b&<", "c/d/e", "é", "z%2F", "new\nline", "~!*'()"], key=str.encode)


@pytest.fixture
def filled(gateway: Gateway) -> Gateway:
    client = gateway.client()
    for key in KEYS:
        client.put_object(Bucket="bucket", Key=key, Body=key.encode())
    return gateway


def raw_client(gateway: Gateway) -> Any:
    """A client that does not add `encoding-type=url` by itself."""
    client = gateway.client()
    for operation in ("ListObjects", "ListObjectsV2"):
        client.meta.events.unregister(f"before-parameter-build.s3.{operation}", set_list_objects_encoding_type_url)
    return client


@pytest.mark.parametrize("is_encoded", [True, False])
def test_w09_each_spelling_is_one_key(filled: Gateway, is_encoded: bool) -> None:
    client = filled.client() if is_encoded else raw_client(filled)
    for function in (client.list_objects, client.list_objects_v2):
        listed = function(Bucket="bucket")
        assert [entry["Key"] for entry in listed["Contents"]] == KEYS
        assert (b"<EncodingType>url" in body_of(filled.sent[-1][1])) is is_encoded
        assert listed["Contents"][0]["ChecksumAlgorithm"] == ["CRC32"]
        assert listed["Contents"][0]["StorageClass"] == "STANDARD"
    for key in KEYS:
        found = client.list_objects_v2(Bucket="bucket", Prefix=key)["Contents"]
        assert found[0]["Key"] == key
        assert client.get_object(Bucket="bucket", Key=key)["Body"].read() == key.encode()


@pytest.mark.parametrize("size", [1, 2, 3, 1000])
def test_pages(filled: Gateway, size: int) -> None:
    client = filled.client()
    for name in ("list_objects", "list_objects_v2"):
        for delimiter in ("", "/"):
            pages = client.get_paginator(name).paginate(
                Bucket="bucket", Delimiter=delimiter, PaginationConfig={"PageSize": size}
            )
            keys, prefixes = [], []
            for page in pages:
                contents, common = page.get("Contents", []), page.get("CommonPrefixes", [])
                assert len(contents) + len(common) <= size
                keys += [entry["Key"] for entry in contents]
                prefixes += [entry["Prefix"] for entry in common]
            assert keys == [key for key in KEYS if not delimiter or "/" not in key]
            assert prefixes == (["a/", "c/"] if delimiter else [])


def test_second_form(filled: Gateway) -> None:
    client = filled.client()
    page = client.list_objects_v2(Bucket="bucket", MaxKeys=2, StartAfter="a")
    assert (page["KeyCount"], page["StartAfter"], page["IsTruncated"]) == (2, "a", True)
    assert "Owner" not in page["Contents"][0]
    token = page["NextContinuationToken"]
    again = client.list_objects_v2(Bucket="bucket", ContinuationToken=token, StartAfter="zzz", FetchOwner=True)
    assert again["ContinuationToken"] == token
    assert [entry["Key"] for entry in again["Contents"]] == KEYS[3:]
    assert again["Contents"][0]["Owner"]["ID"] == "owner"
    empty = client.list_objects_v2(Bucket="bucket", ContinuationToken="", MaxKeys=0)
    assert (empty["ContinuationToken"], empty["KeyCount"], empty["IsTruncated"]) == ("", 0, False)
    for arguments in ({"Prefix": "a"}, {"Delimiter": "/"}):
        with pytest.raises(ClientError) as caught:
            client.list_objects_v2(Bucket="bucket", ContinuationToken=token, **arguments)
        assert caught.value.response["Error"]["Code"] == "InvalidArgument"


def test_first_form(filled: Gateway) -> None:
    client = filled.client()
    page = client.list_objects(Bucket="bucket", MaxKeys=2)
    assert "NextMarker" not in page
    assert page["Contents"][0]["Owner"]["ID"] == "owner"
    page = client.list_objects(Bucket="bucket", MaxKeys=3, Delimiter="/", Marker="a")
    assert page["NextMarker"] == "b&<"
    assert [entry["Prefix"] for entry in page["CommonPrefixes"]] == ["a/"]


def test_only_the_first_form_says_its_prefix_unencoded(filled: Gateway) -> None:
    """Botocore decodes what the other forms encode, and hands this one on as it came."""
    client = filled.client()
    for prefix in ("new\nline", "b+c", "z%2F"):
        for function in (client.list_objects, client.list_objects_v2, client.list_object_versions):
            assert function(Bucket="bucket", Prefix=prefix)["Prefix"] == prefix


@pytest.mark.parametrize(
    "query",
    ["max-keys=-1", "max-keys=x", "encoding-type=base64", "list-type=1", "list-type=2&continuation-token=Zm9yZ2Vk"],
)
def test_refusals(gateway: Gateway, query: str) -> None:
    assert gateway.send("GET", f"/bucket?{query}").error_code == "InvalidArgument"


def test_more_than_a_page_is_cut(gateway: Gateway) -> None:
    assert b"<MaxKeys>1000</MaxKeys>" in body_of(gateway.send("GET", "/bucket?max-keys=5000"))
    assert gateway.send("GET", "/absent").error_code == "NoSuchBucket"


@pytest.mark.parametrize("size", [1, 2, 1000])
def test_w16_versions_and_markers(gateway: Gateway, size: int) -> None:
    client = gateway.client()
    client.put_bucket_versioning(Bucket="bucket", VersioningConfiguration={"Status": "Enabled"})
    ids = [client.put_object(Bucket="bucket", Key="a&b", Body=b"x")["VersionId"] for _ in range(3)]
    ids += [client.delete_object(Bucket="bucket", Key="a&b")["VersionId"] for _ in range(2)]
    ids.append(client.put_object(Bucket="bucket", Key="b", Body=b"y")["VersionId"])
    pages = list(
        client.get_paginator("list_object_versions").paginate(Bucket="bucket", PaginationConfig={"PageSize": size})
    )
    versions = [entry for page in pages for entry in page.get("Versions", [])]
    markers = [entry for page in pages for entry in page.get("DeleteMarkers", [])]
    assert [(entry["Key"], entry["VersionId"]) for entry in versions] == [
        ("a&b", ids[2]),
        ("a&b", ids[1]),
        ("a&b", ids[0]),
        ("b", ids[5]),
    ]
    assert [(entry["VersionId"], entry["IsLatest"]) for entry in markers] == [(ids[4], True), (ids[3], False)]
    assert [entry["IsLatest"] for entry in versions] == [False, False, False, True]
    assert {entry["Owner"]["ID"] for entry in versions + markers} == {"owner"}
    assert gateway.send("GET", "/bucket?versions&version-id-marker=x").error_code == "InvalidArgument"
