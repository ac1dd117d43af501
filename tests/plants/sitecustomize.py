"""Applies one planted defect to a whole process, before anything of the product is imported."""

import os

PLANT = os.environ.get("TEST_PLANT", "")


def _no_fsync() -> None:
    """Everything is written, nothing is flushed."""
    write = os.pwritev
    os.fsync = os.fdatasync = lambda _descriptor: None
    os.pwritev = lambda descriptor, buffers, offset, _flags=0: write(descriptor, buffers, offset)


if PLANT == "no-fsync":
    _no_fsync()
