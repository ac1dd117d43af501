"""What the gateway tells the worker, and how: one JSON line in, then the object; frames out."""

import json
import struct
from dataclasses import asdict, dataclass
from typing import Final

FRAME: Final = struct.Struct(">cI")
RECORDS, PROGRESS, FAILED, DONE = b"R", b"P", b"F", b"D"
FRAME_BYTES_MAX: Final = 128 * 1024


@dataclass(frozen=True, slots=True)
class Input:
    """How the object is to be read. `format` is CSV, JSON or Parquet; the rest is of one of them."""

    format: str
    compression: str = "NONE"
    header: str = "NONE"
    field: str = ","
    record: str = "\n"
    quote: str = '"'
    escape: str = '"'
    comments: str = ""
    is_record_quoted: bool = False
    is_document: bool = False


@dataclass(frozen=True, slots=True)
class Output:
    """How records are to be written. `format` is CSV or JSON."""

    format: str
    field: str = ","
    record: str = "\n"
    quote: str = '"'
    escape: str = '"'
    is_always_quoted: bool = False


@dataclass(frozen=True, slots=True)
class Job:
    """One query over one object. `now` is the time that it is to take for now, as ISO 8601 without a zone."""

    expression: str
    input: Input
    output: Output
    now: str

    def pack(self) -> bytes:
        """As the first line that the worker reads."""
        return json.dumps(asdict(self)).encode() + b"\n"


def unpack_job(line: bytes) -> Job:
    """Inverse of `Job.pack`."""
    fields = json.loads(line)
    return Job(fields["expression"], Input(**fields["input"]), Output(**fields["output"]), fields["now"])
