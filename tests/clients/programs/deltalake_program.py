"""Delta tables: writers at once commit by conditional put; every one of their rows is there afterwards."""

import os
import sys
from concurrent.futures import ThreadPoolExecutor

import minio
import pyarrow
from deltalake import DeltaTable, write_deltalake

bucket = sys.argv[1]
endpoint = os.environ["AWS_ENDPOINT_URL"]
keys = os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"]
minio.Minio(endpoint.removeprefix("http://"), *keys, secure=False).make_bucket(bucket)
options = {
    "aws_endpoint_url": endpoint,
    "aws_access_key_id": keys[0],
    "aws_secret_access_key": keys[1],
    "aws_region": "us-east-1",
    "aws_allow_http": "true",
    "aws_conditional_put": "etag",
}
address = f"s3://{bucket}/table"
WRITERS, TURNS = 4, 3


def rows(writer: int, turn: int) -> pyarrow.Table:
    return pyarrow.table({"writer": [writer] * 10, "turn": [turn] * 10})


def write(writer: int) -> None:
    for turn in range(TURNS):
        write_deltalake(address, rows(writer, turn), mode="append", storage_options=options)


write_deltalake(address, rows(-1, -1), storage_options=options)
with ThreadPoolExecutor(WRITERS) as threads:
    list(threads.map(write, range(WRITERS)))
table = DeltaTable(address, storage_options=options)
assert table.version() == WRITERS * TURNS, table.version()  # each append is one commit, and none replaced another
found = pyarrow.table(table.to_pyarrow_table())
assert found.num_rows == 10 * (WRITERS * TURNS + 1), found.num_rows
table.create_checkpoint()
table.delete("turn = 0")
table.optimize.compact()
table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
found = DeltaTable(address, storage_options=options).to_pyarrow_table()
assert found.num_rows == 10 * (WRITERS * (TURNS - 1) + 1), found.num_rows
assert DeltaTable(address, version=1, storage_options=options).version() == 1
