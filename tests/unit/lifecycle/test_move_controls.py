"""Planted defects of the mover: each must turn its test red, or that test shows nothing."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from metadata.tables import MOVE
from tests.unit.lifecycle import test_move_faults as faults
from tests.unit.lifecycle import test_mover as moves
from tiers.lifecycle import move_bytes, move_mutations
from tiers.lifecycle.move_bytes import Carriage
from tiers.lifecycle.move_mutations import SwapMoves
from tiers.namespace.content import swap_references

Planting = Callable[[pytest.MonkeyPatch], None]


def source_dies_at_once(patch: pytest.MonkeyPatch) -> None:
    def swap(transaction: Any, owner: Any, old: Any, new: Any, *, now_ms: int) -> None:
        swap_references(transaction, owner, old, new, now_ms=1)

    patch.setattr(move_mutations, "swap_references", swap)


def digest_is_not_compared(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(move_bytes, "require_equal", lambda found, declared: None)


def nothing_is_read_back(patch: pytest.MonkeyPatch) -> None:
    async def skip(*_: Any) -> None:
        return None

    patch.setattr(move_bytes, "verify_fragments", skip)
    patch.setattr(Carriage, "_read_back", skip)


def stale_row_is_put(patch: pytest.MonkeyPatch) -> None:
    judge = SwapMoves._judge

    def stale(self: Any, transaction: Any, move: Any, one: Any, now_ms: int) -> Any:
        ended, version = judge(self, transaction, move, one, now_ms)
        return ended, None if version is None else one.load.version

    patch.setattr(SwapMoves, "_judge", stale)


def reaped_blob_is_swapped_in(patch: pytest.MonkeyPatch) -> None:
    """Claim and pending both unasked: either alone stops a reaped mover."""
    patch.setattr(SwapMoves, "_pending", lambda self, transaction: None)

    def whoever(transaction: Any, seen: Any) -> Any:
        found = (transaction.get(MOVE, (move.sequence,)) for move in seen)
        return [move for move in found if move is not None]

    patch.setattr(move_mutations, "as_claimed", whoever)


@pytest.mark.parametrize(
    ("plant", "test"),
    [
        (source_dies_at_once, faults.test_the_source_outlives_the_swap_by_its_grace),
        (digest_is_not_compared, faults.test_a_source_that_is_not_what_its_row_says_is_not_moved),
        (
            nothing_is_read_back,
            lambda path: faults.test_a_target_that_fails_or_lies_takes_nothing(path, faults.lies, faults.LARGE),
        ),
        (
            stale_row_is_put,
            lambda path: moves.test_what_clients_change_of_the_row_meanwhile_is_kept(path, moves.SMALL),
        ),
        (reaped_blob_is_swapped_in, faults.test_a_clock_that_jumps_costs_a_try_and_no_bytes),
    ],
)
def test_a_planted_defect_is_convicted(
    plant: Planting, test: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    with pytest.raises(Exception):  # noqa: B017, PT011  # whichever of its assertions, or of the store's, is first
        test(tmp_path)
