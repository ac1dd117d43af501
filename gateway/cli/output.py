"""What commands print: tables for people, JSON for programs; and the one way a command fails."""

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final, NoReturn

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

out: Final = Console(highlight=False)
err: Final = Console(stderr=True, highlight=False)


def show_json(document: object) -> None:
    """Print a document as JSON."""
    sys.stdout.write(f"{json.dumps(document, indent=2)}\n")


def show_table(rows: Sequence[Mapping[str, Any]], columns: Mapping[str, str]) -> None:
    """Print rows; `columns` maps a row's member to its heading. Text of the store is shown, never interpreted."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in columns.values():
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(*[Text(_cell(row.get(member))) for member in columns])
    out.print(table)


def show_record(record: Mapping[str, Any]) -> None:
    """Print one record, a member a line."""
    width = max(map(len, record), default=0)
    for name, value in record.items():
        out.print(Text(f"{name.ljust(width)}  {_cell(value)}"))


def fail(message: str, code: int = 1) -> NoReturn:
    """End the command with a message on standard error."""
    err.print(Text(f"isotherm: {message}"), soft_wrap=True)
    raise typer.Exit(code)


def bytes_text(count: int) -> str:
    """Bytes for people, in binary units."""
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} PiB"


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(str(item) for item in value)
    return str(value)
