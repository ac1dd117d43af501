"""Why a test of the suite does not pass: a reviewed table, never a pattern.

A row names tests exactly (`test_s3.py::test_name`, all its parameters, or `test_s3.py::test_name[parameter]`), or a
whole group: a file, or a marker of the suite. The exact row is stronger than the group's. Remarks say of a file what
its figures do not.
"""

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from compatibility.junit import Outcome

FILE: Final = Path(__file__).with_name("reasons.toml")
FIELDS: Final = {"code", "why", "tests", "files", "markers"}


class ReasonsRefused(ValueError):
    """The table does not say one thing about each test."""


@dataclass(frozen=True, slots=True)
class Reason:
    """One row: a short code that the ledger repeats, and the sentence behind it."""

    code: str
    why: str
    tests: frozenset[str] = frozenset()
    files: frozenset[str] = frozenset()
    markers: frozenset[str] = frozenset()


AWS: Final = Reason(
    "aws", "The suite marks the test as one that AWS itself fails.", markers=frozenset({"fails_on_aws"})
)
"""What stands beside such a test when it does not pass and no row says more."""


@dataclass(frozen=True, slots=True)
class Reasons:
    """The table, indexed."""

    rows: Sequence[Reason]
    remarks: Mapping[str, str] = field(default_factory=dict)
    _by_test: dict[str, Reason] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        for row in self.rows:
            for test in row.tests:
                if test in self._by_test:
                    raise ReasonsRefused(f"{test} has two rows: {self._by_test[test].code} and {row.code}")
                self._by_test[test] = row

    def of(self, outcome: Outcome) -> Reason | None:
        """The row of a test: by its parameters, by its name, by its file, by its markers; None when there is none."""
        exact = self._by_test.get(outcome.test) or self._by_test.get(outcome.function)
        return exact or next((row for row in self.rows if _holds(row, outcome)), None)

    def unknown(self, outcomes: Iterable[Outcome]) -> list[str]:
        """What the table names and the suite does not have."""
        seen: set[str] = set()
        for outcome in outcomes:
            seen |= {outcome.test, outcome.function, outcome.file, *outcome.markers}
        named = set(self._by_test).union(self.remarks, *(row.files | row.markers for row in self.rows))
        return sorted(named - seen)


def _holds(row: Reason, outcome: Outcome) -> bool:
    return outcome.file in row.files or not row.markers.isdisjoint(outcome.markers)


def parse(text: str) -> Reasons:
    """The table of a TOML text.

    Errors: ReasonsRefused for an unknown field, a row that names nothing, a code or a test given twice.
    """
    rows, document = [], tomllib.loads(text)
    for entry in document.get("reason", []):
        if not entry.keys() <= FIELDS or not entry.get("code") or not entry.get("why"):
            raise ReasonsRefused(f"a row needs code and why, and has only {sorted(FIELDS)}: {entry}")
        groups = {name: frozenset(entry.get(name, ())) for name in ("tests", "files", "markers")}
        if not any(groups.values()):
            raise ReasonsRefused(f"{entry['code']} names nothing")
        rows.append(Reason(entry["code"], entry["why"], **groups))
    codes = [row.code for row in rows]
    if len(set(codes)) != len(codes):
        raise ReasonsRefused("two rows have one code")
    return Reasons(rows, document.get("remarks", {}))
