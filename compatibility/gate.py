"""What makes a run of the suite good: every test passed, or is listed with its reason, and no row is out of date."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from compatibility.junit import Outcome, Verdict
from compatibility.reasons import AWS, Reason, Reasons


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the ledger."""

    outcome: Outcome
    reason: Reason | None

    @property
    def is_on_aws(self) -> bool:
        """Whether the suite expects AWS to pass the test."""
        return AWS.markers.isdisjoint(self.outcome.markers)


@dataclass(frozen=True, slots=True)
class Judgement:
    """The ledger's lines, and what keeps the run from being good: empty lists are a pass."""

    entries: Sequence[Entry]
    unlisted: Sequence[str]
    stale: Sequence[str]
    unknown: Sequence[str]
    remarks: Mapping[str, str]

    @property
    def is_good(self) -> bool:
        """Whether the ledger may be published as it is."""
        return not (self.unlisted or self.stale or self.unknown)


def judge(outcomes: Sequence[Outcome], reasons: Reasons) -> Judgement:
    """Set every test beside its reason.

    Unlisted: neither passed nor named, unless AWS fails it too. Stale: named, and passed. Unknown: named, not there.
    """
    entries = [_entry(outcome, reasons) for outcome in outcomes]
    passed = [outcome for outcome in outcomes if outcome.verdict is Verdict.PASSED]
    return Judgement(
        entries=entries,
        unlisted=[
            f"{entry.outcome.test}: {entry.outcome.message}"
            for entry in entries
            if entry.outcome.verdict is not Verdict.PASSED and entry.reason is None
        ],
        stale=[f"{each.test}: listed as {row.code}" for each in passed if (row := reasons.of(each)) is not None],
        unknown=reasons.unknown(outcomes),
        remarks=reasons.remarks,
    )


def _entry(outcome: Outcome, reasons: Reasons) -> Entry:
    if outcome.verdict is Verdict.PASSED:
        return Entry(outcome, None)
    reason = reasons.of(outcome)
    if reason is None and not AWS.markers.isdisjoint(outcome.markers):
        reason = AWS
    return Entry(outcome, reason)
