"""The protocol of moves keeps its invariants, and each of its rules is needed for one of them.

Without crashes in the ordinary run (the reaper may end any lease at any moment, which is what a crash leads to);
nightly with up to two. `python -m tests.simulation.move_protocol --crashes 2` prints what was explored.
"""

import os

import pytest

from tests.simulation.move_protocol import MUTANTS, check

CRASHES = 2 if os.environ.get("ISOTHERM_NIGHTLY") else 0


@pytest.mark.parametrize("keys", [1, 2])
def test_the_protocol_keeps_its_invariants(keys: int) -> None:
    found = check(keys=keys, crashes_max=CRASHES)
    assert found.verdict == "OK", found
    assert found.states > 50_000, "the search went nowhere"


@pytest.mark.parametrize("keys", [1, 2])
@pytest.mark.parametrize("mutant", MUTANTS)
def test_every_mutant_is_convicted(mutant: str, keys: int) -> None:
    assert check(mutant, keys=keys, crashes_max=CRASHES).verdict.startswith(MUTANTS[mutant])
