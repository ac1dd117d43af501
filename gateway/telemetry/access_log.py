"""The structured access log: a record is one append on the request path; a thread formats and writes later."""

import json
import logging
import os
import sys
import threading
from collections import deque
from datetime import UTC, datetime
from typing import Final, NamedTuple

from gateway.telemetry.redaction import redact_query

logger = logging.getLogger(__name__)

RECORDS_MAX: Final = 65536
"""Records waiting to be written: about a second of the fastest worker; more are dropped and counted."""

PATH_BYTES_MAX: Final = 4096


class AccessRecord(NamedTuple):
    """One request. This is the whole allow-list: nothing else of a request reaches the log."""

    time: float
    request_id: str
    peer: str
    method: str
    raw_path: bytes
    query: bytes
    operation: str
    bucket: str
    access_key_id: str
    user_agent: bytes
    status: int
    error_code: str
    received_bytes: int
    sent_bytes: int
    seconds: float
    ttfb_seconds: float


def format_record(record: AccessRecord) -> str:
    """One JSON object without line end. Bytes outside ASCII appear as escapes; signatures do not appear."""
    return json.dumps(
        {
            "time": datetime.fromtimestamp(record.time, UTC).isoformat(timespec="milliseconds"),
            "request_id": record.request_id,
            "peer": record.peer,
            "method": record.method,
            "path": record.raw_path[:PATH_BYTES_MAX].decode("latin-1"),
            "query": redact_query(record.query[:PATH_BYTES_MAX]),
            "operation": record.operation,
            "bucket": record.bucket,
            "access_key_id": record.access_key_id,
            "user_agent": record.user_agent[:256].decode("latin-1"),
            "status": record.status,
            "error_code": record.error_code,
            "received_bytes": record.received_bytes,
            "sent_bytes": record.sent_bytes,
            "seconds": round(record.seconds, 6),
            "ttfb_seconds": round(record.ttfb_seconds, 6),
        },
        separators=(",", ":"),
    )


class AccessLog:
    """Buffers records and writes them in whole lines.

    `sink` is a path (appended to, created 0640), `-` for standard output, or `off`. Several processes may share a
    path: each write is one system call of whole lines in append mode. A path is opened anew when it was rotated away.
    """

    def __init__(self, sink: str) -> None:
        self.is_on = sink != "off"
        self.dropped = 0
        self._sink = sink
        self._records: deque[AccessRecord] = deque()
        self._descriptor = -1
        self._write_lock = threading.Lock()

    def append(self, record: AccessRecord) -> None:
        """Queue a record; drops it when too many wait."""
        if len(self._records) >= RECORDS_MAX:
            self.dropped += 1
            return
        self._records.append(record)

    def flush(self) -> None:
        """Format and write what waits. Blocking: call it from a thread. A failing sink drops records and is logged."""
        with self._write_lock:
            records = [self._records.popleft() for _ in range(len(self._records))]
            if not records:
                return
            lines = "".join([f"{format_record(record)}\n" for record in records]).encode()
            try:
                descriptor = self._open()
                while lines:
                    lines = lines[os.write(descriptor, lines) :]
            except OSError as error:
                self.dropped += len(records)
                logger.warning("access log: %s", error)

    def _open(self) -> int:
        if self._sink == "-":
            return sys.stdout.fileno()
        if self._descriptor >= 0 and not self._is_rotated():
            return self._descriptor
        self.close()
        self._descriptor = os.open(self._sink, os.O_CREAT | os.O_APPEND | os.O_WRONLY | os.O_CLOEXEC, 0o640)
        return self._descriptor

    def _is_rotated(self) -> bool:
        try:
            return os.fstat(self._descriptor).st_ino != os.stat(self._sink).st_ino  # noqa: PTH116  # twin of fstat
        except FileNotFoundError:
            return True

    def close(self) -> None:
        """Close the file; a later flush opens it again."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
