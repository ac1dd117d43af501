"""Statements, built once with SQLAlchemy Core and compiled once for each dialect to the driver's own text.

Nothing here runs a statement. A statement is compiled together with the names of its parameters in the order in which
its caller passes them; a compiler that numbers them otherwise is caught when the module of the dialect is imported.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

from sqlalchemy import (
    ARRAY,
    BigInteger,
    BindParameter,
    ClauseElement,
    Column,
    ColumnElement,
    CompoundSelect,
    LargeBinary,
    Select,
    TableValuedAlias,
    Text,
    and_,
    bindparam,
    cast,
    column,
    delete,
    exists,
    func,
    literal_column,
    or_,
    select,
    tuple_,
    union_all,
)
from sqlalchemy import Table as Model
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine.interfaces import Dialect
from sqlalchemy.sql.compiler import SQLCompiler

from metadata.models import (
    BLOB,
    BUCKET,
    BUCKET_DOCUMENT,
    EXTENT,
    MODELS,
    NONCURRENT,
    OBJECT,
    PART,
    UPLOAD,
    UPLOAD_IS_OPEN,
)
from metadata.tables import TABLES, Table
from metadata.types import BlobState

UNLISTED: Final = frozenset({"attributes", "parts", "tags", "acl", "extents"})
"""Columns of a version that pages of versions come without."""
UNSUMMED: Final = frozenset({"attributes", "parts", "extents"})
"""Columns of a version that its summary comes without."""

Names = tuple[str, ...]
Statement = tuple[ClauseElement, Names]
"""A statement and the names of its parameters in the caller's order."""


def compile_text(dialect: Dialect, statement: Statement) -> str:
    """The driver's text of a statement, its parameters in the order named."""
    executable, names = statement
    compiled = executable.compile(dialect=dialect)
    assert isinstance(compiled, SQLCompiler)
    assert tuple(compiled.positiontup or ()) == names, (compiled.string, compiled.positiontup, names)
    return str(compiled.string)


def integer(name: str) -> BindParameter[int]:
    """A parameter that is a 64-bit integer."""
    return bindparam(name, type_=BigInteger())


def _text(name: str) -> BindParameter[str]:
    return bindparam(name, type_=Text())


def _bytes(name: str) -> BindParameter[bytes]:
    return bindparam(name, type_=LargeBinary())


def key_of(model: Model) -> list[Any]:
    """Primary key columns."""
    return list(model.primary_key.columns)


def parameter(of: Column[Any]) -> BindParameter[Any]:
    """A parameter named and typed like a column."""
    return bindparam(of.name, type_=Text() if isinstance(of.type, Text) else of.type)


def limited(query: Select[Any]) -> Select[Any]:
    """The query with its parameter `limit`."""
    # SQLite's compiler adds `OFFSET ?` with a parameter of its own unless the offset is given.
    return query.limit(integer("limit")).offset(literal_column("0"))


# ------------------------------------------------------------------------------------------- every table


def get_row(table: Table[Any]) -> Statement:
    """One row by primary key."""
    key = key_of(MODELS[table])
    return select(MODELS[table]).where(*[part == parameter(part) for part in key]), tuple(part.name for part in key)


def scan_first(table: Table[Any]) -> Statement:
    """The first `limit` rows in primary key order."""
    model = MODELS[table]
    return limited(select(model).order_by(*key_of(model))), ("limit",)


def scan_after(table: Table[Any]) -> Statement:
    """The first `limit` rows in primary key order whose key is greater than the one given."""
    model = MODELS[table]
    key = key_of(model)
    after = tuple_(*key) > tuple_(*map(parameter, key)) if len(key) > 1 else key[0] > parameter(key[0])
    return limited(select(model).where(after).order_by(*key)), (*[part.name for part in key], "limit")


def sqlite_upsert(table: Table[Any]) -> Statement:
    """One row, its values in column order; run with executemany."""
    model = MODELS[table]
    new = sqlite.insert(model).values({each.name: parameter(each) for each in model.c})
    values = {each.name: new.excluded[each.name] for each in model.c if not each.primary_key}
    names = tuple(each.name for each in model.c)
    return new.on_conflict_do_update(index_elements=key_of(model), set_=values), names


def sqlite_delete(table: Table[Any]) -> Statement:
    """One row by primary key; run with executemany."""
    key = key_of(MODELS[table])
    return delete(MODELS[table]).where(*[part == parameter(part) for part in key]), tuple(part.name for part in key)


