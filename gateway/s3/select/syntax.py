"""From the words of a query to its tree: AWS's grammar of one SELECT over one object, and nothing beside it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from gateway.s3.select.refusals import SelectRefused
from gateway.s3.select.tokens import Token, split
from gateway.s3.select.tree import (
    AGGREGATES,
    ARITIES,
    DATE_PARTS,
    EVERY,
    TYPES,
    Call,
    Expression,
    Item,
    Literal,
    Query,
    Reference,
    Step,
)

DEPTH_MAX: Final = 50
CHAIN_MAX: Final = 500
LIMIT_MAX: Final = 2**63 - 1

_RESERVED: Final = frozenset(
    {
        *("SELECT", "FROM", "WHERE", "LIMIT", "AS", "AND", "OR", "NOT", "IN", "LIKE", "ESCAPE", "BETWEEN", "IS"),
        *(
            "CASE",
            "WHEN",
            "THEN",
            "ELSE",
            "END",
            "NULL",
            "MISSING",
            "TRUE",
            "FALSE",
            "ORDER",
            "GROUP",
            "HAVING",
            "JOIN",
        ),
        *("UNION", "DISTINCT", "CAST"),
    }
)
_COMPARISONS: Final = {"=": "=", "!=": "<>", "<>": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}


def parse(expression: str) -> Query:
    """The tree of a query. Errors: SelectRefused with the code AWS has for it."""
    return _Parser(split(expression)).query()


class _Parser:
    """One pass over the words; every method consumes what it names."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self._tokens, self._at, self._depth = tokens, 0, 0

    @property
    def _next(self) -> Token:
        return self._tokens[self._at]

    def _take(self) -> Token:
        token = self._next
        self._at += token.kind != "end"
        return token

    def _takes(self, *words: str) -> str:
        """The word consumed, empty when another one follows."""
        token = self._next
        found = token.upper if token.kind == "word" else token.text if token.kind == "mark" else ""
        if found in words:
            self._take()
            return found
        return ""

    def _expect(self, word: str, code: str = "ParseUnexpectedToken") -> None:
        if not self._takes(word):
            raise self._unexpected(code, f"{word} is expected")

    def _unexpected(self, code: str = "ParseUnexpectedToken", what: str = "unexpected token") -> SelectRefused:
        token = self._next
        shown = token.text[:40] or "the end of the expression"
        return SelectRefused(code, f"The SQL expression cannot be parsed: {what} at {token.at}, found {shown}.")

    # ------------------------------------------------------------------------------------------------- the query

    def query(self) -> Query:
        self._expect("SELECT", "UnsupportedSqlOperation")
        items = () if self._takes("*") else self._items()
        self._expect("FROM", "ParseSelectMissingFrom")
        source, alias = self._source()
        condition = self._expression() if self._takes("WHERE") else None
        limit = self._limit() if self._takes("LIMIT") else None
        self._takes(";")
        if self._next.kind != "end":
            code = "UnsupportedSqlOperation" if self._next.upper in _RESERVED | {","} else "ParseUnexpectedToken"
            raise self._unexpected(code)
        return Query(items, source, alias, condition, limit)

    def _items(self) -> tuple[Item, ...]:
        items = [self._item()]
        while self._takes(","):
            items.append(self._item())
        return tuple(items)

    def _item(self) -> Item:
        expression = self._expression()
        if self._takes("AS"):
            return Item(expression, self._name())
        if self._next.kind == "quoted" or (self._next.kind == "word" and self._next.upper not in _RESERVED):
            return Item(expression, self._name())
        return Item(expression)

    def _name(self) -> str:
        token = self._take()
        if token.kind == "quoted" or (token.kind == "word" and token.upper not in _RESERVED):
            return token.text
        self._at -= 1
        raise self._unexpected(what="a name is expected")

    def _source(self) -> tuple[tuple[Step, ...], str]:
        if self._next.upper not in {"S3OBJECT", "S3OBJECTS"}:
            raise self._unexpected("InvalidDataSource", "the only data source is S3Object")
        self._take()
        steps = self._steps()
        is_named = self._takes("AS") or self._next.kind == "quoted"
        if is_named or (self._next.kind == "word" and self._next.upper not in _RESERVED):
            return steps, self._name()
        return steps, ""

    def _limit(self) -> int:
        token = self._take()
        if token.kind != "number" or not token.text.isdigit() or int(token.text[:20]) > LIMIT_MAX:
            self._at -= 1
            raise self._unexpected(what="a whole number is expected")
        return int(token.text)

    def _steps(self) -> tuple[Step, ...]:
        steps: list[Step] = []
        while mark := self._takes(".", "["):
            if mark == ".":
                steps.append(EVERY if self._takes("*") else self._name())
                continue
            token = self._take()
            is_index = token.kind == "number" and token.text.isdigit() and len(token.text) < 10
            if token.kind == "mark" and token.text == "*":
                steps.append(EVERY)
            elif is_index or token.kind == "text":
                steps.append(int(token.text) if is_index else token.text)
            else:
                self._at -= 1
                raise self._unexpected("ParseInvalidPathComponent")
            self._expect("]")
        return tuple(steps)

    # ----------------------------------------------------------------------------------------------- expressions

    def _expression(self) -> Expression:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise SelectRefused("ExpressionTooLong", f"The SQL expression is nested more than {DEPTH_MAX} deep.")
        found = self._chain(("OR",), self._conjunction)
        self._depth -= 1
        return found

    def _chain(self, words: tuple[str, ...], part: Callable[[], Expression]) -> Expression:
        """Operators of one rank, from left to right."""
        found = part()
        length = 0
        while word := self._takes(*words):
            length += 1
            if length > CHAIN_MAX:
                raise SelectRefused("ExpressionTooLong", f"The SQL expression chains more than {CHAIN_MAX} operators.")
            found = Call(word, (found, part()))
        return found

    def _conjunction(self) -> Expression:
        return self._chain(("AND",), self._negation)

    def _negation(self) -> Expression:
        count = 0
        while self._takes("NOT"):
            count += 1
        found = self._comparison()
        return Call("NOT", (found,)) if count % 2 else found

    def _comparison(self) -> Expression:
        left = self._sum()
        while True:
            if operator := self._takes(*_COMPARISONS):
                left = Call(_COMPARISONS[operator], (left, self._sum()))
            elif self._takes("IS"):
                left = self._is(left)
            else:
                is_not = self._next.upper == "NOT" and self._tokens[self._at + 1].upper in {"IN", "LIKE", "BETWEEN"}
                if is_not:
                    self._take()
                found = self._ranged(left)
                if found is None:
                    return left
                left = Call("NOT", (found,)) if is_not else found

    def _is(self, left: Expression) -> Expression:
        is_not = self._takes("NOT")
        if not self._takes("NULL", "MISSING"):
            raise self._unexpected(what="NULL or MISSING is expected")
        found = Call("IS NULL", (left,))
        return Call("NOT", (found,)) if is_not else found

    def _ranged(self, left: Expression) -> Expression | None:
        word = self._takes("IN", "LIKE", "BETWEEN")
        if word == "IN":
            self._expect("(")
            return Call("IN", (left, *self._arguments(least=1)))
        if word == "LIKE":
            pattern = self._sum()
            escape = (self._sum(),) if self._takes("ESCAPE") else ()
            return Call("LIKE", (left, pattern, *escape))
        if word == "BETWEEN":
            low = self._sum()
            self._expect("AND")
            return Call("BETWEEN", (left, low, self._sum()))
        return None

    def _sum(self) -> Expression:
        return self._chain(("+", "-", "||"), self._product)

    def _product(self) -> Expression:
        return self._chain(("*", "/", "%"), self._signed)

    def _signed(self) -> Expression:
        sign = self._takes("-", "+")
        if self._next.kind == "mark" and self._next.text in {"-", "+"} and sign:
            raise self._unexpected()
        found = self._primary()
        return Call("NEGATE", (found,)) if sign == "-" else found

    def _primary(self) -> Expression:
        token = self._take()
        if token.kind in {"number", "text"}:
            return Literal(token.kind, token.text)
        if token.kind == "mark" and token.text == "(":
            found = self._expression()
            self._expect(")")
            return found
        if token.kind == "quoted":
            return Reference((token.text, *self._steps()), is_exact=True)
        if token.kind == "word":
            return self._worded(token)
        self._at -= token.kind != "end"
        raise self._unexpected()

    def _worded(self, token: Token) -> Expression:
        word = token.upper
        if word in {"TRUE", "FALSE", "NULL", "MISSING"}:
            return Literal("bool", word) if word in {"TRUE", "FALSE"} else Literal("null")
        if word == "CASE":
            return self._case()
        if self._takes("("):
            return self._call(word)
        if word in _RESERVED:
            self._at -= 1
            raise self._unexpected()
        return Reference((token.text, *self._steps()))

    def _case(self) -> Expression:
        subject = None if self._next.upper == "WHEN" else self._expression()
        pieces: list[Expression] = [] if subject is None else [subject]
        count = 0
        while self._takes("WHEN"):
            count += 1
            pieces.append(self._expression())
            self._expect("THEN")
            pieces.append(self._expression())
        if not count:
            raise self._unexpected(what="WHEN is expected")
        pieces.append(self._expression() if self._takes("ELSE") else Literal("null"))
        self._expect("END")
        return Call("CASE" if subject is None else "CASE OF", tuple(pieces))

    def _arguments(self, *, least: int = 0) -> tuple[Expression, ...]:
        """Up to the closing bracket."""
        if least == 0 and self._takes(")"):
            return ()
        found = [self._expression()]
        while self._takes(","):
            found.append(self._expression())
        self._expect(")")
        return tuple(found)

    def _call(self, name: str) -> Expression:
        if name in AGGREGATES:
            return self._aggregate(name)
        if name in _FORMS:
            return _FORMS[name](self)
        if name not in ARITIES:
            raise SelectRefused("UnsupportedFunction", f"The SQL function {name[:40]} is not supported.")
        arguments = self._arguments()
        least, most = ARITIES[name]
        if not least <= len(arguments) <= most:
            raise SelectRefused("ParseInvalidArguments", f"{name} takes {least} to {most} arguments.")
        return Call(name, arguments)

    def _aggregate(self, name: str) -> Expression:
        if name == "COUNT" and self._takes("*"):
            self._expect(")")
            return Call(name, (Literal("number", "1"),))
        argument = self._expression()
        self._expect(")")
        return Call(name, (argument,))

    def _cast(self) -> Expression:
        value = self._expression()
        self._expect("AS")
        word = self._take().upper
        if word not in TYPES:
            raise SelectRefused("ParseUnknownType", f"The SQL expression casts to an unknown type: {word[:40]}.")
        if self._takes("("):  # precision and scale bound nothing here
            if TYPES[word] not in {"DECIMAL", "STRING"}:
                raise self._unexpected()
            self._arguments(least=1)
        self._expect(")")
        return Call("CAST", (value,), TYPES[word])

    def _substring(self) -> Expression:
        arguments = [self._expression()]
        separators = ("FROM", "FOR") if self._next.upper == "FROM" else (",", ",")
        self._expect(separators[0])
        arguments.append(self._expression())
        if self._takes(separators[1]):
            arguments.append(self._expression())
        self._expect(")")
        return Call("SUBSTRING", tuple(arguments))

    def _trim(self) -> Expression:
        side = self._takes("LEADING", "TRAILING", "BOTH") or "BOTH"
        characters: Expression = Literal("text", " ")
        if not self._takes("FROM"):
            value = self._expression()
            if self._takes(")"):
                return Call("TRIM", (value, characters), side)
            characters = value
            self._expect("FROM")
        value = self._expression()
        self._expect(")")
        return Call("TRIM", (value, characters), side)

    def _date_part(self) -> str:
        word = self._take().upper
        if word not in DATE_PARTS:
            raise SelectRefused("ParseExpectedDatePart", f"The SQL expression names no part of a date: {word[:40]}.")
        return word

    def _extract(self) -> Expression:
        word = self._date_part()
        self._expect("FROM")
        value = self._expression()
        self._expect(")")
        return Call("EXTRACT", (value,), word)

    def _date_add(self) -> Expression:
        return self._date_form("DATE_ADD")

    def _date_diff(self) -> Expression:
        return self._date_form("DATE_DIFF")

    def _date_form(self, name: str) -> Expression:
        word = self._date_part()
        self._expect(",")
        first = self._expression()
        self._expect(",")
        second = self._expression()
        self._expect(")")
        return Call(name, (first, second), word)


_FORMS: Final[Mapping[str, Callable[[_Parser], Expression]]] = {
    "CAST": _Parser._cast,
    "SUBSTRING": _Parser._substring,
    "TRIM": _Parser._trim,
    "EXTRACT": _Parser._extract,
    "DATE_ADD": _Parser._date_add,
    "DATE_DIFF": _Parser._date_diff,
}
"""Functions that take more than expressions between commas."""
