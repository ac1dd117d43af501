"""Which bucket and key a request names: the one parser of names.

Names come from the raw bytes of the request line, are percent-decoded once as strict UTF-8, and are opaque from then
on: no segment is collapsed, no dot resolved, no letter normalised. Copy sources are read by the same functions.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple
from urllib.parse import unquote_to_bytes

from gateway.s3.errors import S3Code, S3Error
from gateway.s3.names import is_valid_bucket_name

KEY_BYTES_MAX: Final = 1024


class Address(NamedTuple):
    """What a request names. `bucket` None is the service itself, `key` None the bucket itself."""

    bucket: str | None
    key: str | None


class CopySource(NamedTuple):
    """The version a copy reads; `version_id` None is the current one."""

    bucket: str
    key: str
    version_id: str | None


class Addressing:
    """Finds names in path style, and in virtual-hosted style below the domains configured.

    A host outside `domains` never names a bucket: whatever its labels are, the path does.
    """

    def __init__(self, domains: Sequence[str] = ()) -> None:
        # The longest domain first, so that `eu.s3.test` wins over `s3.test` when both are configured.
        lowered = sorted({domain.strip(".").lower() for domain in domains}, key=len, reverse=True)
        self._suffixes = tuple(b"." + domain.encode("ascii") for domain in lowered)
        self._domains = frozenset(suffix[1:] for suffix in self._suffixes)

    def parse(self, host: bytes, raw_path: bytes) -> Address:
        """Bucket and key of a request. `host` is the Host header, `raw_path` the path as received.

        Errors: InvalidURI for a path that is not UTF-8, InvalidBucketName, KeyTooLongError beyond 1024 bytes.
        """
        bucket = self.host_bucket(host) if self._suffixes else None
        rest = raw_path[1:]
        if bucket is None:
            name, separator, rest = rest.partition(b"/")
            if not name and not separator:
                return Address(None, None)
            bucket = _bucket(name)
        return Address(bucket, _key(rest) if rest else None)

    def host_bucket(self, host: bytes) -> str | None:
        """The bucket a Host header names, None when it names none."""
        name = _without_port(host).lower()
        if name in self._domains:
            return None
        for suffix in self._suffixes:
            if name.endswith(suffix):
                return _bucket(name[: -len(suffix)])
        return None


def _without_port(host: bytes) -> bytes:
    name, colon, port = host.rpartition(b":")
    return name if colon and (port.isdigit() or not port) and not name.endswith(b":") else host


def _bucket(spelled: bytes) -> str:
    name = _decode(spelled)
    if not name or len(spelled) > 3 * KEY_BYTES_MAX or "\0" in name:
        raise S3Error(S3Code.InvalidBucketName, BucketName="" if "\0" in name else name)
    return name


def _key(spelled: bytes) -> str:
    return plain_key(unquote_to_bytes(spelled) if b"%" in spelled else spelled)


def plain_key(name: bytes) -> str:
    """A key from its bytes, where nothing is percent-encoded. Errors: InvalidURI, KeyTooLongError beyond 1024 bytes."""
    if len(name) > KEY_BYTES_MAX:
        raise S3Error(S3Code.KeyTooLongError, Size=str(len(name)), MaxSizeAllowed=str(KEY_BYTES_MAX))
    return _text(name)


def _decode(spelled: bytes) -> str:
    return _text(unquote_to_bytes(spelled) if b"%" in spelled else spelled)


def _text(name: bytes) -> str:
    try:
        return name.decode()
    except UnicodeDecodeError:
        raise S3Error(S3Code.InvalidURI) from None


def check_bucket_name(name: str) -> None:
    """Refuse a bucket name that cannot be created. Errors: InvalidBucketName."""
    if not is_valid_bucket_name(name):
        raise S3Error(S3Code.InvalidBucketName, BucketName=name if name.isprintable() else "")


def parse_copy_source(header: bytes) -> CopySource:
    """The source named by `x-amz-copy-source`: `[/]bucket/key[?versionId=id]`, percent-encoded once.

    A plus sign stands for a space here, as on AWS (aws-cli issue 614); s5cmd relies on it. Errors: InvalidArgument when
    it has not that form, InvalidURI when it is not UTF-8, KeyTooLongError.
    """
    spelled, marker, version = header.partition(b"?versionId=")
    if b"/" not in spelled[1:]:  # some clients encode the slash between bucket and key too
        spelled = spelled.replace(b"%2F", b"/", 1).replace(b"%2f", b"/", 1)
    bucket, _, key = spelled.removeprefix(b"/").partition(b"/")
    if not bucket or not key:
        raise _bad_source("Copy Source must mention the source bucket and key: sourcebucket/sourcekey")
    version_id = _decode(version) if marker else None
    if version_id is not None and not (version_id and version_id.isascii() and version_id.isprintable()):
        raise _bad_source("Invalid version id specified")
    return CopySource(_bucket(bucket), _key(key.replace(b"+", b" ")), version_id)


def parse_rename_source(header: bytes, bucket_name: str) -> str:
    """The key named by `x-amz-rename-source`, percent-encoded once: alone, or behind `/bucket/`.

    Errors: InvalidArgument for nothing, and for a slash in front that no bucket follows: of a key that begins with a
    slash it is encoded. InvalidURI, KeyTooLongError.
    """
    spelled = header
    if header.startswith(b"/"):
        bucket, _, spelled = header[1:].partition(b"/")
        if _bucket(bucket) != bucket_name:
            message = "The source of a rename must be a key of the same bucket."
            raise S3Error(S3Code.InvalidArgument, message, ArgumentName="x-amz-rename-source")
    if not spelled:
        message = "The source of a rename must be a key."
        raise S3Error(S3Code.InvalidArgument, message, ArgumentName="x-amz-rename-source")
    return _key(spelled)


def _bad_source(message: str) -> S3Error:
    return S3Error(S3Code.InvalidArgument, message, ArgumentName="x-amz-copy-source")
