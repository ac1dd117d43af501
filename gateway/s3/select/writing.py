"""From rows of the engine to the records that the client asked for; runs in the worker."""

import csv
import io
import json
from collections.abc import Callable, Iterable, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Protocol

from gateway.s3.select.job import Output
from gateway.s3.select.translation import Column


class Row(Protocol):
    """Writes one row of the engine into a text."""

    def __call__(self, out: io.StringIO, row: Sequence[Any], /) -> None: ...


def plain(value: object) -> object:
    """A value of the engine as one of JSON."""
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, bytes | bytearray):
        return bytes(value).decode("utf-8", "replace")
    if isinstance(value, dict):
        return {str(name): plain(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [plain(member) for member in value]
    return value if value is None or isinstance(value, str | int | float) else str(value)


def cell(value: object) -> str:
    """A value as a CSV field."""
    value = plain(value)
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)


def csv_writer(output: Output) -> Callable[[io.StringIO, Iterable[Any]], None]:
    """Writes values as one CSV record."""
    is_doubled = output.escape == output.quote

    def write(out: io.StringIO, values: Iterable[Any]) -> None:
        csv.writer(
            out,
            delimiter=output.field,
            quotechar=output.quote,
            doublequote=is_doubled,
            escapechar=None if is_doubled else output.escape,
            lineterminator=output.record,
            quoting=csv.QUOTE_ALL if output.is_always_quoted else csv.QUOTE_MINIMAL,
        ).writerow(map(cell, values))

    return write


def value_of(value: object, column: Column) -> object:
    """A value of a column; those that are JSON become what they say."""
    return json.loads(value) if column.is_json and isinstance(value, str) else plain(value)


def row_writer(output: Output, columns: Sequence[Column]) -> Row:
    """Writes rows of named columns. A member that the record does not have is left out of JSON."""
    if output.format == "CSV":
        write = csv_writer(output)
        return lambda out, row: write(out, map(value_of, row, columns))

    def write_json(out: io.StringIO, row: Sequence[Any]) -> None:
        members = {
            column.name: value_of(value, column)
            for value, column in zip(row, columns, strict=True)
            if value is not None or not column.is_json
        }
        out.write(json.dumps(members, ensure_ascii=False, separators=(",", ":")))
        out.write(output.record)

    return write_json


def record_writer(output: Output, names: Sequence[str], *, is_json: bool) -> Row:
    """Writes whole records: JSON values (`is_json`), or lists of fields whose names are known or their positions."""
    write = csv_writer(output)

    def write_record(out: io.StringIO, row: Sequence[Any]) -> None:
        record = row[0]
        if output.format == "JSON" and is_json:
            out.write(record + output.record)
        elif is_json:
            members = json.loads(record)
            write(out, members.values() if isinstance(members, dict) else [members])
        elif output.format == "CSV":
            write(out, record)
        else:
            named = {names[at] if at < len(names) else f"_{at + 1}": field for at, field in enumerate(record)}
            out.write(json.dumps(named, ensure_ascii=False, separators=(",", ":")) + output.record)

    return write_record