def _unnested(columns: Sequence[Any]) -> TableValuedAlias:
    arrays = [bindparam(each.name, type_=ARRAY(parameter(each).type)) for each in columns]
    named: list[ColumnElement[Any]] = [column(each.name, parameter(each).type) for each in columns]
    return func.unnest(*arrays).table_valued(*named, name="given").render_derived()


def postgresql_upsert(table: Table[Any]) -> Statement:
    """Any number of rows, one array a column."""
    model = MODELS[table]
    names = tuple(each.name for each in model.c)
    new = postgresql.insert(model).from_select(names, select(_unnested(list(model.c))))
    values = {each.name: new.excluded[each.name] for each in model.c if not each.primary_key}
    return new.on_conflict_do_update(index_elements=key_of(model), set_=values), names


def postgresql_delete(table: Table[Any]) -> Statement:
    """Any number of rows by primary key, one array a key column."""
    key = key_of(MODELS[table])
    given = _unnested(key)
    matches = [part == given.c[part.name] for part in key]
    return delete(MODELS[table]).where(*matches), tuple(part.name for part in key)


def postgresql_get_rows(table: Table[Any]) -> Statement:
    """The rows that exist among any number of primary keys, one array a key column."""
    key = key_of(MODELS[table])
    given = _unnested(key)
    matches = and_(*[part == given.c[part.name] for part in key])
    return select(MODELS[table]).join_from(given, MODELS[table], matches), tuple(part.name for part in key)


# ------------------------------------------------------------------------------------------- named selects


def locate() -> Statement:
    """Bucket and current version: the one statement of a GET. The bucket's columns, then the version's or NULLs."""
    matches = and_(OBJECT.c.bucket_id == BUCKET.c.bucket_id, OBJECT.c.key == _bytes("key"))
    joined = BUCKET.outerjoin(OBJECT, matches)
    return select(*BUCKET.c, *OBJECT.c).select_from(joined).where(BUCKET.c.name == _text("name")), ("key", "name")


def locate_many() -> Statement:
    """`locate` for any number of (name, key); each row begins with the index of its question, from one."""
    arrays = bindparam("name", type_=ARRAY(Text())), bindparam("key", type_=ARRAY(LargeBinary()))
    columns = column("name", Text()), column("key", LargeBinary())
    given = func.unnest(*arrays).table_valued(*columns, with_ordinality="position", name="given").render_derived()
    joined = given.join(BUCKET, BUCKET.c.name == given.c.name).outerjoin(
        OBJECT, and_(OBJECT.c.bucket_id == BUCKET.c.bucket_id, OBJECT.c.key == given.c.key)
    )
    return select(given.c.position, *BUCKET.c, *OBJECT.c).select_from(joined), ("name", "key")


def list_buckets() -> Statement:
    """Buckets with a greater name, by name."""
    return limited(select(BUCKET).where(BUCKET.c.name > _text("after")).order_by(BUCKET.c.name)), ("after", "limit")


def bucket_of_id() -> Statement:
    """The bucket with an id."""
    return select(BUCKET).where(BUCKET.c.bucket_id == integer("bucket_id")), ("bucket_id",)


def list_documents() -> Statement:
    """Documents of a bucket with a greater kind, by kind."""
    where = BUCKET_DOCUMENT.c.bucket_id == integer("bucket_id"), BUCKET_DOCUMENT.c.kind > _text("after")
    query = select(BUCKET_DOCUMENT).where(*where).order_by(BUCKET_DOCUMENT.c.kind)
    return limited(query), ("bucket_id", "after", "limit")


def _noncurrent_of_key() -> Select[Any]:
    return select(NONCURRENT).where(NONCURRENT.c.bucket_id == integer("bucket_id"), NONCURRENT.c.key == _bytes("key"))


def newest_noncurrent() -> Statement:
    """The noncurrent version or delete marker of a key with the highest sequence."""
    query = _noncurrent_of_key().order_by(NONCURRENT.c.sequence.desc())
    return query.limit(literal_column("1")).offset(literal_column("0")), ("bucket_id", "key")


def noncurrent_at() -> Statement:
    """The noncurrent version or delete marker of a key that has so many newer ones in the table."""
    query = _noncurrent_of_key().order_by(NONCURRENT.c.sequence.desc())
    return query.limit(literal_column("1")).offset(integer("newer")), ("bucket_id", "key", "newer")


