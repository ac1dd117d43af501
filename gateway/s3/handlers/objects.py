"""PutObject, GetObject, HeadObject, DeleteObject, DeleteObjects, and the unset sub-resources of objects."""

from dataclasses import replace
from typing import Final

from gateway.http.call import BodyStream
from gateway.s3 import attributes, headers
from gateway.s3.addressing import KEY_BYTES_MAX
from gateway.s3.errors import S3Code, S3Error
from gateway.s3.handlers.encryption import envelope_of, key_of_write, lines_of_read, lines_of_write
from gateway.s3.handlers.lifecycle import expiration_lines
from gateway.s3.headers import ByteRange, ReadConditions, Verdict
from gateway.s3.lock_headers import told_lock
from gateway.s3.permissions import BYPASS_GOVERNANCE
from gateway.s3.request import Request
from gateway.s3.schemas.described import CHECKSUM_HEADERS
from gateway.s3.schemas.objects import DeleteObject, DeleteObjects, PutObject, ReadObject
from gateway.s3.schemas.versions import (
    Content,
    Deleted,
    DeletedKey,
    DeletedKeys,
    NotModified,
    Written,
    checksum_lines,
    checksum_of,
    header_text,
    parts_of,
    version_lines,
)
from gateway.s3.server_log import BatchedDeletion
from gateway.s3.translation import translate
from metadata.types import Version
from tiers.datapath.encryption import ContentKey
from tiers.errors import BucketNotFound, StorageError
from tiers.namespace.types import DeleteOutcome, DeleteTarget, Found

WHOLE_BYTES_MAX: Final = 256 * 1024
"""Contents up to here are answered as one bytes object, larger ones as a stream."""


async def find_version(request: Request, version_id: str | None) -> Found:
    """The version a read names, authorised with the bucket it came with; one statement when all is well.

    Errors: AccessDenied before anything tells whether the key exists; else what the namespace raises.
    """
    try:
        found = await request.namespace.objects.find(request.bucket_name, request.key, version_id)
    except BucketNotFound:
        raise
    except StorageError:
        await request.authorise(await request.namespace.buckets.get(request.bucket_name))
        raise
    await request.authorise(found.bucket, found.version)
    return found


async def put_object(document: PutObject, request: Request) -> Written:
    """Store a content; the last writer to commit wins."""
    content_key = await key_of_write(request, document.encryption)
    version, is_versioned = await request.namespace.objects.put(
        request.bucket_name,
        request.key,
        document.body,
        document.description,
        document.conditions,
        content_key=content_key,
    )
    lines = lines_of_write(content_key, document.encryption)
    return Written(version, is_versioned, lines + await expiration_lines(request, version))


async def get_object(document: ReadObject, request: Request) -> Content | NotModified:
    """A content or a piece of it; its first bytes are verified before anything is answered."""
    return await _read(document, request, with_body=True)


async def head_object(document: ReadObject, request: Request) -> Content | NotModified:
    """What GetObject would answer, without the content."""
    return await _read(document, request, with_body=False)


async def _read(document: ReadObject, request: Request, *, with_body: bool) -> Content | NotModified:
    found = await find_version(request, document.version_id)
    version = found.version
    lines = version_lines(found.bucket, version)
    verdict = headers.judge(document.conditions, version.etag, version.modified_ms)
    if verdict is not Verdict.SEND:
        refuse_failed(document.conditions, verdict)
        return NotModified(lines.encode())
    piece, piece_lines = choose_piece(document, version)
    lines = f"{lines}accept-ranges: bytes\r\n{piece_lines}"
    if version.lock:
        lines += await told_lock(request, version)
    if found.is_latest:
        lines += header_text(await expiration_lines(request, version))
    stored = version.attributes
    if document.overrides:
        stored = attributes.overridden(stored, document.overrides)
    content_key = None
    if version.encryption or document.customer is not None:
        envelope = envelope_of(version, document.customer)
        lines += header_text(lines_of_read(envelope, document.customer))
        if with_body and envelope is not None:
            content_key = await request.services.content_keys.open(envelope, document.customer)
    start, stop = piece or (0, version.size)
    body = await _open(request, version, start, stop, content_key) if with_body else None
    return Content(piece is not None, stored + lines.encode(), body, stop - start)


def refuse_failed(conditions: ReadConditions, verdict: Verdict) -> None:
    """Raise PreconditionFailed when a read's conditions say so."""
    if verdict is Verdict.FAILED:
        raise S3Error(S3Code.PreconditionFailed, Condition=headers.failed_condition(conditions))


