"""SelectObjectContent as requests say it, and without its engine."""

import sys
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.unit.s3.gateway import Gateway


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    made = Gateway(tmp_path_factory.mktemp("select"))
    made.client().create_bucket(Bucket="bucket")
    made.client().put_object(Bucket="bucket", Key="k", Body=b"1,2\n")
    yield made
    made.close()


def failure(client: Any, **changes: Any) -> str:
    asked = {
        "Bucket": "bucket",
        "Key": "k",
        "Expression": "SELECT * FROM S3Object",
        "ExpressionType": "SQL",
        "InputSerialization": {"CSV": {}},
        "OutputSerialization": {"CSV": {}},
    }
    with pytest.raises(ClientError) as raised:
        client.select_object_content(**asked | changes)
    return str(raised.value.response["Error"]["Code"])


def test_without_the_engine_it_is_not_implemented(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    assert failure(gateway.client()) == "NotImplemented"
    assert failure(gateway.client("other")) == "AccessDenied"
    assert failure(gateway.client(), Key="absent") == "NoSuchKey"


@pytest.mark.parametrize(("changes", "code"), [
    ({"ExpressionType": "XPATH"}, "InvalidExpressionType"),
    ({"ScanRange": {"Start": 0, "End": 1}}, "NotImplemented"),
    ({"InputSerialization": {}}, "InvalidRequest"),
    ({"InputSerialization": {"CSV": {}, "JSON": {"Type": "LINES"}}}, "InvalidRequest"),
    ({"InputSerialization": {"CSV": {}, "CompressionType": "ZSTD"}}, "InvalidCompressionFormat"),
    ({"InputSerialization": {"Parquet": {}, "CompressionType": "GZIP"}}, "InvalidCompressionFormat"),
    ({"InputSerialization": {"JSON": {"Type": "OTHER"}}}, "InvalidJsonType"),
    ({"InputSerialization": {"CSV": {"FileHeaderInfo": "OTHER"}}}, "InvalidFileHeaderInfo"),
    ({"InputSerialization": {"CSV": {"FieldDelimiter": "\n"}}}, "InvalidRequest"),
    ({"InputSerialization": {"CSV": {"FieldDelimiter": ",,"}}}, "InvalidRequest"),
    ({"InputSerialization": {"CSV": {"AllowQuotedRecordDelimiter": True, "RecordDelimiter": ";"}}}, "NotImplemented"),
    ({"OutputSerialization": {}}, "InvalidRequest"),
    ({"OutputSerialization": {"CSV": {"QuoteFields": "NEVER"}}}, "InvalidQuoteFields"),
    ({"Expression": "DELETE FROM S3Object"}, "UnsupportedSqlOperation"),
])  # fmt: skip
def test_refusals(gateway: Gateway, changes: dict[str, Any], code: str) -> None:
    assert failure(gateway.client(), **changes) == code
    assert gateway.faults == []
