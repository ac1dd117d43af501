"""Counts of waivers in the packages. `python -m tests.architecture.ratchet` writes them to ratchet.json.

The test fails when a count differs from the file in either direction: a new waiver is seen in the change that brings
it, and a removed one cannot come back unnoticed.
"""

import json
from collections import Counter

from tests.architecture.tree import ROOT, waivers

FILE = ROOT / "tests" / "architecture" / "ratchet.json"
KINDS = ("noqa", "type: ignore")


def counts() -> dict[str, int]:
    """Waivers by kind, as the tree has them now."""
    found = Counter(waiver.kind for waiver in waivers())
    return {kind: found[kind] for kind in KINDS}


def main() -> None:
    """Write the counts of the tree."""
    FILE.write_text(json.dumps(counts(), indent=2) + "\n")
    print(f"{FILE.relative_to(ROOT)}: {counts()}")


if __name__ == "__main__":
    main()
