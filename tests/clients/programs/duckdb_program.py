"""DuckDB with httpfs from its wheel: nothing is fetched at run time."""

import asyncio
import os
import sys

import duckdb
import duckdb_ext
import minio
import obstore
from obstore.store import S3Store

bucket = sys.argv[1]
endpoint = os.environ["AWS_ENDPOINT_URL"]
host = endpoint.removeprefix("http://")
keys = os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"]
minio.Minio(host, *keys, secure=False).make_bucket(bucket)
connection = duckdb.connect()
connection.execute("SET extension_directory = ?", [str(next(iter(duckdb_ext.__path__))) + "/extensions"])
connection.execute("SET autoinstall_known_extensions = false")
connection.execute("LOAD httpfs")
connection.execute(
    f"CREATE SECRET (TYPE s3, KEY_ID '{keys[0]}', SECRET '{keys[1]}', REGION 'us-east-1', ENDPOINT '{host}',"
    " URL_STYLE 'path', USE_SSL false)"
)


def one(statement: str) -> object:
    return connection.execute(statement).fetchone()[0]


connection.execute(
    "CREATE TABLE rows AS SELECT range AS number, range % 7 AS part, 'x' || range AS word FROM range(300000)"
)
connection.execute(f"COPY rows TO 's3://{bucket}/one.parquet'")
assert one(f"SELECT sum(number) FROM 's3://{bucket}/one.parquet' WHERE part = 3") == sum(range(3, 300_000, 7))
connection.execute(f"COPY rows TO 's3://{bucket}/set' (FORMAT parquet, PARTITION_BY (part))")
assert one(
    f"SELECT count(*) FROM read_parquet('s3://{bucket}/set/*/*.parquet', hive_partitioning = true) WHERE part < 2"
) == len([number for number in range(300_000) if number % 7 < 2])
connection.execute(f"COPY rows TO 's3://{bucket}/rows.csv'")  # parts
assert one(f"SELECT count(*) FROM 's3://{bucket}/rows.csv'") == 300_000
store = S3Store(
    bucket,
    endpoint=endpoint,
    region="us-east-1",
    access_key_id=keys[0],
    secret_access_key=keys[1],
    virtual_hosted_style_request=False,
    client_options={"allow_http": True},
)
COUNT = 1003  # more than one page; names that must be encoded in listings and tokens


async def fill() -> None:
    async def put(number: int) -> None:
        await obstore.put_async(store, f"many/a b+c=/{number:04}.csv", b"number\n%d\n" % number)

    for start in range(0, COUNT, 64):
        await asyncio.gather(*(put(number) for number in range(start, min(COUNT, start + 64))))


asyncio.run(fill())
assert one(f"SELECT count(*) FROM glob('s3://{bucket}/many/**')") == COUNT
assert one(f"SELECT sum(number) FROM read_csv('s3://{bucket}/many/*/00*.csv')") == sum(range(100))