def find_noncurrent() -> Statement:
    """The noncurrent version or delete marker of a key with a version id."""
    query = _noncurrent_of_key().where(NONCURRENT.c.version_id == _text("version_id"))
    newest = query.order_by(NONCURRENT.c.sequence.desc()).limit(literal_column("1")).offset(literal_column("0"))
    return newest, ("bucket_id", "key", "version_id")


def _of_key(model: Model, half: str) -> list[ColumnElement[bool]]:
    return [
        model.c.bucket_id == integer("bucket_id" + half),
        model.c.key == _bytes("start" + half),
        model.c.sequence < integer("sequence" + half),
    ]


def _in_range(model: Model, half: str = "", *, is_open: bool = False, has_stop: bool) -> list[ColumnElement[bool]]:
    start = _bytes("start" + half)
    first = model.c.key > start if is_open else model.c.key >= start
    stop = [model.c.key < _bytes("stop" + half)] if has_stop else []
    return [model.c.bucket_id == integer("bucket_id" + half), first, *stop]


def _listed(model: Model, left_out: frozenset[str] = UNLISTED) -> list[Any]:
    """The columns of a version in a listing. What none shows is left empty: it may be a megabyte a row."""
    empty = cast(literal_column("''"), LargeBinary())
    return [empty.label(each.name) if each.name in left_out else each for each in model.c]


def get_summary() -> Statement:
    """The summary of the current version of one key."""
    where = OBJECT.c.bucket_id == integer("bucket_id"), OBJECT.c.key == _bytes("key")
    return select(*_listed(OBJECT, UNSUMMED)).where(*where), ("bucket_id", "key")


def postgresql_get_summaries() -> Statement:
    """The same for any number of keys, one array a key column."""
    key = key_of(OBJECT)
    given = _unnested(key)
    matches = and_(*[part == given.c[part.name] for part in key])
    joined = select(*_listed(OBJECT, UNSUMMED)).join_from(given, OBJECT, matches)
    return joined, tuple(part.name for part in key)


def page_objects(*, has_stop: bool) -> Statement:
    """Current versions from `start` on, before `stop`, in key order."""
    names = ("bucket_id", "start", *(["stop"] if has_stop else []), "limit")
    query = select(*_listed(OBJECT)).where(*_in_range(OBJECT, has_stop=has_stop))
    return limited(query.order_by(OBJECT.c.key)), names


def _newest_first(current: list[ColumnElement[bool]], noncurrent: list[ColumnElement[bool]]) -> CompoundSelect[Any]:
    # Each half stops at the limit by itself: PostgreSQL does not merge the two orders, it would sort the whole bucket.
    newest = NONCURRENT.c.key, NONCURRENT.c.sequence.desc()
    halves = (
        select(*_listed(OBJECT)).where(*current).order_by(OBJECT.c.key).limit(integer("limit")),
        select(*_listed(NONCURRENT)).where(*noncurrent).order_by(*newest).limit(integer("limit_again")),
    )
    both = union_all(*[select(half.offset(literal_column("0")).subquery()) for half in halves])
    ordered = both.order_by(both.selected_columns.key, both.selected_columns.sequence.desc())
    return ordered.limit(integer("limit_both")).offset(literal_column("0"))


def versions_before() -> Statement:
    """Versions of one key older than a sequence, newest first. Parameters come once for each table, then `limit`."""
    names = [name + half for half in ("", "_again") for name in ("bucket_id", "start", "sequence", "limit")]
    return _newest_first(_of_key(OBJECT, ""), _of_key(NONCURRENT, "_again")), (*names, "limit_both")


def page_versions(*, is_open: bool, has_stop: bool) -> Statement:
    """All versions with a key from `start` on (after it when `is_open`), by key, newest first.

    The parameters come once for each table of versions, then `limit` again.
    """
    current = _in_range(OBJECT, "", is_open=is_open, has_stop=has_stop)
    noncurrent = _in_range(NONCURRENT, "_again", is_open=is_open, has_stop=has_stop)
    parameters = ("bucket_id", "start", *(["stop"] if has_stop else []), "limit")
    names = [name + half for half in ("", "_again") for name in parameters]
    return _newest_first(current, noncurrent), (*names, "limit_both")


