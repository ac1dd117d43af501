"""polars: sinks, scans with projection and predicate, a partitioned set."""

import os
import sys

import minio
import polars

bucket = sys.argv[1]
endpoint = os.environ["AWS_ENDPOINT_URL"]
keys = os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"]
minio.Minio(endpoint.removeprefix("http://"), *keys, secure=False).make_bucket(bucket)  # polars makes none
options = {
    "aws_endpoint_url": endpoint,
    "aws_access_key_id": keys[0],
    "aws_secret_access_key": keys[1],
    "aws_region": "us-east-1",
    "aws_allow_http": "true",
}
frame = polars.DataFrame({"number": range(100_000), "part": [f"p{number % 4}" for number in range(100_000)]})
frame.write_parquet(f"s3://{bucket}/one.parquet", storage_options=options)
scan = polars.scan_parquet(f"s3://{bucket}/one.parquet", storage_options=options)
assert scan.filter(polars.col("part") == "p1").select(polars.col("number").sum()).collect().item() == sum(
    range(1, 100_000, 4)
)
frame.lazy().sink_csv(f"s3://{bucket}/rows.csv", storage_options=options)
assert (
    polars.scan_csv(f"s3://{bucket}/rows.csv", storage_options=options).select(polars.len()).collect().item() == 100_000
)
for name, part in frame.partition_by("part", as_dict=True).items():
    part.drop("part").write_parquet(f"s3://{bucket}/set/part={name[0]}/0.parquet", storage_options=options)
found = polars.scan_parquet(f"s3://{bucket}/set/**/*.parquet", hive_partitioning=True, storage_options=options)
counts = found.group_by("part").len().sort("part").collect()
assert counts.rows() == [(f"p{number}", 25_000) for number in range(4)], counts
assert polars.read_parquet(f"s3://{bucket}/one.parquet", storage_options=options).equals(frame)
