"""Tiers at a glance: what each tier promises, which storage classes it serves and which devices it owns.

Owns the tier descriptor (the JSON of a `TierRow`) and its defaults. A descriptor is parsed once, when a catalogue is
made, into a frozen `Tier`; an unknown or missing field refuses the whole catalogue. Reads no clock and touches no
device: a catalogue is a value, and a changed topology is a new catalogue.
"""

import dataclasses
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from metadata.contract import Reader
from metadata.tables import DEVICE, TIER, Table
from metadata.types import Device, DeviceState, TierRow
from tiers.errors import StorageClassUnknown

SEGMENT_BYTES: Final = 4 << 20
_PAGE_ROWS: Final = 1000
_LAYOUT: Final = re.compile(r"([1-9]\d{0,2})\+(\d{1,3}):([1-9]\d*)")


class FailureDomain(StrEnum):
    """What fails together, from narrow to wide."""

    DEVICE = "device"
    HOST = "host"
    RACK = "rack"
    ZONE = "zone"
    SITE = "site"


class AccessMode(StrEnum):
    """Whether a content of the tier is readable at once."""

    ONLINE = "online"
    RESTORE = "restore"  # after RestoreObject only, whatever the storage class


class Durability(StrEnum):
    """Whether the promises of durability hold for the tier."""

    FULL = "full"
    NONE = "none"  # m = 0: a cache whose loss is no loss


@dataclass(frozen=True, slots=True)
class Watermarks:
    """Fill of a tier, in percent, at which data leaves it.

    Above `high` contents are demoted by rank until `low` is reached; above `premigrate` the coldest are copied to
    their lower home ahead of need.
    """

    high: int = 90
    low: int = 85
    premigrate: int = 75

    def __post_init__(self) -> None:
        if not 0 < self.premigrate <= self.low <= self.high <= 100:
            raise ValueError(f"watermarks must rise within 1..100: {self.premigrate}, {self.low}, {self.high}")


@dataclass(frozen=True, slots=True)
class Tier:
    """One tier's descriptor.

    `layout` is `K+M:SEGMENT_BYTES`, parsed by `tiers.erasure.layout`. `pack_copies` is the number of devices that
    hold each pack. `spread` is the failure domain over which fragments are spread before all others. `rank` orders
    the tiers from fast to slow.
    Errors: ValueError for a field that contradicts another or the promises.
    """

    name: str
    rank: int
    layout: str
    pack_copies: int
    storage_classes: tuple[str, ...]
    watermarks: Watermarks = Watermarks()
    access_mode: AccessMode = AccessMode.ONLINE
    durability: Durability = Durability.FULL
    spread: FailureDomain = FailureDomain.HOST
    medium: str = "unknown"

    def __post_init__(self) -> None:
        shape = _LAYOUT.fullmatch(self.layout)
        if not self.name or shape is None:
            raise ValueError(f"tier {self.name!r}: layout {self.layout!r} is not K+M:SEGMENT_BYTES")
        parity_fragments = int(shape[2])
        if parity_fragments == 0 and self.durability is Durability.FULL:
            raise ValueError(f"tier {self.name}: a layout without parity must declare durability none")
        # The commit log lies in the packs: losing m devices must lose neither fragments nor log.
        if self.pack_copies < parity_fragments + 1:
            raise ValueError(f"tier {self.name}: needs more than {parity_fragments} pack copies")

    def to_json(self) -> str:
        """The descriptor of a `TierRow`; inverse of `parse_tier`."""
        fields = dataclasses.asdict(self)
        del fields["name"]
        return json.dumps(fields, separators=(",", ":"), sort_keys=True)


def parse_tier(row: TierRow) -> Tier:
    """A tier from its row.

    Errors: ValueError when the descriptor is no JSON object, has an unknown field, lacks one or contradicts itself.
    """
    fields = json.loads(row.descriptor)
    if not isinstance(fields, dict):
        raise ValueError(f"tier {row.name}: the descriptor is not an object")
    try:
        return Tier(name=row.name, **_typed(fields))
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"tier {row.name}: {error}") from error


def _typed(fields: dict[str, Any]) -> dict[str, Any]:
    """Descriptor fields as the types `Tier` declares; unknown names stay and are refused by its constructor."""
    typed = dict(fields)
    if not isinstance(fields["storage_classes"], list):
        raise TypeError("storage_classes is not a list")
    typed["storage_classes"] = tuple(_text(name) for name in fields["storage_classes"])
    typed["layout"] = _text(fields["layout"])
    typed["medium"] = _text(fields.get("medium", "unknown"))
    for name in ("rank", "pack_copies"):
        if type(fields[name]) is not int:
            raise TypeError(f"{name} is not a whole number")
    if "watermarks" in fields:
        typed["watermarks"] = Watermarks(**fields["watermarks"])
    for name, kind in (("access_mode", AccessMode), ("durability", Durability), ("spread", FailureDomain)):
        if name in fields:
            typed[name] = kind(fields[name])
    return typed


