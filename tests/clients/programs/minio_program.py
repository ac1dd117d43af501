"""minio-py: streaming signatures over HTTP, parts of unknown length, composing, versions, tags, presigned links."""

import datetime
import io
import os
import sys
import urllib.request

from minio import Minio, S3Error
from minio.commonconfig import ENABLED, ComposeSource, CopySource, Tags
from minio.deleteobjects import DeleteObject
from minio.versioningconfig import VersioningConfig

bucket = sys.argv[1]
host = os.environ["AWS_ENDPOINT_URL"].removeprefix("http://")
client = Minio(host, os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"], secure=False)
client.make_bucket(bucket)
assert client.bucket_exists(bucket)
assert not client.bucket_exists(f"{bucket}-absent")
content = os.urandom(11 << 20)
client.put_object(bucket, "large", io.BytesIO(content), -1, part_size=5 << 20, metadata={"who": "me"})
assert client.stat_object(bucket, "large").size == len(content)
assert client.stat_object(bucket, "large").metadata["x-amz-meta-who"] == "me"
answer = client.get_object(bucket, "large", offset=6_000_000, length=100)
assert answer.read() == content[6_000_000:6_000_100]
answer.close()
answer.release_conn()
sources = [ComposeSource(bucket, "large"), ComposeSource(bucket, "large", offset=0, length=1000)]
client.compose_object(bucket, "composed", sources)
assert client.get_object(bucket, "composed").read() == content + content[:1000]
client.copy_object(bucket, "copy +ü", CopySource(bucket, "large"))
assert client.get_object(bucket, "copy +ü").read() == content
tags = Tags.new_object_tags()
tags["a"] = "b"
client.set_object_tags(bucket, "large", tags)
assert client.get_object_tags(bucket, "large") == {"a": "b"}
for name in ("dir/one", "dir/two", "dir/deep/three"):
    client.put_object(bucket, name, io.BytesIO(b"small"), 5)
assert {each.object_name for each in client.list_objects(bucket, "dir/")} == {"dir/deep/", "dir/one", "dir/two"}
assert len(list(client.list_objects(bucket, recursive=True))) == 6
url = client.presigned_get_object(bucket, "dir/one", expires=datetime.timedelta(minutes=5))
assert urllib.request.urlopen(url).read() == b"small"
client.set_bucket_versioning(bucket, VersioningConfig(ENABLED))
first = client.put_object(bucket, "dir/one", io.BytesIO(b"again"), 5)
client.remove_object(bucket, "dir/one")
assert client.get_object(bucket, "dir/one", version_id=first.version_id).read() == b"again"
versions = list(client.list_objects(bucket, "dir/one", include_version=True))
assert sorted((each.is_delete_marker, each.is_latest == "true") for each in versions) == [
    (False, False),
    (False, False),
    (True, True),
], versions
try:
    client.stat_object(bucket, "dir/one")
except S3Error as error:
    assert error.code in {"NoSuchKey", "MethodNotAllowed"}, error.code
else:
    raise AssertionError("a deleted key was found")
everything = [
    DeleteObject(each.object_name, each.version_id)
    for each in client.list_objects(bucket, recursive=True, include_version=True)
]
assert list(client.remove_objects(bucket, everything)) == []
client.remove_bucket(bucket)
