"""RenameObject, appends, batches of HEADs, queries and the newer checksums, by boto3 against a live store."""

import base64
import gzip
import hashlib
import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import xxhash
from botocore.exceptions import ClientError, EventStreamError

from tests.live import LiveStore
from tests.protocol.raw import Request, Wire

pytestmark = pytest.mark.protocol

CSV = b'name,age,city\nann,31,"Lon,don"\nbob,22,Paris\n'
BOTH: dict[str, Any] = {"CSV": {"FileHeaderInfo": "USE"}}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveStore]:
    with LiveStore(tmp_path_factory.mktemp("renames") / "data") as live:
        live.client().create_bucket(Bucket="own")
        yield live


@pytest.fixture
def client(store: LiveStore) -> Any:
    return store.client()


def refused(error: "pytest.ExceptionInfo[ClientError]") -> tuple[str, int]:
    answer: Any = error.value.response
    return answer["Error"]["Code"], answer["ResponseMetadata"]["HTTPStatusCode"]


def test_rename(client: Any) -> None:
    client.put_object(Bucket="own", Key="a b", Body=b"moved", Metadata={"m": "1"})
    client.put_object(Bucket="own", Key="there", Body=b"there")
    with pytest.raises(ClientError) as raised:
        client.rename_object(Bucket="own", Key="there", RenameSource="a%20b", DestinationIfNoneMatch="*")
    assert refused(raised) == ("PreconditionFailed", 412)
    for _ in range(2):
        client.rename_object(Bucket="own", Key="new", RenameSource="/own/a%20b", ClientToken="token")
    with pytest.raises(ClientError) as raised:
        client.rename_object(Bucket="own", Key="newer", RenameSource="a%20b", ClientToken="token")
    assert refused(raised) == ("IdempotencyParameterMismatch", 400)
    found = client.get_object(Bucket="own", Key="new")
    assert (found["Body"].read(), found["Metadata"]) == (b"moved", {"m": "1"})
    for arguments, code in (
        ({"RenameSource": "a%20b"}, ("NoSuchKey", 404)),
        ({"RenameSource": "x"}, ("InvalidRequest", 400)),
        ({"RenameSource": "/other/k"}, ("InvalidArgument", 400)),
        ({"RenameSource": "new", "SourceIfMatch": "no"}, ("PreconditionFailed", 412)),
    ):
        with pytest.raises(ClientError) as raised:
            client.rename_object(Bucket="own", Key="x", **arguments)
        assert refused(raised) == code
    client.create_bucket(Bucket="versions")
    client.put_object(Bucket="versions", Key="k", Body=b"k")
    client.put_bucket_versioning(Bucket="versions", VersioningConfiguration={"Status": "Suspended"})
    with pytest.raises(ClientError) as raised:
        client.rename_object(Bucket="versions", Key="x", RenameSource="k")
    assert refused(raised) == ("InvalidRequest", 400)


def test_append(client: Any, store: LiveStore) -> None:
    whole = b""
    for piece in (b"start", b"x" * 300_000, b"end"):
        answer = client.put_object(Bucket="own", Key="log", Body=piece, WriteOffsetBytes=len(whole))
        whole += piece
        assert answer["Size"] == len(whole)
    found = client.get_object(Bucket="own", Key="log", ChecksumMode="ENABLED")
    assert found["Body"].read() == whole
    assert found["ETag"].endswith('-3"')
    assert client.get_object(Bucket="own", Key="log", PartNumber=3)["Body"].read() == b"end"
    parts = client.get_object_attributes(Bucket="own", Key="log", ObjectAttributes=["ObjectParts"])["ObjectParts"]
    assert [part["Size"] for part in parts["Parts"]] == [5, 300_000, 3]
    for arguments, code in (
        ({"WriteOffsetBytes": 5}, ("InvalidWriteOffset", 400)),
        ({"WriteOffsetBytes": len(whole), "Metadata": {"a": "b"}}, ("InvalidRequest", 400)),
        ({"WriteOffsetBytes": len(whole), "ChecksumAlgorithm": "SHA256"}, ("InvalidRequest", 400)),
        ({"WriteOffsetBytes": len(whole), "ServerSideEncryption": "AES256"}, ("NotImplemented", 501)),
    ):
        with pytest.raises(ClientError) as raised:
            client.put_object(Bucket="own", Key="log", Body=b"no", **arguments)
        assert refused(raised) == code
    with closing(Wire(store)) as wire:
        for offset in ("-1", "x", ""):
            request = Request("PUT", "/own/log", headers={"x-amz-write-offset-bytes": offset}, body=b"no")
            assert wire.call(request).status == 400
        assert wire.call(Request("GET", "/own/log", headers={"x-amz-write-offset-bytes": "0"})).status == 405


