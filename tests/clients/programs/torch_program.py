"""s3torchconnector: data sets and checkpoints; distributed checkpoints, also through s3fs; webdataset shards."""

import io
import os
import sys
import tarfile

import fsspec
import torch
import torch.distributed.checkpoint as dcp
import webdataset
from s3torchconnector import S3Checkpoint, S3ClientConfig, S3IterableDataset, S3MapDataset
from s3torchconnector.dcp import S3StorageReader, S3StorageWriter
from torch.distributed.checkpoint._fsspec_filesystem import FsspecReader, FsspecWriter

bucket, aws = sys.argv[1:]
endpoint = os.environ["AWS_ENDPOINT_URL"]
options = {"region": "us-east-1", "s3client_config": S3ClientConfig(force_path_style=True)}
files = fsspec.filesystem("s3", client_kwargs={"region_name": "us-east-1"})
files.mkdir(bucket)

for number in range(20):
    files.pipe(f"{bucket}/set/{number:03}", bytes([number]) * (number * 1000))
files.pipe(f"{bucket}/set/large", bytes(range(256)) * (20 << 12))
mapped = S3MapDataset.from_prefix(f"s3://{bucket}/set/", endpoint=endpoint, **options)
assert len(mapped) == 21
assert mapped[7].read() == bytes([7]) * 7000
large = mapped[20]  # ranges side by side
large.seek(10_000_000)
assert large.read(256) == (bytes(range(256)) * 2)[10_000_000 % 256 :][:256]
assert sum(
    len(each.read()) for each in S3IterableDataset.from_prefix(f"s3://{bucket}/set/", endpoint=endpoint, **options)
) == (sum(number * 1000 for number in range(20)) + (20 << 20))

model = torch.nn.Sequential(torch.nn.Linear(1500, 1500), torch.nn.Linear(1500, 1500))
checkpoint = S3Checkpoint(endpoint=endpoint, **options)
with checkpoint.writer(f"s3://{bucket}/plain.pt") as target:
    torch.save(model.state_dict(), target)
with checkpoint.reader(f"s3://{bucket}/plain.pt") as source:
    loaded = torch.load(source)
assert all(torch.equal(loaded[name], value) for name, value in model.state_dict().items())


def same(load: object) -> None:
    """Load into a model of zeros, and compare."""
    empty = {name: torch.zeros_like(value) for name, value in model.state_dict().items()}
    load(empty)
    assert all(torch.equal(empty[name], value) for name, value in model.state_dict().items())


place = f"s3://{bucket}/dcp"
dcp.save(model.state_dict(), storage_writer=S3StorageWriter(path=place, thread_count=2, **options), no_dist=True)
same(lambda empty: dcp.load(empty, storage_reader=S3StorageReader(path=place, **options), no_dist=True))
assert files.exists(f"{bucket}/dcp/.metadata")
place = f"s3://{bucket}/fsspec"
dcp.save(model.state_dict(), storage_writer=FsspecWriter(place), no_dist=True)
same(lambda empty: dcp.load(empty, storage_reader=FsspecReader(place), no_dist=True))

shard = io.BytesIO()
with tarfile.open(fileobj=shard, mode="w") as tar:
    for number in range(2000):
        member = tarfile.TarInfo(f"{number:06}.bin")
        member.size = 5000
        tar.addfile(member, io.BytesIO(number.to_bytes(4, "big") * 1250))
files.pipe(f"{bucket}/shards/0.tar", shard.getvalue())
samples = webdataset.WebDataset(f"pipe:{aws} s3 cp s3://{bucket}/shards/0.tar -", shardshuffle=False)
assert [int.from_bytes(each["bin"][:4], "big") for each in samples] == list(range(2000))
for count, sample in enumerate(samples):  # the reader goes away while the store still sends
    assert sample["bin"] == count.to_bytes(4, "big") * 1250
    if count == 3:
        break
del samples
assert files.info(f"{bucket}/shards/0.tar")["size"] == len(shard.getvalue())