def _text(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise TypeError(f"{value!r} is not a name")
    return value


class Catalogue:
    """The tiers and their devices as one value; every look-up is a dictionary access.

    Errors of the constructor: ValueError when a descriptor is refused, a storage class is served by two tiers, a
    device names no tier of the catalogue, or a name occurs twice.
    """

    def __init__(self, tiers: Sequence[TierRow], devices: Sequence[Device]) -> None:
        parsed = sorted((parse_tier(row) for row in tiers), key=lambda tier: (tier.rank, tier.name))
        self._tiers = {tier.name: tier for tier in parsed}
        self._device = {device.device_id: device for device in devices}
        if len(self._tiers) != len(tiers) or len(self._device) != len(devices):
            raise ValueError("a tier or device occurs twice")
        self._classes = _classes(parsed)
        self._devices = {name: tuple(device for device in devices if device.tier == name) for name in self._tiers}
        strangers = sorted({device.tier for device in devices} - self._tiers.keys())
        if strangers:
            raise ValueError(f"devices of unknown tiers: {', '.join(strangers)}")
        bad = sorted(device_id for device_id in self._device if not device_id or " " in device_id)
        if bad:
            raise ValueError(f"a device id is one word, as placements are joined by spaces: {bad}")

    def tier_of(self, storage_class: str) -> str:
        """The tier that serves a storage class; every tier name is one. Errors: StorageClassUnknown."""
        name = self._classes.get(storage_class)
        if name is None:
            raise StorageClassUnknown(storage_class)
        return name

    def tiers(self) -> tuple[Tier, ...]:
        """All tiers, fast to slow."""
        return tuple(self._tiers.values())

    def tier(self, name: str) -> Tier:
        """One tier by name. Errors: KeyError (a row names a tier that the catalogue lacks: our bug)."""
        return self._tiers[name]

    def storage_classes(self) -> frozenset[str]:
        """Every word accepted as a storage class."""
        return frozenset(self._classes)

    def layout(self, tier: str) -> str:
        """Layout of large contents, for `Layout.parse`."""
        return self._tiers[tier].layout

    def pack_copies(self, tier: str) -> int:
        """Devices that hold each pack of the tier."""
        return self._tiers[tier].pack_copies

    def devices(self, tier: str) -> tuple[Device, ...]:
        """The tier's devices in the order given, whatever their state."""
        return self._devices[tier]

    def writable(self, tier: str) -> tuple[Device, ...]:
        """The tier's devices that take new blobs."""
        return tuple(device for device in self._devices[tier] if device.state == DeviceState.ACTIVE)

    def find_device(self, device_id: str) -> Device | None:
        """One device by id."""
        return self._device.get(device_id)

    @staticmethod
    def default_tiers() -> list[TierRow]:
        """Rows of the four tiers of the embedded store."""
        return [TierRow(tier.name, tier.to_json()) for tier in _DEFAULT_TIERS]

    @staticmethod
    def default_devices(data_path: str | Path, created_ms: int = 0) -> list[Device]:
        """Rows of the embedded store's devices: one directory a fragment, `<data>/devices/<tier>-<n>`, n from 0."""
        root = Path(data_path) / "devices"
        names = [(tier.name, f"{tier.name}-{n}") for tier in _DEFAULT_TIERS for n in range(_fragments(tier.layout))]
        labels = ("local", "local", "local", "local")
        return [
            Device(device_id, tier, "directory", str(root / device_id), DeviceState.ACTIVE, *labels, created_ms)
            for tier, device_id in names
        ]


def _classes(tiers: Iterable[Tier]) -> dict[str, str]:
    """Storage class to tier name. Errors: ValueError when two tiers claim one class."""
    classes: dict[str, str] = {}
    for tier in tiers:
        for storage_class in {*tier.storage_classes, tier.name}:
            if classes.setdefault(storage_class, tier.name) != tier.name:
                raise ValueError(f"storage class {storage_class} is served by {classes[storage_class]} and {tier.name}")
    return classes


def _fragments(layout: str) -> int:
    shape = _LAYOUT.fullmatch(layout)
    assert shape is not None  # a Tier holds no other layout
    return int(shape[1]) + int(shape[2])


# fmt: off
_DEFAULT_TIERS: Final = (
    Tier("gpu", 0, f"1+1:{SEGMENT_BYTES}", 2, ("EXPRESS_ONEZONE", "GPU_DIRECT"), medium="nvme"),
    Tier("hot", 1, f"4+2:{SEGMENT_BYTES}", 3, ("STANDARD", "REDUCED_REDUNDANCY", "INTELLIGENT_TIERING"), medium="ssd"),
    Tier("warm", 2, f"4+2:{SEGMENT_BYTES}", 3, ("STANDARD_IA", "ONEZONE_IA", "GLACIER_IR"), medium="hdd"),
    Tier("cold", 3, f"4+2:{SEGMENT_BYTES}", 3, ("GLACIER", "DEEP_ARCHIVE"), medium="archive"),
)
# fmt: on


async def read_catalogue(reader: Reader) -> Catalogue:
    """The catalogue as the database has it now. Errors: MetadataUnavailable."""
    return Catalogue(await _all(reader, TIER), await _all(reader, DEVICE))


async def _all(reader: Reader, table: Table[Any]) -> list[Any]:
    rows: list[Any] = []
    while page := await reader.scan(table, table.key_of(rows[-1]) if rows else None, _PAGE_ROWS):
        rows += page
    return rows
