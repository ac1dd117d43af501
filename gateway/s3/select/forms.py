"""Operators and functions in DuckDB's words, one rendering each; each argument is rendered once, whatever its size."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from gateway.s3.select.refusals import SelectRefused
from gateway.s3.select.terms import Kind, Speaker, Term, quote_text
from gateway.s3.select.tree import Call, Expression, Literal

Render = Callable[[Speaker, Call], Term]


def _compare(speaker: Speaker, call: Call) -> Term:
    left, right = speaker.alike(*call.arguments)[1]
    return Term(f"({left} {call.name} {right})", Kind.BOOL)


def _between(speaker: Speaker, call: Call) -> Term:
    value, low, high = speaker.alike(*call.arguments)[1]
    return Term(f"({value} BETWEEN {low} AND {high})", Kind.BOOL)


def _in(speaker: Speaker, call: Call) -> Term:
    value, *others = speaker.alike(*call.arguments)[1]
    return Term(f"({value} IN ({', '.join(others)}))", Kind.BOOL)


def _like(speaker: Speaker, call: Call) -> Term:
    value, pattern = (speaker.text(argument) for argument in call.arguments[:2])
    escape = ""
    if len(call.arguments) > 2:
        literal = call.arguments[2]
        if not isinstance(literal, Literal) or literal.kind != "text" or len(literal.text) != 1:
            raise SelectRefused("LikeInvalidInputs", "ESCAPE takes one character.")
        escape = f" ESCAPE {quote_text(literal.text)}"
    return Term(f"({value} LIKE {pattern}{escape})", Kind.BOOL)


def _logic(speaker: Speaker, call: Call) -> Term:
    left, right = (speaker.truth(argument) for argument in call.arguments)
    return Term(f"({left} {call.name} {right})", Kind.BOOL)


def _not(speaker: Speaker, call: Call) -> Term:
    return Term(f"(NOT {speaker.truth(call.arguments[0])})", Kind.BOOL)


def _is_null(speaker: Speaker, call: Call) -> Term:
    return Term(f"({speaker.term(call.arguments[0]).sql} IS NULL)", Kind.BOOL)


def _calculate(speaker: Speaker, call: Call) -> Term:
    left, right = (speaker.number(argument) for argument in call.arguments)
    return Term(f"({left} {call.name} {right})", Kind.NUMBER)


def _negate(speaker: Speaker, call: Call) -> Term:
    return Term(f"(- {speaker.number(call.arguments[0])})", Kind.NUMBER)


def _concatenate(speaker: Speaker, call: Call) -> Term:
    left, right = (speaker.text(argument) for argument in call.arguments)
    return Term(f"({left} || {right})", Kind.TEXT)


def _text_function(speaker: Speaker, call: Call) -> Term:
    return Term(f"{call.name.lower()}({speaker.text(call.arguments[0])})", Kind.TEXT)


def _length(speaker: Speaker, call: Call) -> Term:
    return Term(f"length({speaker.text(call.arguments[0])})", Kind.NUMBER)


def _substring(speaker: Speaker, call: Call) -> Term:
    places = [f", CAST({speaker.number(place)} AS BIGINT)" for place in call.arguments[1:]]
    return Term(f"substring({speaker.text(call.arguments[0])}{''.join(places)})", Kind.TEXT)


def _trim(speaker: Speaker, call: Call) -> Term:
    function = {"BOTH": "trim", "LEADING": "ltrim", "TRAILING": "rtrim"}[call.word]
    value, characters = (speaker.text(argument) for argument in call.arguments)
    return Term(f"{function}({value}, {characters})", Kind.TEXT)


def _case(speaker: Speaker, call: Call) -> Term:
    *pairs, otherwise = call.arguments
    results = [*pairs[1::2], otherwise]
    kind, values = _common(speaker, results)
    whens = [f"WHEN {speaker.truth(when)} THEN {value}" for when, value in zip(pairs[::2], values[:-1], strict=True)]
    return Term(f"(CASE {' '.join(whens)} ELSE {values[-1]} END)", kind)


def _case_of(speaker: Speaker, call: Call) -> Term:
    subject, *pairs, otherwise = call.arguments
    _, (compared, *cases) = speaker.alike(subject, *pairs[::2])
    kind, values = _common(speaker, [*pairs[1::2], otherwise])
    whens = [f"WHEN {case} THEN {value}" for case, value in zip(cases, values[:-1], strict=True)]
    return Term(f"(CASE {compared} {' '.join(whens)} ELSE {values[-1]} END)", kind)


def _common(speaker: Speaker, expressions: Sequence[Expression]) -> tuple[Kind, list[str]]:
    """Values that may stand in one column, and their kind; of different kinds they become text."""
    terms = [speaker.term(expression) for expression in expressions]
    kinds = {term.kind for term in terms} - {Kind.NULL}
    if len(kinds) <= 1:
        return (kinds.pop() if kinds else Kind.NULL), [term.sql for term in terms]
    return Kind.ANY, [f"CAST({term.sql} AS VARCHAR)" for term in terms]


def _coalesce(speaker: Speaker, call: Call) -> Term:
    kind, values = _common(speaker, call.arguments)
    return Term(f"coalesce({', '.join(values)})", kind)


def _nullif(speaker: Speaker, call: Call) -> Term:
    kind, (left, right) = speaker.alike(*call.arguments)
    return Term(f"nullif({left}, {right})", kind)


_CASTS: Final[Mapping[str, tuple[str, Kind]]] = {
    "INT": ("BIGINT", Kind.NUMBER),
    "FLOAT": ("DOUBLE", Kind.NUMBER),
    "DECIMAL": ("DECIMAL(38, 10)", Kind.NUMBER),
    "STRING": ("VARCHAR", Kind.TEXT),
    "BOOL": ("BOOLEAN", Kind.BOOL),
    "TIMESTAMP": ("TIMESTAMP", Kind.TIMESTAMP),
}


def _cast(speaker: Speaker, call: Call) -> Term:
    word, kind = _CASTS[call.word]
    return Term(f"CAST({speaker.term(call.arguments[0]).sql} AS {word})", kind)


def _to_timestamp(speaker: Speaker, call: Call) -> Term:
    return Term(speaker.moment(call.arguments[0]), Kind.TIMESTAMP)


def _now(speaker: Speaker, _call: Call) -> Term:
    return Term(f"TIMESTAMP {quote_text(speaker.now)}", Kind.TIMESTAMP)


def _extract(speaker: Speaker, call: Call) -> Term:
    return Term(f"date_part('{call.word.lower()}', {speaker.moment(call.arguments[0])})", Kind.NUMBER)


def _date_add(speaker: Speaker, call: Call) -> Term:
    count, at = speaker.number(call.arguments[0]), speaker.moment(call.arguments[1])
    return Term(f"({at} + to_{call.word.lower()}s(CAST({count} AS INTEGER)))", Kind.TIMESTAMP)


def _date_diff(speaker: Speaker, call: Call) -> Term:
    first, second = (speaker.moment(argument) for argument in call.arguments)
    return Term(f"date_sub('{call.word.lower()}', {first}, {second})", Kind.NUMBER)


RENDERINGS: Final[Mapping[str, Render]] = {
    **dict.fromkeys(("=", "<>", "<", "<=", ">", ">="), _compare),
    **dict.fromkeys(("AND", "OR"), _logic),
    **dict.fromkeys(("+", "-", "*", "/", "%"), _calculate),
    **dict.fromkeys(("LOWER", "UPPER"), _text_function),
    **dict.fromkeys(("CHAR_LENGTH", "CHARACTER_LENGTH"), _length),
    "BETWEEN": _between,
    "IN": _in,
    "LIKE": _like,
    "NOT": _not,
    "IS NULL": _is_null,
    "NEGATE": _negate,
    "||": _concatenate,
    "SUBSTRING": _substring,
    "TRIM": _trim,
    "CASE": _case,
    "CASE OF": _case_of,
    "COALESCE": _coalesce,
    "NULLIF": _nullif,
    "CAST": _cast,
    "TO_TIMESTAMP": _to_timestamp,
    "UTCNOW": _now,
    "EXTRACT": _extract,
    "DATE_ADD": _date_add,
    "DATE_DIFF": _date_diff,
}
