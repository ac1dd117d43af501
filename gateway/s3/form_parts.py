"""multipart/form-data as browsers send it, read strictly and purely: the fields before the file, and where it begins.

Own code because the format is small once its leniences are refused (no preamble, no nested or encoded parts, no second
file), and because a parser of everything would have to be reined in at every limit; see decisions.
Source: RFC 7578 and RFC 2046, 5.1.
"""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from gateway.s3.errors import S3Code, S3Error

HEAD_BYTES_MAX: Final = 32 * 1024
"""Everything before the file's first byte, lines of the parts included."""
FIELD_BYTES_MAX: Final = 20 * 1024
"""Names and values of the fields before the file, in sum."""
TAIL_BYTES_MAX: Final = 20 * 1024
"""Everything behind the file."""

FILE: Final = b"file"
_TYPE: Final = b"multipart/form-data"
_END_OF_LINES: Final = b"\r\n\r\n"
_BOUNDARY: Final = re.compile(rb"[0-9A-Za-z'()+_,./:=? -]{0,69}[0-9A-Za-z'()+_,./:=?-]")
_PARAMETER: Final = re.compile(rb';[ \t]*([0-9A-Za-z*_-]{1,32})=(?:"((?:[^"\\]|\\.)*+)"|([^\s";,]++))[ \t]*')
_IDENTITIES: Final = frozenset({b"7bit", b"8bit", b"binary"})


class Part(NamedTuple):
    """One part: its name in lower case, the file name it gives (None: none), and where its content begins and stops."""

    name: bytes
    file_name: bytes | None
    start: int
    stop: int


class FormHead(NamedTuple):
    """What stands before the file: the fields by lower-case name, the file's name, and where the file begins."""

    fields: dict[bytes, bytes]
    file_name: bytes
    file_start: int


def malformed(message: str | None = None) -> S3Error:
    """The error for a body that is no well-formed form."""
    return S3Error(S3Code.MalformedPOSTRequest, message)


def parse_boundary(content_type: bytes) -> bytes:
    """The delimiter of a form's parts, `--` included.

    Errors: PreconditionFailed for another type, as on AWS; MalformedPOSTRequest without a legal boundary.
    """
    word, _, _ = content_type.partition(b";")
    if word.strip().lower() != _TYPE:
        condition = "Bucket POST must be of the enclosure-type multipart/form-data"
        raise S3Error(S3Code.PreconditionFailed, Condition=condition)
    boundary = _parameters(content_type[len(word) :]).get(b"boundary", b"")
    if _BOUNDARY.fullmatch(boundary) is None:
        raise malformed("The boundary of the form is missing or illegal.")
    return b"--" + boundary


def _parameters(text: bytes) -> dict[bytes, bytes]:
    """The parameters of a header value, by lower-case name. Errors: MalformedPOSTRequest."""
    found: dict[bytes, bytes] = {}
    at = 0
    text = text.rstrip(b" \t;")
    while at < len(text):
        match = _PARAMETER.match(text, at)
        if match is None or match[1].lower() in found:
            raise malformed()
        # Only the quote is unescaped: browsers of old put whole Windows paths between the quotes.
        found[match[1].lower()] = match[3] if match[2] is None else match[2].replace(b'\\"', b'"')
        at = match.end()
    return found


def parse_head(block: bytes, delimiter: bytes) -> FormHead:
    """The fields before the file, from the first bytes of a body: all of it, or `HEAD_BYTES_MAX` of them.

    Errors: MalformedPOSTRequest; MaxPostPreDataLengthExceeded when the limits are passed; InvalidArgument when a field
    occurs twice or no file follows.
    """
    fields: dict[bytes, bytes] = {}
    size = 0
    for part in _parts(block, delimiter):
        if part.name == FILE:
            return FormHead(fields, base_name(part.file_name or b""), part.start)
        if part.stop < 0:
            break
        size += len(part.name) + part.stop - part.start
        if size > FIELD_BYTES_MAX:
            raise too_long()
        if part.name in fields:
            name = part.name.decode("utf-8", "replace")
            raise S3Error(S3Code.InvalidArgument, "A field of the form occurs more than once.", ArgumentName=name)
        fields[part.name] = block[part.start : part.stop]
    if len(block) >= HEAD_BYTES_MAX:
        raise too_long()
    raise no_file(0)


def too_long() -> S3Error:
    """The error for more before the file than the limits allow."""
    return S3Error(S3Code.MaxPostPreDataLengthExceeded)


def no_file(count: int) -> S3Error:
    """The error for a form without a file, or with several."""
    message = "POST requires exactly one file upload per request."
    return S3Error(S3Code.InvalidArgument, message, ArgumentName="file", ArgumentValue=str(count))


def judge_tail(tail: bytes, delimiter: bytes) -> None:
    """What follows the delimiter behind the file: the end of the form, perhaps after parts that mean nothing.

    Errors: MalformedPOSTRequest, InvalidArgument for a second file.
    """
    if tail in {b"--", b"--\r\n"}:
        return
    for part in _parts(delimiter + tail, delimiter):
        if part.name == FILE:
            raise no_file(2)
        if part.stop < 0:
            raise malformed()


def _parts(block: bytes, delimiter: bytes) -> Iterator[Part]:
    """The parts of a block that begins with a delimiter; `stop` is -1 where the block ends first.

    Ends after the closing delimiter, behind which nothing but a line break may stand, or where the block ends in a
    part's lines. Errors: MalformedPOSTRequest. Cost: linear in the block.
    """
    if not block.startswith(delimiter):
        raise malformed()
    at = len(delimiter)
    while not block.startswith(b"--", at):
        is_cut = len(block) < at + 2
        if not is_cut and not block.startswith(b"\r\n", at):
            raise malformed()
        lines_stop = block.find(_END_OF_LINES, at)
        if is_cut or lines_stop < 0:
            yield Part(b"", None, len(block), -1)
            return
        name, file_name = _parse_lines(block[at + 2 : lines_stop])
        start = lines_stop + len(_END_OF_LINES)
        # A part without content: the line break before the delimiter is the one that ends its lines.
        stop = block.find(b"\r\n" + delimiter, start)
        yield Part(name, file_name, start, stop)
        if stop < 0:
            return
        at = stop + 2 + len(delimiter)
    if block[at + 2 :] not in {b"", b"\r\n"}:
        raise malformed()


def _parse_lines(lines: bytes) -> tuple[bytes, bytes | None]:
    """Name and file name of a part. Errors: MalformedPOSTRequest."""
    disposition: bytes | None = None
    for line in lines.split(b"\r\n"):
        name, colon, value = line.partition(b":")
        name, value = name.lower(), value.strip(b" \t")
        if not colon or b"\n" in line or b"\r" in line or b"\0" in line:
            raise malformed()
        if name == b"content-transfer-encoding" and value.lower() not in _IDENTITIES:
            raise malformed("Encoded parts are not supported.")
        if name == b"content-disposition":
            if disposition is not None:
                raise malformed()
            disposition = value
    word, _, _ = (disposition or b"").partition(b";")
    if word.strip().lower() != b"form-data":
        raise malformed()
    parameters = _parameters((disposition or b"")[len(word) :])
    if not parameters.get(b"name") or not parameters.keys() <= {b"name", b"filename"}:
        raise malformed()
    return parameters[b"name"].lower(), parameters.get(b"filename")


def base_name(path: bytes) -> bytes:
    """The last step of a path in either spelling: browsers may send where the file lay."""
    return re.split(rb"[/\\]", path)[-1]
