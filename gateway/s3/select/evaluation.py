"""A query run by DuckDB, which sees batches of records and nothing else: no file, no network, no setting to change.

Runs in the worker. A Parquet object, which is read out of order, is the exception: it lies in an unlinked file that is
the only path DuckDB may open.
"""

import io
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from gateway.s3.select.job import Job, Output
from gateway.s3.select.reading import Blocks, csv_batches, csv_rows, json_batches
from gateway.s3.select.refusals import SelectRefused
from gateway.s3.select.syntax import parse
from gateway.s3.select.terms import Format, json_path, quote_name, quote_text
from gateway.s3.select.translation import Column, Plan, Translator
from gateway.s3.select.tree import EVERY, Query
from gateway.s3.select.writing import Row, record_writer, row_writer

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

MEMORY: Final = "256MB"
PARQUET_BYTES_MAX: Final = 1 << 30
ROWS_FETCHED: Final = 512
_SHAPES: Final = {Format.CSV: '[["VARCHAR"]]', Format.JSON: '["JSON"]'}
_UNPARSED: Final = {
    Format.CSV: "CSVParsingError",
    Format.JSON: "JSONParsingError",
    Format.PARQUET: "ParquetParsingError",
}
_EMPTY: Final = "[]"

Emit = Callable[[str], None]


class Evaluation:
    """One query over one object. `emit` takes text of records; `progress` is called after each batch."""

    def __init__(self, job: Job, blocks: Blocks, emit: Emit, progress: Callable[[], None]) -> None:
        self._job, self._blocks = job, blocks
        self._emit, self._progress = emit, progress
        self._query = parse(job.expression)
        self._left = self._query.limit

    def run(self) -> None:
        """Read, select, emit. Errors: SelectRefused."""
        kind = Format(self._job.input.format)
        if kind is Format.PARQUET:
            self._run_parquet()
            return
        names: list[str] = []
        if kind is Format.CSV:
            rows = csv_rows(self._blocks, self._job.input)
            if self._job.input.header != "NONE":
                header = next(rows, [])
                names = header if self._job.input.header == "USE" else []
            batches = csv_batches(rows)
        else:
            batches = json_batches(self._blocks, self._job.input)
        plan = self._plan(kind, names)
        relation = _relation(kind, self._query)
        with _engine(kind, []) as engine:
            self._run_batches(engine, plan, relation, batches, self._writer(plan, names, is_json=kind is Format.JSON))

    def _plan(self, kind: Format, names: Sequence[str]) -> Plan:
        return Translator(self._query, kind, names, self._job.now).plan()

    def _writer(self, plan: Plan, names: Sequence[str], *, is_json: bool) -> Row:
        output: Output = self._job.output
        return row_writer(output, plan.columns) if plan.columns else record_writer(output, names, is_json=is_json)

    def _run_batches(
        self, engine: "DuckDBPyConnection", plan: Plan, relation: str, batches: Iterator[str], write: Row
    ) -> None:
        select = f"WITH batch AS ({relation}) {plan.batch}"
        if plan.total:
            engine.execute(f"CREATE TABLE partials AS {select}", [_EMPTY])
        else:
            engine.execute(select, [_EMPTY])  # what is wrong with the query is told before a byte is answered
        for batch in batches:
            if self._left == 0:
                return
            if plan.total:
                engine.execute(f"INSERT INTO partials {select}", [batch])
            else:
                self._write(engine.execute(select, [batch]), write)
            self._progress()
        if plan.total:
            self._write(engine.execute(plan.total), write)

    def _write(self, result: "DuckDBPyConnection", write: Row) -> None:
        while self._left != 0 and (rows := result.fetchmany(ROWS_FETCHED)):
            if self._left is not None:
                rows = rows[: self._left]
                self._left -= len(rows)
            out = io.StringIO()
            for row in rows:
                write(out, row)
            self._emit(out.getvalue())

    def _run_parquet(self) -> None:
        with tempfile.TemporaryFile() as file:
            for block in self._blocks:
                if self._blocks.processed > PARQUET_BYTES_MAX:
                    raise SelectRefused("OverMaxParquetBlockSize", "The Parquet object is larger than 1 GiB.")
                file.write(block)
            file.flush()
            path = f"/proc/self/fd/{file.fileno()}"
            with _engine(Format.PARQUET, [path]) as engine:
                source = f"SELECT * FROM read_parquet({quote_text(path)})"
                described = engine.execute(f"DESCRIBE {source}").fetchall()
                names = [str(row[0]) for row in described]
                plan = self._plan(Format.PARQUET, names)
                _refuse_path(self._query)
                select = f"WITH batch AS ({source}) {plan.batch}"
                write = self._writer(plan, names, is_json=False)
                if plan.total:
                    engine.execute(f"CREATE TABLE partials AS {select}")
                    select = plan.total
                elif not plan.columns:
                    listed = ", ".join(map(quote_name, names))
                    select = select.replace("SELECT * FROM batch", f"SELECT {listed} FROM batch", 1)
                    write = row_writer(self._job.output, _typed(names))
                limit = "" if self._left is None else f" LIMIT {self._left}"
                self._write(engine.execute(select + limit), write)