def test_batch_head(client: Any, store: LiveStore) -> None:
    client.put_object(Bucket="own", Key='é\n"', Body=b"12345")
    keys = ['é\n"', "absent", 'é\n"', "x" * 1025]
    with closing(Wire(store)) as wire:
        answer = wire.call(Request("POST", "/own", "batch-head=", body=json.dumps({"keys": keys}).encode()))
        objects = json.loads(answer.body)["objects"]
        assert [(found["key"], found["status"]) for found in objects] == list(
            zip(keys, (200, 404, 200, 400), strict=True)
        )
        head = client.head_object(Bucket="own", Key=keys[0])
        assert objects[0]["size"] == head["ContentLength"]
        assert f'"{objects[0]["etag"]}"' == head["ETag"]
        assert (objects[0]["tier"], objects[0]["storage_class"], objects[0]["restore"]) == ("hot", "STANDARD", None)
        for body in (
            b"",
            b"{}",
            b'{"keys":["a",]}',
            b'{"keys":[1]}',
            b'{"keys":["a"]}x',
            b'{"keys":[""]}',
            b'{"keys":["\xff"]}',
            b'{"keys":["\\ud800"]}',
            b'{"keys":' + b"[" * 100_000,
            json.dumps({"keys": ["k"] * 1001}).encode(),
        ):
            assert wire.call(Request("POST", "/own", "batch-head=", body=body)).status == 400


def value_of(algorithm: str, body: bytes) -> str:
    made = {
        "SHA512": hashlib.sha512(body).digest,
        "MD5": hashlib.md5(body).digest,
        "XXHASH64": xxhash.xxh64(body).digest,
        "XXHASH3": xxhash.xxh3_64(body).digest,
        "XXHASH128": xxhash.xxh3_128(body).digest,
    }[algorithm]()
    return base64.b64encode(made).decode()


@pytest.mark.parametrize("algorithm", ["SHA512", "MD5", "XXHASH64", "XXHASH3", "XXHASH128"])
def test_newer_checksums(client: Any, algorithm: str) -> None:
    for key, body in (("small", b"small"), ("large", b"large" * 60_000)):
        name, value = f"Checksum{algorithm}", value_of(algorithm, body)
        assert client.put_object(Bucket="own", Key=key, Body=body, **{name: value})[name] == value
        if algorithm != "MD5":  # botocore computes none, and sends the others as trailers
            assert client.put_object(Bucket="own", Key=key, Body=body, ChecksumAlgorithm=algorithm)[name] == value
        assert client.head_object(Bucket="own", Key=key, ChecksumMode="ENABLED")[name] == value
        with pytest.raises(ClientError) as raised:
            client.put_object(Bucket="own", Key=key, Body=body, **{name: value_of(algorithm, b"other")})
        assert refused(raised) == ("BadDigest", 400)
    upload = client.create_multipart_upload(Bucket="own", Key="parts", ChecksumAlgorithm=algorithm)["UploadId"]
    at = {"Bucket": "own", "Key": "parts", "UploadId": upload}
    part = client.upload_part(**at, PartNumber=1, Body=b"part", **{name: value_of(algorithm, b"part")})
    named = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"], name: part[name]}]}
    with pytest.raises(ClientError) as raised:
        client.complete_multipart_upload(**at, MultipartUpload=named, MpuObjectSize=5)
    assert refused(raised) == ("InvalidRequest", 400)
    done = client.complete_multipart_upload(**at, MultipartUpload=named, MpuObjectSize=4)
    assert done[name] == value_of(algorithm, base64.b64decode(value_of(algorithm, b"part"))) + "-1"
    assert done["ChecksumType"] == "COMPOSITE"


