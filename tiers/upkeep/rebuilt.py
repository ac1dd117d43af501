"""What a repair of one blob asks and yields, whatever kind of blob it is."""

from collections.abc import Collection, Generator
from dataclasses import dataclass, field
from typing import Protocol

from metadata.types import Blob
from tiers.upkeep.device_calls import DeviceCalls
from tiers.upkeep.repair_aims import Aims


@dataclass(slots=True)
class Patient:
    """One blob and what is known of it. `queued` are the fragments or copies that the repair queue names.

    `found` collects, by index, what else turned out bad, with the reason: it is entered into the queue.
    `refused` collects devices that took no new file; they are passed over by the next try.
    """

    blob: Blob
    queued: Collection[int]
    refused: set[str] = field(default_factory=set)
    found: dict[int, str] = field(default_factory=dict)

    def device_of(self, index: int) -> str:
        """The device that the placement names; empty for none."""
        return self.blob.placement.split(" ")[index]


@dataclass(frozen=True, slots=True)
class Tools:
    """What a repair works with, in its thread."""

    calls: DeviceCalls
    aims: Aims


class NewFiles(Protocol):
    """Files that a repair wrote, durable. All calls block."""

    def devices(self) -> dict[int, str]:
        """The device of each by index; what failed is left out."""

    def publish(self) -> None:
        """Make them visible. Errors: StorageError when too few became so; all are removed again then."""

    def withdraw(self, placed: Collection[tuple[str, str]] = ()) -> None:
        """Remove them, but no visible one that a row places: (device, file name) in `placed`. Idempotent."""


@dataclass(slots=True)
class Rebuilt:
    """What a repair came to. `good` are the queued indexes that need none; `files` what was written for others.

    A `generation` other than the blob's means that every fragment was written anew.
    """

    generation: int
    good: set[int]
    files: NewFiles | None = None

    @property
    def written(self) -> dict[int, str]:
        """The device of each new file."""
        return self.files.devices() if self.files is not None else {}

    def placement(self, blob: Blob) -> str:
        """The blob's placement with the new files in it."""
        written, is_anew = self.written, self.generation != blob.generation
        names = enumerate(blob.placement.split(" "))
        return " ".join([written.get(index, "" if is_anew else name) for index, name in names])


Work = Generator[int, None, Rebuilt]
"""A repair under way: yields the bytes it moved since the last yield, in bounded pieces; closing it discards."""
