"""What the clients' tests share: one store a process, and a tree of files to carry back and forth."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live import LiveStore


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveStore]:
    """A store with two workers; every test has a bucket of its own in it."""
    with LiveStore(tmp_path_factory.mktemp("clients") / "data", workers=2) as live:
        yield live


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A small tree with awkward names and every size that takes another path."""
    rng = random.Random(7)
    root = tmp_path / "tree"
    names = ["plain.txt", "with space.bin", "plus+sign", "a/b/c/deep", "\u00fcml\u00e4ut", "per%cent", "semi;colon=x"]
    for number, size in enumerate([0, 1, 4096, 131_072, 131_073, 6_000_000, 20_000_000]):
        path = root / names[number]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(rng.randbytes(size))
    return root
