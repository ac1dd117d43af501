"""A data directory has one `serve` at a time, and every process that inherited the lock counts."""

import os
from pathlib import Path

import pytest

from gateway.app.hold import StoreInUse, held
from gateway.settings.tree import Settings


def test_one_holder_at_a_time(tmp_path: Path) -> None:
    settings = Settings(data=tmp_path / "data")
    with held(settings), pytest.raises(StoreInUse), held(settings):
        pass
    with held(settings):
        pass


def test_a_child_that_inherited_the_lock_holds_it(tmp_path: Path) -> None:
    settings = Settings(data=tmp_path / "data")
    with held(settings) as descriptor:
        inherited = os.dup(descriptor)
    with pytest.raises(StoreInUse), held(settings):
        pass
    os.close(inherited)
    with held(settings):
        pass
