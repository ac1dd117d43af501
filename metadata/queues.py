"""Statements of work that waits: dead blobs, due entries, repairs, moves."""

from typing import Final

from sqlalchemy import ColumnElement, func, literal_column, select, tuple_
from sqlalchemy.engine.interfaces import Dialect

from metadata.models import BLOB, DUE, MOVE, REPAIR
from metadata.statements import Statement, StatementTexts, compile_text, integer, key_of, limited, parameter
from metadata.types import BlobState


def list_dead_blobs() -> Statement:
    """Blobs that have been dead since before a time, longest dead first."""
    where = BLOB.c.state == literal_column(str(BlobState.DEAD.value)), BLOB.c.dead_ms < integer("dead_before_ms")
    return limited(select(BLOB).where(*where).order_by(BLOB.c.dead_ms)), ("dead_before_ms", "limit")


def _due_by(until: str) -> list[ColumnElement[bool]]:
    return [DUE.c.kind == integer("kind"), DUE.c.due_ms <= integer(until)]


def list_due() -> Statement:
    """Entries of a kind that are due, the longest due first, after one of them."""
    order = DUE.c.due_ms, DUE.c.bucket_id, DUE.c.key, DUE.c.sequence, DUE.c.upload_id
    after = tuple_(*map(parameter, order))
    query = select(DUE).where(*_due_by("until_ms"), tuple_(*order) > after).order_by(*order)
    return limited(query), ("kind", "until_ms", *[part.name for part in order], "limit")


def count_due() -> Statement:
    """How many entries of a kind are due, `limit` at most."""
    some = limited(select(literal_column("1")).select_from(DUE).where(*_due_by("until_ms"))).subquery()
    return select(func.count()).select_from(some), ("kind", "until_ms", "limit")


def list_repairs() -> Statement:
    """Fragments known to be missing or bad, in primary key order."""
    return limited(select(REPAIR).order_by(*key_of(REPAIR))), ("limit",)


def list_moves() -> Statement:
    """Moves in a state whose time has come, the most urgent first."""
    where = MOVE.c.state == integer("state"), MOVE.c.due_ms <= integer("due_by_ms")
    query = select(MOVE).where(*where).order_by(MOVE.c.priority, MOVE.c.due_ms, MOVE.c.sequence)
    return limited(query), ("state", "due_by_ms", "limit")


def count_moves() -> Statement:
    """How many moves are in a state."""
    return select(func.count()).select_from(MOVE).where(MOVE.c.state == integer("state")), ("state",)


class Texts(StatementTexts):
    """Every statement that both dialects share, those of work that waits too."""

    def __init__(self, dialect: Dialect) -> None:
        super().__init__(dialect)
        self.list_due: Final = compile_text(dialect, list_due())
        self.count_due: Final = compile_text(dialect, count_due())
        self.list_dead_blobs: Final = compile_text(dialect, list_dead_blobs())
        self.list_repairs: Final = compile_text(dialect, list_repairs())
        self.list_moves: Final = compile_text(dialect, list_moves())
        self.count_moves: Final = compile_text(dialect, count_moves())
