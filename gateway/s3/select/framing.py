"""The event stream that answers a query: length-prefixed messages, each with two CRC32."""

import struct
import zlib
from typing import Final, NamedTuple

RECORDS_BYTES_MAX: Final = 128 * 1024
"""Payload of one Records message; AWS's are as long at most."""

_STRING: Final = 7


class Statistics(NamedTuple):
    """Bytes read of the object, bytes of it after decompression, and bytes of records sent."""

    scanned: int = 0
    processed: int = 0
    returned: int = 0


def message(headers: dict[str, str], payload: bytes = b"") -> bytes:
    """One message."""
    packed = b"".join(_header(name, value) for name, value in headers.items())
    prelude = struct.pack(">II", 16 + len(packed) + len(payload), len(packed))
    head = prelude + struct.pack(">I", zlib.crc32(prelude)) + packed + payload
    return head + struct.pack(">I", zlib.crc32(head))


def _header(name: str, value: str) -> bytes:
    named, worth = name.encode("ascii"), value.encode()
    return struct.pack(">B", len(named)) + named + struct.pack(">BH", _STRING, len(worth)) + worth


def _event(name: str, payload: bytes, content_type: str = "") -> bytes:
    headers = {":message-type": "event", ":event-type": name}
    return message(headers | ({":content-type": content_type} if content_type else {}), payload)


def records(payload: bytes) -> bytes:
    """A piece of the answer; pieces end anywhere."""
    assert 0 < len(payload) <= RECORDS_BYTES_MAX
    return _event("Records", payload, "application/octet-stream")


def statistics(name: str, numbers: Statistics) -> bytes:
    """`name` is Progress while the query runs, Stats when it is done."""
    assert name in {"Progress", "Stats"}
    document = (
        f"<{name}><BytesScanned>{numbers.scanned}</BytesScanned><BytesProcessed>{numbers.processed}</BytesProcessed>"
        f"<BytesReturned>{numbers.returned}</BytesReturned></{name}>"
    )
    return _event(name, document.encode(), "text/xml")


def failure(code: str, text: str) -> bytes:
    """The end of an answer that failed after it began; no End follows."""
    return message({":message-type": "error", ":error-code": code, ":error-message": text[:1000]})


CONTINUATION: Final = _event("Cont", b"")
"""Keeps the connection while nothing else is to be said."""

END: Final = _event("End", b"")
