"""`python -m compatibility CHECKOUT`: run the suite, print the totals, write the ledger, judge it.

Exit status 0 when every test passed or is listed with its reason and no row is out of date. The ledger is written
either way, so that it can be looked at.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from compatibility import ledger, operations, reasons
from compatibility.accounts import Admin, make_accounts
from compatibility.gate import Judgement, judge
from compatibility.junit import read
from compatibility.profile import configuration, environment, left_out
from compatibility.suite import Suite, make_interpreter
from gateway.settings.sources import setting_names
from tests.live import ADMIN_TOKEN, LiveStore

ROOT = Path(__file__).resolve().parents[1]
MARKS = ("<!-- compatibility -->", "<!-- end of compatibility -->")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path, help="folder of a checkout of ceph/s3-tests")
    parser.add_argument("--python", type=Path, help="interpreter that has its requirements (default: made once)")
    parser.add_argument("--workers", type=int, default=8, help="processes of the suite; most of its time is waiting")
    parser.add_argument("--folder", type=Path, help="where the store and the report stay (default: a temporary folder)")
    parser.add_argument("--report", type=Path, help="judge this JUnit report instead of running the suite")
    parser.add_argument("--commit", help="commit to name (default: what git says)")
    parser.add_argument("--date", help="date to name (default: that of the commit)")
    parser.add_argument("--suite-commit", help="commit of the checkout (default: what git or its files say)")
    parser.add_argument("--print-only", action="store_true", help="write no file")
    return parser.parse_args()


def git(*words: str) -> str:
    """What git says of this tree, `unknown` where it says nothing."""
    answer = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    return answer.stdout.strip() or "unknown"


def run_suite(suite: Suite, folder: Path, *, workers: int, profile: dict[str, str]) -> str:
    """The JUnit report of the whole suite against a store of this tree that starts empty."""
    with LiveStore(folder / "store", workers=2, **profile) as store:
        admin = Admin(store.admin, ADMIN_TOKEN, store.endpoint)
        for number in range(workers):
            accounts = make_accounts(admin, f"gw{number}")
            (folder / f"gw{number}.conf").write_text(configuration(store.port, accounts))
        return suite.run(folder, workers)


def write(run: ledger.Run) -> None:
    """Write the two files and the README's section."""
    (ROOT / "COMPATIBILITY.md").write_text(ledger.markdown(run))
    (ROOT / "compatibility.json").write_text(ledger.document(run))
    readme = ROOT / "README.md"
    before, start, rest = readme.read_text().partition(MARKS[0])
    _, end, after = rest.partition(MARKS[1])
    assert start, "the README has no place for the totals"
    assert end, "the README has no place for the totals"
    readme.write_text(f"{before}{start}\n\n{ledger.summary(run)}\n{end}{after}")


def report(judgement: Judgement, stale_notes: list[str]) -> None:
    """Print the totals, and what keeps the run from being good."""
    print(ledger.table(judgement.entries))
    print("of them expected to pass on AWS:\n" + ledger.table(ledger.expected(judgement.entries)))
    found = {
        "not passed and not listed in reasons.toml": judgement.unlisted,
        "listed in reasons.toml and passed": judgement.stale,
        "listed in reasons.toml and not in the suite": judgement.unknown,
        "listed in operations.toml and not served": stale_notes,
    }
    for title, lines in found.items():
        for line in lines:
            print(f"{title}: {line}", file=sys.stderr)


def main() -> int:
    options = parse()
    checkout = options.checkout.resolve()
    suite = Suite(checkout, options.python or make_interpreter(checkout, ROOT / ".clients" / "s3-tests"))
    known = frozenset(name for name, _ in setting_names())
    profile = environment(known)
    print(f"not settings of this release, left out of the profile: {', '.join(left_out(known)) or 'none'}")
    table = reasons.parse(reasons.FILE.read_text())
    notes = operations.read_notes(operations.FILE.read_text())
    with tempfile.TemporaryDirectory() as scratch:
        folder = (options.folder or Path(scratch)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        text = (
            options.report.read_text()
            if options.report
            else run_suite(suite, folder, workers=options.workers, profile=profile)
        )
    judgement = judge(read(text), table)
    rows = operations.rows(notes)
    stale_notes = operations.stale(notes, rows)
    report(judgement, stale_notes)
    if not options.print_only:
        commit = options.commit or git("describe", "--always", "--abbrev=12", "--dirty")
        date = options.date or git("show", "-s", "--format=%cs", "HEAD")
        versions = suite.versions()
        entries, remarks = judgement.entries, judgement.remarks
        write(
            ledger.Run(commit, date, options.suite_commit or suite.commit(), versions, profile, entries, rows, remarks)
        )
    return 0 if judgement.is_good and not stale_notes else 1


if __name__ == "__main__":
    sys.exit(main())