def select(
    client: Any, key: str, expression: str, source: Any, output: Any = None, **more: Any
) -> tuple[bytes, list[str]]:
    """The records of a query, and the names of the events that came."""
    answer = client.select_object_content(
        Bucket="own", Key=key, Expression=expression, ExpressionType="SQL", InputSerialization=source,
        OutputSerialization=output or {"CSV": {}}, **more,
    )  # fmt: skip
    events = list(answer["Payload"])
    records = b"".join(event["Records"]["Payload"] for event in events if "Records" in event)
    return records, [next(iter(event)) for event in events]


def test_queries_over_csv(client: Any) -> None:
    client.put_object(Bucket="own", Key="c.csv", Body=CSV)
    client.put_object(Bucket="own", Key="c.gz", Body=gzip.compress(b"1,2\n" * 20_000))
    found = select(client, "c.csv", "SELECT * FROM S3Object", BOTH, RequestProgress={"Enabled": True})
    assert found == (CSV.partition(b"\n")[2], ["Records", "Progress", "Stats", "End"])
    wanted = "SELECT s.name, s.city AS c FROM S3Object s WHERE s.age > 25 LIMIT 1"
    assert select(client, "c.csv", wanted, BOTH, {"JSON": {}})[0] == b'{"name":"ann","c":"Lon,don"}\n'
    packed = {"CSV": {}, "CompressionType": "GZIP"}
    assert select(client, "c.gz", "SELECT count(*), sum(cast(_1 AS int)) FROM S3Object", packed)[0] == b"20000,20000\n"
    for expression, code in (
        ("SELECT * FROM read_text('/etc/passwd')", "InvalidDataSource"),
        ("SELECT cast(name AS int) FROM S3Object", "CastFailed"),
        ("SELECT nope FROM S3Object", "EvaluatorBindingDoesNotExist"),
    ):
        with pytest.raises(ClientError) as raised:
            select(client, "c.csv", expression, BOTH)
        assert refused(raised) == (code, 400)


def test_a_query_that_fails_after_it_began_says_so(client: Any) -> None:
    client.put_object(Bucket="own", Key="late", Body=b"1\n" * 10_000 + b"x\n")
    with pytest.raises(EventStreamError, match="CastFailed"):
        select(client, "late", "SELECT cast(_1 AS int) FROM S3Object", {"CSV": {}})


def test_queries_over_json_and_parquet(client: Any, tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb", reason="the engine is an optional extra")
    client.put_object(Bucket="own", Key="lines", Body=b'{"n":5,"a":{"b":[1,2]}}\n{"n":7.5,"s":null}\n')
    client.put_object(Bucket="own", Key="document", Body=json.dumps({"rows": [{"c": 1}, {"c": 5}]}, indent=1).encode())
    lines, output = {"JSON": {"Type": "LINES"}}, {"JSON": {}}
    assert (
        select(client, "lines", "SELECT s.n, s.a.b[1] AS x FROM S3Object s", lines, output)[0]
        == b'{"n":5,"x":2}\n{"n":7.5}\n'
    )
    assert (
        select(client, "lines", "SELECT * FROM S3Object s WHERE s.n > 6", lines, output)[0] == b'{"n":7.5,"s":null}\n'
    )
    document = {"JSON": {"Type": "DOCUMENT"}}
    assert select(client, "document", "SELECT r.c FROM S3Object[*].rows[*] r WHERE r.c > 1", document)[0] == b"5\n"
    path = tmp_path / "rows.parquet"
    duckdb.sql(f"COPY (SELECT i AS id, 'n' || i AS name FROM range(1000) AS t(i)) TO '{path}'")
    client.put_object(Bucket="own", Key="rows.parquet", Body=path.read_bytes())
    parquet: dict[str, Any] = {"Parquet": {}}
    assert select(client, "rows.parquet", "SELECT id, name FROM S3Object WHERE id > 998", parquet)[0] == b"999,n999\n"
    assert select(client, "rows.parquet", "SELECT count(*), max(id) FROM S3Object", parquet)[0] == b"1000,999\n"
    with pytest.raises(ClientError) as raised:
        select(client, "lines", "SELECT * FROM S3Object", parquet)
    assert refused(raised) == ("ParquetParsingError", 400)
