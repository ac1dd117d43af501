"""pyarrow.fs and a Parquet data set."""

import os
import sys

import pyarrow
import pyarrow.dataset
import pyarrow.parquet
from pyarrow import fs

bucket = sys.argv[1]
host = os.environ["AWS_ENDPOINT_URL"].removeprefix("http://")
files = fs.S3FileSystem(
    endpoint_override=host,
    scheme="http",
    region="us-east-1",
    allow_bucket_creation=True,
    allow_bucket_deletion=True,
    background_writes=True,
)
files.create_dir(bucket)
files.create_dir(f"{bucket}/set/deep", recursive=True)
files.create_dir(f"{bucket}/set/deep", recursive=True)  # the bucket and the markers are there already
info = files.get_file_info(f"{bucket}/set/deep")
assert info.type is fs.FileType.Directory, info
content = os.urandom(23 << 20)
with files.open_output_stream(f"{bucket}/large") as stream:  # parts, sent behind the writer's back
    for start in range(0, len(content), 1 << 20):
        stream.write(content[start : start + (1 << 20)])
with files.open_input_file(f"{bucket}/large") as file:
    assert file.size() == len(content)
    assert file.read_at(1000, 11_000_000) == content[11_000_000:11_001_000]
    assert file.read() == content
table = pyarrow.table({"number": list(range(50_000)), "part": [number % 5 for number in range(50_000)]})
pyarrow.dataset.write_dataset(
    table, f"{bucket}/rows", filesystem=files, format="parquet", partitioning=["part"], partitioning_flavor="hive"
)
rows = pyarrow.dataset.dataset(f"{bucket}/rows", filesystem=files, format="parquet", partitioning="hive")
assert rows.count_rows() == 50_000
found = rows.to_table(filter=(pyarrow.dataset.field("part") == 3) & (pyarrow.dataset.field("number") < 1000))
assert sorted(found["number"].to_pylist()) == list(range(3, 1000, 5))
pyarrow.parquet.write_table(table, f"{bucket}/one.parquet", filesystem=files)
assert pyarrow.parquet.read_table(f"{bucket}/one.parquet", filesystem=files, columns=["number"]).num_rows == 50_000
files.copy_file(f"{bucket}/one.parquet", f"{bucket}/two.parquet")
files.move(f"{bucket}/two.parquet", f"{bucket}/three.parquet")
names = {info.path for info in files.get_file_info(fs.FileSelector(bucket))}
assert names == {f"{bucket}/{name}" for name in ("set", "rows", "large", "one.parquet", "three.parquet")}, names
assert files.get_file_info(f"{bucket}/absent").type is fs.FileType.NotFound
files.delete_dir(bucket)
