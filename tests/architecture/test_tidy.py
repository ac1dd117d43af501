"""The tree polices itself: sizes, names, words, leftovers, ratchets, documents (see CONTRIBUTING.md)."""

import json
import re
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture import ratchet
from tests.architecture.tree import PACKAGES, ROOT, facts_of, python_files, sources, waivers

FILE_LINES_MAX = 400
FUNCTION_LINES_MAX = 60
MEDIAN_MAX, P95_MAX = 10, 40
BANNED_MODULES = {"utils", "helpers", "common", "misc", "manager"}
LINT_REASON = re.compile(r":\s*[A-Z]+\d+(?:\s*,\s*[A-Z]+\d+)*\s+(?:#|--?|\()\s*\w.+")
TYPE_REASON = re.compile(r"\[[a-z, -]+\]\s*#\s*\w.+")  # mypy takes nothing but a comment after the bracket


def offences(root: Path) -> list[str]:
    """Every file and function under root that breaks the size limits."""
    found: list[str] = []
    for path in python_files(root):
        if facts_of(path).text.count("\n") > FILE_LINES_MAX:
            found.append(f"{path}: over {FILE_LINES_MAX} lines")
        found += [
            f"{path}:{function.line}: {function.name} is too long"
            for function in facts_of(path).functions
            if function.length > FUNCTION_LINES_MAX
        ]
    return found


@pytest.mark.parametrize("folder", [*PACKAGES, "tests", "benchmarks", "compatibility"])
def test_files_and_functions_fit_a_screen(folder: str) -> None:
    assert offences(ROOT / folder) == []


def test_size_check_convicts(tmp_path: Path) -> None:
    (tmp_path / "long.py").write_text("def f() -> None:\n" + "    pass\n" * 400)
    assert len(offences(tmp_path)) == 2


@pytest.mark.parametrize("package", PACKAGES)
def test_most_functions_are_short(package: str) -> None:
    sizes = sorted(function.length for path in sources(package) for function in facts_of(path).functions)
    assert statistics.median(sizes) <= MEDIAN_MAX
    assert sizes[int(len(sizes) * 0.95)] <= P95_MAX


def test_no_module_is_called_by_a_word_that_says_nothing() -> None:
    assert [path for path in sources(*PACKAGES, "tests") if path.stem in BANNED_MODULES] == []


def banned_words() -> set[str]:
    """Bold words of the glossary's last column: refused in identifiers."""
    rows = [line for line in (ROOT / "GLOSSARY.md").read_text().splitlines() if line.startswith("| ")]
    return {word for row in rows for word in re.findall(r"\*\*([a-z ]+)\*\*", row.rsplit("|", 2)[1])}


def banned_in(name: str, words: set[str]) -> list[str]:
    """The banned words, also as plurals, that an identifier is made of."""
    parts = re.findall(r"[a-z]+", re.sub(r"([A-Z])", r" \1", name).lower())
    joined = f" {' '.join(parts)} "
    return [word for word in words if f" {word} " in joined or f" {word}s " in joined]


def test_identifiers_keep_to_the_glossary() -> None:
    words = banned_words()
    # S3's own chunks (aws-chunked bodies, HTTP chunked coding); and the verb: the gateway, which sees no disk, drives
    # coroutines.
    elsewhere_meant = {"chunk", "drive"}
    found = [
        f"{path}: {name}"
        for package in PACKAGES
        for path in sources(package)
        for name in sorted(facts_of(path).identifiers - sys.stdlib_module_names)  # Python's own `gc`
        if banned_in(name, words - elsewhere_meant if package == "gateway" else words)
    ]
    assert found == []


def test_glossary_check_convicts() -> None:
    words = banned_words()
    assert {"chunk", "shard", "drive"} <= words
    assert [banned_in(name, words) for name in ("ShardIndex", "open_drives", "fault_group", "shared")] == [
        ["shard"],
        ["drive"],
        ["fault group"],
        [],
    ]


