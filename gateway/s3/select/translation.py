"""A query in DuckDB's words: only what stands in the tables of `forms` is ever said to it.

Records come to DuckDB as rows of one column `r`: a list of texts (CSV), a JSON value, or, for Parquet, the columns
themselves. A query with aggregates is two: partial aggregates of every batch, and one over those at the end.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from gateway.s3.select.forms import RENDERINGS
from gateway.s3.select.refusals import SelectRefused
from gateway.s3.select.terms import Format, Kind, Term, json_path, literal_term, quote_name, quote_text
from gateway.s3.select.tree import AGGREGATES, Call, Expression, Item, Literal, Query, Reference, Step


class Column(NamedTuple):
    """One column of the answer: what it is called, and whether its values are JSON already."""

    name: str
    is_json: bool


@dataclass(frozen=True, slots=True)
class Plan:
    """What the worker runs.

    `batch` selects from a relation `batch`; with aggregates its rows go into `partials`, from which `total` selects.
    `columns` empty: every row is one whole record.
    """

    batch: str
    total: str
    columns: tuple[Column, ...]
    limit: int | None


@dataclass(slots=True)
class Translator:
    """One query for one kind of records. `names` are the columns that records have, empty when unknown."""

    query: Query
    format: Format
    names: Sequence[str]
    now: str
    _partials: list[str] = field(default_factory=list)
    _totals: list[str] = field(default_factory=list)
    _inside: bool = False

    def plan(self) -> Plan:
        """The statements. Errors: SelectRefused."""
        query = self.query
        has_aggregates = any(_has_aggregate(item.expression) for item in query.items)
        condition = ""
        if query.condition is not None:
            if _has_aggregate(query.condition):
                raise SelectRefused("UnsupportedSqlOperation", "Aggregates are not supported in WHERE.")
            condition = f" WHERE {self.truth(query.condition)}"
        columns = tuple(self._column(item, number) for number, item in enumerate(query.items, start=1))
        if not has_aggregates:
            shown = ", ".join(self.shown(item.expression) for item in query.items) or "*"
            return Plan(f"SELECT {shown} FROM batch{condition}", "", columns, query.limit)
        for item in query.items:
            _refuse_bare(item.expression)
        total = ", ".join(self.term(item.expression).sql for item in query.items)
        partial = ", ".join(f"{sql} AS p{number}" for number, sql in enumerate(self._partials))
        return Plan(f"SELECT {partial} FROM batch{condition}", f"SELECT {total} FROM partials", columns, query.limit)

    def _column(self, item: Item, number: int) -> Column:
        name = item.name
        expression = item.expression
        if not name and isinstance(expression, Reference):
            name = next((step for step in reversed(expression.steps) if isinstance(step, str)), "")
        is_json = isinstance(expression, Reference) and self.format is Format.JSON
        return Column(name or f"_{number}", is_json)

    def shown(self, expression: Expression) -> str:
        """An expression as a column of the answer: JSON stays JSON."""
        if isinstance(expression, Reference) and self.format is Format.JSON:
            return f"json_extract(r, {self._path(self._local(expression))})"
        return self.term(expression).sql

    def term(self, expression: Expression) -> Term:
        """An expression in DuckDB's words."""
        if isinstance(expression, Literal):
            return literal_term(expression)
        if isinstance(expression, Reference):
            return self._reference(expression)
        if expression.name in AGGREGATES:
            return self._aggregate(expression)
        return RENDERINGS[expression.name](self, expression)

    # -------------------------------------------------------------------------------------------------- columns

    def _local(self, reference: Reference) -> tuple[Step, ...]:
        """The path within a record: without the alias, or S3Object, in front."""
        first = reference.steps[0]
        assert isinstance(first, str)
        alias = self.query.alias
        is_alias = first == alias or (not reference.is_exact and first.upper() in {alias.upper(), "S3OBJECT"})
        if alias == "" and first.upper() != "S3OBJECT":
            is_alias = False
        if not is_alias:
            return reference.steps
        if len(reference.steps) == 1:
            raise SelectRefused("UnsupportedSyntax", "A whole record is only selected by an asterisk.")
        return reference.steps[1:]

    def _reference(self, reference: Reference) -> Term:
        steps = self._local(reference)
        if self.format is Format.JSON:
            return Term(f"json_extract_string(r, {self._path(steps)})", Kind.ANY)
        first = steps[0]
        if self.format is Format.PARQUET:
            return self._parquet(steps, is_exact=reference.is_exact)
        if len(steps) != 1 or not isinstance(first, str):
            raise _unbound(first)
        return Term(f"r[{self._field(first, is_exact=reference.is_exact)}]", Kind.ANY)

    def _field(self, name: str, *, is_exact: bool) -> int:
        """The place of a CSV column, from one: by its position `_N`, or by its name in the header."""
        if name in self.names:
            return self.names.index(name) + 1
        if name[:1] == "_" and name[1:].isdigit() and int(name[1:6]) > 0 and len(name) < 6:
            return int(name[1:])
        folded = [known.lower() for known in self.names]
        if not is_exact and name.lower() in folded:
            return folded.index(name.lower()) + 1
        raise _unbound(name)

    def _path(self, steps: Sequence[Step]) -> str:
        return quote_text(json_path(steps))

    def _parquet(self, steps: Sequence[Step], *, is_exact: bool) -> Term:
        first = steps[0]
        found = [known for known in self.names if known == first]
        if not found and not is_exact and isinstance(first, str):
            found = [known for known in self.names if known.lower() == first.lower()]
        if not found and isinstance(first, str) and first[:1] == "_" and first[1:].isdigit() and len(first) < 6:
            found = list(self.names[int(first[1:]) - 1 : int(first[1:])]) if int(first[1:]) else []
        if not found:
            raise _unbound(first)
        sql = quote_name(found[0])
        if len(steps) > 1:
            return Term(f"json_extract_string(to_json({sql}), {self._path(steps[1:])})", Kind.ANY)
        return Term(sql, Kind.TYPED)

    # ------------------------------------------------------------------------------------------------- operators

    def text(self, expression: Expression) -> str:
        """An expression where a text is needed."""
        term = self.term(expression)
        return term.sql if term.kind in {Kind.ANY, Kind.TEXT} else f"CAST({term.sql} AS VARCHAR)"

    def number(self, expression: Expression) -> str:
        """An expression where a number is needed; text that is none fails the query, as a cast would."""
        term = self.term(expression)
        if term.kind in {Kind.BOOL, Kind.TIMESTAMP}:
            raise SelectRefused("InvalidDataType", "The SQL expression calculates with a value that is no number.")
        return f"CAST({term.sql} AS DOUBLE)" if term.kind in {Kind.ANY, Kind.TEXT} else term.sql

    def truth(self, expression: Expression) -> str:
        """An expression where true or false is needed."""
        term = self.term(expression)
        if term.kind in {Kind.NUMBER, Kind.TIMESTAMP}:
            raise SelectRefused("InvalidDataType", "The SQL expression needs a value that is true or false.")
        return term.sql if term.kind is Kind.BOOL else f"TRY_CAST({term.sql} AS BOOLEAN)"

    def moment(self, expression: Expression) -> str:
        """An expression where a time is needed."""
        term = self.term(expression)
        return term.sql if term.kind is Kind.TIMESTAMP else f"CAST({term.sql} AS TIMESTAMP)"

    def alike(self, *expressions: Expression) -> tuple[Kind, list[str]]:
        """Expressions that are compared, as values of one kind: text beside a number is tried as a number."""
        terms = [self.term(expression) for expression in expressions]
        kinds = {term.kind for term in terms} - {Kind.NULL}
        if Kind.TYPED in kinds or kinds <= {Kind.ANY, Kind.TEXT}:
            return Kind.TYPED if Kind.TYPED in kinds else Kind.ANY, [term.sql for term in terms]
        for kind, word in ((Kind.NUMBER, "DOUBLE"), (Kind.TIMESTAMP, "TIMESTAMP"), (Kind.BOOL, "BOOLEAN")):
            if kind in kinds:
                cast = [term.sql if term.kind is kind else f"TRY_CAST({term.sql} AS {word})" for term in terms]
                return kind, cast
        raise AssertionError(kinds)

    def _aggregate(self, call: Call) -> Term:
        if self._inside:
            raise SelectRefused("UnsupportedSqlOperation", "An aggregate cannot stand in another.")
        self._inside = True
        argument = call.arguments[0]
        value = self.number(argument) if call.name in {"SUM", "AVG"} else self.term(argument).sql
        kind = self.term(argument).kind
        self._inside = False
        place = f"p{len(self._partials)}"
        if call.name == "COUNT":
            self._partials.append(f"count({value})")
            return Term(f"coalesce(sum({place}), 0)::BIGINT", Kind.NUMBER)
        if call.name == "AVG":
            self._partials += [f"sum({value})", f"count({value})"]
            return Term(f"sum({place}) / nullif(sum(p{len(self._partials) - 1}), 0)", Kind.NUMBER)
        self._partials.append(f"{call.name.lower()}({value})")
        return Term(f"{call.name.lower()}({place})", Kind.NUMBER if call.name == "SUM" else kind)


def _unbound(name: Step) -> SelectRefused:
    message = f"A column name or a path provided does not exist in the SQL expression: {str(name)[:100]}"
    return SelectRefused("EvaluatorBindingDoesNotExist", message)


def _children(expression: Expression) -> tuple[Expression, ...]:
    return expression.arguments if isinstance(expression, Call) else ()


def _has_aggregate(expression: Expression) -> bool:
    if isinstance(expression, Call) and expression.name in AGGREGATES:
        return True
    return any(map(_has_aggregate, _children(expression)))


def _refuse_bare(expression: Expression) -> None:
    """Beside aggregates nothing else of a record can be selected. Errors: SelectRefused."""
    if isinstance(expression, Call) and expression.name in AGGREGATES:
        return
    if isinstance(expression, Reference):
        raise SelectRefused("UnsupportedSqlOperation", "Columns cannot be selected beside aggregates.")
    for child in _children(expression):
        _refuse_bare(child)
