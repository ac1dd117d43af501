"""The tree of a query, and the tables of what may stand in one."""

from dataclasses import dataclass
from typing import Final

Step = str | int
"""A member by name, an element by index; `EVERY` is each element."""

EVERY: Final = -1


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant: text, number (as written), true or false, or null."""

    kind: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class Reference:
    """A column, or a path into the record. `is_exact` first names were quoted and keep their case."""

    steps: tuple[Step, ...]
    is_exact: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    """A function, operator or form by its name, and what it takes; `word` is a type, date part or trim side."""

    name: str
    arguments: tuple["Expression", ...]
    word: str = ""


Expression = Literal | Reference | Call


@dataclass(frozen=True, slots=True)
class Item:
    """One column of the answer; `name` empty means that none was given."""

    expression: Expression
    name: str = ""


@dataclass(frozen=True, slots=True)
class Query:
    """A whole query. `items` empty means all columns; `source` is the path behind S3Object; `limit` None: all."""

    items: tuple[Item, ...]
    source: tuple[Step, ...]
    alias: str
    condition: Expression | None
    limit: int | None


AGGREGATES: Final = frozenset({"COUNT", "SUM", "AVG", "MIN", "MAX"})
TYPES: Final = {
    **dict.fromkeys(("INT", "INTEGER"), "INT"),
    **dict.fromkeys(("STRING", "VARCHAR", "CHAR", "CHARACTER"), "STRING"),
    **dict.fromkeys(("FLOAT", "DOUBLE", "REAL"), "FLOAT"),
    **dict.fromkeys(("DECIMAL", "NUMERIC"), "DECIMAL"),
    **dict.fromkeys(("BOOL", "BOOLEAN"), "BOOL"),
    "TIMESTAMP": "TIMESTAMP",
}
DATE_PARTS: Final = frozenset({"YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND"})
ARITIES: Final = {
    **dict.fromkeys(("LOWER", "UPPER", "CHAR_LENGTH", "CHARACTER_LENGTH", "TO_TIMESTAMP"), (1, 1)),
    "COALESCE": (1, 50),
    "NULLIF": (2, 2),
    "UTCNOW": (0, 0),
}
