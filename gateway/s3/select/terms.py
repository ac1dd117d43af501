"""Pieces of DuckDB's SQL, and what is known of their values."""

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple, Protocol

from gateway.s3.select.refusals import SelectRefused
from gateway.s3.select.tree import EVERY, Expression, Literal, Step


class Kind(StrEnum):
    """What is known of a value before it is seen. ANY is text of a CSV field or JSON member, compared as it is used."""

    ANY = "any"
    TEXT = "text"
    NUMBER = "number"
    BOOL = "bool"
    TIMESTAMP = "timestamp"
    NULL = "null"
    TYPED = "typed"  # a Parquet column: DuckDB knows


class Format(StrEnum):
    """What the records are."""

    CSV = "CSV"
    JSON = "JSON"
    PARQUET = "Parquet"


class Term(NamedTuple):
    """A translated expression."""

    sql: str
    kind: Kind


class Speaker(Protocol):
    """Who says expressions in DuckDB's words, as values of the kind that is needed."""

    now: str

    def term(self, expression: Expression) -> Term: ...
    def text(self, expression: Expression) -> str: ...
    def number(self, expression: Expression) -> str: ...
    def truth(self, expression: Expression) -> str: ...
    def moment(self, expression: Expression) -> str: ...
    def alike(self, *expressions: Expression) -> tuple[Kind, list[str]]: ...


def quote_text(text: str) -> str:
    """A text as DuckDB reads it back. Errors: SelectRefused for NUL, which it would end at."""
    if "\0" in text:
        raise SelectRefused("LexerInvalidChar", "The SQL expression has a NUL character.")
    return "'" + text.replace("'", "''") + "'"


def quote_name(name: str) -> str:
    """A column name as DuckDB reads it back."""
    if "\0" in name:
        raise SelectRefused("LexerInvalidChar", "The SQL expression has a NUL character.")
    return '"' + name.replace('"', '""') + '"'


def json_path(steps: Sequence[Step]) -> str:
    """A path as DuckDB writes it. A step over every element makes it a list of values."""
    pieces = ["$"]
    for step in steps:
        if isinstance(step, int):
            pieces.append("[*]" if step == EVERY else f"[{step}]")
        elif '"' in step or "\\" in step or step == "":
            raise SelectRefused("ParseInvalidPathComponent", "A path cannot name a member with a quote or backslash.")
        else:
            pieces.append(f'."{step}"')
    return "".join(pieces)


def literal_term(literal: Literal) -> Term:
    """A constant."""
    if literal.kind == "text":
        return Term(quote_text(literal.text), Kind.TEXT)
    if literal.kind == "number":
        is_whole = literal.text.isdigit() and len(literal.text) < 18
        return Term(literal.text if is_whole else f"CAST('{literal.text}' AS DOUBLE)", Kind.NUMBER)
    return Term(literal.text.lower(), Kind.BOOL) if literal.kind == "bool" else Term("NULL", Kind.NULL)
