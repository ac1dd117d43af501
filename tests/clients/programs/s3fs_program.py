"""s3fs through fsspec."""

import os
import sys

import s3fs

bucket = sys.argv[1]
files = s3fs.S3FileSystem(client_kwargs={"region_name": "us-east-1"})
files.mkdir(bucket)
content = os.urandom(13 << 20)
with files.open(f"{bucket}/dir/large", "wb", block_size=5 << 20) as file:  # parts
    file.write(content)
with files.open(f"{bucket}/dir/large", "rb", block_size=1 << 20) as file:
    file.seek(6_000_000)
    assert file.read(1000) == content[6_000_000:6_001_000]
assert files.cat_ranges([f"{bucket}/dir/large"] * 3, [0, 10, 100], [10, 20, 110]) == [
    content[0:10],
    content[10:20],
    content[100:110],
]
files.pipe({f"{bucket}/many/{number:03} +ü": b"%d" % number for number in range(120)})
assert len(files.ls(f"{bucket}/many")) == 120
assert files.cat(f"{bucket}/many/007 +ü") == b"7"
assert files.isdir(f"{bucket}/many")
assert not files.exists(f"{bucket}/man")
assert files.glob(f"{bucket}/many/01*") == [f"{bucket}/many/{number:03} +ü" for number in range(10, 20)]
assert files.du(f"{bucket}/dir") == len(content)
files.touch(f"{bucket}/empty/")
assert files.info(f"{bucket}/empty/")["size"] == 0
files.copy(f"{bucket}/dir/large", f"{bucket}/copy")
files.mv(f"{bucket}/copy", f"{bucket}/moved")
assert files.cat(f"{bucket}/moved") == content
assert not files.exists(f"{bucket}/copy")
files.rm(f"{bucket}/many", recursive=True)  # DeleteObjects
assert not files.exists(f"{bucket}/many")
try:
    files.cat(f"{bucket}/absent")
except FileNotFoundError:
    pass
else:
    raise AssertionError("absent")
files.rm(bucket, recursive=True)
assert not files.exists(bucket)
