"""What operations on versions answer: contents, their headers, and what a write made."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import msgpack

from gateway.http.call import Answer, BodyStream
from gateway.s3 import headers, tags, xml
from gateway.s3.schemas.answers import XML_TYPE, Headers
from gateway.s3.schemas.described import CHECKSUM_HEADERS
from metadata.types import Bucket, Version, Versioning


class PartRecord(NamedTuple):
    """A part of a completed multipart object. `checksum` is base64 or empty."""

    number: int
    size: int
    checksum: str


def parts_of(version: Version) -> list[PartRecord]:
    """The parts of a version in order, none for one that was put whole."""
    return [PartRecord(*part) for part in msgpack.unpackb(version.parts)] if version.parts else []


class StoredChecksum(NamedTuple):
    """A version's checksum; the value of a COMPOSITE one ends in `-N`."""

    algorithm: str
    kind: str
    value: str


def checksum_of(version: Version) -> StoredChecksum | None:
    """The checksum of a version, None when it has none."""
    return StoredChecksum(*version.checksum.split(":", 2)) if version.checksum else None


def checksum_lines(version: Version) -> Headers:
    """The checksum headers of a whole version."""
    checksum = checksum_of(version)
    if checksum is None:
        return []
    name = CHECKSUM_HEADERS[checksum.algorithm].encode()
    return [(name, checksum.value.encode()), (b"x-amz-checksum-type", checksum.kind.encode())]


def checksum_elements(version: Version) -> str:
    """The checksum elements of a whole version in XML answers."""
    checksum = checksum_of(version)
    if checksum is None:
        return ""
    name = f"Checksum{checksum.algorithm}"
    return f"<{name}>{checksum.value}</{name}><ChecksumType>{checksum.kind}</ChecksumType>"


def header_text(lines: Headers) -> str:
    """Header lines ready to send."""
    return "".join(f"{name.decode()}: {value.decode()}\r\n" for name, value in lines)


def version_header(bucket: Bucket, version: Version) -> Headers:
    """The version id of a version read; buckets that never had versioning do not tell it."""
    return [] if bucket.versioning == Versioning.NEVER else [(b"x-amz-version-id", version.version_id.encode())]


def version_lines(bucket: Bucket, version: Version) -> str:
    """The header lines that every read of a version answers, ready to send."""
    lines = f'etag: "{version.etag}"\r\nlast-modified: {headers.http_date(version.modified_ms // 1000)}\r\n'
    if bucket.versioning != Versioning.NEVER:
        lines += f"x-amz-version-id: {version.version_id}\r\n"
    if version.storage_class != "STANDARD":
        lines += f"x-amz-storage-class: {version.storage_class}\r\n"
    if version.tags:
        lines += f"x-amz-tagging-count: {len(tags.unpack(version.tags))}\r\n"
    return lines


@dataclass(frozen=True, slots=True)
class Content:
    """A whole version or a piece of it. `lines` are header lines ready to send; a HEAD has no body but a length."""

    is_partial: bool
    lines: bytes
    body: bytes | BodyStream | None
    length: int

    def answer(self) -> Answer:
        status = 206 if self.is_partial else 200
        return Answer(status, body=self.body, content_length=self.length, raw_headers=self.lines)


@dataclass(frozen=True, slots=True)
class NotModified:
    """304 with the headers that identify what the client already has."""

    lines: bytes

    def answer(self) -> Answer:
        return Answer(304, raw_headers=self.lines, error_code="NotModified")


@dataclass(frozen=True, slots=True)
class Written:
    """A version that a PUT made."""

    version: Version
    is_versioned: bool
    encryption: Headers = field(default_factory=list)

    def answer(self) -> Answer:
        version = self.version
        lines = [(b"etag", f'"{version.etag}"'.encode()), *checksum_lines(version), *self.encryption]
        if self.is_versioned:
            lines.append((b"x-amz-version-id", version.version_id.encode()))
        return Answer(200, lines)


@dataclass(frozen=True, slots=True)
class Copied:
    """A version that a copy made. `source_version_id` is empty when the source's bucket tells none."""

    version: Version
    is_versioned: bool
    source_version_id: str
    encryption: Headers = field(default_factory=list)

    def answer(self) -> Answer:
        version = self.version
        body = xml.document(
            "CopyObjectResult",
            f"<LastModified>{headers.iso_time(version.modified_ms)}</LastModified>",
            f"<ETag>&quot;{version.etag}&quot;</ETag>",
            checksum_elements(version),
        )
        lines: Headers = [XML_TYPE, *self.encryption]
        if self.is_versioned:
            lines.append((b"x-amz-version-id", version.version_id.encode()))
        if self.source_version_id:
            lines.append((b"x-amz-copy-source-version-id", self.source_version_id.encode()))
        return Answer(200, lines, body, len(body))


@dataclass(frozen=True, slots=True)
class Deleted:
    """What a delete did."""

    version_id: str
    is_delete_marker: bool

    def answer(self) -> Answer:
        lines: Headers = []
        if self.is_delete_marker:
            lines.append((b"x-amz-delete-marker", b"true"))
        if self.version_id:
            lines.append((b"x-amz-version-id", self.version_id.encode()))
        return Answer(204, lines)


class DeletedKey(NamedTuple):
    """One line of a DeleteObjects answer; `code` empty means deleted."""

    key: str
    version_id: str
    marker_version_id: str
    is_delete_marker: bool
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class DeletedKeys:
    """What DeleteObjects did, in the order asked."""

    keys: Sequence[DeletedKey]
    is_quiet: bool

    def answer(self) -> Answer:
        pieces = [_deleted_line(key) for key in self.keys if key.code or not self.is_quiet]
        body = xml.document("DeleteResult", *pieces)
        return Answer(200, [XML_TYPE], body, len(body))


def _deleted_line(key: DeletedKey) -> str:
    named = xml.element("Key", key.key) + xml.optional("VersionId", key.version_id)
    if key.code:
        return f"<Error>{named}{xml.element('Code', key.code)}{xml.element('Message', key.message)}</Error>"
    if not key.is_delete_marker:
        return f"<Deleted>{named}</Deleted>"
    marker = xml.optional("DeleteMarkerVersionId", key.marker_version_id)
    return f"<Deleted>{named}<DeleteMarker>true</DeleteMarker>{marker}</Deleted>"
