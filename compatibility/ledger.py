"""The two published files: pure functions from a judged run to text. Same input, same bytes."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from compatibility.gate import Entry
from compatibility.junit import Verdict
from compatibility.operations import Row, Support

VERDICTS: Final = (Verdict.PASSED, Verdict.FAILED, Verdict.NOT_APPLICABLE)
COLUMNS: Final = "| file | passed | failed | not applicable | collected |\n|---|---|---|---|---|\n"


@dataclass(frozen=True, slots=True)
class Run:
    """One judged run: what was run against what, when, and what came of it."""

    commit: str
    date: str
    suite_commit: str
    clients: Mapping[str, str]
    profile: Mapping[str, str]
    entries: Sequence[Entry]
    operations: Sequence[Row]
    remarks: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Total:
    """Tests of one file, or of all, by verdict."""

    name: str
    counts: Mapping[Verdict, int]

    @property
    def collected(self) -> int:
        """All of them."""
        return sum(self.counts.values())

    def row(self) -> str:
        """Passed, failed, not applicable, collected, as a row of a table."""
        return f"| {self.name} | {' | '.join(str(self.counts[verdict]) for verdict in VERDICTS)} | {self.collected} |"


def totals(entries: Sequence[Entry]) -> list[Total]:
    """One total a file, then that of all."""
    files = sorted({entry.outcome.file for entry in entries})
    named = [(file, [entry for entry in entries if entry.outcome.file == file]) for file in files]
    return [_total(name, some) for name, some in [*named, ("all", entries)]]


def _total(name: str, entries: Sequence[Entry]) -> Total:
    found = Counter(entry.outcome.verdict for entry in entries)
    return Total(name, {verdict: found[verdict] for verdict in VERDICTS})


def table(entries: Sequence[Entry]) -> str:
    """The totals as a table of Markdown."""
    return COLUMNS + "".join(f"{total.row()}\n" for total in totals(entries))


def expected(entries: Sequence[Entry]) -> list[Entry]:
    """The tests that AWS is expected to pass."""
    return [entry for entry in entries if entry.is_on_aws]


def summary(run: Run) -> str:
    """The section of the README, between its marks."""
    total, wanted = _total("", run.entries), _total("", expected(run.entries))
    served = Counter(row.support for row in run.operations)
    return (
        f"Ceph's public s3-tests, run whole against commit {run.commit}: **{total.counts[Verdict.PASSED]} of "
        f"{total.collected}** tests\npassed; of the {wanted.collected} that AWS itself is expected to pass, "
        f"**{wanted.counts[Verdict.PASSED]}**. Nothing is deselected; every test\nthat does not pass stands in "
        f"[COMPATIBILITY.md](COMPATIBILITY.md) with its reason. Of the {len(run.operations)} operations of the\n"
        f"AWS model {served[Support.FULL]} are served in full, {served[Support.PARTIAL]} in part, "
        f"{served[Support.STUB]} as stubs, and {served[Support.REFUSED]} are refused by name\nwith 501.\n\n"
        f"{table(run.entries)}"
    )


def markdown(run: Run) -> str:
    """`COMPATIBILITY.md`."""
    return "\n".join([*_head(run), *_reasons(run), *_operations(run), *_tests(run)]) + "\n"


def _head(run: Run) -> Iterator[str]:
    yield "# Compatibility\n"
    yield "Written by `make compat`, never by hand. Every test of Ceph's public s3-tests and every operation of the AWS"
    yield "model, with what came of it. Nothing is deselected and nothing is tried twice.\n"
    clients = ", ".join(f"{name} {version}" for name, version in run.clients.items())
    yield f"Commit {run.commit} of {run.date}; s3-tests {run.suite_commit}; {clients}."
    yield "Run profile: " + ", ".join(f"`{name}={value}`" for name, value in run.profile.items()) + ".\n"
    yield "## Totals\n"
    yield table(run.entries)
    yield "Without the tests that the suite marks as failing on AWS itself:\n"
    yield table(expected(run.entries))


def _reasons(run: Run) -> Iterator[str]:
    yield "## Reasons\n"
    yield "| code | tests | reason |\n|---|---|---|"
    found = Counter(entry.reason for entry in run.entries if entry.reason is not None)
    for reason, count in sorted(found.items(), key=lambda each: (-each[1], each[0].code)):
        yield f"| {reason.code} | {count} | {_cell(reason.why)} |"
    yield ""


def _operations(run: Run) -> Iterator[str]:
    yield "## Operations\n"
    yield "| operation | support | what is missing |\n|---|---|---|"
    yield from (f"| {row.operation} | {row.support} | {_cell(row.note)} |" for row in run.operations)
    yield ""


def _tests(run: Run) -> Iterator[str]:
    for file in sorted({entry.outcome.file for entry in run.entries}):
        yield f"## {file}\n"
        if file in run.remarks:
            yield f"{run.remarks[file]}\n"
        yield "| test | result | reason | what the suite said |\n|---|---|---|---|"
        for entry in run.entries:
            if entry.outcome.file == file:
                code = entry.reason.code if entry.reason is not None else ""
                said = _cell(entry.outcome.message)
                yield f"| {_cell(entry.outcome.name)} | {entry.outcome.verdict} | {code} | {said} |"
        yield ""


def _cell(text: str) -> str:
    for mark, escaped in (("\\", "\\\\"), ("|", "\\|"), ("<", "&lt;"), ("\n", " ")):
        text = text.replace(mark, escaped)
    return text


def document(run: Run) -> str:
    """`compatibility.json`."""
    content: dict[str, Any] = {
        "commit": run.commit,
        "date": run.date,
        "suite": {"commit": run.suite_commit, **run.clients},
        "profile": dict(run.profile),
        "totals": {total.name: {**total.counts, "collected": total.collected} for total in totals(run.entries)},
        "totals_expected_on_aws": {
            total.name: {**total.counts, "collected": total.collected} for total in totals(expected(run.entries))
        },
        "operations": {row.operation: {"support": row.support, "missing": row.note} for row in run.operations},
        "remarks": dict(run.remarks),
        "tests": [_line(entry) for entry in run.entries],
    }
    return json.dumps(content, indent=1) + "\n"


def _line(entry: Entry) -> dict[str, object]:
    line: dict[str, object] = {
        "file": entry.outcome.file,
        "test": entry.outcome.name,
        "result": entry.outcome.verdict,
        "fails_on_aws": not entry.is_on_aws,
    }
    if entry.reason is not None:
        line |= {"reason": entry.reason.code, "why": entry.reason.why}
    if entry.outcome.message:
        line["said"] = entry.outcome.message
    return line
