"""The document that SelectObjectContent takes, and its answer."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

from gateway.http.call import UNKNOWN_LENGTH, Answer, BodyStream
from gateway.s3 import xml
from gateway.s3.encryption import CustomerKey
from gateway.s3.errors import S3Code, S3Error
from gateway.s3.request import Request
from gateway.s3.schemas import described, encryption
from gateway.s3.select.job import Input, Output

_CSV_INPUT: Final = xml.Element(
    dict.fromkeys(
        (
            *("FileHeaderInfo", "Comments", "QuoteEscapeCharacter", "RecordDelimiter", "FieldDelimiter"),
            *("QuoteCharacter", "AllowQuotedRecordDelimiter"),
        ),
        xml.LEAF,
    )
)
_CSV_OUTPUT: Final = xml.Element(
    dict.fromkeys(
        ("QuoteFields", "QuoteEscapeCharacter", "RecordDelimiter", "FieldDelimiter", "QuoteCharacter"), xml.LEAF
    )
)
_INPUT: Final = xml.Element(
    {
        "CSV": _CSV_INPUT,
        "CompressionType": xml.LEAF,
        "JSON": xml.Element({"Type": xml.LEAF}),
        "Parquet": xml.Element(),
    },
    is_required=True,
)
_OUTPUT: Final = xml.Element({"CSV": _CSV_OUTPUT, "JSON": xml.Element({"RecordDelimiter": xml.LEAF})}, is_required=True)
_ROOTS: Final = {
    "SelectObjectContentRequest": xml.Element(
        {
            "Expression": xml.REQUIRED_LEAF,
            "ExpressionType": xml.REQUIRED_LEAF,
            "RequestProgress": xml.Element({"Enabled": xml.LEAF}),
            "InputSerialization": _INPUT,
            "OutputSerialization": _OUTPUT,
            "ScanRange": xml.Element({"Start": xml.LEAF, "End": xml.LEAF}),
        }
    )
}
_BOOLEANS: Final[Mapping[str, bool]] = {"": False, "TRUE": True, "FALSE": False}


@dataclass(frozen=True, slots=True)
class SelectObjectContent:
    """A query over one object. Read once the object's own list has allowed it, so not by the endpoint."""

    expression: str
    source: Input
    output: Output
    has_progress: bool
    customer: CustomerKey | None

    @classmethod
    async def decode(cls, request: Request) -> Self:
        if request.query["select-type"] != "2":
            raise described.invalid("select-type", request.query["select-type"])
        root = xml.read(await request.read_document(xml.DOCUMENT_BYTES_MAX), _ROOTS)
        if root.get("ExpressionType").upper() != "SQL":
            raise S3Error(S3Code.InvalidExpressionType)
        if root.has("ScanRange"):
            raise described.unserved("ScanRange")
        progress = root.all("RequestProgress")
        return cls(
            root.get("Expression"),
            _input(root.all("InputSerialization")[0]),
            _output(root.all("OutputSerialization")[0]),
            bool(progress) and _boolean(progress[0], "Enabled"),
            encryption.read_key(request),
        )


def _boolean(node: xml.Node, name: str) -> bool:
    value = _BOOLEANS.get(node.get(name).strip().upper())
    if value is None:
        raise xml.malformed()
    return value


def _one_of(node: xml.Node, names: tuple[str, ...]) -> xml.Node:
    """The one format that is given. Errors: InvalidDataSource for none or several."""
    found = [child for child in node.children if child.name in names]
    if len(found) != 1:
        raise S3Error(S3Code.InvalidRequest, f"Exactly one of {', '.join(names)} must be given.")
    return found[0]


def _input(node: xml.Node) -> Input:
    form = _one_of(node, ("CSV", "JSON", "Parquet"))
    compression = node.get("CompressionType").upper() or "NONE"
    if compression not in {"NONE", "GZIP", "BZIP2"} or (form.name == "Parquet" and compression != "NONE"):
        raise S3Error(S3Code.InvalidCompressionFormat)
    if form.name == "CSV":
        return _csv_input(form, compression)
    if form.name == "Parquet":
        return Input("Parquet")
    kind = form.get("Type").upper()
    if kind not in {"LINES", "DOCUMENT"}:
        raise S3Error(S3Code.InvalidJsonType)
    return Input("JSON", compression, is_document=kind == "DOCUMENT")


def _csv_input(node: xml.Node, compression: str) -> Input:
    header = node.get("FileHeaderInfo").upper() or "NONE"
    if header not in {"NONE", "USE", "IGNORE"}:
        raise S3Error(S3Code.InvalidFileHeaderInfo)
    is_record_quoted = _boolean(node, "AllowQuotedRecordDelimiter")
    record = _mark(node, "RecordDelimiter", "\n", most=2)
    if is_record_quoted and record != "\n":
        raise described.unserved("AllowQuotedRecordDelimiter with another RecordDelimiter than a line feed")
    source = Input(
        "CSV",
        compression,
        header,
        _mark(node, "FieldDelimiter", ","),
        record,
        _mark(node, "QuoteCharacter", '"', least=0),
        _mark(node, "QuoteEscapeCharacter", '"'),
        _mark(node, "Comments", "", least=0),
        is_record_quoted,
    )
    if len({source.field, source.record, source.quote}) < 3:
        raise S3Error(S3Code.InvalidRequest, "FieldDelimiter, RecordDelimiter and QuoteCharacter must differ.")
    return source


def _output(node: xml.Node) -> Output:
    form = _one_of(node, ("CSV", "JSON"))
    record = _mark(form, "RecordDelimiter", "\n", most=2)
    if form.name == "JSON":
        return Output("JSON", record=record)
    quoting = form.get("QuoteFields").upper() or "ASNEEDED"
    if quoting not in {"ALWAYS", "ASNEEDED"}:
        raise S3Error(S3Code.InvalidQuoteFields)
    output = Output(
        "CSV",
        _mark(form, "FieldDelimiter", ","),
        record,
        _mark(form, "QuoteCharacter", '"'),
        _mark(form, "QuoteEscapeCharacter", '"'),
        quoting == "ALWAYS",
    )
    if len({output.field, output.record, output.quote}) < 3:
        raise S3Error(S3Code.InvalidRequest, "FieldDelimiter, RecordDelimiter and QuoteCharacter must differ.")
    return output


def _mark(node: xml.Node, name: str, default: str, *, least: int = 1, most: int = 1) -> str:
    """A delimiter or quote. Errors: InvalidRequest for another length than this program serves."""
    if not node.has(name):
        return default
    text = node.get(name)
    is_line = most == 1 and text in {"\n", "\r"}
    if not least <= len(text) <= most or "\0" in text or is_line:
        raise S3Error(S3Code.InvalidRequest, f"{name} must have {least} to {most} characters.")
    return text


@dataclass(frozen=True, slots=True)
class Selected:
    """The event stream of a query."""

    stream: BodyStream

    def answer(self) -> Answer:
        return Answer(200, [(b"content-type", b"application/octet-stream")], self.stream, UNKNOWN_LENGTH)
