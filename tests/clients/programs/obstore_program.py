"""obstore, the Rust object_store."""

import os
import sys

import minio
import obstore
from obstore.exceptions import AlreadyExistsError, NotModifiedError, PreconditionError
from obstore.store import S3Store

bucket = sys.argv[1]
endpoint = os.environ["AWS_ENDPOINT_URL"]
keys = os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"]
minio.Minio(endpoint.removeprefix("http://"), *keys, secure=False).make_bucket(bucket)  # obstore makes none
store = S3Store(
    bucket,
    endpoint=endpoint,
    region="us-east-1",
    access_key_id=keys[0],
    secret_access_key=keys[1],
    virtual_hosted_style_request=False,
    client_options={"allow_http": True},
)


def refuses(error: type[Exception], act: object, *words: object, **options: object) -> None:
    try:
        act(*words, **options)
    except error:
        return
    raise AssertionError(f"{act} was not refused")


first = obstore.put(store, "key", b"first", mode="create")
refuses(AlreadyExistsError, obstore.put, store, "key", b"other", mode="create")
second = obstore.put(store, "key", b"second", mode={"e_tag": first["e_tag"]})
refuses(PreconditionError, obstore.put, store, "key", b"third", mode={"e_tag": first["e_tag"]})
assert obstore.get(store, "key").bytes() == b"second"
refuses(NotModifiedError, obstore.get, store, "key", options={"if_none_match": second["e_tag"]})
refuses(PreconditionError, obstore.get, store, "key", options={"if_match": first["e_tag"]})
content = os.urandom(17 << 20)
obstore.put(store, "dir/large", content, chunk_size=5 << 20, max_concurrency=3)
assert obstore.head(store, "dir/large")["size"] == len(content)
assert obstore.get_range(store, "dir/large", start=5, end=50) == content[5:50]
starts, ends = [0, 100, 9_000_000], [10, 200, 9_000_100]
found = obstore.get_ranges(store, "dir/large", starts=starts, ends=ends)
assert [bytes(each) for each in found] == [content[start:end] for start, end in zip(starts, ends)]
suffix = obstore.get(store, "dir/large", options={"range": {"suffix": 7}})
assert suffix.bytes() == content[-7:]
assert b"".join(bytes(piece) for piece in obstore.get(store, "dir/large").stream(min_chunk_size=1 << 20)) == content
for name in ("a b+c", "ü", "per%cent", "x/y/z"):
    obstore.put(store, f"names/{name}", name.encode())
listed = [each["path"] for page in obstore.list(store, prefix="names", chunk_size=2) for each in page]
assert sorted(listed) == sorted(f"names/{name}" for name in ("a b+c", "ü", "per%cent", "x/y/z")), listed
assert obstore.list_with_delimiter(store, prefix="names")["common_prefixes"] == ["names/x"]
obstore.copy(store, "dir/large", "copy")
obstore.rename(store, "copy", "renamed")
refuses(FileNotFoundError, obstore.head, store, "copy")
assert obstore.get(store, "renamed").bytes() == content
obstore.delete(store, [each["path"] for page in obstore.list(store) for each in page])
assert [each for page in obstore.list(store) for each in page] == []
