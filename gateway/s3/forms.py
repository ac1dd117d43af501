"""A form upload (PostObject) becomes the PutObject that it means: its fields the headers, its file the body.

Nothing of the form acts before its proof is verified and its policy has passed. From then on whatever serves headers of
a PutObject (metadata, tags, ACLs, encryption, locks, checksums) serves the fields of a form.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final, NamedTuple
from urllib.parse import urlencode

from gateway.auth.authenticator import Authenticated, Authenticator
from gateway.http.call import BodyCut, Call
from gateway.s3 import tags
from gateway.s3.addressing import plain_key
from gateway.s3.errors import S3Code, S3Error
from gateway.s3.form_file import FormFile
from gateway.s3.form_parts import HEAD_BYTES_MAX, FormHead, parse_boundary, parse_head

STATUS: Final = b"success_action_status"
REDIRECT: Final = b"success_action_redirect"
OLD_REDIRECT: Final = b"redirect"

_FILE_NAME: Final = b"${filename}"
_AS_SIGNED: Final = frozenset({b"policy", b"signature", b"x-amz-signature"})
_PROOF: Final = frozenset(
    {b"x-amz-algorithm", b"x-amz-credential", b"x-amz-date", b"x-amz-signature", b"x-amz-security-token"}
)
_RENAMED: Final[Mapping[bytes, bytes]] = {b"acl": b"x-amz-acl", b"tagging": b"x-amz-tagging"}
_AS_HEADERS: Final = frozenset(
    {
        *(b"cache-control", b"content-disposition", b"content-encoding", b"content-language", b"content-md5"),
        *(b"content-type", b"expires", STATUS, REDIRECT, OLD_REDIRECT),
    }
)
_AS_HEADERS_STARTS: Final = (b"x-amz-", b"if-")
_REFUSED: Final = (
    *(b"x-amz-copy-source", b"x-amz-rename-source", b"x-amz-content-sha256", b"x-amz-decoded-content-length"),
    *(b"x-amz-trailer", b"x-amz-rdma-", b"x-tier-"),
)
"""Beginnings of names that mean another operation, another framing, or nothing in a form: never ignored."""

_OF_THE_REQUEST: Final = frozenset({b"host", b"origin", b"referer", b"user-agent", b"x-forwarded-for"})
"""Headers of the HTTP request that still mean something beside a form."""


class FormUpload(NamedTuple):
    """A form whose fields are read and proved: the PutObject it means, who sent it, and the key it names."""

    call: Call
    caller: Authenticated
    key: str


async def open_form(call: Call, authenticator: Authenticator, bucket_name: str) -> FormUpload:
    """Read the fields of a form, verify them, and leave its file to be read.

    Errors: those of `form_parts`, of `Authenticator.authenticate_form`, UserKeyMustBeSpecified without a key,
    AccessDenied for a form that names another bucket, InvalidArgument, and those of names and tags.
    """
    delimiter = parse_boundary(call.fields.get(b"content-type", b""))
    if call.content_length is None and not call.is_chunked:
        raise S3Error(S3Code.MissingContentLength)
    block = await _first_block(call)
    head = parse_head(block, delimiter)
    fields = with_file_name(head)
    if not fields.get(b"key"):
        raise S3Error(S3Code.UserKeyMustBeSpecified, ArgumentName="key", ArgumentValue="")
    if fields.get(b"bucket", bucket_name.encode()) != bucket_name.encode():
        raise S3Error(S3Code.AccessDenied, "Invalid according to Policy: the form names another bucket.")
    proved = await authenticator.authenticate_form(call, {**fields, b"bucket": bucket_name.encode()})
    key = plain_key(fields[b"key"])
    lines = as_headers(fields) | {name: value for name, value in call.fields.items() if name in _OF_THE_REQUEST}
    file = FormFile(call.body, delimiter, block[head.file_start :], proved.sizes)
    meant = replace(
        call, query=b"", headers=list(lines.items()), fields=lines, body=file, content_length=None, is_chunked=True
    )
    return FormUpload(meant, proved.authenticated, key)


async def _first_block(call: Call) -> bytes:
    length = HEAD_BYTES_MAX if call.content_length is None else min(HEAD_BYTES_MAX, call.content_length)
    block = bytearray(length)
    try:
        count = await call.body.fill(memoryview(block))
    except BodyCut:
        raise S3Error(S3Code.IncompleteBody) from None
    return bytes(block[:count])


def with_file_name(head: FormHead) -> dict[bytes, bytes]:
    """The fields with the name of the file where they ask for it; what is signed as it stands stays so."""
    return {
        name: value if name in _AS_SIGNED else value.replace(_FILE_NAME, head.file_name)
        for name, value in head.fields.items()
    }


def as_headers(fields: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
    """The headers of the PutObject that a form means; fields that mean nothing to it are left out.

    Errors: InvalidArgument for a field that cannot stand in a form, or that says the same as another; those of tags.
    """
    lines: dict[bytes, bytes] = {}
    for field, value in fields.items():
        name = _RENAMED.get(field, field)
        if name.startswith(_REFUSED) or name in lines:
            message = "This field cannot stand in a form, or not beside another one."
            raise S3Error(S3Code.InvalidArgument, message, ArgumentName=field.decode("utf-8", "replace"))
        if name in _PROOF or not (name in _AS_HEADERS or name.startswith(_AS_HEADERS_STARTS)):
            continue
        lines[name] = _tagging(value) if field == b"tagging" else value
    return lines


def _tagging(document: bytes) -> bytes:
    """The tagging header that a Tagging document means. Errors: MalformedXML, InvalidTag."""
    return urlencode(tags.parse_document(document, tags.OBJECT_TAGS_MAX)).encode()
