"""The source tree as the architecture tests see it: every file is read and parsed once a session."""

import ast
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("gateway", "tiers", "metadata")
WAIVER = re.compile(r"#\s*(noqa|type:\s*ignore)\b")


class Function(NamedTuple):
    """One function; `length` counts from `def` to its last line, decorators excluded."""

    name: str
    line: int
    length: int


class Facts(NamedTuple):
    """What the tests ask of a file. The syntax tree itself is not kept: a million live nodes slow everything."""

    text: str
    has_docstring: bool
    functions: tuple[Function, ...]
    identifiers: frozenset[str]


class Waiver(NamedTuple):
    """One `noqa` or `type: ignore`; `rest` is what follows the kind, up to the next waiver of the line."""

    path: Path
    line: int
    kind: str
    rest: str


def python_files(root: Path) -> list[Path]:
    """Every Python file below `root`, in order."""
    return sorted(root.rglob("*.py"))


@cache
def sources(*folders: str) -> tuple[Path, ...]:
    """Every Python file of these folders of the repository, in order."""
    return tuple(path for folder in folders for path in python_files(ROOT / folder))


@cache
def facts_of(path: Path) -> Facts:
    """Read and parse one file."""
    text = path.read_text()
    module = ast.parse(text)
    functions: list[Function] = []
    names: set[str] = set()
    for node in ast.walk(module):
        match node:
            case ast.Name(id=name) | ast.arg(arg=name) | ast.Attribute(attr=name) | ast.ClassDef(name=name):
                names.add(name)
            case (
                ast.FunctionDef(name=name, lineno=first, end_lineno=last)
                | ast.AsyncFunctionDef(name=name, lineno=first, end_lineno=last)
            ):
                assert last is not None
                names.add(name)
                functions.append(Function(name, first, last - first + 1))
    return Facts(text, ast.get_docstring(module) is not None, tuple(functions), frozenset(names))


def waivers_of(path: Path) -> list[Waiver]:
    """Every waiver of one file."""
    found = []
    for number, line in enumerate(facts_of(path).text.splitlines(), 1):
        matches = list(WAIVER.finditer(line))
        ends = [*(match.start() for match in matches[1:]), len(line)]
        for match, end in zip(matches, ends[: len(matches)], strict=True):
            kind = "noqa" if match[1] == "noqa" else "type: ignore"
            found.append(Waiver(path, number, kind, line[match.end() : end]))
    return found


@cache
def waivers() -> tuple[Waiver, ...]:
    """Every waiver of the packages."""
    return tuple(waiver for path in sources(*PACKAGES) for waiver in waivers_of(path))