def choose_piece(document: ReadObject, version: Version) -> tuple[ByteRange | None, str]:
    """Which bytes of a version a read wants (None: all of them), and the header lines that say so."""
    if document.part_number:
        return _part(document, version)
    if document.range and headers.is_same(document.if_range, version.etag, version.modified_ms):
        piece = headers.parse_range(document.range, version.size)
        if piece is not None:
            return piece, _content_range(piece, version.size)
    return None, _checksum_text(version) if document.with_checksum else ""


def _content_range(piece: ByteRange, size: int) -> str:
    return f"content-range: bytes {piece.start}-{piece.stop - 1}/{size}\r\n"


def _checksum_text(version: Version) -> str:
    return header_text(checksum_lines(version))


def _part(document: ReadObject, version: Version) -> tuple[ByteRange | None, str]:
    """The bytes of one part, judged by presence and not by count. A version put whole is its own part 1."""
    parts = parts_of(version)
    if not parts and document.part_number == 1:
        text = _checksum_text(version) if document.with_checksum else ""
        if version.size == 0:
            return None, text
        piece = ByteRange(0, version.size)
        return piece, _content_range(piece, version.size) + text
    start = 0
    for part in parts:
        if part.number == document.part_number:
            lines = f"x-amz-mp-parts-count: {len(parts)}\r\n"
            checksum = checksum_of(version)
            if document.with_checksum and part.checksum and checksum is not None:
                lines += f"{CHECKSUM_HEADERS[checksum.algorithm]}: {part.checksum}\r\n"
                lines += f"x-amz-checksum-type: {checksum.kind}\r\n"
            if part.size == 0:  # an empty last part: nothing to range over, and all of nothing
                return ByteRange(start, start), lines
            piece = ByteRange(start, start + part.size)
            return piece, _content_range(piece, version.size) + lines
        start += part.size
    raise S3Error(S3Code.InvalidPart, PartNumber=str(document.part_number))


async def _open(
    request: Request, version: Version, start: int, stop: int, content_key: ContentKey | None
) -> bytes | BodyStream:
    length = stop - start
    if length == 0:
        return b""
    objects = request.namespace.objects
    if content_key is None and (whole := objects.read_now(version, start, stop)) is not None:
        return whole
    stream = await objects.open(version, start, stop, content_key)
    if length > WHOLE_BYTES_MAX:
        return stream
    try:
        first = await stream.next()
        assert first is not None
        if len(first) == length:
            return bytes(first)
        pieces = [bytes(first)]
        while (run := await stream.next()) is not None:
            pieces.append(bytes(run))
        return b"".join(pieces)
    finally:
        stream.close()


async def delete_object(document: DeleteObject, request: Request) -> Deleted:
    """Delete a key or one of its versions; deleting what is absent succeeds."""
    target = document.target
    if target.bypasses_governance:
        target = replace(target, bypasses_governance=await request.may(BYPASS_GOVERNANCE))
    outcome = await request.namespace.objects.delete(request.bucket_name, target, origin=request.origin)
    return Deleted(*outcome)


async def delete_objects(document: DeleteObjects, request: Request) -> DeletedKeys:
    """Delete up to 1000 keys; each is judged and reported alone."""
    refusals: list[S3Error | None] = []
    going: list[DeleteTarget] = []
    for target, permitted in zip(document.targets, await request.permit_deletions(document.targets), strict=True):
        is_long = len(target.key.encode()) > KEY_BYTES_MAX
        refusals.append(S3Error(S3Code.KeyTooLongError) if is_long else None)
        if permitted is None:
            refusals[-1] = S3Error(S3Code.AccessDenied)
        elif not is_long:
            going.append(permitted)
    delete_many = request.namespace.objects.delete_many
    outcomes = iter(await delete_many(request.bucket_name, going, origin=request.origin) if going else [])
    keys = [
        _report(target, refusal or next(outcomes)) for target, refusal in zip(document.targets, refusals, strict=True)
    ]
    if request.visit is not None:
        request.visit.deletions = [
            BatchedDeletion(key.key, key.version_id, S3Code[key.code].status if key.code else 204, key.code)
            for key in keys
        ]
    return DeletedKeys(keys, document.is_quiet)


def _report(target: DeleteTarget, outcome: DeleteOutcome | StorageError | S3Error) -> DeletedKey:
    named = target.version_id or ""
    if isinstance(outcome, Exception):
        error = translate(outcome)
        return DeletedKey(target.key, named, "", is_delete_marker=False, code=error.code.name, message=error.message)
    marker = outcome.version_id if outcome.is_delete_marker else ""
    return DeletedKey(target.key, named, marker, outcome.is_delete_marker, "", "")
