"""boto3 1.35: put, copy, parts, listing, delete in bulk."""

import io
import os
import sys

import boto3
from boto3.s3.transfer import TransferConfig

bucket = sys.argv[1]
assert boto3.__version__.startswith("1.35."), boto3.__version__
client = boto3.client("s3")
client.create_bucket(Bucket=bucket)
small, large = os.urandom(1000), os.urandom(12 << 20)
client.put_object(Bucket=bucket, Key="small", Body=small, Metadata={"who": "me"})
client.upload_fileobj(
    io.BytesIO(large), bucket, "large", Config=TransferConfig(multipart_threshold=5 << 20, multipart_chunksize=5 << 20)
)
assert client.get_object(Bucket=bucket, Key="small")["Body"].read() == small
answer = client.get_object(Bucket=bucket, Key="large", Range="bytes=5242870-5242889")
assert answer["Body"].read() == large[5242870:5242890]
assert client.head_object(Bucket=bucket, Key="small")["Metadata"] == {"who": "me"}
client.copy({"Bucket": bucket, "Key": "large"}, bucket, "copy")
assert client.get_object(Bucket=bucket, Key="copy")["Body"].read() == large
keys = [
    each["Key"]
    for page in client.get_paginator("list_objects_v2").paginate(Bucket=bucket, PaginationConfig={"PageSize": 2})
    for each in page["Contents"]
]
assert keys == ["copy", "large", "small"]
answer = client.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": key} for key in keys]})
assert len(answer["Deleted"]) == 3
client.delete_bucket(Bucket=bucket)
