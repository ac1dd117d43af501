"""The s3control API as far as it is served: tags of buckets by ARN, under `/v20180820/tags/`.

SDKs put the account id in front of the host. That label, when a header names it too, is no bucket; and the first step
of the path is none either, because no bucket can have that name.
"""

import re
from typing import Final
from urllib.parse import unquote_to_bytes

from gateway.http.call import Call
from gateway.s3.addressing import Addressing
from gateway.s3.errors import S3Code, S3Error

ROOT: Final = b"/v20180820/"
_TAGS: Final = ROOT + b"tags/"
_ACCOUNT: Final = b"x-amz-account-id"
_TAG_KEYS: Final = b"tagKeys"
_ARN: Final = re.compile(rb"arn:aws[a-z-]*:s3:::([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])")


def names_control(call: Call, addressing: Addressing) -> bool:
    """Whether a request speaks to s3control. Errors: InvalidBucketName for an illegal host."""
    if not call.raw_path.startswith(ROOT):
        return False
    label = addressing.host_bucket(call.fields.get(b"host", b""))
    return label is None or label.encode() == call.fields.get(_ACCOUNT)


def resource_bucket(raw_path: bytes) -> str:
    """The bucket whose ARN a path of s3control names.

    Errors: NotImplemented for any other part of that API, InvalidRequest for an ARN of anything but a bucket.
    """
    if not raw_path.startswith(_TAGS):
        raise S3Error(S3Code.NotImplemented, "Of the control API only the tags of buckets are implemented.")
    arn = _ARN.fullmatch(unquote_to_bytes(raw_path[len(_TAGS) :]))
    if arn is None:
        raise S3Error(S3Code.InvalidRequest, "The resource ARN is not that of a general purpose bucket.")
    return arn[1].decode("ascii")


def tag_keys(query: bytes) -> frozenset[str]:
    """Every `tagKeys` of a query: the one parameter that occurs as often as there are keys. Errors: InvalidURI."""
    pairs = [piece.partition(b"=") for piece in query.split(b"&")]
    try:
        return frozenset(
            unquote_to_bytes(value.replace(b"+", b" ")).decode() for name, _, value in pairs if name == _TAG_KEYS
        )
    except UnicodeDecodeError as error:
        raise S3Error(S3Code.InvalidURI) from error
