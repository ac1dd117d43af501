"""The words of a query. Whatever is none of them is refused."""

import re
from typing import Final, NamedTuple

from gateway.s3.select.refusals import SelectRefused

EXPRESSION_BYTES_MAX: Final = 256 * 1024
TOKENS_MAX: Final = 20_000

_TOKEN: Final = re.compile(
    r"""(?P<space>[ \t\r\n]+|--[^\n]*)
    |(?P<number>\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?)
    |(?P<word>[A-Za-z_][A-Za-z0-9_$]*)
    |(?P<text>'(?:[^']|'')*')
    |(?P<quoted>"(?:[^"]|"")+")
    |(?P<mark><>|!=|<=|>=|\|\||[-+*/%(),.=<>;\[\]])""",
    re.VERBOSE,
)


class Token(NamedTuple):
    """One word of a query. `kind` is number, word, text, quoted, mark or end; `text` is without quotes."""

    kind: str
    text: str
    at: int

    @property
    def upper(self) -> str:
        """The word as keywords are compared; nothing else equals a keyword."""
        return self.text.upper() if self.kind == "word" else ""


def split(expression: str) -> list[Token]:
    """The words of a query, `end` last. Errors: SelectRefused ExpressionTooLong, LexerInvalidChar."""
    if len(expression.encode()) > EXPRESSION_BYTES_MAX:
        raise SelectRefused("ExpressionTooLong", "The SQL expression is too long: its maximum is 256 KB.")
    found: list[Token] = []
    at = 0
    while at < len(expression):
        match = _TOKEN.match(expression, at)
        if match is None:
            raise SelectRefused("LexerInvalidChar", f"The SQL expression has an invalid character at {at}.")
        kind = match.lastgroup or ""
        if kind != "space":
            found.append(Token(kind, _unquoted(kind, match.group()), at))
        if len(found) > TOKENS_MAX:
            raise SelectRefused("ExpressionTooLong", f"The SQL expression has more than {TOKENS_MAX} words.")
        at = match.end()
    return [*found, Token("end", "", at)]


def _unquoted(kind: str, text: str) -> str:
    if kind in {"text", "quoted"}:
        quote = text[0]
        return text[1:-1].replace(quote * 2, quote)
    return text
