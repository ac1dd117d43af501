"""Text with `*`, `?` and `${variables}`, compiled once and matched whole.

Matching walks the text once: the runs between two `*` are looked for from left to right, and the first place where one
fits is as good as any later. There is no regular expression and no backtracking; a run with `?` is looked for with one
integer of bits, one bit a character of the run.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple, Protocol

from gateway.auth.policy.malformed import MalformedPolicy

PATTERN_CHARACTERS_MAX: Final = 2048
"""Longer than any resource (a key has at most 1024 bytes) or useful value."""
HOLED_CHARACTERS_MAX: Final = 512
"""The same for a text with `?`: bounds the bits of one run, and with them the memory of a compiled policy."""


class Context(Protocol):
    """What is known about one request. Values are computed when asked for."""

    def values(self, key: str) -> Sequence[str]:
        """The values of a condition key in lower case; empty when the request has none."""


class Wild(Enum):
    """A wildcard of a pattern."""

    RUN = "*"
    ONE = "?"


class Variable(NamedTuple):
    """`${key}` or `${key, 'default'}`: the single value of a condition key. `default` None means there is none."""

    key: str
    default: str | None


Token = str | Wild | Variable
_ESCAPED: Final = frozenset({"*", "?", "$"})


def tokenise(text: str, *, with_wildcards: bool, with_variables: bool) -> tuple[Token, ...]:
    """The literal runs, wildcards and variables of a text. Errors: MalformedPolicy."""
    if len(text) > PATTERN_CHARACTERS_MAX:
        raise MalformedPolicy(f"A value is longer than {PATTERN_CHARACTERS_MAX} characters")
    tokens: list[Token] = []
    literal, at = "", 0
    while at < len(text):
        variable, length = _variable(text, at) if with_variables and text.startswith("${", at) else (None, 1)
        token: Token = text[at] if variable is None else variable
        if variable is None and with_wildcards and text[at] in "*?":
            token = Wild(text[at])
        at += length
        if isinstance(token, str):
            literal += token
            continue
        tokens += [literal, token] if literal else [token]
        literal = ""
    if Wild.ONE in tokens and len(text) > HOLED_CHARACTERS_MAX:
        raise MalformedPolicy(f"A value with ? is longer than {HOLED_CHARACTERS_MAX} characters")
    return (*tokens, literal) if literal else tuple(tokens)


def _variable(text: str, at: int) -> tuple[Variable | str, int]:
    """The variable, or escaped character, that begins at `at`, and how many characters it takes."""
    end = text.find("}", at)
    if end < 0:
        raise MalformedPolicy("A policy variable is not closed")
    inner, length = text[at + 2 : end].strip(), end + 1 - at
    if inner in _ESCAPED:
        return inner, length
    key, comma, default = (piece.strip() for piece in inner.partition(","))
    if not comma:
        return Variable(key.lower(), None), length
    if len(default) < 2 or default[0] != "'" or default[-1] != "'":
        raise MalformedPolicy("The default of a policy variable must be quoted")
    return Variable(key.lower(), default[1:-1]), length


@dataclass(frozen=True, slots=True)
class _Run:
    """A stretch without `*`. `masks` has, by character, the bits of the places where the character fits."""

    length: int
    literal: str | None
    masks: dict[str, int]
    anywhere: int

    def fits(self, text: str, at: int) -> bool:
        """Whether the run fits at one place."""
        if self.literal is not None:
            return text.startswith(self.literal, at)
        if at < 0 or at + self.length > len(text):
            return False
        found = self.find(text, at, at + self.length)
        return found == at

    def find(self, text: str, start: int, stop: int) -> int:
        """The first place in [start, stop) where the whole run fits, -1 when there is none."""
        if self.literal is not None:
            return text.find(self.literal, start, stop)
        bits, last, masks, anywhere = 0, 1 << (self.length - 1), self.masks, self.anywhere
        for at in range(start, stop):
            bits = (bits << 1 | 1) & masks.get(text[at], anywhere)
            if bits & last:
                return at + 1 - self.length
        return -1


def _run(pieces: Sequence[str | Wild]) -> _Run:
    characters = [character for piece in pieces for character in (piece if isinstance(piece, str) else [None])]
    if None not in characters:
        return _Run(len(characters), "".join(piece for piece in pieces if isinstance(piece, str)), {}, 0)
    anywhere = sum(1 << at for at, character in enumerate(characters) if character is None)
    masks: dict[str, int] = {}
    for at, character in enumerate(characters):
        if character is not None:
            masks[character] = masks.get(character, anywhere) | 1 << at
    return _Run(len(characters), None, masks, anywhere)


class Glob:
    """A pattern without variables. Matches a text whole. Cost: linear in the text."""

    __slots__ = ("_has_star", "_length", "_runs")

    def __init__(self, tokens: Sequence[str | Wild]) -> None:
        runs: list[list[str | Wild]] = [[]]
        for token in tokens:
            if token is Wild.RUN:
                runs.append([])
            else:
                runs[-1].append(token)
        self._has_star = len(runs) > 1
        self._runs = [_run(run) for run in runs]
        self._length = sum(run.length for run in self._runs)

    def matches(self, text: str) -> bool:
        """Whether the whole text fits."""
        if len(text) < self._length or (not self._has_star and len(text) != self._length):
            return False
        first, last = self._runs[0], self._runs[-1]
        if not first.fits(text, 0):
            return False
        if not self._has_star:
            return True
        at, stop = first.length, len(text) - last.length
        for run in self._runs[1:-1]:
            if run.length:
                found = run.find(text, at, stop)
                if found < 0:
                    return False
                at = found + run.length
        return last.fits(text, stop)


Test = Callable[[str, Context], bool]
"""Whether a value of the request is what one value of the policy says."""


class Pattern:
    """A text of a policy: matched as it is, or with the request's values in place of its variables."""

    __slots__ = ("_glob", "_tokens", "variables")

    def __init__(self, tokens: tuple[Token, ...]) -> None:
        self._tokens = tokens
        self.variables = frozenset(token for token in tokens if isinstance(token, Variable))
        plain = [token for token in tokens if not isinstance(token, Variable)]
        self._glob = None if self.variables else Glob(plain)

    @property
    def is_literal(self) -> bool:
        """Whether it says one text and no other, whatever the request."""
        return all(isinstance(token, str) for token in self._tokens)

    def matches(self, text: str, context: Context) -> bool:
        """Whether the whole text fits; nothing fits while a variable has no single value and no default."""
        glob = self._glob or self._expand(context)
        return glob is not None and glob.matches(text)

    def _expand(self, context: Context) -> Glob | None:
        tokens: list[str | Wild] = []
        for token in self._tokens:
            value = resolve(token, context) if isinstance(token, Variable) else token
            if value is None:
                return None
            tokens.append(value)
        return Glob(tokens)


def resolve(variable: Variable, context: Context) -> str | None:
    """The text of a variable, taken literally; None when the request does not give exactly one."""
    values = context.values(variable.key)
    return values[0] if len(values) == 1 else variable.default
