"""LMCache's S3 connector: put, look up, get of key-value blocks. It speaks virtual-hosted style only."""

import asyncio
import os
import sys
import threading

import torch
from lmcache.utils import CacheEngineKey
from lmcache.v1.config import LMCacheEngineConfig
from lmcache.v1.memory_management import MemoryFormat
from lmcache.v1.metadata import LMCacheMetadata
from lmcache.v1.storage_backend.connector.s3_connector import S3Connector
from lmcache.v1.storage_backend.local_cpu_backend import LocalCPUBackend

host = sys.argv[1]  # bucket.domain:port
TOKENS = 256
config = LMCacheEngineConfig.from_defaults(
    chunk_size=TOKENS, local_cpu=False, max_local_cpu_size=0.5, extra_config={"save_chunk_meta": False}
)
metadata = LMCacheMetadata(
    model_name="model/of the test",
    world_size=1,
    local_world_size=1,
    worker_id=0,
    local_worker_id=0,
    kv_dtype=torch.bfloat16,
    kv_shape=(8, 2, TOKENS, 8, 128),
    chunk_size=TOKENS,
)
backend = LocalCPUBackend(config, metadata, dst_device="cpu")
loop = asyncio.new_event_loop()
threading.Thread(target=loop.run_forever, daemon=True).start()


def connect() -> S3Connector:
    return S3Connector(
        s3_endpoint=f"s3://{host}",
        loop=loop,
        local_cpu_backend=backend,
        s3_num_io_threads=4,
        s3_prefer_http2=False,
        s3_region="us-east-1",
        s3_enable_s3express=False,
        disable_tls=True,
        aws_access_key_id=os.environ["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=os.environ["AWS_SECRET_ACCESS_KEY"],
    )


def wait(coroutine: object) -> object:
    return asyncio.run_coroutine_threadsafe(coroutine, loop).result(timeout=60)


keys = [CacheEngineKey("model/of the test", 1, 0, number, torch.bfloat16) for number in range(6)]
writer = connect()
assert not writer.exists_sync(keys[0])
blocks = []
for key in keys:
    block = backend.allocate(writer.meta_shapes, writer.meta_dtypes, MemoryFormat.KV_2LTD)
    block.tensor.copy_(torch.randn(block.tensor.shape, dtype=torch.float32).to(torch.bfloat16))
    blocks.append(block.tensor.clone())
    wait(writer.put(key, block))
    block.ref_count_down()
reader = connect()  # without the sizes that the writer keeps
assert reader.exists_sync(keys[0])
assert wait(reader.batched_async_contains("look-up", keys)) == len(keys)
found = wait(reader.get(keys[3]))
assert found is not None
assert torch.equal(found.tensor, blocks[3])
found.ref_count_down()
many = wait(reader.batched_get(keys))
assert all(each is not None for each in many)
assert all(torch.equal(each.tensor, block) for each, block in zip(many, blocks))
absent = CacheEngineKey("model/of the test", 1, 0, 99, torch.bfloat16)
assert wait(connect().get(absent)) is None
print(f"{blocks[0].nbytes} bytes a block")
os._exit(0)  # its threads and the C library's outlive the interpreter
