"""What a JUnit report says of each test: a pure reading of its text."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from xml.etree import ElementTree


class Verdict(StrEnum):
    """What the suite said of a test."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_APPLICABLE = "not applicable"


@dataclass(frozen=True, slots=True, order=True)
class Outcome:
    """One test function with its parameters. `message` is the first line of what it said, empty when it passed."""

    file: str
    name: str
    verdict: Verdict
    message: str = ""
    markers: frozenset[str] = frozenset()
    seconds: float = 0.0

    @property
    def test(self) -> str:
        """The test as the ledger and the reasons name it: `file::name[parameters]`."""
        return f"{self.file}::{self.name}"

    @property
    def function(self) -> str:
        """The same without its parameters."""
        return self.test.partition("[")[0]


def read(text: str) -> list[Outcome]:
    """Every test of a report, in the order of file and name.

    A test whose set-up or clean-up failed too is one failed test. Errors: ParseError when the text is no XML.
    """
    found: dict[tuple[str, str], Outcome] = {}
    for case in ElementTree.fromstring(text).iter("testcase"):
        outcome = _outcome(case)
        known = found.get((outcome.file, outcome.name))
        if known is None or known.verdict is Verdict.PASSED:
            found[outcome.file, outcome.name] = outcome
    return sorted(found.values())


def _outcome(case: ElementTree.Element) -> Outcome:
    verdict, message = _verdict(list(case))
    markers = [each.get("value", "") for each in case.iter("property") if each.get("name") == "markers"]
    return Outcome(
        file=f"{case.get('classname', '').rpartition('.')[2]}.py",
        name=case.get("name", ""),
        verdict=verdict,
        message=message,
        markers=frozenset(word for words in markers for word in words.split()),
        seconds=float(case.get("time", "0")),
    )


def _verdict(children: Sequence[ElementTree.Element]) -> tuple[Verdict, str]:
    for child in children:
        if child.tag in {"failure", "error"}:
            return Verdict.FAILED, _first_line(child)
        if child.tag == "skipped":
            return Verdict.NOT_APPLICABLE, _first_line(child)
    return Verdict.PASSED, ""


def _first_line(child: ElementTree.Element) -> str:
    """The message's first line without what differs from run to run: buckets, ids, addresses."""
    line = next(_lines(child.get("message") or child.text or ""), "no message")
    line = re.sub(r"t-[a-z0-9]{6,}-\d*", "<bucket>", line)
    line = re.sub(r"\b0x[0-9a-f]+\b|\b[0-9A-Za-z]{32,}\b", "<id>", line)
    line = re.sub(r"'[^']*\.\.\.[^']*'", "'...'", line)  # pytest has shortened it: a checksum, most often
    return line[:200]


def _lines(text: str) -> Iterator[str]:
    return (line.strip() for line in text.splitlines() if line.strip())
