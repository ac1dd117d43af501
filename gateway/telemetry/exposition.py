"""The metrics of all processes as one text, and the care of the files that carry them."""

import json
import logging
from pathlib import Path
from typing import Final

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.mmap_dict import MmapedDict
from prometheus_client.multiprocess import MultiProcessCollector

from gateway.telemetry.families import LATENCY_BOUNDS

logger = logging.getLogger(__name__)

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST
_SHAPE_NAME: Final = "shape"


def render(folder: Path) -> bytes:
    """All processes' metrics in the Prometheus text format. Blocking, a few milliseconds; call it from a thread."""
    registry = CollectorRegistry()
    MultiProcessCollector(registry, path=str(folder))  # type: ignore[no-untyped-call]  # untyped library
    return generate_latest(registry)


def prepare_folder(folder: Path) -> None:
    """Make the folder ready for a start: no gauge of a dead process, no damaged file, counters kept.

    Files written with other bucket bounds are removed: their sums would mix. Only while no process writes.
    """
    folder.mkdir(parents=True, exist_ok=True)
    shape = json.dumps(LATENCY_BOUNDS)
    shape_file = folder / _SHAPE_NAME
    is_same_shape = shape_file.exists() and shape_file.read_text() == shape
    for file in folder.glob("*.db"):
        if not is_same_shape or file.name.startswith("gauge_live") or not _is_readable(file):
            file.unlink()
    shape_file.write_text(shape)


def forget_process(folder: Path, process: str) -> None:
    """Remove the gauges of a process that ended; its counters stay for its successor."""
    for file in folder.glob(f"gauge_live*_{process}.db"):
        file.unlink(missing_ok=True)


def _is_readable(file: Path) -> bool:
    try:
        entries = MmapedDict.read_all_values_from_file(str(file))  # type: ignore[no-untyped-call]  # untyped library
        for key, _, _, _ in entries:
            json.loads(key)
    except Exception as error:  # noqa: BLE001  # whatever a damaged file makes the library raise, the file goes
        logger.warning("removed damaged metrics file %s: %s", file.name, error)
        return False
    return True
