"""Statements that look in several places and answer from one snapshot: a version wherever it stands, and leaps.

A *leap* goes over the common prefixes of a listing, one descent of the index for each, whatever it hides. Written as
text: SQLAlchemy Core has no words for it, and each dialect spells a search in bytes its own way.
"""

from enum import Enum
from typing import Any, Final, NamedTuple

from sqlalchemy import BigInteger, Integer, LargeBinary, Text, bindparam, literal_column, select, text, union_all
from sqlalchemy.engine.interfaces import Dialect
from sqlalchemy.types import TypeEngine

from metadata.models import NONCURRENT, OBJECT, UPLOAD, UPLOAD_IS_OPEN
from metadata.statements import Statement, compile_text

ABOVE_KEYS: Final = b"\xff"
"""No key is UTF-8 and this or greater."""

PARAMETERS: Final[dict[str, TypeEngine[Any]]] = {
    "bucket_id": BigInteger(),
    "start": LargeBinary(),
    "stop": LargeBinary(),
    "skip": Integer(),
    "delimiter": LargeBinary(),
    "behind": LargeBinary(),
    "limit": Integer(),
}
SEARCH: Final = {"sqlite": "instr({text}, {wanted})", "postgresql": "position({wanted} in {text})"}
BYTES: Final = {"sqlite": "blob", "postgresql": "bytea"}


class Leap(NamedTuple):
    """Which keys of a bucket to go over, in the order of the statement's parameters.

    From `start` on, below `stop` (None: to the end), at most `limit`. All of them begin with the listing's prefix, and
    `skip` is the place behind it, from one. `behind` is the least bytes above all that begin with the delimiter.
    """

    start: bytes
    stop: bytes | None
    skip: int
    delimiter: bytes
    behind: bytes
    limit: int


class Listed(Enum):
    """What a listing lists: where its rows are, and which of them count."""

    OBJECTS = ((OBJECT.name, ""),)
    VERSIONS = ((OBJECT.name, ""), (NONCURRENT.name, ""))
    UPLOADS = ((UPLOAD.name, f" and {UPLOAD_IS_OPEN}"),)


def find_version() -> Statement:
    """The version of a key with an id, current or not; the key and the id come once for each table of versions."""
    halves = []
    for model, half in ((OBJECT, ""), (NONCURRENT, "_again")):
        found = select(model).where(
            model.c.bucket_id == bindparam("bucket_id" + half, type_=BigInteger()),
            model.c.key == bindparam("key" + half, type_=LargeBinary()),
            model.c.version_id == bindparam("version_id" + half, type_=Text()),
        )
        newest = found.order_by(model.c.sequence.desc()).limit(literal_column("1")).offset(literal_column("0"))
        halves.append(select(newest.subquery()))
    names = [name + half for half in ("", "_again") for name in ("bucket_id", "key", "version_id")]
    return union_all(*halves), tuple(names)


def leap(dialect: Dialect, listed: Listed) -> Statement:
    """The first key of each common prefix, up to and with the first key that has none; by `bucket_id` and a `Leap`."""
    rest = "substr(walk.key, given.skip)"
    place = SEARCH[dialect.name].format(text=rest, wanted="given.delimiter")
    cut = f"substr(walk.key, 1, given.skip + {place} - 2)"
    following = f"cast({cut} || given.behind as {BYTES[dialect.name]})"
    names = tuple(PARAMETERS)
    statement = (
        f"with recursive given({', '.join(names[:-1])}, most) as (select {', '.join(f':{name}' for name in names)}),"
        f" walk(key, number) as (select ({_first('given.start', listed)}), 1 from given union all"
        f" select ({_first(following, listed)}), walk.number + 1 from walk, given"
        f" where walk.key < given.stop and walk.number < given.most and {place} > 0)"
        " select walk.key from walk, given where walk.key < given.stop order by walk.number"
    )
    return text(statement).bindparams(*[bindparam(name, type_=kind) for name, kind in PARAMETERS.items()]), names


def _first(start: str, listed: Listed) -> str:
    """The least key from `start` on in any of the places."""
    seeks = [
        f"select {table}.key as key from {table} where {table}.bucket_id = given.bucket_id and {table}.key >= {start}"
        f"{condition} order by {table}.key limit 1"
        for table, condition in listed.value
    ]
    if len(seeks) == 1:
        return seeks[0]
    every = " union all ".join([f"select * from ({seek}) as found_{n}" for n, seek in enumerate(seeks)])
    return f"select every.key from ({every}) as every order by every.key limit 1"


class SeekTexts:
    """These statements as texts of one dialect."""

    def __init__(self, dialect: Dialect) -> None:
        self.find_version: Final = compile_text(dialect, find_version())
        self.leap: Final = {listed: compile_text(dialect, leap(dialect, listed)) for listed in Listed}
