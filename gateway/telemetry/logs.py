"""The process log: one JSON object a line on standard error, redacted."""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Final

from gateway.telemetry.redaction import redact_text

TEXT_CHARACTERS_MAX: Final = 8192
"""Bound of one message or trace; a longer one is cut, so that no input makes a log line of any size."""


class JsonFormatter(logging.Formatter):
    """One record as one line; control characters are escaped by JSON."""

    def __init__(self, process: str) -> None:
        super().__init__()
        self._process = process

    def format(self, record: logging.LogRecord) -> str:
        entry = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "process": self._process,
            "logger": record.name,
            "message": redact_text(record.getMessage()[:TEXT_CHARACTERS_MAX]),
        }
        if record.exc_info:
            entry["trace"] = redact_text(self.formatException(record.exc_info)[-TEXT_CHARACTERS_MAX:])
        return json.dumps(entry)


def configure_logs(level: str, process: str) -> None:
    """Send every logger of the process to standard error. Called once, before the first record."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter(process))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    logging.raiseExceptions = False  # a broken log sink must not become a broken request
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access", "asyncio", "alembic"):
        logging.getLogger(name).setLevel(max(logging.WARNING, logging.getLogger().level))