def page_uploads(*, is_after: bool, has_stop: bool) -> Statement:
    """Open uploads by (key, created_ms, upload_id), from key `start` on or after one upload of it."""
    key = UPLOAD.c.key, UPLOAD.c.created_ms, UPLOAD.c.upload_id
    after = tuple_(*key) > tuple_(_bytes("start"), integer("created_ms"), _text("upload_id"))
    where = [UPLOAD.c.bucket_id == integer("bucket_id"), after if is_after else UPLOAD.c.key >= _bytes("start")]
    where += [UPLOAD.c.key < _bytes("stop")] if has_stop else []
    names = ["bucket_id", "start", *(["created_ms", "upload_id"] if is_after else []), *(["stop"] if has_stop else [])]
    return limited(select(UPLOAD).where(UPLOAD_IS_OPEN, *where).order_by(*key)), (*names, "limit")


def page_parts() -> Statement:
    """Parts of an upload with a greater number, by number."""
    where = PART.c.upload_id == _text("upload_id"), PART.c.part_number > integer("after")
    return limited(select(PART).where(*where).order_by(PART.c.part_number)), ("upload_id", "after", "limit")


def select_parts() -> Statement:
    """All parts of an upload, by number."""
    return select(PART).where(PART.c.upload_id == _text("upload_id")).order_by(PART.c.part_number), ("upload_id",)


def select_open_uploads() -> Statement:
    """Open uploads of a bucket, by key."""
    query = select(UPLOAD).where(UPLOAD_IS_OPEN, UPLOAD.c.bucket_id == integer("bucket_id"))
    return limited(query.order_by(UPLOAD.c.key, UPLOAD.c.created_ms, UPLOAD.c.upload_id)), ("bucket_id", "limit")


def has_versions() -> Statement:
    """Whether a bucket has any row in either table of versions; its id comes once for each."""
    halves = ("bucket_id", OBJECT), ("bucket_id_again", NONCURRENT)
    found = [exists(select(1).where(model.c.bucket_id == integer(name))) for name, model in halves]
    return select(or_(*found)), ("bucket_id", "bucket_id_again")


def select_open_packs() -> Statement:
    """Packs in state OPEN, by id."""
    where = BLOB.c.state == literal_column(str(BlobState.OPEN.value))
    return select(BLOB).where(where).order_by(BLOB.c.blob_id), ()


def select_references() -> Statement:
    """References to a blob, by offset."""
    query = select(EXTENT).where(EXTENT.c.blob_id == _bytes("blob_id"))
    return limited(query.order_by(EXTENT.c.blob_offset, EXTENT.c.owner_sequence)), ("blob_id", "limit")


# ------------------------------------------------------------------------------------------- compiled


def _for_every_table(dialect: Dialect, build: Callable[[Table[Any]], Statement]) -> dict[Table[Any], str]:
    return {table: compile_text(dialect, build(table)) for table in TABLES}


class StatementTexts:
    """Every statement that both dialects share, as the text of one of them. Built once, when its module is imported."""

    def __init__(self, dialect: Dialect) -> None:
        self.get_row: Final = _for_every_table(dialect, get_row)
        self.scan_first: Final = _for_every_table(dialect, scan_first)
        self.scan_after: Final = _for_every_table(dialect, scan_after)
        self.list_buckets: Final = compile_text(dialect, list_buckets())
        self.bucket_of_id: Final = compile_text(dialect, bucket_of_id())
        self.list_documents: Final = compile_text(dialect, list_documents())
        self.newest_noncurrent: Final = compile_text(dialect, newest_noncurrent())
        self.noncurrent_at: Final = compile_text(dialect, noncurrent_at())
        self.find_noncurrent: Final = compile_text(dialect, find_noncurrent())
        self.versions_before: Final = compile_text(dialect, versions_before())
        self.page_parts: Final = compile_text(dialect, page_parts())
        self.select_parts: Final = compile_text(dialect, select_parts())
        self.select_open_uploads: Final = compile_text(dialect, select_open_uploads())
        self.has_versions: Final = compile_text(dialect, has_versions())
        self.select_open_packs: Final = compile_text(dialect, select_open_packs())
        self.select_references: Final = compile_text(dialect, select_references())
        either = (False, True)
        self.page_objects: Final = {
            has_stop: compile_text(dialect, page_objects(has_stop=has_stop)) for has_stop in either
        }
        self.page_versions: Final = {
            (is_open, has_stop): compile_text(dialect, page_versions(is_open=is_open, has_stop=has_stop))
            for is_open in either
            for has_stop in either
        }
        self.page_uploads: Final = {
            (is_after, has_stop): compile_text(dialect, page_uploads(is_after=is_after, has_stop=has_stop))
            for is_after in either
            for has_stop in either
        }