def test_no_task_is_left_without_an_issue() -> None:
    words = re.compile(r"\b(TODO|FIXME|XXX)\b(?!.*#\d+)")
    here = Path(__file__)
    found = [
        f"{path}:{number}"
        for path in sources(*PACKAGES, "tests", "benchmarks", "compatibility")
        if path != here
        for number, line in enumerate(facts_of(path).text.splitlines(), 1)
        if words.search(line)
    ]
    assert found == []


def test_ratchet() -> None:
    """Counts of waivers: above the file fails, below fails too until the file is lowered in the same change."""
    assert ratchet.counts() == json.loads(ratchet.FILE.read_text()), "run python -m tests.architecture.ratchet"


def is_reasoned(kind: str, rest: str) -> bool:
    """Whether a waiver names its rule and says why: `# noqa: RULE  # why`, also `- why` or `(why)`."""
    return (LINT_REASON if kind == "noqa" else TYPE_REASON).match(rest) is not None


def test_waivers_carry_code_and_reason() -> None:
    bare = [waiver for waiver in waivers() if not is_reasoned(waiver.kind, waiver.rest)]
    assert [f"{waiver.path}:{waiver.line}: {waiver.kind}{waiver.rest}" for waiver in bare] == []


@pytest.mark.parametrize(
    ("kind", "rest", "expected"),
    [
        ("noqa", ": TID251  # the composition root", True),
        ("noqa", ": TID251 - the composition root", True),
        ("noqa", ": BLE001, TID251 (the composition root)", True),
        ("noqa", ": TID251", False),
        ("noqa", "", False),
        ("noqa", "  # the composition root", False),
        ("type: ignore", "[attr-defined]  # private name of the library", True),
        ("type: ignore", "[attr-defined] - private name of the library", False),
        ("type: ignore", "[attr-defined]", False),
        ("type: ignore", "  # private name of the library", False),
    ],
)
def test_waiver_check_convicts(kind: str, rest: str, expected: bool) -> None:
    assert is_reasoned(kind, rest) is expected


def test_every_module_says_what_it_is() -> None:
    assert [path for path in sources(*PACKAGES) if not facts_of(path).has_docstring] == []


def test_no_test_is_skipped_without_a_reason() -> None:
    """`pytest.skip()` and `@pytest.mark.skip` without a text hide what does not run."""
    bare = re.compile(r"pytest\.(?:skip\(\)|mark\.skip\b(?!\(reason=))")
    found = [path for path in sources("tests") if path != Path(__file__) and bare.search(facts_of(path).text)]
    assert found == []


def test_architecture_names_only_what_exists_and_every_package() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    paths = set(
        re.findall(r"`((?:gateway|tiers|metadata|tests|deploy|benchmarks|compatibility|decisions)/[\w./-]*)`", text)
    )
    assert [path for path in sorted(paths) if not (ROOT / path).exists()] == []
    packages = {path.parent.relative_to(ROOT).as_posix() for path in sources(*PACKAGES) if path.name == "__init__.py"}
    assert [package for package in sorted(packages) if f"`{package}/" not in text and package not in text] == []


def test_decisions_are_numbered_and_complete() -> None:
    pages = sorted((ROOT / "decisions").glob("[0-9]*.md"))
    assert len({page.name[:4] for page in pages}) == len(pages) > 5
    needed = (("context", "question"), ("choice", "decision"), ("rejected", "considered"), ("consequence",))
    found = [
        f"{page.name}: {words[0]}"
        for page in pages
        for words in needed
        if not any(word in page.read_text().lower() for word in words)
    ]
    assert found == []


def test_no_machine_path_in_the_tree() -> None:
    """The product knows nothing of the machine it was written on."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout.splitlines()
    pattern = re.compile(r"(^|[^\w./-])/(work|farm)/|\.\./shared")
    kinds = {".py", ".md", ".toml", ".yml", ".yaml", ".json", ".sh", ".lock", ".c", ""}
    found = [
        name
        for name in listed
        if (path := ROOT / name).suffix in kinds and path.is_file() and path != Path(__file__)
        if pattern.search(path.read_text(errors="replace"))
    ]
    assert found == []