def _typed(names: Sequence[str]) -> list[Column]:
    return [Column(name, is_json=False) for name in names]


def _refuse_path(query: Query) -> None:
    if query.source not in {(), (EVERY,)}:
        raise SelectRefused("UnsupportedSqlStructure", "A path behind S3Object is only for JSON.")


def _relation(kind: Format, query: Query) -> str:
    """The records of one batch, as rows of `r`."""
    base = f"SELECT unnest(from_json(CAST(? AS JSON), '{_SHAPES[kind]}')) AS r"
    if kind is Format.CSV:
        _refuse_path(query)
        return base
    steps = query.source[1:] if query.source[:1] == (EVERY,) else query.source
    if not steps:
        return base
    path = quote_text(json_path(steps))
    if EVERY in steps:
        return f"SELECT unnest(json_extract(r, {path})) AS r FROM ({base})"
    return f"SELECT json_extract(r, {path}) AS r FROM ({base}) WHERE json_extract(r, {path}) IS NOT NULL"


@contextmanager
def _engine(kind: Format, paths: Sequence[str]) -> Iterator["DuckDBPyConnection"]:
    """A database in memory that can open nothing but `paths`. Errors: SelectRefused for what queries do wrong."""
    import duckdb

    refusals = (
        (duckdb.ConversionException, "CastFailed", "A value cannot be converted as the SQL expression asks."),
        (duckdb.OutOfRangeException, "CastFailed", "A value is out of the range of its type."),
        (duckdb.OutOfMemoryException, "OverMaxRecordSize", "The query needs more memory than it may have."),
        (duckdb.BinderException, "InvalidDataType", "The SQL expression uses a value of a type that does not fit."),
        (duckdb.InvalidInputException, _UNPARSED[kind], f"The {kind} object cannot be parsed."),
        (duckdb.IOException, _UNPARSED[kind], f"The {kind} object cannot be parsed."),
    )
    settings = {"threads": "1", "memory_limit": MEMORY, "max_temp_directory_size": "0B", "TimeZone": "UTC"}
    engine = duckdb.connect(":memory:")
    try:
        for name, value in settings.items():
            engine.execute(f"SET {name} = {quote_text(value)}")
        engine.execute(f"SET allowed_paths = [{', '.join(map(quote_text, paths))}]")
        engine.execute("SET enable_external_access = false")
        engine.execute("SET lock_configuration = true")
        yield engine
    except duckdb.Error as error:
        for known, code, message in refusals:
            if isinstance(error, known):
                raise SelectRefused(code, message) from error
        raise
    finally:
        engine.close()
